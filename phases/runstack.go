package phases

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/node-lifecycle/node-lifecycle/fsm"
	"github.com/node-lifecycle/node-lifecycle/journal"
)

// RunStack is what the unit runs as its main process: under the host lock it makes sure
// that the claim is still the one this activation took, starts the stack by what
// identifies it, and then follows it to its end, its output going to out. When ctx is
// cancelled the stack is stopped.
//
// The Controller has to be a [Starter] and an [Attender], and a [Stopper] if the stack is
// to be stopped on a signal.
//
// It returns the exit code for the unit: 0 if and only if the end was asked for,
// otherwise the stack's own code, with 81 in place of 0. The error is an *Error if the
// stack was not started or could not be followed.
func (l *Lifecycle) RunStack(ctx context.Context, slot string, out io.Writer) (int, error) {
	if err := l.usable(slot); err != nil {
		return ExitCode(err), err
	}
	starter, ok := l.Controller.(Starter)
	attender, follows := l.Controller.(Attender)
	if !ok || !follows {
		return ExitConfig, &Error{Slot: slot, Phase: phaseRun, Cause: CauseConfig, Refused: true, Err: errors.New("the Controller cannot start a stack and follow it"), Hint: "start it from the unit itself, in place of run"}
	}
	r := l.newRun(slot, phaseRun)
	r.step = "start-stack"
	if err := r.guardHand(ctx); err != nil {
		return ExitCode(err), err
	}
	id, err := r.startStack(ctx, starter)
	if err != nil {
		return ExitCode(err), err
	}
	return r.followStack(ctx, attender, id, out)
}

// startStack starts the stack once, if the claim allows it.
func (r *run) startStack(ctx context.Context, starter Starter) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.l.readyTimeout(), errBudget)
	defer cancel()
	release, err := r.l.locks().Host(ctx, r.phase)
	if err != nil {
		return "", r.refuse(ctx, causeOf(lockErr(ctx, err), CauseLocked), err, "")
	}
	defer release()
	if err := r.load(ctx); err != nil {
		return "", r.refuse(ctx, causeOf(err, CauseJournal), err, "")
	}
	if err := r.checkClaim(); err != nil {
		return "", r.refuse(ctx, CauseClaim, err, "the stack is started through the unit, after its pre-start")
	}
	// The claim should have said it all. It has not where somebody keeps two journals.
	if v := r.lookAtStacks(ctx); v.cause != "" {
		if v.cause == CausePeerAlive {
			if err := r.diverged(ctx, r.slot+" holds the claim", v.err.Error()); err != nil {
				r.unrecorded(divergence(r.slot+" holds the claim", v.err.Error()), err)
			}
		}
		return "", r.refuse(ctx, v.cause, v.err, v.hint)
	}
	id, moved, err := starter.Start(ctx, r.slot, r.claim.Epoch, r.boot(), r.activation())
	entry := journal.Entry{Step: r.step, Detail: joinDetails(id, moved), Attrs: attr("epoch", fmt.Sprint(r.claim.Epoch))}
	writing, done := r.forLastWords(ctx)
	defer done()
	if err == nil {
		// The stack runs: that the journal could not be told must not end it.
		if err := r.record(writing, nil, op{note: fsm.NoteDone, entry: entry}); err != nil {
			r.unrecorded(op{note: fsm.NoteDone, entry: entry}, err)
		}
		return id, nil
	}
	f := &Error{Slot: r.slot, Phase: r.phase, Step: r.step, Cause: causeOf(err, CauseStart), Err: err}
	entry.Cause, entry.Error = string(f.Cause), err.Error()
	if err := r.record(writing, nil, op{note: fsm.NoteUndone, entry: entry}); err != nil {
		return "", errors.Join(f, err)
	}
	return "", f
}

// checkClaim makes sure that this activation holds the claim, as of this boot.
func (r *run) checkClaim() error {
	c := r.claim
	switch {
	case c.Holder != r.slot:
		holder := c.Holder
		if holder == "" {
			holder = "nobody"
		}
		return fmt.Errorf("the claim of %s is held by %s", r.pair, holder)
	case c.Unknown:
		return fmt.Errorf("it is unknown who holds the claim of %s", r.pair)
	case c.Boot != r.boot():
		return fmt.Errorf("the claim of %s is of another boot", r.pair)
	case c.Activation != r.activation():
		return fmt.Errorf("the claim of %s was taken by another activation of the unit", r.pair)
	}
	return nil
}

