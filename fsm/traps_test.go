package fsm

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	looplab "github.com/looplab/fsm"
)

// Each test here shows first what looplab/fsm does when it is used the obvious
// way, so that an upgrade of the library which changes that is noticed, and
// then that Fire gets it right.

// obvious is the table as a long-lived machine with one callback.
func obvious(initial State, callback string, fn looplab.Callback) *looplab.FSM {
	var events looplab.Events
	for _, r := range Table() {
		for _, from := range r.From {
			events = append(events, looplab.EventDesc{Name: string(r.Event), Src: []string{string(from)}, Dst: string(r.To)})
		}
	}
	return looplab.NewFSM(string(initial), events, looplab.Callbacks{callback: fn})
}

func nothing(context.Context, *looplab.Event) {}

func TestTrapAContextDoneBeforehandWedgesTheMachine(t *testing.T) {
	done, cancel := context.WithCancel(t.Context())
	cancel()

	m := obvious(Running, "leave_state", nothing)
	if err := m.Event(done, "wired"); !errors.Is(err, context.Canceled) || m.Current() != "Running" {
		t.Fatalf("looplab goes on now: %v, in %s", err, m.Current())
	}
	if err := m.Event(t.Context(), "wired"); !errors.As(err, new(looplab.InTransitionError)) {
		t.Fatalf("looplab is no longer wedged: %v", err)
	}

	var j journal
	if _, err := Fire(done, Running, EventWired, j.commit); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
	if len(j.entries) > 0 {
		t.Errorf("committed %v under a context that was done", j.entries)
	}
	if _, err := Fire(t.Context(), Running, EventWired, j.commit); err != nil {
		t.Errorf("the next event suffers from it: %v", err)
	}
}

func TestTrapAContextDoneDuringTheCommitSplitsJournalAndMachine(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var j journal
	m := obvious(Running, "leave_state", func(_ context.Context, e *looplab.Event) {
		_ = j.commit(Transition{State(e.Src), Event(e.Event), State(e.Dst)})
		cancel()
	})
	err := m.Event(ctx, "wired")
	if !errors.Is(err, context.Canceled) || m.Current() != "Running" || len(j.entries) != 1 {
		t.Fatalf("looplab no longer splits: %v, in %s, committed %v", err, m.Current(), j.entries)
	}
	if err := m.Event(t.Context(), "failed"); !errors.As(err, new(looplab.InTransitionError)) {
		t.Fatalf("looplab is no longer wedged: %v", err)
	}

	ctx, cancel = context.WithCancel(t.Context())
	j = journal{}
	tr, err := Fire(ctx, Running, EventWired, func(tr Transition) error {
		cancel()
		return j.commit(tr)
	})
	if err != nil || tr.To != Wired || len(j.entries) != 1 {
		t.Errorf("%v, %v, committed %v; what was committed must count", tr, err, j.entries)
	}
}

func TestTrapAnErrorWithoutCancelDoesNotVeto(t *testing.T) {
	full := errors.New("disk full")
	m := obvious(Running, "leave_state", func(_ context.Context, e *looplab.Event) { e.Err = full })
	if err := m.Event(t.Context(), "wired"); !errors.Is(err, full) || m.Current() != "Wired" {
		t.Fatalf("looplab vetoes now: %v, in %s", err, m.Current())
	}

	build := func(initial State, leave looplab.Callback) *looplab.FSM {
		m = newMachine(initial, leave)
		return m
	}
	tr, err := fire(t.Context(), build, Running, EventWired, func(Transition) error { return full })
	if !errors.Is(err, full) || tr != (Transition{}) || m.Current() != "Running" {
		t.Errorf("%v, %v, in %s; want no transition", tr, err, m.Current())
	}
}

