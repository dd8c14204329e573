package fsm

import "slices"

// State is where a slot stands. The journal stores it as a plain string, so a
// value read from there may be anything: ask [State.Known] first. The empty
// string is no state; a slot without a head in the journal is [Stopped].
type State string

// The states, in the order in which a start passes through them.
const (
	Stopped     State = "Stopped"
	PreChecked  State = "PreChecked"
	Regenerated State = "Regenerated"
	Starting    State = "Starting"
	Running     State = "Running"
	Wired       State = "Wired"
	Failed      State = "Failed"
)

// Unknown is a pseudo-state: it stands for a head that was lost together with a
// damaged journal. No event leads to it, and only the recovered-* events lead
// out of it. It is neither known, live nor terminal.
const Unknown State = "Unknown"

type stateRow struct {
	state    State
	live     bool
	terminal bool
	meaning  string
}

var states = []stateRow{
	{Stopped, false, true, "There is no stack of this slot that we know of."},
	{PreChecked, true, false, "The peer is proven down and fenced, and the claim is this slot's."},
	{Regenerated, true, false, "The host-side configuration is current and loaded. pre-start succeeds here."},
	{Starting, true, false, "The unit has started the stack; post-start waits for it to be ready."},
	{Running, true, false, "The stack is up; AfterStart has not ended yet."},
	{Wired, true, true, "AfterStart is done and verified, or none is configured. post-start succeeds here."},
	{Failed, false, true, "The last attempt ended badly. Its entry names the state, the step and the cause, and keeps the evidence."},
}

const unknownMeaning = "The slot's head was lost in a quarantine. Only evidence leads out of here."

// States returns the states in table order. Unknown is not among them.
func States() []State {
	all := make([]State, len(states))
	for i, row := range states {
		all[i] = row.state
	}
	return all
}

// Known reports whether s is one of [States]. It is false for Unknown and for
// whatever a newer version may have written.
func (s State) Known() bool {
	_, ok := s.row()
	return ok
}

// Live reports whether a stack of the slot may exist or is about to, so that
// the slot's books must be settled before the peer may start: PreChecked,
// Regenerated, Starting, Running, Wired.
func (s State) Live() bool {
	row, _ := s.row()
	return row.live
}

// Terminal reports whether a slot may stay in s with no phase at work on it:
// Stopped, Wired, Failed. pre-start alone also ends well in Regenerated, since
// post-start goes on from there.
func (s State) Terminal() bool {
	row, _ := s.row()
	return row.terminal
}

// Meaning says in one sentence what holds in s. It is empty for a state that is
// neither known nor Unknown.
func (s State) Meaning() string {
	if s == Unknown {
		return unknownMeaning
	}
	row, _ := s.row()
	return row.meaning
}

func (s State) row() (stateRow, bool) {
	i := slices.IndexFunc(states, func(r stateRow) bool { return r.state == s })
	if i < 0 {
		return stateRow{}, false
	}
	return states[i], true
}

// judged reports whether events can be judged in s at all.
func (s State) judged() bool { return s == Unknown || s.Known() }
