package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Result is how a command in a host ended.
type Result struct {
	Stdout string
	Stderr string
	Code   int // its exit status, or 128 plus the number of the signal that ended it
}

// Command is a command to run in a host, as root, in its root directory.
type Command struct {
	Argv   []string
	Env    []string // beside PATH, HOME and LANG
	Stdin  io.Reader
	Stdout io.Writer // may be written to by another goroutine until Run returns
	Stderr io.Writer
	// Terminal leaves the command in the caller's process group, so that it may
	// read from the terminal the caller was started at.
	Terminal bool
}

// Exec runs a command in the host and returns what it wrote and its exit
// status. The error is not about the status: it says that the host is off, that
// the command could not be started, or that ctx ended, at which the command is
// killed.
func (h *Host) Exec(ctx context.Context, argv ...string) (Result, error) {
	var stdout, stderr bytes.Buffer
	code, err := h.Run(ctx, Command{Argv: argv, Stdout: &stdout, Stderr: &stderr})
	return Result{Stdout: stdout.String(), Stderr: stderr.String(), Code: code}, err
}

// Output runs a command in the host and returns its standard output without
// surrounding white space. Any exit status but 0 is an error that holds what the
// command wrote.
func (h *Host) Output(ctx context.Context, argv ...string) (string, error) {
	result, err := h.Exec(ctx, argv...)
	if err != nil {
		return "", err
	}
	if result.Code != 0 {
		said := tail(strings.TrimSpace(result.Stderr+"\n"+result.Stdout), 2000)
		return "", fmt.Errorf("%s in host %s: exit status %d: %s", strings.Join(argv, " "), h.ID(), result.Code, said)
	}
	return strings.TrimSpace(result.Stdout), nil
}

// Run runs a command in the host, connected to the caller's streams, and returns
// its exit status. The error is that of Exec.
func (h *Host) Run(ctx context.Context, c Command) (int, error) {
	if len(c.Argv) == 0 {
		return -1, errors.New("run a command in a lab host: none given")
	}
	s := h.snapshot()
	if !s.Process.alive() {
		return -1, fmt.Errorf("run %s in host %s: %w", c.Argv[0], s.ID, ErrOff)
	}
	leaf, err := newLeaf(s.Cgroup)
	if err != nil {
		return -1, fmt.Errorf("run %s in host %s: %w", c.Argv[0], s.ID, err)
	}
	defer leaf.close()
	cmd := enterCommand(ctx, s.Process.PID, c, leaf)
	err = cmd.Run()
	if ctx.Err() != nil {
		return -1, fmt.Errorf("run %s in host %s: %w", strings.Join(c.Argv, " "), s.ID, context.Cause(ctx))
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exitCode(exit), nil
	}
	if err != nil {
		return -1, fmt.Errorf("run %s in host %s: %w", c.Argv[0], s.ID, err)
	}
	return 0, nil
}

func enterCommand(ctx context.Context, pid int, c Command, l *leaf) *exec.Cmd {
	arguments := append([]string{"--target", strconv.Itoa(pid), "--all", "--"}, c.Argv...)
	cmd := exec.CommandContext(ctx, "nsenter", arguments...)
	cmd.SysProcAttr = &unix.SysProcAttr{
		Setpgid:     !c.Terminal,
		UseCgroupFD: true,
		CgroupFD:    int(l.dir.Fd()),
	}
	// nsenter's child is what matters, and it does not die with nsenter.
	cmd.Cancel = l.kill
	cmd.WaitDelay = killDelay
	cmd.Env = append([]string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=/root",
		"LANG=C.UTF-8",
	}, c.Env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, c.Stdout, c.Stderr
	return cmd
}

func exitCode(exit *exec.ExitError) int {
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return exit.ExitCode()
}