func TestTrapAfterTheStateIsSetNothingCanVeto(t *testing.T) {
	full := errors.New("disk full")
	for _, late := range []string{"enter_state", "after_event"} {
		m := obvious(Running, late, func(_ context.Context, e *looplab.Event) { e.Cancel(full) })
		if err := m.Event(t.Context(), "wired"); !errors.Is(err, full) || m.Current() != "Wired" {
			t.Fatalf("looplab vetoes in %s now: %v, in %s", late, err, m.Current())
		}
	}

	// Ours is asked while the machine still stands in the old state.
	var seen string
	var m *looplab.FSM
	build := func(initial State, leave looplab.Callback) *looplab.FSM {
		m = newMachine(initial, leave)
		return m
	}
	_, err := fire(t.Context(), build, Running, EventWired, func(Transition) error {
		seen = m.Current()
		return nil
	})
	if err != nil || seen != "Running" {
		t.Errorf("%v; at the commit the machine stood in %q", err, seen)
	}
}

func TestTrapASelfEdgeIsAnErrorAndSkipsTheCallback(t *testing.T) {
	selfEdge := func(initial State, leave looplab.Callback) *looplab.FSM {
		return looplab.NewFSM(string(initial),
			looplab.Events{{Name: "failed", Src: []string{"Failed"}, Dst: "Failed"}},
			looplab.Callbacks{"leave_state": leave})
	}
	called := false
	m := selfEdge(Failed, func(context.Context, *looplab.Event) { called = true })
	if err := m.Event(t.Context(), "failed"); !errors.As(err, new(looplab.NoTransitionError)) || called {
		t.Fatalf("looplab takes self edges now: %v, callback called: %t", err, called)
	}

	// Should one ever slip into the table, it must not pass for a success.
	var j journal
	tr, err := fire(t.Context(), selfEdge, Failed, EventFailed, j.commit)
	if err == nil || tr != (Transition{}) || len(j.entries) > 0 {
		t.Errorf("%v, %v, committed %v", tr, err, j.entries)
	}
	for _, r := range Table() {
		if slices.Contains(r.From, r.To) {
			t.Errorf("event %s has a self edge on %s", r.Event, r.To)
		}
	}
}

func TestTrapAMisspeltCallbackIsDropped(t *testing.T) {
	called := false
	m := obvious(Running, "leave_Runing", func(context.Context, *looplab.Event) { called = true })
	if err := m.Event(t.Context(), "wired"); err != nil || called || m.Current() != "Wired" {
		t.Fatalf("looplab notices now: %v, called: %t", err, called)
	}

	// Ours runs on every edge there is, exactly once.
	for _, r := range Table() {
		for _, from := range r.From {
			var j journal
			if _, err := Fire(t.Context(), from, r.Event, j.commit); err != nil {
				t.Error(err)
			}
			if want := []Transition{{from, r.Event, r.To}}; !slices.Equal(j.entries, want) {
				t.Errorf("%s in %s: committed %v, want %v", r.Event, from, j.entries, want)
			}
		}
	}
	// And if a new version of looplab were to drop it, that would be an error
	// and no silent success.
	misspelt := func(initial State, leave looplab.Callback) *looplab.FSM {
		return obvious(initial, "leave_states", leave)
	}
	var j journal
	tr, err := fire(t.Context(), misspelt, Running, EventWired, j.commit)
	if !errors.Is(err, errNotCommitted) || tr != (Transition{}) {
		t.Errorf("%v, %v; want %v", tr, err, errNotCommitted)
	}
}

