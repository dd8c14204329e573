package fsm

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// problems checks the properties that looplab does not: it accepts any table
// and finds out later, or never.
func problems(rules []Rule) []string {
	var found []string
	complain := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }

	events := map[Event]bool{}
	edges := map[State]map[Event]State{}
	for _, r := range rules {
		if events[r.Event] {
			complain("event %s has two rules", r.Event)
		}
		events[r.Event] = true
		if !r.To.Known() {
			complain("event %s leads to %q, which is no state", r.Event, r.To)
		}
		if len(r.From) == 0 {
			complain("event %s is legal nowhere", r.Event)
		}
		for _, from := range r.From {
			if !from.judged() {
				complain("event %s starts in %q, which is no state", r.Event, from)
			}
			if from == r.To {
				complain("event %s has a self edge on %s", r.Event, from)
			}
			if _, twice := edges[from][r.Event]; twice {
				complain("event %s has two edges out of %s", r.Event, from)
			}
			if edges[from] == nil {
				edges[from] = map[Event]State{}
			}
			edges[from][r.Event] = r.To
		}
	}

	reached := reachable(Stopped, edges)
	for _, s := range States() {
		if !reached[s] {
			complain("state %s cannot be reached from Stopped", s)
		}
		if !s.Terminal() && !slices.Contains(values(edges[s]), Failed) {
			complain("state %s is not terminal and has no failure edge", s)
		}
	}
	if reached[Unknown] {
		complain("an event leads to Unknown")
	}
	return found
}

func reachable(from State, edges map[State]map[Event]State) map[State]bool {
	reached := map[State]bool{from: true}
	for todo := []State{from}; len(todo) > 0; todo = todo[1:] {
		for _, to := range edges[todo[0]] {
			if !reached[to] {
				reached[to] = true
				todo = append(todo, to)
			}
		}
	}
	return reached
}

func values(m map[Event]State) []State {
	var all []State
	for _, s := range m {
		all = append(all, s)
	}
	return all
}

func TestTheTableIsSound(t *testing.T) {
	if found := problems(table); len(found) > 0 {
		t.Errorf("the table has %d problems:\n%s", len(found), strings.Join(found, "\n"))
	}
}

// The check itself must be worth something: each broken table here is one that
// looplab takes without a word.
func TestABrokenTableIsFound(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(rules []Rule) []Rule
		want  string
	}{
		{
			"a rule twice",
			func(r []Rule) []Rule { return append(r, Rule{Event: EventWired, From: []State{Running}, To: Stopped}) },
			"event wired has two rules",
		},
		{
			"an edge twice within a rule",
			func(r []Rule) []Rule { r[1].From = append(r[1].From, PreChecked); return r },
			"event regenerated has two edges out of PreChecked",
		},
		{
			"a self edge",
			func(r []Rule) []Rule { r[1].From = append(r[1].From, Regenerated); return r },
			"event regenerated has a self edge on Regenerated",
		},
		{
			"a misspelt source",
			func(r []Rule) []Rule { r[1].From[0] = "Prechecked"; return r },
			`event regenerated starts in "Prechecked", which is no state`,
		},
		{
			"a misspelt target, which also cuts off what comes after it",
			func(r []Rule) []Rule { r[1].To = "Regenrated"; return r },
			"state Regenerated cannot be reached from Stopped",
		},
		{
			"an event into the pseudo-state",
			func(r []Rule) []Rule { r[5].To = Unknown; return r },
			"an event leads to Unknown",
		},
		{
			"an event that is legal nowhere",
			func(r []Rule) []Rule { r[1].From = nil; return r },
			"event regenerated is legal nowhere",
		},
		{
			"no way out by failure",
			func(r []Rule) []Rule {
				return slices.DeleteFunc(r, func(r Rule) bool { return r.To == Failed })
			},
			"state Starting is not terminal and has no failure edge",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			found := problems(tt.spoil(Table()))
			if !slices.Contains(found, tt.want) {
				t.Errorf("problems found: %q, want among them %q", found, tt.want)
			}
		})
	}
}

