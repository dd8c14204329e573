package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/node-lifecycle/node-lifecycle/internal/lab"
)

// What a shell reports of a command that could not be executed, and of one that
// SIGTERM ended.
const (
	statusNotRun     = 126
	statusTerminated = 143
)

func runBuild(ctx context.Context, args []string, _, log io.Writer) (int, error) {
	if len(args) != 0 {
		return 0, fmt.Errorf("%w: build takes no argument", errUsage)
	}
	if err := lab.Check(); err != nil {
		return 0, err
	}
	return 0, lab.Build(ctx, log)
}

func runUp(ctx context.Context, args []string, out, log io.Writer) (int, error) {
	options := lab.Options{Persistent: true, Log: log, Files: map[string]lab.File{}}
	flags := flag.NewFlagSet("up", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&options.Binary, "binary", "", "")
	flags.BoolVar(&options.LiveRestore, "live-restore", false, "")
	flags.Func("file", "", func(value string) error { return addFile(options.Files, value) })
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0, err
		}
		return 0, fmt.Errorf("%w: %w", errUsage, err)
	}
	name, err := oneName("up", flags.Args())
	if err != nil {
		return 0, err
	}
	options.Name = name
	if err := lab.Check(); err != nil {
		return 0, err
	}
	h, err := lab.Boot(ctx, options)
	if err != nil {
		return 0, err
	}
	fmt.Fprintf(out, "%s is up, boot %s\n", name, h.BootID())
	return 0, h.Release()
}

// addFile takes PATH=SOURCE; the file keeps the permissions of its source.
func addFile(files map[string]lab.File, value string) error {
	path, source, found := strings.Cut(value, "=")
	if !found {
		return errors.New("want PATH=SOURCE")
	}
	content, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	files[path] = lab.File{Content: string(content), Mode: info.Mode().Perm()}
	return nil
}

func runExec(ctx context.Context, args []string, out, log io.Writer) (int, error) {
	if len(args) > 1 && args[1] == "--" {
		args = append(args[:1:1], args[2:]...)
	}
	if len(args) < 2 {
		return 0, fmt.Errorf("%w: exec wants a name and a command", errUsage)
	}
	h, err := lab.Open(ctx, args[0])
	if err != nil {
		return statusNotRun, err
	}
	// Others may use the host meanwhile, and cut its power.
	if err := h.Release(); err != nil {
		return statusNotRun, err
	}
	// An interrupt typed at the terminal reaches the command by itself, and is
	// the command's to act on.
	ctx, stop := signal.NotifyContext(context.WithoutCancel(ctx), syscall.SIGTERM)
	defer stop()
	code, err := h.Run(ctx, lab.Command{
		Argv:   args[1:],
		Env:    terminalEnvironment(),
		Stdin:  os.Stdin,
		Stdout: out,
		Stderr: log,

		Terminal: true,
	})
	if ctx.Err() != nil {
		return statusTerminated, err
	}
	if err != nil {
		return statusNotRun, err
	}
	return code, nil
}

func terminalEnvironment() []string {
	var env []string
	for _, name := range []string{"TERM", "COLORTERM", "NO_COLOR", "TZ"} {
		if value, set := os.LookupEnv(name); set {
			env = append(env, name+"="+value)
		}
	}
	return env
}

func runCut(ctx context.Context, args []string, out, _ io.Writer) (int, error) {
	return withHost(ctx, "cut", args, func(h *lab.Host) error {
		if err := h.PowerCut(ctx); err != nil {
			return err
		}
		fmt.Fprintf(out, "%s is off\n", h.ID())
		return nil
	})
}

func runOn(ctx context.Context, args []string, out, _ io.Writer) (int, error) {
	return withHost(ctx, "on", args, func(h *lab.Host) error {
		if err := h.PowerOn(ctx); err != nil {
			return err
		}
		fmt.Fprintf(out, "%s is up, boot %s\n", h.ID(), h.BootID())
		return nil
	})
}

func runDown(ctx context.Context, args []string, out, log io.Writer) (int, error) {
	return withHost(ctx, "down", args, func(h *lab.Host) error {
		if h.On() {
			if err := h.Shutdown(ctx); err != nil {
				fmt.Fprintf(log, "lab: %v; cutting its power instead\n", err)
			}
		}
		if err := h.Close(); err != nil {
			return err
		}
		fmt.Fprintf(out, "%s is gone\n", h.ID())
		return nil
	})
}

func withHost(ctx context.Context, command string, args []string, f func(*lab.Host) error) (int, error) {
	name, err := oneName(command, args)
	if err != nil {
		return 0, err
	}
	h, err := lab.Open(ctx, name)
	if err != nil {
		return 0, err
	}
	defer h.Release()
	return 0, f(h)
}

func oneName(command string, args []string) (string, error) {
	if len(args) != 1 {
		return "", fmt.Errorf("%w: %s wants one name", errUsage, command)
	}
	return args[0], nil
}

func runStatus(_ context.Context, args []string, out, _ io.Writer) (int, error) {
	if len(args) != 0 {
		return 0, fmt.Errorf("%w: status takes no argument", errUsage)
	}
	hosts, err := lab.List()
	if err != nil {
		return 0, err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "HOST\tPOWER\tPID\tBOOTS\tBOOT\tKEPT")
	for _, h := range hosts {
		power, pid := "off", "-"
		if h.PID != 0 {
			power, pid = "on", fmt.Sprint(h.PID)
		}
		kept := "until down"
		if !h.Persistent {
			kept = "while its test runs"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\n", h.ID, power, pid, h.Boots, cmp.Or(h.BootID, "-"), kept)
	}
	return 0, table.Flush()
}

func runClean(ctx context.Context, args []string, out, _ io.Writer) (int, error) {
	if len(args) != 0 {
		return 0, fmt.Errorf("%w: clean takes no argument", errUsage)
	}
	removed, err := lab.Clean(ctx)
	for _, name := range removed {
		fmt.Fprintln(out, "removed", name)
	}
	return 0, err
}
