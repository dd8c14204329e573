package phases

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/node-lifecycle/node-lifecycle/fsm"
	"github.com/node-lifecycle/node-lifecycle/journal"
)

// step is one action of a phase and the event that its good outcome fires.
type step struct {
	name string
	// from is the state in which the step begins: resume looks for it.
	from fsm.State
	// event is fired when the step ended well; "" notes done.
	event fsm.Event
	// cause is why the step failed when its error says nothing of itself.
	cause Cause
	// late is the cause when the step's own budget ran out.
	late Cause
	// repeatable says that doing the step twice is the same as doing it once.
	repeatable bool
	// ends says that the step is there to end a stack: if it cannot, the state stays
	// what it was, and a note says so.
	ends bool
	// budget is what the step may take; the deadline of the phase bounds it as well.
	budget func(*Lifecycle) time.Duration
	do     func(context.Context, *run) (outcome, error)
}

// outcome is what a step leaves behind besides its event.
type outcome struct {
	detail string
	attrs  map[string]string
	// event and note, when set, stand in for the step's event.
	event    fsm.Event
	note     fsm.Note
	cause    Cause
	evidence []byte
	// before are entries that belong in front of the outcome, books what else belongs
	// into its commit.
	before []op
	books  books
	// after runs when the commit is durable; its error fails the step after all.
	after func(context.Context) error
	// release gives back what was held for the decision; it is called in any case.
	release func()
}

// execute runs the steps one after the other, each between its intent and its
// outcome, and writes how the run ended.
func (r *run) execute(ctx context.Context, steps []step) error {
	if err := r.begin(ctx, &steps[0]); err != nil {
		return r.fail(ctx, &steps[0], err)
	}
	for i := range steps {
		s, next := &steps[i], (*step)(nil)
		if i+1 < len(steps) {
			next = &steps[i+1]
		}
		if err := r.perform(ctx, s, next); err != nil {
			return r.fail(ctx, s, err)
		}
	}
	return nil
}

// begin writes the intent of the first step.
func (r *run) begin(ctx context.Context, s *step) error {
	if err := r.record(ctx, nil, r.intent(s)); err != nil {
		return err
	}
	r.opened = true
	return nil
}

// intent makes s the step that the run is at.
func (r *run) intent(s *step) op {
	r.step, r.stepBegan, r.stepBudget = s.name, time.Now(), s.budget(r.l)
	deadline := r.stepBegan.Add(r.stepBudget)
	open := r.open(deadline)
	return op{
		note:  fsm.NoteIntent,
		entry: journal.Entry{Step: s.name, Deadline: deadline},
		head:  func(h *journal.Head) { h.Open = open },
	}
}

// perform does one step and writes its outcome together with the next intent.
func (r *run) perform(ctx context.Context, s, next *step) error {
	out, err := r.act(ctx, s)
	if out.release != nil {
		defer out.release()
	}
	if err != nil {
		return err
	}
	ops := slices.Concat(r.settled, out.before, []op{r.outcomeOp(s, &out)})
	if next != nil {
		ops = append(ops, r.intent(next))
	} else {
		ops = append(ops, ended(0))
	}
	if err := r.record(ctx, out.books, ops...); err != nil {
		return err
	}
	r.settled = nil
	if out.after != nil {
		return out.after(ctx)
	}
	return nil
}

func (r *run) outcomeOp(s *step, out *outcome) op {
	attrs := attr("took", took(time.Since(r.stepBegan)))
	if attrs == nil {
		attrs = out.attrs
	} else {
		maps.Copy(attrs, out.attrs)
	}
	o := op{
		event: s.event, note: fsm.NoteDone, evidence: out.evidence,
		entry: journal.Entry{Step: s.name, Detail: out.detail, Cause: string(out.cause), Attrs: attrs},
	}
	switch {
	case out.event != "":
		o.event = out.event
	case out.note != "":
		o.event, o.note = "", out.note
	}
	return o
}

// ended notes that the run is over, and with what exit code.
func ended(code int) op {
	return op{
		note:  fsm.NoteEnded,
		entry: journal.Entry{Exit: &code},
		head:  func(h *journal.Head) { h.Open = nil },
	}
}

// act runs the action of a step within its budget and turns a panic into an error.
func (r *run) act(ctx context.Context, s *step) (out outcome, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.budget(r.l), errBudget)
	defer cancel()
	defer func() {
		if v := recover(); v != nil {
			err = &Error{Cause: CauseBug, Err: panicError{v}}
		}
	}()
	out, err = s.do(ctx, r)
	if err != nil && context.Cause(ctx) == errBudget && errors.Is(err, context.DeadlineExceeded) {
		late := &Error{Cause: cmp.Or(s.late, CauseTimeout), Err: err}
		var inner *Error
		if errors.As(err, &inner) && inner.Slot == "" {
			late.Err, late.Hint = inner.Err, inner.Hint
		}
		err = late
	}
	return out, err
}

// errBudget is the cause of a context whose step has used up its own budget.
var errBudget = fmt.Errorf("the budget of the step is used up: %w", context.DeadlineExceeded)

