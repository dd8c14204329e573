package phases

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/node-lifecycle/node-lifecycle/fsm"
	"github.com/node-lifecycle/node-lifecycle/journal"
)

// Cut is where a run was cut off, told apart by evidence.
type Cut string

const (
	// CutInStep: an intent is open and its process is dead.
	CutInStep Cut = "in a step"
	// CutBetween: no intent is open, the last outcome is durable.
	CutBetween Cut = "between phases"
	// CutByReboot: the last transition belongs to another boot.
	CutByReboot Cut = "by a reboot"
)

// Resumption is what resume does about a cut-off run.
type Resumption string

const (
	// ResumeNothing: there is nothing to do, or whoever has to act will do so unasked.
	ResumeNothing Resumption = "nothing"
	// ResumeClose: note that the run is over; it had begun nothing. What a unit that is
	// down has left is cleared as well.
	ResumeClose Resumption = "close"
	// ResumeContinue: if the stack lives, go on with post-start from the last durable
	// step, with fresh budgets; if it does not, settle.
	ResumeContinue Resumption = "continue"
	// ResumeSettle: end a survivor as post-stop would and write what became of the slot.
	ResumeSettle Resumption = "settle"
	// ResumeClear: if the unit is down and a stack has outlived it, or the claim has, do
	// what post-stop could not.
	ResumeClear Resumption = "clear"
)

// ResumeRule is one cell of the resume table.
type ResumeRule struct {
	State fsm.State
	Cut   Cut
	// UnitOurs: the unit is active or activating with the activation of the run.
	UnitOurs bool
	Do       Resumption
	Why      string
}

// resumeTable says what resume does, for every state, every cut and both answers about
// the unit. A boot ends every activation, so that the unit cannot be ours after one.
var resumeTable = []ResumeRule{
	{fsm.Stopped, CutInStep, true, ResumeClose, "nothing had begun; systemd ends the activation"},
	{fsm.Stopped, CutInStep, false, ResumeClose, "nothing had begun"},
	{fsm.Stopped, CutBetween, true, ResumeNothing, "no run was cut off"},
	{fsm.Stopped, CutBetween, false, ResumeClear, "post-stop may not have been able to"},
	{fsm.Stopped, CutByReboot, false, ResumeClose, "nothing had begun"},

	{fsm.PreChecked, CutInStep, true, ResumeNothing, "systemd sees that pre-start died and calls post-stop"},
	{fsm.PreChecked, CutInStep, false, ResumeSettle, "nobody else will"},
	{fsm.PreChecked, CutBetween, true, ResumeNothing, "systemd sees that pre-start ended and calls post-stop"},
	{fsm.PreChecked, CutBetween, false, ResumeSettle, "nobody else will"},
	{fsm.PreChecked, CutByReboot, false, ResumeSettle, "the host was rebooted"},

	{fsm.Regenerated, CutInStep, true, ResumeContinue, "post-start had only begun"},
	{fsm.Regenerated, CutInStep, false, ResumeSettle, "nobody else will"},
	{fsm.Regenerated, CutBetween, true, ResumeNothing, "systemd goes on to start the stack and to call post-start"},
	{fsm.Regenerated, CutBetween, false, ResumeSettle, "the unit ended between pre-start and post-start"},
	{fsm.Regenerated, CutByReboot, false, ResumeSettle, "the host was rebooted"},

	{fsm.Starting, CutInStep, true, ResumeContinue, "the wait can be taken up again"},
	{fsm.Starting, CutInStep, false, ResumeSettle, "nobody else will"},
	{fsm.Starting, CutBetween, true, ResumeContinue, "the wait can be taken up again"},
	{fsm.Starting, CutBetween, false, ResumeSettle, "nobody else will"},
	{fsm.Starting, CutByReboot, false, ResumeSettle, "the host was rebooted"},

	{fsm.Running, CutInStep, true, ResumeContinue, "after-start is repeatable"},
	{fsm.Running, CutInStep, false, ResumeSettle, "nobody else will"},
	{fsm.Running, CutBetween, true, ResumeContinue, "after-start is still to be done"},
	{fsm.Running, CutBetween, false, ResumeSettle, "nobody else will"},
	{fsm.Running, CutByReboot, false, ResumeSettle, "the host was rebooted"},

	{fsm.Wired, CutInStep, true, ResumeNothing, "systemd sees that post-stop died; the next start settles"},
	{fsm.Wired, CutInStep, false, ResumeSettle, "post-stop died before it could say how the stack ended"},
	{fsm.Wired, CutBetween, true, ResumeNothing, "the slot is up"},
	{fsm.Wired, CutBetween, false, ResumeSettle, "the unit ended and post-stop did not run"},
	{fsm.Wired, CutByReboot, false, ResumeSettle, "the host was rebooted"},

	{fsm.Failed, CutInStep, true, ResumeClose, "nothing had begun; systemd ends the activation"},
	{fsm.Failed, CutInStep, false, ResumeClose, "nothing had begun"},
	{fsm.Failed, CutBetween, true, ResumeNothing, "no run was cut off"},
	{fsm.Failed, CutBetween, false, ResumeClear, "post-stop may not have been able to"},
	{fsm.Failed, CutByReboot, false, ResumeClose, "nothing had begun"},
}

