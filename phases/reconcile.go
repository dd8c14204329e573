package phases

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/node-lifecycle/node-lifecycle/fsm"
	"github.com/node-lifecycle/node-lifecycle/journal"
)

// Reconcile restarts the node stack of the slot after its configuration or its devices
// have changed, never the host, and waits for the new activation to end in a terminal
// state. It returns nil only if that is Wired.
//
// It refuses from inside the slot's own unit, while a job of the unit is queued, and when
// one more start would trip the unit's start limit, since that would stop a healthy unit
// and not start it again. Without a journal it returns when Restart returns.
func (l *Lifecycle) Reconcile(ctx context.Context, slot string) error {
	if err := l.usable(slot); err != nil {
		return err
	}
	r := l.newRun(slot, PhaseReconcile)
	release, err := l.locks().Reconcile(ctx, slot)
	if err != nil {
		return r.reject(CauseLocked, fmt.Errorf("another reconcile is at work: %w", err), "wait for it")
	}
	defer release()
	if !l.durable() {
		if err := l.Controller.Restart(ctx, slot); err != nil {
			return &Error{Slot: slot, Phase: r.phase, Step: "restart", Cause: causeOf(err, CauseStart), Err: err}
		}
		return nil
	}
	before, err := r.mayRestart(ctx)
	if err != nil {
		return err
	}
	if err := r.record(ctx, nil, op{note: fsm.NoteRequested, entry: journal.Entry{Step: "restart", Detail: "restart of the stack"}}); err != nil {
		return &Error{Slot: slot, Phase: r.phase, Step: "restart", Cause: causeOf(err, CauseJournal), Err: err}
	}
	r.requested = r.head.Seq
	return r.endReconcile(ctx, r.restart(ctx, before))
}

// ReconcileNeeded says why a Reconcile of the slot would be of use: its stack is gone or
// was started from a specification that is out of date. It is "" when there is no reason
// to restart, as for a slot whose unit is down, since that is systemd's or somebody's own
// business. It changes nothing.
func (l *Lifecycle) ReconcileNeeded(ctx context.Context, slot string) (reason string, err error) {
	if err := l.usable(slot); err != nil {
		return "", err
	}
	r := l.newRun(slot, PhaseReconcile)
	if l.Supervisor != nil {
		u, err := l.Supervisor.Unit(ctx, slot)
		if err != nil {
			return "", r.reject(causeOf(err, CauseEngine), err, "")
		}
		if u.ActiveState != "active" || u.JobID != 0 {
			return "", nil
		}
	}
	if able, ok := l.Controller.(Aliver); ok {
		alive, detail, err := able.Alive(ctx, slot)
		if err != nil {
			return "", r.reject(causeOf(err, CauseEngine), err, "")
		}
		if !alive {
			return "the unit is active, but the stack is not alive: " + detail, nil
		}
	}
	if able, ok := l.Controller.(Drifter); ok {
		drifted, detail, err := able.Drifted(ctx, slot)
		if err != nil {
			return "", r.reject(causeOf(err, CauseEngine), err, "")
		}
		if drifted {
			return detail, nil
		}
	}
	return "", nil
}

// reject is a refusal that the journal need not keep: nothing was asked of the slot.
func (r *run) reject(cause Cause, err error, hint string) error {
	return &Error{Slot: r.slot, Phase: r.phase, Cause: cause, Refused: true, Err: err, Hint: hint}
}

// mayRestart refuses what would do harm, and returns the unit as it was before.
func (r *run) mayRestart(ctx context.Context) (UnitStatus, error) {
	if r.l.Supervisor == nil {
		return UnitStatus{}, nil
	}
	u, err := r.l.Supervisor.Unit(ctx, r.slot)
	switch {
	case err != nil:
		return u, r.reject(causeOf(err, CauseEngine), err, "")
	case u.LoadState == "not-found":
		return u, r.reject(CauseConfig, fmt.Errorf("there is no unit %s", u.Name), "install one with: node-lifecycle units")
	case r.l.Self.Unit == u.Name && u.Name != "":
		return u, r.reject(CauseByHand, fmt.Errorf("reconcile runs inside %s, which it would restart under itself", u.Name), "call it from outside the unit")
	case u.JobID != 0:
		return u, r.reject(CauseBusy, fmt.Errorf("%s has a %s job already", u.Name, u.JobType), "wait for it to end")
	}
	starts, err := r.recentStarts(ctx, u.StartLimitInterval)
	if err != nil {
		return u, r.reject(causeOf(err, CauseJournal), err, "")
	}
	if limit := r.startLimit(u); limit > 0 && starts >= limit {
		return u, r.reject(CauseStartLimit,
			fmt.Errorf("%s was started %d times in the last %s, and reconcile stops at %d, below the start limit", u.Name, starts, took(u.StartLimitInterval), limit),
			"find out why it restarts so often; node-lifecycle reset "+r.slot+" clears the count")
	}
	return u, nil
}