func TestTrapAPanicInACallbackWedgesTheMachine(t *testing.T) {
	m := obvious(Running, "leave_state", func(context.Context, *looplab.Event) { panic("index out of range") })
	func() {
		defer func() {
			if recover() == nil {
				t.Fatal("looplab recovers panics now")
			}
		}()
		_ = m.Event(t.Context(), "wired")
	}()
	if err := m.Event(t.Context(), "wired"); !errors.As(err, new(looplab.InTransitionError)) {
		t.Fatalf("looplab is no longer wedged: %v", err)
	}

	tr, err := Fire(t.Context(), Running, EventWired, func(Transition) error { panic("index out of range") })
	var p *PanicError
	if !errors.As(err, &p) || tr != (Transition{}) {
		t.Fatalf("%v, %v; want no transition and a *PanicError", tr, err)
	}
	if p.Value != "index out of range" || errors.Unwrap(p) != nil {
		t.Errorf("panic value %v, unwraps to %v", p.Value, errors.Unwrap(p))
	}
	if !bytes.Contains(p.Stack, []byte("TestTrapAPanicInACallback")) {
		t.Errorf("the stack does not lead to the commit:\n%s", p.Stack)
	}
	want := "transition Running -> Wired (wired) was not committed: the commit panicked: index out of range"
	if err.Error() != want {
		t.Errorf("error says\n%s, want\n%s", err, want)
	}
	if _, err := Fire(t.Context(), Running, EventWired, new(journal).commit); err != nil {
		t.Errorf("the next event suffers from it: %v", err)
	}

	// A panic with an error, as from the runtime, is found by errors.Is.
	full := errors.New("disk full")
	if _, err := Fire(t.Context(), Running, EventWired, func(Transition) error { panic(full) }); !errors.Is(err, full) {
		t.Errorf("error %v does not lead to %v", err, full)
	}
}

func TestTrapAnyInitialStateIsAccepted(t *testing.T) {
	m := obvious("Draining", "leave_state", nothing)
	if m.Current() != "Draining" || len(m.AvailableTransitions()) > 0 {
		t.Fatalf("looplab checks the initial state now: in %s, can %v", m.Current(), m.AvailableTransitions())
	}
	if err := m.Event(t.Context(), "lost"); !errors.As(err, new(looplab.InvalidEventError)) {
		t.Fatalf("looplab tells an unknown state from an illegal event now: %v", err)
	}

	var j journal
	_, err := Fire(t.Context(), "Draining", EventLost, j.commit)
	var unknown *UnknownStateError
	if !errors.As(err, &unknown) || unknown.State != "Draining" || len(j.entries) > 0 {
		t.Errorf("error %v, committed %v", err, j.entries)
	}
}

func TestTrapMermaidDrawsTheCurrentStateAsInitial(t *testing.T) {
	theirs, err := looplab.VisualizeWithType(obvious(Wired, "leave_state", nothing), looplab.MermaidStateDiagram)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(theirs, "[*] --> Wired") {
		t.Fatalf("looplab draws the initial state now:\n%s", theirs)
	}

	for _, current := range append(States(), Unknown, "Draining", "") {
		var ours bytes.Buffer
		if err := WriteMermaid(&ours, GraphOptions{Current: current}); err != nil {
			t.Fatal(err)
		}
		if strings.Count(ours.String(), "[*]") != 1 || !strings.Contains(ours.String(), "[*] --> Stopped\n") {
			t.Errorf("with %q current:\n%s", current, ours.String())
		}
	}
}

func TestTrapOfTwoRowsForOneEdgeTheLastWins(t *testing.T) {
	m := looplab.NewFSM("Running", looplab.Events{
		{Name: "wired", Src: []string{"Running"}, Dst: "Wired"},
		{Name: "wired", Src: []string{"Running"}, Dst: "Stopped"},
	}, nil)
	if err := m.Event(t.Context(), "wired"); err != nil || m.Current() != "Stopped" {
		t.Fatalf("looplab notices now: %v, in %s", err, m.Current())
	}

	type edge struct {
		from State
		ev   Event
	}
	seen := map[edge]bool{}
	for _, r := range Table() {
		for _, from := range r.From {
			if seen[edge{from, r.Event}] {
				t.Errorf("the table has two rows for %s in %s", r.Event, from)
			}
			seen[edge{from, r.Event}] = true
			if tr, err := Fire(t.Context(), from, r.Event, func(Transition) error { return nil }); err != nil || tr.To != r.To {
				t.Errorf("%s in %s: %v, %v; want %s", r.Event, from, tr, err, r.To)
			}
		}
	}
}