// ResumeTable is a copy of the table that Resume acts by.
func ResumeTable() []ResumeRule { return append([]ResumeRule(nil), resumeTable...) }

// resumption looks a cell up.
func resumption(state fsm.State, cut Cut, unitOurs bool) (ResumeRule, error) {
	for _, rule := range resumeTable {
		if rule.State == state && rule.Cut == cut && rule.UnitOurs == (unitOurs && cut != CutByReboot) {
			return rule, nil
		}
	}
	return ResumeRule{}, fmt.Errorf("nothing says how to resume a slot that is %s and was cut off %s", state, cut)
}

// WriteResumeTable prints the table that Resume acts by, as Markdown.
func WriteResumeTable(w io.Writer) error {
	if _, err := fmt.Fprint(w, "| state | cut off | the unit's activation | resume | because |\n| --- | --- | --- | --- | --- |\n"); err != nil {
		return err
	}
	for _, rule := range resumeTable {
		unit := "is another or none"
		if rule.UnitOurs {
			unit = "is the run's"
		}
		if _, err := fmt.Fprintf(w, "| %s | %s | %s | %s | %s |\n", rule.State, rule.Cut, unit, rule.Do, rule.Why); err != nil {
			return err
		}
	}
	return nil
}

// Resume takes up, closes or settles what a run of the slot left when its process died.
// A run that is still being executed is left alone, which is no error. It is safe to be
// called twice, and beside hooks.
//
// It returns what it did. It may block as long as a post-start or a stop.
func (l *Lifecycle) Resume(ctx context.Context, slot string) (Resumption, error) {
	if err := l.usable(slot); err != nil {
		return ResumeNothing, err
	}
	budget := l.engineWait() + l.stopBudget() + l.readyTimeout() + l.afterStartTimeout() + booksBudget
	ctx, cancel := context.WithTimeoutCause(ctx, budget, errBudget)
	defer cancel()
	r := l.newRun(slot, PhaseResume)
	if err := r.load(ctx); err != nil {
		return ResumeNothing, &Error{Slot: slot, Phase: r.phase, Cause: causeOf(err, CauseJournal), Err: err}
	}
	if l.runLives(r.head.Open) || r.neverRan() && !r.unknownSurvivor(ctx) {
		return ResumeNothing, nil
	}
	release, err := r.lockForResume(ctx)
	if err != nil {
		return ResumeNothing, err
	}
	if release == nil { // held: not interrupted but running
		return ResumeNothing, nil
	}
	defer release()
	if err := r.load(ctx); err != nil {
		return ResumeNothing, &Error{Slot: slot, Phase: r.phase, Cause: causeOf(err, CauseJournal), Err: err}
	}
	r.found = r.head.Open
	rule, unit, err := r.cell(ctx)
	if err != nil {
		return ResumeNothing, err
	}
	return r.resume(ctx, rule, unit)
}

// lockForResume takes the slot's lock if it is free; nil if a run holds it.
func (r *run) lockForResume(ctx context.Context) (func(), error) {
	trying, cancel := context.WithTimeout(ctx, journalGrace)
	defer cancel()
	release, err := r.l.locks().Slot(trying, r.slot, r.phase)
	if err != nil {
		if ctx.Err() != nil || causeOf(err, CauseBug) != CauseLocked && !errors.Is(err, context.DeadlineExceeded) {
			return nil, &Error{Slot: r.slot, Phase: r.phase, Cause: causeOf(err, CauseLocked), Err: err}
		}
		return nil, nil
	}
	return release, nil
}

// cell finds the cell of the table that the slot is in.
func (r *run) cell(ctx context.Context) (ResumeRule, UnitStatus, error) {
	cut := CutBetween
	switch {
	case r.found != nil && r.found.Boot != r.boot(), r.state().Live() && r.head.Boot != r.boot():
		cut = CutByReboot
	case r.found != nil:
		cut = CutInStep
	}
	u, ours, err := r.unitOurs(ctx)
	if err != nil {
		return ResumeRule{}, u, err
	}
	rule, err := resumption(r.state(), cut, ours)
	if err != nil {
		err = &Error{Slot: r.slot, Phase: r.phase, Cause: CauseBug, Err: err}
	}
	return rule, u, err
}

// unitOurs reports whether the unit is up, or coming up, with the activation of the run.
// Without systemd's evidence nothing says that it has ended, and what is up stays up.
func (r *run) unitOurs(ctx context.Context) (UnitStatus, bool, error) {
	activation := r.head.Activation
	if r.found != nil {
		activation = r.found.Activation
	}
	if r.l.Supervisor == nil { // nobody says that it is not
		return UnitStatus{Name: r.self.Unit, Activation: activation}, true, nil
	}
	u, err := r.l.Supervisor.Unit(ctx, r.slot)
	if err != nil {
		return u, false, &Error{Slot: r.slot, Phase: r.phase, Cause: causeOf(err, CauseEngine), Refused: true, Err: fmt.Errorf("cannot know what the unit does: %w", err)}
	}
	up := u.ActiveState == "active" || u.ActiveState == "activating"
	return u, up && activation != "" && u.Activation == activation, nil
}