// startLimit is how many starts there may have been before one more is refused; 0: any
// number. It stays below the unit's own limit, which would stop a healthy unit first.
func (r *run) startLimit(u UnitStatus) int {
	limit := r.l.ReconcileLimit
	if own := u.StartLimitBurst - 1; own > 0 && (limit == 0 || own < limit) {
		limit = own
	}
	return limit
}

// recentStarts counts the activations of the slot that began within the interval: each
// wrote to the journal, whether it was let through or refused.
func (r *run) recentStarts(ctx context.Context, interval time.Duration) (int, error) {
	since := time.Now().Add(-interval)
	activations := make(map[string]bool)
	err := r.l.read(ctx, func(b reader) error {
		_, err := b.Entries(r.slot, journal.Query{Reverse: true, Match: func(e *journal.Entry) bool {
			switch {
			case e.Phase == phaseReset && e.Kind == string(fsm.NoteDone):
				since = e.Time // what lies before a reset does not count
			case e.Time.After(since) && e.Activation != "" && startedBy(e):
				activations[e.Activation] = true
			}
			return false
		}})
		return err
	})
	return len(activations), err
}

// startedBy reports whether an entry was written by what systemd calls first in a start.
func startedBy(e *journal.Entry) bool {
	return e.Phase == PhasePreStart || e.Phase == phasePeerCheck
}

// restart restarts the unit and waits until the new activation has come to its end.
func (r *run) restart(ctx context.Context, before UnitStatus) error {
	r.step = "restart"
	if r.l.Supervisor != nil {
		// Directly before the restart: a tripped limit stops the healthy unit first.
		if err := r.l.Supervisor.ResetFailed(ctx, r.slot); err != nil {
			return r.broken(causeOf(err, CauseEngine), err, "")
		}
	}
	restartErr := r.l.Controller.Restart(ctx, r.slot)
	if ctx.Err() != nil {
		return r.broken(causeOf(endOf(ctx), CauseInterrupted), endOf(ctx), "the restart goes on without being watched")
	}
	activation, err := r.awaitActivation(ctx, before)
	switch {
	case err != nil:
		return err
	case restartErr == nil && r.state() == fsm.Wired:
		return nil
	}
	return r.notWired(ctx, activation, before, restartErr)
}

// notWired says why the restart did not end in Wired: in the words of the activation's
// own last refusal or failure, if it came to one.
func (r *run) notWired(ctx context.Context, activation string, before UnitStatus, restartErr error) error {
	hint := "see: node-lifecycle history " + r.slot
	if activation == before.Activation && restartErr != nil {
		return r.broken(causeOf(restartErr, CauseStart), restartErr, hint)
	}
	word, err := r.lastWord(ctx, activation)
	switch {
	case err != nil:
		return r.broken(causeOf(err, CauseJournal), err, "")
	case word.Kind == string(fsm.NoteRefused):
		return r.broken(Cause(word.Cause), fmt.Errorf("the new start was refused: %s", joinDetails(word.Error, word.Detail)), hint)
	case word.Kind != "":
		return r.broken(Cause(word.Cause), fmt.Errorf("the slot is %s: %s: %s", r.state(), word.Cause, joinDetails(word.Error, word.Detail)), hint)
	case restartErr != nil:
		return r.broken(causeOf(restartErr, CauseStart), restartErr, hint)
	}
	return r.broken(CauseNotWired, fmt.Errorf("the slot is %s, not %s", r.state(), fsm.Wired), hint)
}