// looplab tells a state's callbacks from an event's by the name alone, and
// readers of the journal do the same.
func TestNamesAreNeverSharedAmongStatesEventsAndNotes(t *testing.T) {
	owner := map[string]string{"transition": "the kind of entries that are no notes"}
	claim := func(name, who string) {
		if name == "" || name != plain(name) {
			t.Errorf("%s is called %q, which a diagram would have to change", who, name)
		}
		if other, taken := owner[name]; taken {
			t.Errorf("%s and %s are both called %q", who, other, name)
		}
		owner[name] = who
	}
	for _, s := range append(States(), Unknown) {
		claim(string(s), "a state")
		// "leave_state" and "before_event" mean every state and every event.
		if s == "state" || s == "event" {
			t.Errorf("a state is called %q, so looplab could not tell it from all of them", s)
		}
	}
	for _, r := range table {
		claim(string(r.Event), "an event")
		if r.Event == "state" || r.Event == "event" {
			t.Errorf("an event is called %q, so looplab could not tell it from all of them", r.Event)
		}
	}
	for _, n := range Notes() {
		claim(string(n), "a note")
	}
}

func TestStates(t *testing.T) {
	tests := []struct {
		state                 State
		known, live, terminal bool
	}{
		{Stopped, true, false, true},
		{PreChecked, true, true, false},
		{Regenerated, true, true, false},
		{Starting, true, true, false},
		{Running, true, true, false},
		{Wired, true, true, true},
		{Failed, true, false, true},
		{Unknown, false, false, false},
		{"", false, false, false},
		{"stopped", false, false, false}, // the event, not the state
		{"Draining", false, false, false},
	}
	var known []State
	for _, tt := range tests {
		got := []bool{tt.state.Known(), tt.state.Live(), tt.state.Terminal()}
		if diff := cmp.Diff([]bool{tt.known, tt.live, tt.terminal}, got); diff != "" {
			t.Errorf("state %q: known, live, terminal (-want +got):\n%s", tt.state, diff)
		}
		if hasMeaning := tt.state.Meaning() != ""; hasMeaning != (tt.known || tt.state == Unknown) {
			t.Errorf("state %q: meaning %q", tt.state, tt.state.Meaning())
		}
		if tt.known {
			known = append(known, tt.state)
		}
	}
	if diff := cmp.Diff(known, States()); diff != "" {
		t.Errorf("States (-want +got):\n%s", diff)
	}
}

// Live is what the peer's books are settled by: exactly these events do it.
func TestLiveStatesAreTheOnesThatCanBeSettled(t *testing.T) {
	for _, s := range States() {
		for _, ev := range []Event{EventLost, EventStopped, EventRebooted} {
			if _, err := Next(s, ev); (err == nil) != s.Live() {
				t.Errorf("%s in %s: %v, but Live is %t", ev, s, err, s.Live())
			}
		}
	}
}

func TestNotes(t *testing.T) {
	want := []Note{
		"intent", "done", "undone", "ended", "refused", "stop-requested", "resumed", "waiting", "cleaned",
		"requested", "discarded", "unproven", "diverged", "quarantined", "gap",
	}
	if diff := cmp.Diff(want, Notes()); diff != "" {
		t.Errorf("Notes (-want +got):\n%s", diff)
	}
	for _, n := range Notes() {
		if n.Meaning() == "" {
			t.Errorf("note %s has no meaning", n)
		}
	}
	if got := Note("drained").Meaning(); got != "" {
		t.Errorf("a note nobody knows means %q", got)
	}
}

func TestTheTableCannotBeChangedFromOutside(t *testing.T) {
	rules, states, notes := Table(), States(), Notes()
	rules[0].To, rules[0].From[0] = Failed, Wired
	states[0], notes[0] = "x", "x"

	want := Transition{Stopped, EventPrechecked, PreChecked}
	if got, err := Next(Stopped, EventPrechecked); err != nil || got != want {
		t.Errorf("Next = %v, %v; want %v", got, err, want)
	}
	if States()[0] != Stopped || Notes()[0] != NoteIntent {
		t.Errorf("first state %s, first note %s", States()[0], Notes()[0])
	}
}
