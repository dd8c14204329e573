package phases

import (
	"context"
	"io"
	"time"
)

// What a Controller can do beyond the three methods. A phase asks for each with a
// type assertion and uses it where it is there. In all of them an error means that
// the answer is unknown, never that it is no.

// The rule that never two stacks run stands on what these abilities promise:
//
//   - Alive says yes of whatever has a process, or may get one back by itself: running,
//     restarting, paused, being removed with a process left. No is a proof. What cannot be
//     known is an error.
//   - Fence and Remove take a stopped container of ours away without force, and in one step
//     as seen from its start: either the start came first and they fail, or they did, and
//     the start fails for good. A late start never starts another container of that name.
//   - Start starts what it has created itself, by what identifies it, and once.
//   - Stop has seen that nothing of the stack is alive when it returns nil.
//   - A Supervisor's UnitStatus belongs to one moment and knows of queued jobs: from the
//     moment at which a start was accepted until its job is over the unit is never Down.

// Aliver tells whether anything of the stack of a slot lives: running, restarting,
// paused, or being removed with a process left. It says nothing about readiness.
type Aliver interface {
	Alive(ctx context.Context, slot string) (alive bool, detail string, err error)
}

// Strayer tells of a living stack that a slot must not run beside although it is not its
// peer's: one whose slot is configured no more, or was this slot's peer when it was
// started.
type Strayer interface {
	Stray(ctx context.Context, slot string) (alive bool, detail string, err error)
}

// Deceased tells whether the stack of the current start has already ended. A stack
// that has not been started yet has not.
type Deceased interface {
	Died(ctx context.Context, slot string) (died bool, detail string, err error)
}

// Fencer makes a late start of the stack of a slot fail. After a nil error such a
// start cannot succeed any more, except when weak is true: then what carries the
// name is not ours, was only moved out of the way, and has to be looked at again.
type Fencer interface {
	Fence(ctx context.Context, slot string) (detail string, weak bool, err error)
}

// Changer tells whether a unit file differs from what systemd has loaded. In doubt
// the answer is true.
type Changer interface {
	Changed(ctx context.Context, slot string) (bool, error)
}

// Loader tells whether the unit of a slot still loads.
type Loader interface {
	CheckLoaded(ctx context.Context, slot string) error
}

// Eventer wakes a wait whenever something about the slot may have changed. The
// channel is closed when ctx ends. A lost event is no harm: waits also poll.
type Eventer interface {
	Events(ctx context.Context, slot string) (<-chan struct{}, error)
}

// Evidencer captures what there is to know about a slot that has failed, as JSON of
// at most 64 KiB, within its context.
type Evidencer interface {
	Evidence(ctx context.Context, slot string) ([]byte, error)
}

// Stopper ends the stack of a slot: its stop signal, its grace, then a kill. A nil
// error means that the stack is proven not running.
type Stopper interface {
	Stop(ctx context.Context, slot string) (detail string, err error)
}

// Remover removes what is left of the stopped stack of a slot, if it is ours. The
// detail says what was kept or thrown away; "" when there was nothing.
type Remover interface {
	Remove(ctx context.Context, slot string, epoch uint64) (detail string, err error)
}

// Starter starts the stack of a slot once, for the claim that carries epoch, and
// returns what identifies it. moved says what of somebody else's had to be moved out of
// the way; "" if nothing had.
type Starter interface {
	Start(ctx context.Context, slot string, epoch uint64, boot, activation string) (id, moved string, err error)
}

// Owner tells whether the stack of a slot is ours: started by RunStack, which looks at the
// claim once more, and not by a command of somebody else's, which does not. A Controller
// that cannot tell owns all stacks if it is a Starter, and none if it is not.
type Owner interface {
	Owns(slot string) bool
}

// Attender streams the output of the stack to out until it has ended and returns its
// exit code.
type Attender interface {
	Attend(ctx context.Context, slot, id string, out io.Writer) (exit int, err error)
}

// Drifter tells whether the stack of the slot that runs was started from another
// specification than the configuration and the host would give now. detail says what
// differs.
type Drifter interface {
	Drifted(ctx context.Context, slot string) (drifted bool, detail string, err error)
}

// EngineWaiter waits until the engine answers or ctx ends.
type EngineWaiter interface {
	WaitEngine(ctx context.Context) error
}

// Host tells boots and processes apart.
type Host interface {
	// Boot identifies the running boot.
	Boot() string
	// Boottime is the time since the host booted, suspend included. It orders nothing
	// across boots.
	Boottime() time.Duration
	// ProcessAlive reports whether the process with this number and start time lives.
	ProcessAlive(pid int, start uint64) bool
}

// Process is the process that runs a phase.
type Process struct {
	// PID and Start (in clock ticks since boot) tell it from every other one of the boot.
	PID   int
	Start uint64
	// Unit is the systemd unit it runs in, "" if none.
	Unit string
	// Activation is the INVOCATION_ID of that unit's activation.
	Activation string
	// Version is the version of the binary.
	Version string
}

// UnitStatus is what systemd knows of a unit, read in one go so that its fields belong
// together.
type UnitStatus struct {
	Name                                     string
	LoadState, ActiveState, SubState, Result string
	// Activation is the INVOCATION_ID of the current or last activation.
	Activation string
	// JobID is the queued or running job, 0 if none; JobType its type ("start", "stop").
	JobID   uint32
	JobType string
	// MainExited is true when the main process of this activation has run and ended.
	MainExited           bool
	MainPID              int
	MainCode, MainStatus int
	// StartLimitInterval and StartLimitBurst are the start limit of the unit.
	StartLimitInterval time.Duration
	StartLimitBurst    int
}

// Down reports whether nothing of the unit runs and nothing is going to: inactive or
// failed, without a job.
func (u UnitStatus) Down() bool {
	return (u.ActiveState == "inactive" || u.ActiveState == "failed") && u.JobID == 0
}

// Starting reports whether the unit is on its way up or has a job that will start it.
func (u UnitStatus) Starting() bool {
	return u.ActiveState == "activating" || u.JobID != 0 && (u.JobType == "start" || u.JobType == "restart")
}

// beforeMain reports whether the main process of the activation has not come yet, or is
// not going to: the unit is being started, waits for its turn to be, or ends without ever
// having come so far.
func (u UnitStatus) beforeMain() bool {
	switch u.ActiveState {
	case "activating":
		return u.SubState == "condition" || u.SubState == "start-pre" || u.SubState == "auto-restart"
	case "deactivating":
		return u.MainPID == 0 && !u.MainExited
	}
	return u.ActiveState == "inactive" && u.JobID != 0
}

// stopAsked reports whether a job is at work that somebody asked for to end the unit.
func (u UnitStatus) stopAsked() bool {
	switch u.JobType {
	case "stop", "restart", "try-restart":
		return u.JobID != 0
	}
	return false
}

// Supervisor is what a phase needs of systemd.
type Supervisor interface {
	// Unit reads the unit of a slot. A unit that does not exist is no error: its
	// LoadState says so.
	Unit(ctx context.Context, slot string) (UnitStatus, error)
	// ResetFailed clears the failed state and the start limit's count of the unit.
	ResetFailed(ctx context.Context, slot string) error
}
