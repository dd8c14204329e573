package phases

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/node-lifecycle/node-lifecycle/journal"
	"github.com/node-lifecycle/node-lifecycle/journal/filelock"
)

// Cause is why a phase was refused or failed, in one word that the journal keeps.
type Cause string

// The causes. The first group are above all the reasons of a refusal.
const (
	CausePeerAlive   Cause = "peer-alive"
	CausePeerUnknown Cause = "peer-unknown"
	CauseEngine      Cause = "engine"
	CauseConfig      Cause = "config"
	CauseLocked      Cause = "locked"
	CauseJournal     Cause = "journal"
	CauseTimeout     Cause = "timeout"
	CauseInterrupted Cause = "interrupted"

	CauseDenied       Cause = "permission"
	CauseReadyTimeout Cause = "ready-timeout"
	CauseAfterStart   Cause = "after-start"
	CauseStackDied    Cause = "stack-died"
	CauseRunDied      Cause = "run-died" // the unit's main process, while the stack lived on
	CauseNoPreStart   Cause = "no-pre-start"
	CauseByHand       Cause = "by-hand"
	CauseBusy         Cause = "busy"
	CauseStartLimit   Cause = "start-limit"
	CauseNoHooks      Cause = "no-hooks"
	CauseNotWired     Cause = "not-wired"
	CauseUnproven     Cause = "unproven"
	CauseClaim        Cause = "claim"
	CauseTakenOver    Cause = "taken-over"
	CauseReload       Cause = "reload"
	CauseRegenerate   Cause = "regenerate"
	CauseStart        Cause = "start"
	CauseReboot       Cause = "reboot"
	CauseBug          Cause = "bug"
)

// Error is how a phase ends when it does not end well: refused before anything had
// begun, or failed in a step. Its text names slot, phase, step, cause and what to do
// next, once.
type Error struct {
	Slot, Phase, Step string
	Cause             Cause
	// Refused is true when nothing had begun.
	Refused bool
	// Took is how long the step took, Budget what it was given; 0 if it had none.
	Took, Budget time.Duration
	// Err says what went wrong.
	Err error
	// Hint says what to do next; it may be empty.
	Hint string
}

func (e *Error) Error() string {
	s := e.Slot + ": " + e.Phase
	if e.Refused {
		s += " refused"
	} else if e.Step != "" {
		s += ": " + e.Step
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// Interrupted is the cause to cancel a phase's context with when a signal asks the
// process to end.
type Interrupted struct {
	// Signal is the number of the signal.
	Signal int
	// Name is how people call it.
	Name string
}

func (i Interrupted) Error() string { return "interrupted by " + i.Name }

// Exit codes, by cause. They follow sysexits.h where that has a word for it, because
// systemd prints those names.
const (
	ExitUsage       = 64
	ExitUnavailable = 69
	ExitBug         = 70
	ExitCannotOpen  = 73
	ExitIO          = 74
	ExitTemporary   = 75
	ExitPeerAlive   = 76
	ExitDenied      = 77
	ExitConfig      = 78
	ExitReady       = 79
	ExitAfterStart  = 80
	ExitStackDied   = 81
)

var exitByCause = map[Cause]int{
	CausePeerAlive:    ExitPeerAlive,
	CauseClaim:        ExitPeerAlive,
	CausePeerUnknown:  ExitUnavailable,
	CauseEngine:       ExitUnavailable,
	CauseUnproven:     ExitUnavailable,
	CauseReload:       ExitUnavailable,
	CauseTimeout:      ExitUnavailable,
	CauseStart:        ExitUnavailable,
	CauseConfig:       ExitConfig,
	CauseRegenerate:   ExitConfig,
	CauseNoPreStart:   ExitConfig,
	CauseNoHooks:      ExitConfig,
	CauseLocked:       ExitTemporary,
	CauseByHand:       ExitTemporary,
	CauseBusy:         ExitTemporary,
	CauseStartLimit:   ExitTemporary,
	CauseTakenOver:    ExitTemporary,
	CauseJournal:      ExitIO,
	CauseDenied:       ExitDenied,
	CauseReadyTimeout: ExitReady,
	CauseAfterStart:   ExitAfterStart,
	CauseStackDied:    ExitStackDied,
	CauseRunDied:      ExitStackDied,
	CauseNotWired:     ExitStackDied,
	CauseInterrupted:  128 + 15, // as by SIGTERM, when nobody says by what
	CauseBug:          ExitBug,
}

// ExitCode is the code that a process should exit with after err: 0 for nil.
func ExitCode(err error) int {
	if err == nil {
		return 0
	}
	var signal Interrupted
	if errors.As(err, &signal) {
		return 128 + signal.Signal
	}
	cause := causeOf(err, CauseBug)
	if cause == CauseJournal {
		return journalExit(err)
	}
	if code, ok := exitByCause[cause]; ok {
		return code
	}
	return ExitBug
}

func journalExit(err error) int {
	switch journal.KindOf(err) {
	case journal.KindInvalid:
		return ExitCannotOpen
	case journal.KindPermission:
		return ExitDenied
	default:
		return ExitIO
	}
}

// What an error of a Controller or Supervisor may say of itself.
type (
	unreachable   interface{ Unreachable() bool }
	denied        interface{ Denied() bool }
	misconfigured interface{ Misconfigured() bool }
)

// causeOf classifies an error by what it says of itself; otherwise is its cause when
// it says nothing.
func causeOf(err error, otherwise Cause) Cause {
	var (
		phase  *Error
		signal Interrupted
		away   unreachable
		noPerm denied
		config misconfigured
		locked *filelock.LockedError
	)
	switch {
	case errors.As(err, &phase):
		return phase.Cause
	case errors.As(err, &signal):
		return CauseInterrupted
	case errors.As(err, &locked):
		return CauseLocked
	case journal.KindOf(err) == journal.KindLocked:
		return CauseLocked
	case journal.KindOf(err) != "":
		return CauseJournal
	case errors.As(err, &away) && away.Unreachable():
		return CauseEngine
	case errors.As(err, &noPerm) && noPerm.Denied():
		return CauseDenied
	case errors.As(err, &config) && config.Misconfigured():
		return CauseConfig
	case errors.Is(err, context.DeadlineExceeded):
		return CauseTimeout
	case errors.Is(err, context.Canceled):
		return CauseInterrupted
	}
	return otherwise
}

// because is an error whose cause says nothing to people that its text does not.
type because struct {
	text string
	err  error
}

func (b because) Error() string { return b.text }

func (b because) Unwrap() error { return b.err }

// panicError is a panic of a step, turned into an error that is a bug.
type panicError struct{ value any }

func (p panicError) Error() string { return fmt.Sprintf("panic: %v", p.value) }