func (r *run) resume(ctx context.Context, rule ResumeRule, unit UnitStatus) (Resumption, error) {
	switch rule.Do {
	case ResumeClose, ResumeClear:
		left, err := r.somethingLeft(ctx, unit)
		switch {
		case err != nil:
			return ResumeNothing, err
		case left:
			return ResumeClear, r.settleAsPostStop(ctx)
		case r.found == nil:
			return ResumeNothing, nil
		}
		return ResumeClose, r.close(ctx)
	case ResumeContinue:
		alive, err := r.ownStackAlive(ctx)
		if err != nil {
			return ResumeNothing, err
		}
		if steps := r.postStartRest(); alive && steps != nil {
			return ResumeContinue, r.continuePostStart(ctx, unit, steps)
		}
		fallthrough
	case ResumeSettle:
		return ResumeSettle, r.settleAsPostStop(ctx)
	}
	return ResumeNothing, nil
}

// neverRan reports whether the books know of nothing that a resume could be for.
func (r *run) neverRan() bool {
	return r.head.State == "" && r.head.Open == nil && !r.claim.Unknown
}

// unknownSurvivor reports whether a stack of ours lives of which the books know nothing, as
// when somebody has deleted the journal. An engine that does not answer is no reason to
// fail: at a boot it may not be up yet.
func (r *run) unknownSurvivor(ctx context.Context) bool {
	if !r.owns(r.slot) {
		return false
	}
	alive, err := r.ownStackAlive(ctx)
	return err == nil && alive
}

// somethingLeft reports whether the unit is down and has left its claim or its stack. A
// boot leaves no stacks, so that the engine, which may not be up yet, need not be asked.
func (r *run) somethingLeft(ctx context.Context, unit UnitStatus) (bool, error) {
	switch {
	case !unit.Down():
		return false, nil
	case r.claim.Holder == r.slot:
		return true, nil
	case r.head.State != "" && r.head.Boot != r.boot() && !r.claim.Unknown:
		return false, nil
	}
	return r.ownStackAlive(ctx)
}

func (r *run) ownStackAlive(ctx context.Context) (bool, error) {
	able, ok := r.l.Controller.(Aliver)
	if !ok {
		return false, nil
	}
	alive, _, err := able.Alive(ctx, r.slot)
	if err != nil {
		return false, &Error{Slot: r.slot, Phase: r.phase, Cause: causeOf(err, CauseEngine), Refused: true, Err: fmt.Errorf("cannot know whether the stack lives: %w", err)}
	}
	return alive, nil
}

// close notes that a run which had begun nothing is over.
func (r *run) close(ctx context.Context) error {
	ops := append(r.settleOwn(""), op{
		note: fsm.NoteEnded, entry: journal.Entry{Cause: string(CauseInterrupted)},
		head: func(h *journal.Head) { h.Open = nil },
	})
	if err := r.record(ctx, nil, ops...); err != nil {
		return &Error{Slot: r.slot, Phase: r.phase, Cause: causeOf(err, CauseJournal), Err: err}
	}
	return nil
}

// postStartRest are the steps of post-start from the last durable one on; nil if the
// first of them may have been begun and is not one that may be done twice.
func (r *run) postStartRest() []step {
	for i := range postStartSteps {
		if postStartSteps[i].from == r.state() && (postStartSteps[i].repeatable || r.found == nil) {
			return postStartSteps[i:]
		}
	}
	return nil
}

// continuePostStart goes on from the last durable step. The process acts for the
// activation of the run that it takes over.
func (r *run) continuePostStart(ctx context.Context, unit UnitStatus, steps []step) error {
	r.self.Activation, r.self.Unit = unit.Activation, unit.Name
	if err := r.record(ctx, nil, op{note: fsm.NoteResumed, entry: journal.Entry{
		Step: steps[0].name, Detail: "post-start is taken over from pid " + fmt.Sprint(openPID(r.found)),
	}}); err != nil {
		return &Error{Slot: r.slot, Phase: r.phase, Cause: causeOf(err, CauseJournal), Err: err}
	}
	return r.execute(ctx, steps)
}

func openPID(o *journal.Open) int {
	if o == nil {
		return 0
	}
	return o.PID
}

// settleAsPostStop ends a survivor, gives up the claim and writes what became of the
// slot.
func (r *run) settleAsPostStop(ctx context.Context) error {
	return r.execute(ctx, []step{{
		name: "settle", cause: CauseUnproven, late: CauseUnproven, repeatable: true, ends: true,
		budget: (*Lifecycle).stopBudget,
		do: func(ctx context.Context, r *run) (out outcome, err error) {
			if err := r.waitEngine(ctx); err != nil {
				return out, err
			}
			if out.before, out.release, err = r.settle(ctx); err != nil {
				return out, err
			}
			out.books = func(t tx) ([]op, error) { return nil, r.release(t) }
			return out, nil
		},
	}})
}
