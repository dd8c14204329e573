package phases

import (
	"context"
	"fmt"
	"time"

	"github.com/node-lifecycle/node-lifecycle/fsm"
	"github.com/node-lifecycle/node-lifecycle/journal"
)

// postStartSteps is post-start.
var postStartSteps = []step{
	{
		name: "admit", from: fsm.Regenerated, event: fsm.EventStarting, cause: CauseNoPreStart,
		repeatable: true, budget: (*Lifecycle).readyTimeout, do: admit,
	},
	{
		name: "wait-ready", from: fsm.Starting, event: fsm.EventRunning,
		cause: CauseReadyTimeout, late: CauseReadyTimeout,
		repeatable: true, budget: (*Lifecycle).readyTimeout, do: waitReady,
	},
	{
		name: "after-start", from: fsm.Running, event: fsm.EventWired,
		cause: CauseAfterStart, late: CauseAfterStart,
		repeatable: true, budget: (*Lifecycle).afterStartTimeout, do: afterStart,
	},
}

// PostStart watches the slot come up: it waits for the stack to become ready, for at
// most ReadyTimeout, then runs AfterStart, for at most AfterStartTimeout, whatever the
// wait took. It ends in Wired.
//
// It blocks for up to the sum of the two and returns an *Error if the stack did not
// come up, died meanwhile, or was not readied by a PreStart of the same activation. A
// Lifecycle without a journal that has not seen the slot before takes it for readied.
func (l *Lifecycle) PostStart(ctx context.Context, slot string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, l.readyTimeout()+l.afterStartTimeout()+booksBudget, errBudget)
	defer cancel()
	r, done, err := l.enter(ctx, slot, PhasePostStart)
	if err != nil {
		return err
	}
	defer done()
	if !l.durable() && r.head.State == "" {
		// Without a journal a fresh process cannot know what another one has done.
		err := l.update(ctx, func(t tx) error {
			return t.SetHead(slot, func(h *journal.Head) { h.State, h.Activation = string(fsm.Regenerated), r.activation() })
		})
		if err == nil {
			err = r.load(ctx)
		}
		if err != nil {
			return err
		}
	}
	return r.execute(ctx, postStartSteps)
}

// admit lets only the stack in that a pre-start of the same activation has readied.
func admit(_ context.Context, r *run) (outcome, error) {
	hint := "see that the unit has the line ExecStartPre=… pre-start, and that it is the last ExecStartPre"
	if r.state() != fsm.Regenerated {
		return outcome{}, &Error{Cause: CauseNoPreStart, Hint: hint, Err: fmt.Errorf("the slot is %s, not %s: no pre-start has readied it", r.state(), fsm.Regenerated)}
	}
	if r.head.Activation != r.activation() {
		return outcome{}, &Error{Cause: CauseNoPreStart, Hint: hint, Err: fmt.Errorf("the pre-start that readied the slot belonged to another activation (%s)", r.head.Activation)}
	}
	return outcome{}, nil
}

// waiting is what a wait was last told to be missing, and since when.
type waiting struct {
	reason string
	since  time.Time
	noted  bool
	quiet  time.Time // since when nothing has been noted
	notes  int
}

const (
	// A reason is noted only once it has lasted, so that a stack that comes up at once
	// costs no commits, and only so often, so that a flapping one cannot fill the ring.
	// One that never lasts, such as a countdown, is noted as it is from time to time.
	waitingLasts    = 2 * time.Second
	waitingQuiet    = 10 * time.Second
	maxWaitingNotes = 50
)

// waitReady waits until the stack is ready. Events wake it; PollInterval is the net for
// those that are lost. It ends at once when the stack has died.
func waitReady(ctx context.Context, r *run) (outcome, error) {
	wake, err := r.events(ctx)
	if err != nil {
		return outcome{}, err
	}
	r.waiting = waiting{since: r.stepBegan, quiet: r.stepBegan}
	for {
		if err := r.stackDied(ctx); err != nil {
			return outcome{}, err
		}
		running, reason, err := r.l.Controller.Running(ctx, r.slot)
		switch {
		case err != nil && (ctx.Err() == nil || r.waiting.reason == ""):
			reason = err.Error() // may pass: retried until the budget is used up
		case err != nil:
			reason = r.waiting.reason // the end of the wait cut the question off
		case running:
			return outcome{detail: reason}, r.stillDown(ctx)
		}
		if err := r.noteWaiting(ctx, reason); err != nil {
			return outcome{}, err
		}
		if !sleep(ctx, wake, r.l.pollInterval()) {
			return outcome{}, notReady(ctx, r)
		}
	}
}

// notReady says what was missing last when the time for it ran out.
func notReady(ctx context.Context, r *run) error {
	log := "its output"
	if r.self.Unit != "" {
		log = "journalctl -u " + r.self.Unit
	}
	return &Error{
		Cause: causeOf(ctx.Err(), CauseReadyTimeout), Hint: "see what the stack wrote in " + log + "; if it only needs longer, raise timeouts.ready",
		Err: because{fmt.Sprintf("not ready after %s: %s", took(time.Since(r.stepBegan)), r.waiting.reason), ctx.Err()},
	}
}

// events gives the channel that wakes a wait; nil, which never does, if there is none.
func (r *run) events(ctx context.Context) (<-chan struct{}, error) {
	able, ok := r.l.Controller.(Eventer)
	if !ok {
		return nil, nil
	}
	wake, err := able.Events(ctx, r.slot)
	if err != nil && ctx.Err() != nil {
		return nil, err
	}
	return wake, nil // without events the wait polls
}

