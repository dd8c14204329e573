package phases

import (
	"context"
	"log/slog"
	"time"

	"github.com/node-lifecycle/node-lifecycle/journal"
)

// The time that a phase may take when nothing else is configured.
const (
	// DefaultReadyTimeout bounds the wait for the stack to become ready.
	DefaultReadyTimeout = 2 * time.Minute
	// DefaultAfterStartTimeout bounds AfterStart, whatever the wait took.
	DefaultAfterStartTimeout = 3 * time.Minute
	// PostStartBudget is what post-start may take as a whole.
	PostStartBudget = DefaultReadyTimeout + DefaultAfterStartTimeout

	// DefaultPollInterval is how often a wait looks when no event wakes it.
	DefaultPollInterval = time.Second
	// DefaultPreStartBudget bounds pre-start as a whole.
	DefaultPreStartBudget = 13 * time.Minute
	// DefaultStopBudget bounds stop and post-stop, each on its own.
	DefaultStopBudget = 90 * time.Second
	// DefaultEngineWait bounds the wait for a container engine that is not up yet.
	DefaultEngineWait = 2 * time.Minute
)

// Controller is what a phase needs of the thing that runs the node stack. All
// methods are called with a context that carries the deadline of their step and
// must return soon after it ends. They may block and need not be safe for
// concurrent use on one slot; different slots may be used at the same time.
//
// A Controller may offer more through the optional interfaces of this package:
// [Aliver], [Fencer], [Changer], [Eventer] and their like. What it offers is used.
type Controller interface {
	// Regenerate renders the host-side configuration of the slot anew.
	Regenerate(ctx context.Context, slot string) error
	// Running reports whether the stack of the slot is ready. If it is not, detail
	// says for people what is missing. An error means that it cannot be known.
	Running(ctx context.Context, slot string) (running bool, detail string, err error)
	// Restart restarts the node stack of the slot, never the host.
	Restart(ctx context.Context, slot string) error
}

// Lifecycle runs phases. The zero value of every field but Controller is usable;
// fields must not be changed once a phase has begun. A Lifecycle is safe for
// concurrent use.
type Lifecycle struct {
	// Log gets one line for every transition and note. Nil: nothing is logged.
	Log *slog.Logger
	// Controller runs the node stack. Required.
	Controller Controller
	// ReloadSystemd makes systemd read its unit files again. Nil: skipped.
	ReloadSystemd func(ctx context.Context) error
	// AfterStart runs once the stack is up. Nil: skipped. Its failure fails PostStart.
	AfterStart func(ctx context.Context, slot string) error
	// ReadyTimeout bounds the wait for the stack, AfterStartTimeout bounds AfterStart;
	// each bounds its own part alone. Zero: the defaults.
	ReadyTimeout, AfterStartTimeout time.Duration
	// Peer names the other slot of the pair. Nil or "": the slot has no peer.
	Peer func(slot string) string
	// PollInterval is how often a wait looks when no event wakes it. Zero: 1 s.
	PollInterval time.Duration

	// Journal makes every transition durable. Nil: the state is kept in memory.
	Journal *journal.Journal
	// Locks keeps processes apart. Nil: only the calls on this Lifecycle are kept apart.
	Locks Locks
	// Host tells boots and processes apart. Nil: the process is taken to live for ever.
	Host Host
	// Self is the process that runs the phases, as the journal shall name it.
	Self Process
	// Supervisor is what systemd knows of the units. Nil: units give no evidence.
	Supervisor Supervisor
	// Status is told what a phase waits for, in a few words for people. Nil: nobody is.
	Status func(text string)
	// Unrecorded gets the entries that the journal could not take, from a phase that
	// must go on without it (post-stop). Nil: they are logged.
	Unrecorded func(entry journal.Entry)

	// PreStartBudget, StopBudget and EngineWait bound pre-start, each of stop and
	// post-stop, and the wait for an engine that is away. Zero: the defaults.
	PreStartBudget, StopBudget, EngineWait time.Duration
	// ReconcileLimit is how many starts of a slot reconcile allows within the start limit's
	// interval, where the unit's own limit allows more. Zero: only the unit's own counts.
	ReconcileLimit int
	// Force lets a hook that was typed by hand go on while the unit is active.
	Force bool

	ledger ledger // set by tests that keep the books themselves
	memory memory
	local  localLocks
}

func (l *Lifecycle) readyTimeout() time.Duration {
	return orDefault(l.ReadyTimeout, DefaultReadyTimeout)
}

func (l *Lifecycle) afterStartTimeout() time.Duration {
	return orDefault(l.AfterStartTimeout, DefaultAfterStartTimeout)
}

func (l *Lifecycle) pollInterval() time.Duration {
	return orDefault(l.PollInterval, DefaultPollInterval)
}

func (l *Lifecycle) preStartBudget() time.Duration {
	return orDefault(l.PreStartBudget, DefaultPreStartBudget)
}

func (l *Lifecycle) stopBudget() time.Duration {
	return orDefault(l.StopBudget, DefaultStopBudget)
}

func (l *Lifecycle) engineWait() time.Duration {
	return orDefault(l.EngineWait, DefaultEngineWait)
}

func (l *Lifecycle) peer(slot string) string {
	if l.Peer == nil {
		return ""
	}
	return l.Peer(slot)
}

func (l *Lifecycle) log() *slog.Logger {
	if l.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return l.Log
}

func (l *Lifecycle) status(text string) {
	if l.Status != nil {
		l.Status(text)
	}
}

func orDefault(d, def time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return def
}

// Pair names the pair of a slot and its peer, the same whichever of the two asks.
// A slot without a peer is a pair of its own.
func Pair(slot, peer string) string {
	switch {
	case peer == "":
		return slot
	case peer < slot:
		return peer + "+" + slot
	default:
		return slot + "+" + peer
	}
}