// followStack streams the output of the stack until it has ended, stopping it when
// ctx is cancelled, and turns its end into the unit's exit code.
func (r *run) followStack(ctx context.Context, attender Attender, id string, out io.Writer) (int, error) {
	attending, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	type end struct {
		code int
		err  error
	}
	ended := make(chan end, 1)
	go func() {
		code, err := attender.Attend(attending, r.slot, id, out)
		ended <- end{code, err}
	}()
	select {
	case e := <-ended:
		return r.endOfStack(attending, e.code, e.err)
	case <-ctx.Done():
	}
	r.noteSignal(attending, endOf(ctx).Error())
	stopErr := r.stopStack(attending)
	if stopErr != nil {
		return ExitUnavailable, stopErr
	}
	e := <-ended
	if e.err != nil {
		return ExitUnavailable, &Error{Slot: r.slot, Phase: r.phase, Step: "follow", Cause: causeOf(e.err, CauseEngine), Err: e.err}
	}
	return 0, nil
}

func (r *run) stopStack(ctx context.Context) error {
	able, ok := r.l.Controller.(Stopper)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.l.stopBudget())
	defer cancel()
	if _, err := able.Stop(ctx, r.slot); err != nil {
		return &Error{Slot: r.slot, Phase: r.phase, Step: "stop", Cause: causeOf(err, CauseUnproven), Err: err}
	}
	return nil
}

// endOfStack is the exit code for a stack that ended by itself.
func (r *run) endOfStack(ctx context.Context, code int, err error) (int, error) {
	if err != nil {
		return ExitUnavailable, &Error{Slot: r.slot, Phase: r.phase, Step: "follow", Cause: causeOf(err, CauseEngine), Err: err}
	}
	if r.load(ctx) == nil && r.head.StopRequested != "" && r.head.StopRequested == r.activation() || r.stopAsked(ctx) {
		return 0, nil
	}
	if code == 0 {
		return ExitStackDied, nil
	}
	return code, nil
}

// noteSignal notes that run was told to stop, unless it is the failure of another hook
// that makes systemd tell it so.
func (r *run) noteSignal(ctx context.Context, why string) {
	if r.load(ctx) == nil {
		dead := r.head.Open != nil && !r.l.runLives(r.head.Open)
		if r.state() == fsm.Failed || dead && r.state() != fsm.Wired {
			return
		}
	}
	r.requestStop(ctx, why)
}

// requestStop notes that a stop was asked for, so that post-stop and run know; once for
// an activation, however many are told. That it could not be noted must not keep anybody
// from stopping.
func (r *run) requestStop(ctx context.Context, why string) {
	ctx, cancel := late(ctx)
	defer cancel()
	activation := r.activation()
	o := op{
		note: fsm.NoteStopRequested, entry: journal.Entry{Detail: why},
		head: func(h *journal.Head) { h.StopRequested = activation },
	}
	err := r.record(ctx, func(t tx) ([]op, error) {
		head, err := t.Head(r.slot)
		if err != nil || activation != "" && head.StopRequested == activation {
			return nil, err
		}
		return []op{o}, nil
	})
	if err != nil {
		r.unrecorded(o, err)
	}
}

// Stop is what the unit calls to stop a stack that is up: it notes that a stop was asked
// for and ends the stack, its stop signal first, then its grace, then a kill. It blocks
// until the stack is proven gone, for up to StopBudget.
func (l *Lifecycle) Stop(ctx context.Context, slot string) error {
	if err := l.usable(slot); err != nil {
		return err
	}
	r := l.newRun(slot, phaseStop)
	if err := r.guardHand(ctx); err != nil {
		return err
	}
	r.requestStop(ctx, "")
	return r.stopStack(ctx)
}

// Reset clears the count of failed attempts of the slot, in the journal and in systemd.
func (l *Lifecycle) Reset(ctx context.Context, slot string) error {
	if err := l.usable(slot); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, booksBudget, errBudget)
	defer cancel()
	r := l.newRun(slot, phaseReset)
	if err := r.load(ctx); err != nil {
		return &Error{Slot: slot, Phase: phaseReset, Cause: causeOf(err, CauseJournal), Err: err}
	}
	o := op{
		note:  fsm.NoteDone,
		entry: journal.Entry{Step: "reset", Detail: fmt.Sprintf("attempts in a row: %d, now 0", r.head.Attempts)},
		head:  func(h *journal.Head) { h.Attempts = 0 },
	}
	if err := r.record(ctx, nil, o); err != nil {
		return &Error{Slot: slot, Phase: phaseReset, Cause: causeOf(err, CauseJournal), Err: err}
	}
	if l.Supervisor == nil {
		return nil
	}
	if err := l.Supervisor.ResetFailed(ctx, slot); err != nil {
		return &Error{Slot: slot, Phase: phaseReset, Cause: causeOf(err, CauseEngine), Err: fmt.Errorf("the journal is reset, systemd is not: %w", err)}
	}
	return nil
}
