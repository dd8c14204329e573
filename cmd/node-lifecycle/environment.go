package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"golang.org/x/term"

	"github.com/node-lifecycle/node-lifecycle/backend/container"
	"github.com/node-lifecycle/node-lifecycle/internal/config"
	"github.com/node-lifecycle/node-lifecycle/internal/host"
	"github.com/node-lifecycle/node-lifecycle/internal/render"
	"github.com/node-lifecycle/node-lifecycle/phases"
)

// Paths that no configuration changes: every process of a host must agree on them.
const (
	hostLockPath = "/run/lock/node-lifecycle.lock"
	runtimeDir   = container.DefaultRuntimeDir
	unitDir      = "/etc/systemd/system"
)

// environment is everything that a command takes from outside. Tests make their own.
type environment struct {
	args           []string // without the name of the program
	stdout, stderr io.Writer
	getenv         func(string) string
	environ        []string
	euid           int
	self           phases.Process
	host           phases.Host
	hostLock       string
	runtimeDir     string
	unitDir        string
	binary         string
	tty            bool // stdout is a terminal
	color          bool // to be used on stdout
	journald       bool // stderr goes to the journal, which reads priorities
	systemd        container.Systemd
}

func hostEnvironment() *environment {
	var linux host.Linux
	pid := os.Getpid()
	start, _ := linux.StartTime(pid) // 0 names no process: never taken for a living one
	unit := linux.Unit(pid)
	binary, err := os.Executable()
	if err != nil {
		binary = "/usr/bin/node-lifecycle"
	}
	return &environment{
		args: os.Args[1:], stdout: os.Stdout, stderr: os.Stderr,
		getenv: os.Getenv, environ: os.Environ(), euid: os.Geteuid(),
		self: phases.Process{
			PID: pid, Start: start, Unit: unit,
			Activation: os.Getenv("INVOCATION_ID"), Version: version(),
		},
		host: linux, hostLock: hostLockPath, runtimeDir: runtimeDir, unitDir: unitDir, binary: binary,
		tty:      term.IsTerminal(int(os.Stdout.Fd())),
		journald: isJournalStream(os.Stderr, os.Getenv("JOURNAL_STREAM")),
	}
}

// isJournalStream reports whether f is the stream that systemd connected to the journal
// (systemd.exec(5), $JOURNAL_STREAM).
func isJournalStream(f *os.File, stream string) bool {
	info, err := f.Stat()
	if err != nil || stream == "" {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stream == fmt.Sprintf("%d:%d", stat.Dev, stat.Ino)
}

// isPeerCheck looks for the command before anything else is understood of the line, so
// that even a line that cannot be understood gets peer-check's exit codes.
func (e *environment) isPeerCheck() bool {
	for _, arg := range e.args {
		if arg == "peer-check" {
			return true
		}
	}
	return false
}

// exitError is an error with an exit code of its own.
type exitError struct {
	code  int
	err   error
	quiet bool // the output has said it all
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// usagef is a command line that cannot be understood.
func usagef(format string, args ...any) error {
	return &exitError{code: phases.ExitUsage, err: usageError{fmt.Errorf(format, args...)}}
}

// usageError repeats no more of what was typed than is needed to recognise it.
type usageError struct{ err error }

func (u usageError) Error() string { return config.Shorten(u.err.Error()) }

func (u usageError) Unwrap() error { return u.err }

// exit tells of the error and returns its code.
func (e *environment) exit(err error) int {
	var output *outputError
	if errors.As(err, &output) && errors.Is(output, syscall.EPIPE) {
		return 0 // whoever read the output has seen enough
	}
	var own *exitError
	if errors.As(err, &own) {
		if !own.quiet {
			e.complain(err)
		}
		return own.code
	}
	e.complain(err)
	if output != nil {
		return phases.ExitIO
	}
	return phases.ExitCode(err)
}

// outputWriter is what commands print to. It marks its errors, so that the end of a
// reader is never taken for that of a connection to the engine or to systemd.
type outputWriter struct{ w io.Writer }

func (o outputWriter) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if err != nil {
		err = &outputError{err}
	}
	return n, err
}

// outputError is output that could not be written.
type outputError struct{ err error }

func (e *outputError) Error() string { return "the output cannot be written: " + e.err.Error() }

func (e *outputError) Unwrap() error { return e.err }

// complain writes an error to stderr, with the priority that journald understands.
func (e *environment) complain(err error) { e.say("<3>", err.Error()) }

// warn is for what is wrong and yet stops nothing.
func (e *environment) warn(text string) { e.say("<4>", text) }

func (e *environment) say(priority, text string) {
	if !e.journald {
		priority = ""
	}
	for i, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		// What an engine or a file says must not move the cursor, nor pass for a line of ours.
		line = render.Escape(strings.ReplaceAll(line, "\t", "    "))
		if i == 0 && !e.journald { // journald puts the name in front of every line itself
			line = "node-lifecycle: " + line
		}
		fmt.Fprintln(e.stderr, priority+line)
	}
}

// palette is what stdout can show.
func (e *environment) palette() render.Palette {
	return render.Palette{Color: e.color, UTF8: render.UTF8(e.getenv)}
}
