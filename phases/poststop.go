package phases

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/node-lifecycle/node-lifecycle/fsm"
	"github.com/node-lifecycle/node-lifecycle/journal"
)

// StopInfo is what systemd tells ExecStopPost= of the activation that is over.
type StopInfo struct {
	// ServiceResult is SERVICE_RESULT, "" outside a unit.
	ServiceResult string
	// ExitCode and ExitStatus are EXIT_CODE and EXIT_STATUS of the main process; ""
	// when it never ran.
	ExitCode, ExitStatus string
}

// slotLockWait is how long post-stop waits for the slot's lock before it goes on under
// the host lock alone: a stop must not hang behind a hook that does not end.
const slotLockWait = 5 * time.Second

// PostStop makes sure that nothing of the slot's stack is left, removes what is ours of
// it, gives up the slot's claim and writes how the activation ended. It is to be called
// whatever happened, expects any state, and never fails because of the journal.
//
// It blocks for up to StopBudget. The error is nil unless the stack could not be proven
// gone; the claim is then kept.
func (l *Lifecycle) PostStop(ctx context.Context, slot string, info StopInfo) error {
	if err := l.usable(slot); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, l.stopBudget(), errBudget)
	defer cancel()
	r := l.newRun(slot, PhasePostStop)
	if err := r.guardHand(ctx); err != nil {
		return err
	}
	defer r.lockForStop(ctx)()
	loadErr := r.load(ctx)
	r.found = r.head.Open
	if info.ServiceResult == "exec-condition" {
		return r.noteSkipped(ctx)
	}
	if loadErr != nil {
		return r.stopUnrecorded(ctx, info, loadErr)
	}
	err := r.execute(ctx, []step{stopStep(info)})
	var phase *Error
	if errors.As(err, &phase) && phase.Cause == CauseUnproven {
		return err
	}
	if journal.KindOf(err) != "" {
		return r.stopUnrecorded(ctx, info, err)
	}
	return err
}

// lockForStop takes the slot's lock if it comes free in time and returns what gives it
// back.
func (r *run) lockForStop(ctx context.Context) func() {
	ctx, cancel := context.WithTimeout(ctx, slotLockWait)
	defer cancel()
	release, err := r.l.locks().Slot(ctx, r.slot, r.phase)
	if err != nil {
		r.l.log().Warn(r.slot+": post-stop goes on without the slot's lock", "slot", r.slot, "phase", r.phase, "error", err.Error())
		return func() {}
	}
	return release
}

// stopStep is post-stop's only step: it proves the stack gone, whatever the state was.
func stopStep(info StopInfo) step {
	return step{
		name: "stop", cause: CauseUnproven, late: CauseUnproven, repeatable: true, ends: true,
		budget: (*Lifecycle).stopBudget,
		do: func(ctx context.Context, r *run) (out outcome, err error) {
			r.l.status("making sure that the stack is gone")
			out.evidence = r.stopEvidence(ctx)
			if err := r.idleEngine(ctx); err != nil {
				return out, err
			}
			how, removed, release, err := r.clearOwn(ctx, r.endStack)
			if err != nil {
				return out, err
			}
			out.release = release
			out.books = func(t tx) ([]op, error) { return nil, r.release(t) }
			r.stopOutcome(ctx, info, joinDetails(how, removed), &out)
			return out, nil
		},
	}
}

// idleEngineWait is how long post-stop waits for an engine that is away when its
// activation has begun nothing.
const idleEngineWait = 5 * time.Second

// idleEngine gives up early on an engine that is away if the activation has begun
// nothing: its peer-check has waited already, the next start waits again, and comes the
// sooner. What is left of an earlier activation is not proven gone, as before.
func (r *run) idleEngine(ctx context.Context) error {
	able, ok := r.l.Controller.(EngineWaiter)
	if !ok || r.activation() != "" && r.head.Activation == r.activation() {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, idleEngineWait, errBudget)
	defer cancel()
	if err := able.WaitEngine(ctx); err != nil {
		return r.unproven(err)
	}
	return nil
}

func (r *run) unproven(err error) *Error {
	hint := "see what still runs; node-lifecycle resume " + r.slot + " tries again"
	if r.claim.Holder == r.slot {
		hint = "the claim is kept; " + hint
	}
	return &Error{Cause: CauseUnproven, Err: fmt.Errorf("the stack is not proven gone: %w", err), Hint: hint}
}

// stopEvidence is captured before anything is removed, if the end was not asked for or
// may not have been.
func (r *run) stopEvidence(ctx context.Context) []byte {
	if !r.state().Live() || r.stopNoted() && !r.cutOff() {
		return nil
	}
	return r.evidence(ctx, nil)
}

// stopNoted reports whether a process of this activation was told to stop the stack.
func (r *run) stopNoted() bool {
	return r.head.StopRequested != "" && r.head.StopRequested == r.activation()
}