// lastWord is the latest refusal or failure that the activation has written since the
// restart was requested; the zero entry if there is none.
func (r *run) lastWord(ctx context.Context, activation string) (word journal.Entry, err error) {
	err = r.l.read(ctx, func(b reader) error {
		found, err := b.Entries(r.slot, journal.Query{Reverse: true, Limit: 1, After: r.requested, Match: func(e *journal.Entry) bool {
			return e.Activation == activation && (e.Kind == string(fsm.NoteRefused) || e.To == string(fsm.Failed))
		}})
		if len(found) > 0 {
			word = found[0]
		}
		return err
	})
	return word, err
}

func (r *run) broken(cause Cause, err error, hint string) error {
	return &Error{Slot: r.slot, Phase: r.phase, Step: r.step, Cause: cause, Err: err, Hint: hint}
}

// awaitActivation waits for the journal to show a terminal state of an activation that
// is not the one before. If the unit has settled and its hooks have recorded nothing,
// the error says which line the unit lacks.
func (r *run) awaitActivation(ctx context.Context, before UnitStatus) (activation string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.l.preStartBudget()+r.l.readyTimeout()+r.l.afterStartTimeout()+r.l.stopBudget(), errBudget)
	defer cancel()
	settled := 0
	for {
		u := r.unitOrBusy(ctx)
		if err := r.load(ctx); err != nil && ctx.Err() == nil {
			return u.Activation, r.broken(causeOf(err, CauseJournal), err, "")
		}
		mine := r.head.Activation == u.Activation && u.Activation != before.Activation || r.l.Supervisor == nil
		if mine && r.state().Terminal() && r.head.Open == nil {
			return u.Activation, nil
		}
		if u.JobID == 0 && (u.ActiveState == "active" || u.Down()) {
			settled++
		}
		if settled > 1 { // looked again after it had settled: nothing more will come
			return u.Activation, r.missingHooks(ctx, u, before)
		}
		if !sleep(ctx, nil, r.l.pollInterval()) {
			return u.Activation, r.broken(causeOf(endOf(ctx), CauseTimeout), fmt.Errorf("the new activation came to no end: the slot is %s: %w", r.state(), endOf(ctx)), "")
		}
	}
}

// unitOrBusy reads the unit; one that cannot be read is taken to be on its way.
func (r *run) unitOrBusy(ctx context.Context) UnitStatus {
	if r.l.Supervisor == nil {
		return UnitStatus{}
	}
	u, err := r.l.Supervisor.Unit(ctx, r.slot)
	if err != nil {
		return UnitStatus{ActiveState: "activating"}
	}
	return u
}

// missingHooks says why an activation that is over left no terminal state.
func (r *run) missingHooks(ctx context.Context, u, before UnitStatus) error {
	if u.Activation == before.Activation || u.Activation == "" {
		return nil // it was not started: the restart's own error says why
	}
	seen := make(map[string]bool)
	err := r.l.read(ctx, func(b reader) error {
		_, err := b.Entries(r.slot, journal.Query{Reverse: true, Match: func(e *journal.Entry) bool {
			if e.Activation == u.Activation {
				seen[e.Phase] = true
			}
			return false
		}})
		return err
	})
	if err != nil {
		return r.broken(causeOf(err, CauseJournal), err, "")
	}
	for _, line := range []struct{ phase, text string }{
		{PhasePreStart, "ExecStartPre=… pre-start " + r.slot},
		{PhasePostStart, "ExecStartPost=… post-start " + r.slot},
	} {
		if !seen[line.phase] && u.ActiveState == "active" {
			return r.broken(CauseNoHooks, fmt.Errorf("%s restarted, but its %s recorded nothing", u.Name, line.phase), "the unit lacks the line "+line.text)
		}
	}
	return nil
}

// endReconcile notes how the reconcile ended; the slot's own phases have noted the rest.
func (r *run) endReconcile(ctx context.Context, err error) error {
	writing, cancel := r.forLastWords(ctx)
	defer cancel()
	end := ended(ExitCode(err))
	end.head = nil // the open run, if any, is a hook's
	if err != nil {
		var f *Error
		if errors.As(err, &f) {
			end.entry.Cause = string(f.Cause)
		}
		end.entry.Error = err.Error()
	}
	if noteErr := r.record(writing, nil, end); noteErr != nil {
		return errors.Join(err, fmt.Errorf("%s: %s: its end is not in the journal: %w", r.slot, r.phase, noteErr))
	}
	return err
}
