package fsm

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// reference is the state machine once more, told in another way and in plain
// strings: a start climbs a ladder rung by rung, and from any rung there are a
// few ways to fall off. It shares nothing with the table.
type reference struct{}

var ladder = []string{"PreChecked", "Regenerated", "Starting", "Running", "Wired"}

var (
	allStates = append([]string{"Stopped", "Failed", "Unknown"}, ladder...)
	allEvents = []string{
		"prechecked", "regenerated", "starting", "running", "wired", "failed", "lost", "stopped", "rebooted",
		"recovered-stopped", "recovered-running", "recovered-failed",
	}
)

// next returns "" if ev is not legal in from.
func (reference) next(from, ev string) string {
	rung := slices.Index(ladder, from)
	switch ev {
	case "prechecked":
		if from == "Stopped" || from == "Failed" {
			return "PreChecked"
		}
	case "regenerated", "starting", "running", "wired":
		climbed := 1 + slices.Index([]string{"regenerated", "starting", "running", "wired"}, ev)
		if rung == climbed-1 {
			return ladder[climbed]
		}
	case "failed":
		if rung >= 0 && from != "Wired" {
			return "Failed"
		}
	case "lost":
		if rung >= 0 {
			return "Failed"
		}
	case "stopped", "rebooted":
		if rung >= 0 {
			return "Stopped"
		}
	case "recovered-stopped", "recovered-running", "recovered-failed":
		if from == "Unknown" {
			return map[string]string{
				"recovered-stopped": "Stopped", "recovered-running": "Running", "recovered-failed": "Failed",
			}[ev]
		}
	}
	return ""
}

func (m reference) legal(from string) []string {
	var legal []string
	for _, ev := range allEvents {
		if m.next(from, ev) != "" {
			legal = append(legal, ev)
		}
	}
	return legal
}

func TestEveryStateAndEventAgreeWithTheReference(t *testing.T) {
	var m reference
	for _, from := range append(allStates, "", "stopped", "Draining") {
		for _, ev := range append(allEvents, "", "Stopped", "drained", "intent") {
			checkOne(t, from, ev, m.next(from, ev))
		}
		legal := words(Legal(State(from)))
		if diff := cmp.Diff(m.legal(from), legal, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("Legal(%q) (-want +got):\n%s", from, diff)
		}
	}
}

func checkOne(t *testing.T, from, ev, to string) {
	t.Helper()
	var want Transition
	var wantEntries []Transition
	var j journal
	if to != "" {
		want = Transition{State(from), Event(ev), State(to)}
		wantEntries = []Transition{want}
	}
	next, nextErr := Next(State(from), Event(ev))
	fired, fireErr := Fire(t.Context(), State(from), Event(ev), j.commit)
	if next != want || fired != want || (nextErr == nil) != (to != "") || (fireErr == nil) != (to != "") {
		t.Errorf("%q in %q: Next %v, %v; Fire %v, %v; want to reach %q", ev, from, next, nextErr, fired, fireErr, to)
	}
	if !slices.Equal(j.entries, wantEntries) {
		t.Errorf("%q in %q: committed %v", ev, from, j.entries)
	}
}

func words(events []Event) []string {
	var all []string
	for _, ev := range events {
		all = append(all, string(ev))
	}
	return all
}

// A slot is driven at random: any event, and around each one any of the things
// that go wrong in a commit. Whatever happens, the slot stands where the
// reference says, and the next event is judged as if nothing had been.
func TestASlotFollowsTheReferenceWhateverGoesWrong(t *testing.T) {
	broken := errors.New("disk full")
	type committer = func(Transition) error
	faults := []struct {
		name   string
		early  bool                                        // the context ends before the event is fired
		commit func(cancel func(), ok committer) committer // nil: as it is
		vetoes error                                       // nil: the transition goes through
	}{
		{name: "none"},
		{name: "cancelled before", early: true, vetoes: context.Canceled},
		{name: "cancelled during", commit: func(cancel func(), ok committer) committer {
			return func(tr Transition) error { cancel(); return ok(tr) }
		}},
		{name: "error", vetoes: broken, commit: func(func(), committer) committer {
			return func(Transition) error { return broken }
		}},
		{name: "panic", vetoes: broken, commit: func(func(), committer) committer {
			return func(Transition) error { panic(broken) }
		}},
	}

	rapid.Check(t, func(t *rapid.T) {
		var m reference
		var j journal
		state := rapid.SampledFrom(allStates).Draw(t, "initial")
		t.Repeat(map[string]func(*rapid.T){
			"fire": func(t *rapid.T) {
				ev := drawEvent(t, m, state)
				fault := faults[rapid.IntRange(0, len(faults)-1).Draw(t, "fault")]
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				if fault.early {
					cancel()
				}
				commit := j.commit
				if fault.commit != nil {
					commit = fault.commit(cancel, j.commit)
				}
				before := len(j.entries)

				tr, err := Fire(ctx, State(state), Event(ev), commit)

				to := m.next(state, ev)
				var want []Transition
				switch {
				case to == "" && err == nil, to != "" && !errors.Is(err, fault.vetoes):
					t.Fatalf("%s in %s with fault %q: error %v", ev, state, fault.name, err)
				case to != "" && fault.vetoes == nil:
					want = []Transition{{State(state), Event(ev), State(to)}}
					state = to
				}
				if !slices.Equal(j.entries[before:], want) || (len(want) == 1 && tr != want[0]) || (len(want) == 0 && tr != Transition{}) {
					t.Fatalf("%s with fault %q: returned %v, committed %v, want %v", ev, fault.name, tr, j.entries[before:], want)
				}
			},
			// What was committed is a chain without a hole.
			"": func(t *rapid.T) {
				for i := 1; i < len(j.entries); i++ {
					if j.entries[i].From != j.entries[i-1].To {
						t.Fatalf("entry %d starts in %s after %v", i, j.entries[i].From, j.entries[i-1])
					}
				}
			},
		})
	})
}

// drawEvent prefers legal events, or a walk would hardly get off the ground.
func drawEvent(t *rapid.T, m reference, state string) string {
	if legal := m.legal(state); rapid.IntRange(0, 3).Draw(t, "illegal if 0") > 0 {
		return rapid.SampledFrom(legal).Draw(t, "event")
	}
	return rapid.SampledFrom(allEvents).Draw(t, "event")
}

// What comes out of a damaged or newer journal is data: it may be refused, but
// it never panics and is never committed.
func TestAnyStringMayComeOutOfAJournal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m reference
		from := rapid.OneOf(rapid.String(), rapid.SampledFrom(allStates)).Draw(t, "from")
		ev := rapid.OneOf(rapid.String(), rapid.SampledFrom(allEvents)).Draw(t, "event")
		var j journal
		_, err := Fire(context.Background(), State(from), Event(ev), j.commit)
		if legal := m.next(from, ev) != ""; (err == nil) != legal || len(j.entries) == 1 != legal {
			t.Fatalf("%q in %q: %v, committed %v", ev, from, err, j.entries)
		}
		if err != nil && err.Error() == "" {
			t.Fatal("an error without a word")
		}
	})
}