// sleep waits for a wake or for the interval. It is false when ctx has ended.
func sleep(ctx context.Context, wake <-chan struct{}, interval time.Duration) bool {
	timer := time.NewTimer(interval)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case _, open := <-wake:
		if !open { // no more events: poll
			select {
			case <-ctx.Done():
				return false
			case <-timer.C:
			}
		}
	case <-timer.C:
	}
	return ctx.Err() == nil
}

// stackDied is an error when the stack of this start, or the main process of the unit,
// has ended.
func (r *run) stackDied(ctx context.Context) error {
	if able, ok := r.l.Controller.(Deceased); ok {
		if died, detail, err := able.Died(ctx, r.slot); err == nil && died {
			return &Error{Cause: CauseStackDied, Err: fmt.Errorf("the stack died: %s", detail)}
		}
	}
	if r.l.Supervisor == nil || r.self.Unit == "" {
		return nil
	}
	u, err := r.l.Supervisor.Unit(ctx, r.slot)
	if err == nil && u.Activation == r.activation() && u.MainExited {
		if word := r.wordOfRun(ctx); word != nil {
			return word
		}
		died := &Error{Cause: CauseStackDied, Err: fmt.Errorf("the main process of %s ended: %s", u.Name, exitText(u.MainCode, u.MainStatus))}
		if u.MainCode != cldExited {
			died.Cause = CauseRunDied
		}
		if alive, err := r.ownStackAlive(ctx); err == nil && alive {
			died.Cause, died.Err = CauseRunDied, fmt.Errorf("%w, and the stack lives on", died.Err)
		}
		return died
	}
	return nil
}

// wordOfRun is why run did not start the stack in this activation, if it has said so.
func (r *run) wordOfRun(ctx context.Context) *Error {
	var word journal.Entry
	err := r.l.read(ctx, func(b reader) error {
		found, err := b.Entries(r.slot, journal.Query{Reverse: true, Limit: 1, Match: func(e *journal.Entry) bool {
			return e.Activation == r.activation() && e.Phase == phaseRun &&
				(e.Kind == string(fsm.NoteUndone) || e.Kind == string(fsm.NoteRefused))
		}})
		if len(found) > 0 {
			word = found[0]
		}
		return err
	})
	if err != nil || word.Error == "" {
		return nil
	}
	cause := Cause(word.Cause)
	if cause == CauseInterrupted {
		cause = CauseRunDied // it is run that was told to end
	}
	return &Error{Cause: cause, Err: fmt.Errorf("run did not start the stack: %s", word.Error), Hint: word.Detail}
}

// cldExited is the code of wait(2) for a process that was not killed (CLD_EXITED).
const cldExited = 1

// exitText names how a process ended, from the code and status that wait(2) gives.
func exitText(code, status int) string {
	if code == cldExited {
		return fmt.Sprintf("exit code %d", status)
	}
	return fmt.Sprintf("signal %d", status)
}

// noteWaiting keeps the reason, tells it to whoever watches, and notes it in the
// journal once it has lasted.
func (r *run) noteWaiting(ctx context.Context, reason string) error {
	if reason == "" {
		reason = "the stack is not running"
	}
	w, now := &r.waiting, time.Now()
	if reason != w.reason {
		*w = waiting{reason: reason, since: now, quiet: w.quiet, notes: w.notes}
	}
	due := now.Sub(w.since) >= waitingLasts || now.Sub(w.quiet) >= waitingQuiet
	r.l.status(fmt.Sprintf("waiting for %s, %s of %s", reason, now.Sub(r.stepBegan).Round(time.Second), r.stepBudget))
	if w.noted || w.notes >= maxWaitingNotes || !due || ctx.Err() != nil { // the failure will name it
		return nil
	}
	w.noted, w.quiet = true, now
	w.notes++
	return r.record(ctx, nil, op{note: fsm.NoteWaiting, entry: journal.Entry{Detail: reason}})
}

// afterStart runs AfterStart while it watches that the stack does not die under it.
func afterStart(ctx context.Context, r *run) (outcome, error) {
	if r.l.AfterStart == nil {
		return outcome{detail: "no after-start is configured"}, nil
	}
	r.l.status("running after-start")
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		r.watchStack(ctx, cancel)
	}()
	err := r.runAfterStart(ctx)
	var died error
	if cause := context.Cause(ctx); causeOf(cause, "") == CauseStackDied {
		died = cause
	} else if err != nil && ctx.Err() == nil {
		died = r.stackDied(ctx)
	}
	cancel(nil)
	<-watched
	if died != nil {
		return outcome{}, died
	}
	return outcome{}, err
}

// runAfterStart calls AfterStart and returns when it has, or when ctx has ended: a
// function that does not heed its context must not hold the unit up.
func (r *run) runAfterStart(ctx context.Context) error {
	done := make(chan error, 1)
	go func() {
		defer func() {
			if v := recover(); v != nil {
				done <- &Error{Cause: CauseBug, Err: panicError{v}}
			}
		}()
		done <- r.l.AfterStart(ctx, r.slot)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		if err == nil {
			return nil
		}
		return fmt.Errorf("after-start: %w: %w", err, ctx.Err())
	case <-time.After(journalGrace / 3):
		return fmt.Errorf("after-start did not end in time: %w", ctx.Err())
	}
}

// watchStack cancels with the reason when the stack dies; it returns when ctx ends.
func (r *run) watchStack(ctx context.Context, cancel context.CancelCauseFunc) {
	wake, err := r.events(ctx)
	if err != nil {
		return
	}
	for sleep(ctx, wake, r.l.pollInterval()) {
		if err := r.stackDied(ctx); err != nil {
			cancel(err)
			return
		}
	}
}
