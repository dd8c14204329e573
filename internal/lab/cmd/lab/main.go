// Command lab keeps hosts for people and shell scripts to work with: real
// systemd, Docker and Podman in namespaces of this machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

const usage = `usage: lab COMMAND [ARGUMENT...]

  build                     make the root file system and the images, if need be
  up [FLAG...] NAME         make a host and boot it
      -binary PATH          install this node-lifecycle program in it
      -live-restore         containers survive a restart of Docker
      -file PATH=SOURCE     install a file; may be repeated
  exec NAME [--] CMD...     run a command in it; exits with the command's status
  cut NAME                  cut its power
  on NAME                   boot it again
  down NAME                 shut it down and remove it
  status                    list the hosts
  clean                     remove what was built for other recipes

Hosts stay until "down"; their disks are in the cache directory,
${LAB_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/node-lifecycle/lab}.
`

// errUsage says that the command line makes no sense; main prints the usage.
var errUsage = errors.New("usage")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if errors.Is(err, flag.ErrHelp) {
		fmt.Print(usage)
		os.Exit(0)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
	}
	if errors.Is(err, errUsage) {
		fmt.Fprint(os.Stderr, usage)
	}
	os.Exit(code)
}

// run executes one command and returns the status to exit with.
func run(ctx context.Context, args []string, out, log io.Writer) (int, error) {
	if len(args) == 0 {
		return 64, fmt.Errorf("%w: no command", errUsage)
	}
	commands := map[string]func(context.Context, []string, io.Writer, io.Writer) (int, error){
		"build": runBuild, "up": runUp, "exec": runExec, "cut": runCut,
		"on": runOn, "down": runDown, "status": runStatus, "clean": runClean,
		"help": runHelp, "-h": runHelp, "--help": runHelp,
	}
	command, known := commands[args[0]]
	if !known {
		return 64, fmt.Errorf("%w: no command %q", errUsage, args[0])
	}
	code, err := command(ctx, args[1:], out, log)
	switch {
	case err == nil:
		return code, nil
	case errors.Is(err, errUsage):
		return 64, err
	case code != 0:
		return code, err
	case ctx.Err() != nil:
		return 130, err
	default:
		return 1, err
	}
}

func runHelp(context.Context, []string, io.Writer, io.Writer) (int, error) {
	return 0, flag.ErrHelp
}
