package lab

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const (
	modulePath     = "github.com/node-lifecycle/node-lifecycle/internal/lab"
	initProgram    = "labinit"
	standinProgram = "standin"

	// killDelay is how long a killed command's output is waited for.
	killDelay = 2 * time.Second

	bootstrapDeadline = 10 * time.Minute
	compileDeadline   = 2 * time.Minute
)

// artefacts are the paths of what Build made.
type artefacts struct {
	root    string // the root file system
	engines string // the engines' stores; empty while they are being made
	init    string // the program that becomes a host's PID 1
}

// Build makes what Boot needs and is not in the cache yet: the programs, the
// root file system, the images. It writes one line to log for each, blocks while
// another process builds, and returns at once when there is nothing to do. The
// Go tool must be in the PATH and the working directory within this module.
func Build(ctx context.Context, log io.Writer) error {
	_, err := build(ctx, log)
	return err
}

func build(ctx context.Context, log io.Writer) (artefacts, error) {
	c, err := openCache()
	if err != nil {
		return artefacts{}, err
	}
	lock, err := lockDirectory(ctx, string(c))
	if err != nil {
		return artefacts{}, err
	}
	defer lock.Close()
	name, err := toolsName()
	if err != nil {
		return artefacts{}, err
	}
	tools, err := c.fill(ctx, name, timed(log, "lab's programs", compile))
	if err != nil {
		return artefacts{}, err
	}
	made := artefacts{init: filepath.Join(tools, initProgram)}
	made.root, err = c.fill(ctx, rootName(), timed(log, "root file system", bootstrap))
	if err != nil {
		return artefacts{}, err
	}
	name, err = enginesName(tools)
	if err != nil {
		return artefacts{}, err
	}
	made.engines, err = c.fill(ctx, name, timed(log, "container images", func(ctx context.Context, dir string) error {
		return buildEngines(ctx, c, made, filepath.Join(tools, standinProgram), dir)
	}))
	return made, err
}

func timed(log io.Writer, what string, create func(context.Context, string) error) func(context.Context, string) error {
	return func(ctx context.Context, dir string) error {
		fmt.Fprintf(log, "lab: building the %s in %s\n", what, dir)
		began := time.Now()
		err := create(ctx, dir)
		if err == nil {
			fmt.Fprintf(log, "lab: the %s took %v\n", what, time.Since(began).Round(100*time.Millisecond))
		}
		return err
	}
}

func compile(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, compileDeadline)
	defer cancel()
	cmd := command(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", dir+"/",
		modulePath+"/cmd/"+initProgram, modulePath+"/"+standinProgram)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOOS=linux")
	if err := runQuietly(cmd); err != nil {
		return fmt.Errorf("%w (run it within the module's source tree)", err)
	}
	return nil
}

// bootstrap has mmdebstrap make the root file system. LAB_MIRROR replaces the
// default Debian mirror, for a machine that has a nearer one.
func bootstrap(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, bootstrapDeadline)
	defer cancel()
	arguments := append(bootstrapArguments(), dir)
	if mirror := os.Getenv("LAB_MIRROR"); mirror != "" {
		arguments = append(arguments, mirror)
	}
	cmd := command(ctx, "mmdebstrap", arguments...)
	// Whatever it mounts goes with it, even when it is killed.
	cmd.SysProcAttr.Unshareflags = unix.CLONE_NEWNS
	return runQuietly(cmd)
}

// command prepares a command that ends with ctx, together with the processes
// it started.
func command(ctx context.Context, name string, arguments ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, arguments...)
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.WaitDelay = killDelay
	return cmd
}

// runQuietly runs a command and, when it fails, returns the end of its output.
func runQuietly(cmd *exec.Cmd) error {
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, tail(output.String(), 2000))
	}
	return nil
}

func tail(text string, limit int) string {
	text = string(bytes.TrimSpace([]byte(text)))
	if len(text) > limit {
		return "… " + text[len(text)-limit:]
	}
	return text
}
