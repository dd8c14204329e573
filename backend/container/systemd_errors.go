package container

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/godbus/dbus/v5"
)

// errBusClosed is the cause of every call after [Bus.Close].
var errBusClosed = errors.New("the connection to systemd was closed by this program")

// errNoReply replaces a deadline of ours: the caller's own context is fine, systemd was silent.
var errNoReply = errors.New("no answer from systemd in time")

// busHints says for each kind of failure what to do next.
var busHints = map[kind]string{
	kindUnreachable:   "check that systemd is PID 1 and that dbus.service or /run/systemd/private answers",
	kindDenied:        "run it as root",
	kindMisconfigured: "correct the slot's unit in the configuration, or install it with `node-lifecycle units`",
}

// dbusKinds classifies D-Bus errors by name. A name that is missing here says nothing about the way to
// systemd or about the unit, so it stays plain.
var dbusKinds = map[string]kind{
	"org.freedesktop.DBus.Error.AccessDenied":                     kindDenied,
	"org.freedesktop.DBus.Error.AuthFailed":                       kindDenied,
	"org.freedesktop.DBus.Error.InteractiveAuthorizationRequired": kindDenied,
	"org.freedesktop.DBus.Error.Disconnected":                     kindUnreachable,
	"org.freedesktop.DBus.Error.NameHasNoOwner":                   kindUnreachable,
	"org.freedesktop.DBus.Error.NoReply":                          kindUnreachable,
	"org.freedesktop.DBus.Error.NoServer":                         kindUnreachable,
	"org.freedesktop.DBus.Error.ServiceUnknown":                   kindUnreachable,
	"org.freedesktop.DBus.Error.TimedOut":                         kindUnreachable,
	"org.freedesktop.DBus.Error.Timeout":                          kindUnreachable,
	"org.freedesktop.systemd1.BadUnitSetting":                     kindMisconfigured,
	"org.freedesktop.systemd1.LoadFailed":                         kindMisconfigured,
	noSuchUnit:                                                    kindMisconfigured,
	"org.freedesktop.systemd1.UnitMasked":                         kindMisconfigured,
}

// busFailure makes an [Error] of err, which is what came of op. Silence and a lost connection are Unreachable; when the
// caller's own context ended nothing is said against systemd, and errors.Is finds the context's error.
func busFailure(ctx context.Context, op string, err error) error {
	if ctx.Err() != nil {
		if !errors.Is(err, ctx.Err()) {
			err = fmt.Errorf("%w (last answer: %w)", ctx.Err(), err)
		}
		return failed(op, err)
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		err = errNoReply
	}
	kind := busKind(err)
	return &Error{Op: op, Err: err, Hint: busHints[kind], kind: kind}
}

// busKind classifies an error of the connection. What is no answer of a peer is a failure to reach it.
func busKind(err error) kind {
	if name, ok := dbusErrorName(err); ok {
		return dbusKinds[name]
	}
	switch {
	case errors.Is(err, errBusClosed):
		return kindPlain
	case errors.Is(err, fs.ErrPermission):
		return kindDenied
	default:
		return kindUnreachable
	}
}

// dbusErrorName returns the name of the D-Bus error that a peer answered with.
func dbusErrorName(err error) (string, bool) {
	var value dbus.Error
	if errors.As(err, &value) {
		return value.Name, true
	}
	var pointer *dbus.Error
	if errors.As(err, &pointer) {
		return pointer.Name, true
	}
	return "", false
}

// UnitStatusError is an answer of systemd that lacks a property, or has it in a type nobody expects. Nothing is known
// about the unit then.
type UnitStatusError struct {
	Property string
	Value    any // nil when the property is missing
}

func (e *UnitStatusError) Error() string {
	if e.Value == nil {
		return fmt.Sprintf("the answer has no property %s", e.Property)
	}
	return fmt.Sprintf("the property %s has the unexpected type %T", e.Property, e.Value)
}

// UnitLoadError is a unit that systemd could not load, with systemd's own reason. It is Misconfigured.
type UnitLoadError struct {
	Unit      string
	LoadState string // not-found, bad-setting, error, masked, …
	Name      string // the D-Bus error name of the reason; may be empty
	Message   string // the reason in systemd's words; may be empty
}

func (e *UnitLoadError) Error() string {
	text := fmt.Sprintf("systemd cannot load unit %s (%s)", e.Unit, e.LoadState)
	if reason := strings.TrimSuffix(e.Message, "."); reason != "" {
		text += ": " + reason
	} else if e.Name != "" {
		text += ": " + e.Name
	}
	if e.LoadState == "not-found" {
		return text + "; " + busHints[kindMisconfigured]
	}
	return text + "; see `systemd-analyze verify " + e.Unit + "`"
}

// Misconfigured is always true: the unit's files must be corrected.
func (e *UnitLoadError) Misconfigured() bool { return true }
