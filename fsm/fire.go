package fsm

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	looplab "github.com/looplab/fsm"
)

// Fire judges ev against a slot that stands in from, and calls commit exactly
// once if it is legal, never otherwise. commit makes the transition durable, or
// prepares that inside a transaction which the caller commits only if Fire
// returns nil. The returned transition is zero whenever the error is not nil.
//
// A ctx that is already done refuses everything, with its error. Once judging
// has begun ctx no longer matters: a transition that was committed is never
// reported as cancelled.
//
// An error or a panic of commit vetoes the transition; errors.Is and errors.As
// find it in what Fire returns, a panic as [*PanicError]. The other errors are
// [*UnknownStateError], [*UnknownEventError] and [*IllegalEventError].
//
// Fire blocks for as long as commit does. It is safe for concurrent use but
// does not serialise: two calls from the same state both succeed unless the
// caller's transaction lets only one of them read that state.
func Fire(ctx context.Context, from State, ev Event, commit func(Transition) error) (Transition, error) {
	return fire(ctx, newMachine, from, ev, commit)
}

// newMachine builds looplab's machine for the table, standing in the given
// state. leave_state is the last callback that can still veto, and the general
// form of it cannot be missed by a state whose name changes.
func newMachine(initial State, leave looplab.Callback) *looplab.FSM {
	events := make([]looplab.EventDesc, len(table))
	for i, rule := range table {
		events[i] = looplab.EventDesc{Name: string(rule.Event), Src: texts(rule.From), Dst: string(rule.To)}
	}
	return looplab.NewFSM(string(initial), events, looplab.Callbacks{"leave_state": leave})
}

func texts(from []State) []string {
	all := make([]string, len(from))
	for i, s := range from {
		all[i] = string(s)
	}
	return all
}

func fire(
	ctx context.Context, build func(State, looplab.Callback) *looplab.FSM,
	from State, ev Event, commit func(Transition) error,
) (Transition, error) {
	switch {
	case ctx.Err() != nil:
		return Transition{}, tooLate(ctx, from, ev)
	case !from.judged():
		return Transition{}, &UnknownStateError{State: from}
	case commit == nil:
		return Transition{}, notFired(from, ev, errNoCommit)
	}

	var taken Transition
	var vetoed error
	machine := build(from, func(_ context.Context, e *looplab.Event) {
		taken = Transition{From: State(e.Src), Event: Event(e.Event), To: State(e.Dst)}
		// Setting e.Err would be returned to us, but with the state changed
		// all the same: only Cancel vetoes.
		if vetoed = guarded(commit, taken); vetoed != nil {
			e.Cancel(vetoed)
		}
	})
	// A context that ends half-way would leave the commit done and the event
	// refused.
	err := machine.Event(context.WithoutCancel(ctx), string(ev))

	switch {
	case vetoed != nil:
		return Transition{}, fmt.Errorf("transition %s was not committed: %w", taken, vetoed)
	case err != nil:
		return Transition{}, translated(err, from, ev)
	case taken == Transition{} || machine.Current() != string(taken.To):
		return Transition{}, notFired(from, ev, errNotCommitted)
	}
	return taken, nil
}

// guarded runs commit and turns a panic into an error, since looplab would let
// it through and callers hold a transaction open around Fire.
func guarded(commit func(Transition) error, t Transition) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return commit(t)
}

// translated puts looplab's refusals into our words, so that no other package
// needs to know the library.
func translated(err error, from State, ev Event) error {
	switch {
	case errors.As(err, new(looplab.InvalidEventError)):
		return &IllegalEventError{State: from, Event: ev, Legal: Legal(from)}
	case errors.As(err, new(looplab.UnknownEventError)):
		return &UnknownEventError{Event: ev}
	default:
		return notFired(from, ev, err)
	}
}

func tooLate(ctx context.Context, from State, ev Event) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); !errors.Is(cause, err) {
		err = fmt.Errorf("%w (%w)", err, cause)
	}
	return notFired(from, ev, err)
}

func notFired(from State, ev Event, err error) error {
	return fmt.Errorf("event %q in state %q was not fired: %w", string(ev), string(from), err)
}