// cutOff reports whether a phase died that was bringing the stack up. systemd then ends
// the main process as well, which takes that for a stop that was asked for.
func (r *run) cutOff() bool { return r.found != nil && r.state() != fsm.Wired }

// endStack ends the slot's own stack and proves it.
func (r *run) endStack(ctx context.Context) (how string, err error) {
	able, ok := r.l.Controller.(Stopper)
	if !ok {
		return "", nil
	}
	if r.state().Live() && !r.stopNoted() {
		alive, lookErr := r.ownStackAlive(ctx)
		r.survived = r.survived || lookErr == nil && alive
	}
	if how, err = able.Stop(ctx, r.slot); err != nil {
		return "", r.unproven(err)
	}
	return how, nil
}

// stopOutcome decides what the end of the activation was. It was a stop if one was
// asked for; what systemd calls the result says nothing about that.
func (r *run) stopOutcome(ctx context.Context, info StopInfo, how string, out *outcome) {
	byJob := r.stopAsked(ctx)
	out.detail = joinDetails(info.text(), how)
	out.attrs = attr("service_result", info.ServiceResult, "exit_code", info.ExitCode, "exit_status", info.ExitStatus)
	switch {
	case !r.state().Live():
		out.note, out.evidence = fsm.NoteCleaned, nil
		out.before = r.settleOwn("") // says so if a phase died before it had begun anything
	case r.head.Boot != r.boot():
		out.event, out.cause, out.evidence = fsm.EventRebooted, CauseReboot, nil
	case byJob, r.stopNoted() && !r.cutOff():
		out.event, out.evidence = fsm.EventStopped, nil
	case r.cutOff():
		out.event, out.cause = fsm.EventFailed, CauseInterrupted
		out.detail = joinDetails(fmt.Sprintf("%s died in step %s", r.found.Phase, r.found.Step), out.detail)
	case r.survived:
		out.event, out.cause = fsm.EventLost, CauseRunDied
		out.detail = joinDetails(out.detail, "the stack had lived on")
	default:
		out.event, out.cause = fsm.EventLost, CauseStackDied
		if word := r.wordOfRun(ctx); word != nil {
			out.cause, out.detail = word.Cause, joinDetails(word.Err.Error(), out.detail)
		}
	}
}

func (i StopInfo) text() string {
	switch i.ExitCode {
	case "":
		return ""
	case "exited":
		return "the main process exited with " + i.ExitStatus
	default:
		return "the main process was " + i.ExitCode + " by " + i.ExitStatus
	}
}

// noteSkipped notes that peer-check let systemd skip the start, unless peer-check has
// noted it itself. Nothing was started, so nothing is cleaned.
func (r *run) noteSkipped(ctx context.Context) error {
	activation := r.activation()
	err := r.record(ctx, func(t tx) ([]op, error) {
		noted, err := t.Entries(r.slot, journal.Query{Reverse: true, Limit: 1, Match: func(e *journal.Entry) bool {
			return e.Kind == string(fsm.NoteRefused) && e.Activation == activation
		}})
		if err != nil || len(noted) > 0 {
			return nil, err
		}
		return []op{{note: fsm.NoteRefused, entry: journal.Entry{
			Cause: string(CausePeerAlive), Error: "systemd skipped the start: the condition was not met",
		}}}, nil
	})
	if err != nil {
		r.unrecorded(op{note: fsm.NoteRefused, entry: journal.Entry{Cause: string(CausePeerAlive)}}, err)
	}
	return nil
}

// stopUnrecorded ends the stack although the journal cannot be used, and hands what
// should be in it to whoever keeps such entries.
func (r *run) stopUnrecorded(ctx context.Context, info StopInfo, why error) error {
	r.opened, r.step = false, "stop"
	how, err := r.endStack(ctx)
	if err == nil {
		var removed string
		removed, err = r.removeStale(ctx)
		how = joinDetails(how, removed)
	}
	o := op{note: fsm.NoteCleaned, entry: journal.Entry{Detail: joinDetails(info.text(), how)}}
	if err != nil {
		o = op{note: fsm.NoteUnproven, entry: journal.Entry{Error: err.Error()}}
	}
	r.unrecorded(o, why)
	if err == nil {
		return nil
	}
	f := r.unproven(err)
	var inner *Error
	if errors.As(err, &inner) {
		f.Err, f.Hint = inner.Err, cmp.Or(inner.Hint, f.Hint)
	}
	f.Slot, f.Phase, f.Step = r.slot, r.phase, r.step
	return f
}

func (r *run) unrecorded(o op, why error) {
	e := r.stamp(o.entry)
	e.V, e.Kind, e.Slot = journal.EntryVersion, string(o.note), r.slot
	if e.Error == "" {
		e.Error = "not in the journal: " + why.Error()
	}
	if r.l.Unrecorded != nil {
		r.l.Unrecorded(e)
		return
	}
	line, err := json.Marshal(e)
	if err != nil {
		line = []byte(err.Error())
	}
	r.l.log().Error(r.slot+": an entry is not in the journal", "entry", string(line))
}
