package container

import (
	"errors"
	"fmt"
)

// kind classifies an error for the exit code of the command that meets it.
type kind uint8

const (
	kindPlain kind = iota
	kindUnreachable
	kindDenied
	kindMisconfigured
)

// Error is what every method of this package returns when something did not
// work: what was being done, why it failed, and what a person can do about it.
//
// Its three behaviours look through the whole chain of causes, so a caller may
// ask the outermost Error alone.
type Error struct {
	Op   string // what was being done and to which object, such as "start container node-kube1"
	Err  error  // the cause; never nil
	Hint string // what to do next; empty when the cause says it all

	kind kind
}

// Error returns "op: cause; hint" on one line.
func (e *Error) Error() string {
	text := e.Err.Error()
	if e.Op != "" {
		text = e.Op + ": " + text
	}
	if e.Hint != "" {
		text += "; " + e.Hint
	}
	return text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Unreachable reports whether the engine or systemd could not be reached, or
// did not answer in time. Nothing is known about the container then.
func (e *Error) Unreachable() bool {
	return e.kind == kindUnreachable || e.kind == kindPlain && isUnreachable(e.Err)
}

// Denied reports whether this process lacks the permission for what it tried.
func (e *Error) Denied() bool {
	return e.kind == kindDenied || e.kind == kindPlain && isDenied(e.Err)
}

// Misconfigured reports whether trying again is useless until a person changes
// the configuration, or an object on the host that stands in the way.
func (e *Error) Misconfigured() bool {
	return e.kind == kindMisconfigured || e.kind == kindPlain && isMisconfigured(e.Err)
}

// givenUp is an error that was met again and again until the time was over, which goes
// without saying.
type givenUp struct{ last, end error }

func (g givenUp) Error() string { return g.last.Error() }

func (g givenUp) Unwrap() []error { return []error{g.last, g.end} }

// AliveError is returned where a container had to be down and is not.
type AliveError struct {
	Slot   string // the slot it belongs to
	Name   string // the container's name
	ID     string // the container's full id
	Detail string // the state it was found in, for people
}

// Error names the container and the state it was found in.
func (e *AliveError) Error() string {
	return fmt.Sprintf("container %s (%s) is alive: %s", e.Name, short(e.ID), e.Detail)
}

// ExecError is returned when a command that was run inside a container ended
// with a code other than 0.
type ExecError struct {
	Container string   // the container's name
	Command   []string // the command and its arguments
	ExitCode  int      // 126 and 127 are the engine's words for "cannot be run" and "not found"
	Output    string   // the end of what it printed on both streams, at most 2 KiB
}

// Error gives the command, its exit code and the end of its output.
func (e *ExecError) Error() string {
	text := fmt.Sprintf("command %q in container %s ended with exit code %d", e.Command, e.Container, e.ExitCode)
	if e.Output != "" {
		text += ": " + e.Output
	}
	return text
}

// misconfigured builds the Error of something only a person can put right.
func misconfigured(op, hint, format string, args ...any) *Error {
	return &Error{Op: op, Err: fmt.Errorf(format, args...), Hint: hint, kind: kindMisconfigured}
}

// failed builds an Error without a class of its own.
func failed(op string, err error) *Error { return &Error{Op: op, Err: err} }

func isUnreachable(err error) bool {
	return behaves(err, func(b interface{ Unreachable() bool }) bool { return b.Unreachable() })
}

func isDenied(err error) bool {
	return behaves(err, func(b interface{ Denied() bool }) bool { return b.Denied() })
}

func isMisconfigured(err error) bool {
	return behaves(err, func(b interface{ Misconfigured() bool }) bool { return b.Misconfigured() })
}

// behaves reports whether the first error in the chain that knows the
// behaviour T says yes. Errors of this package answer for their own causes.
func behaves[T any](err error, yes func(T) bool) bool {
	var b T
	return errors.As(err, &b) && yes(b)
}