// fail writes how the run ended badly and returns the error that says so.
func (r *run) fail(ctx context.Context, s *step, err error) error {
	failure := r.failure(ctx, s, err)
	if failure.Cause == CauseTakenOver || journal.KindOf(err) != "" {
		return failure
	}
	writing, cancel := r.forLastWords(ctx)
	defer cancel()
	ops := slices.Concat(r.settled, r.failureOps(writing, s, failure))
	if err := r.record(writing, nil, ops...); err != nil {
		var taken *Error
		if errors.As(err, &taken) && taken.Cause == CauseTakenOver {
			return taken // somebody else has had the last word meanwhile
		}
		return errors.Join(failure, fmt.Errorf("%s: %s: the failure is not in the journal: %w", r.slot, r.phase, err))
	}
	return failure
}

// forLastWords is the context in which a failure is written down: the phase's own, or
// a short one of its own when that is over.
func (r *run) forLastWords(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() != nil {
		return late(ctx)
	}
	return context.WithCancel(ctx)
}

func (r *run) failure(ctx context.Context, s *step, err error) *Error {
	f := &Error{
		Slot: r.slot, Phase: r.phase, Step: s.name, Err: err,
		Took: time.Since(r.stepBegan), Budget: r.stepBudget,
		Cause: causeOf(err, s.cause),
	}
	var inner *Error
	if errors.As(err, &inner) {
		f.Err, f.Hint = inner.Err, inner.Hint
		if inner.Slot != "" {
			return inner
		}
	}
	switch {
	case ctx.Err() == nil || f.Cause == CauseStackDied:
	case s.ends: // what it was there to prove is not proven, whatever cut it short
		f.Err, f.Cause = cutShort(ctx, f.Err), s.cause
	default:
		f.Err, f.Hint = endOf(ctx), ""
		f.Cause = causeOf(f.Err, CauseInterrupted)
	}
	f.Refused = !s.ends && !r.canFail()
	return f
}

// cutShort adds what ended ctx to an error that does not say it.
func cutShort(ctx context.Context, err error) error {
	if end := endOf(ctx); !errors.Is(err, end) {
		return fmt.Errorf("%w: %w", end, err)
	}
	return err
}

// canFail reports whether the state has a failure edge and this run may take it: a
// pre-start that has not reached PreChecked has begun nothing.
func (r *run) canFail() bool {
	if r.phase == PhasePreStart && r.head.Run != r.id {
		return false
	}
	_, err := fsm.Next(r.state(), fsm.EventFailed)
	return err == nil
}

// failureOps are the entries that tell of a failure: refused, a stop that was asked
// for, or failed with its evidence.
func (r *run) failureOps(ctx context.Context, s *step, f *Error) []op {
	entry := journal.Entry{
		Step: f.Step, Cause: string(f.Cause), Error: f.Err.Error(), Detail: f.Hint,
		Attrs: attr("took", took(f.Took), "budget", took(f.Budget)),
	}
	end := ended(ExitCode(f))
	if s.ends {
		note := fsm.NoteUndone
		if f.Cause == CauseUnproven {
			note = fsm.NoteUnproven
		}
		return []op{{note: note, entry: entry}, end}
	}
	switch {
	case f.Cause == CauseInterrupted && !f.Refused && r.stopAsked(ctx):
		activation := r.activation()
		return []op{{
			note: fsm.NoteStopRequested, entry: entry,
			head: func(h *journal.Head) { h.StopRequested = activation },
		}, end}
	case f.Refused:
		return []op{{note: fsm.NoteRefused, entry: entry}, end}
	default:
		return []op{{event: fsm.EventFailed, entry: entry, evidence: r.evidence(ctx, f)}, end}
	}
}

// stopAsked reports whether somebody asked systemd to stop or restart the unit.
func (r *run) stopAsked(ctx context.Context) bool {
	if r.l.Supervisor == nil {
		return false
	}
	u, err := r.l.Supervisor.Unit(ctx, r.slot)
	return err == nil && u.stopAsked()
}

// evidenceBudget is what capturing evidence may take.
const evidenceBudget = 2 * time.Second

// evidence captures what there is to know, unless the process has been asked to end:
// post-stop does it then.
func (r *run) evidence(ctx context.Context, f *Error) []byte {
	if f != nil && f.Cause == CauseInterrupted {
		return nil
	}
	able, ok := r.l.Controller.(Evidencer)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, evidenceBudget)
	defer cancel()
	evidence, err := able.Evidence(ctx, r.slot)
	if err != nil {
		return fmt.Appendf(nil, `{"missing":%q}`, err.Error())
	}
	return evidence
}

// refuse ends a run that has begun nothing and holds no intent.
func (r *run) refuse(ctx context.Context, cause Cause, err error, hint string) error {
	f := &Error{
		Slot: r.slot, Phase: r.phase, Cause: cause, Refused: true, Err: err, Hint: hint,
		Took: time.Since(r.began),
	}
	if journal.KindOf(err) != "" && cause != CauseLocked {
		return f
	}
	writing, cancel := r.forLastWords(ctx)
	defer cancel()
	code := ExitCode(f)
	note := op{note: fsm.NoteRefused, entry: journal.Entry{
		Cause: string(cause), Error: err.Error(), Detail: hint, Exit: &code,
	}}
	if err := r.record(writing, nil, note); err != nil {
		return errors.Join(f, fmt.Errorf("%s: %s: the refusal is not in the journal: %w", r.slot, r.phase, err))
	}
	return f
}

// took prints a duration for an attribute: exact enough to read, short enough to scan.
func took(d time.Duration) string {
	switch {
	case d <= 0:
		return ""
	case d < time.Second:
		return d.Round(time.Millisecond / 10).String()
	default:
		return d.Round(10 * time.Millisecond).String()
	}
}
