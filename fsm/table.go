package fsm

import "slices"

// Event is what happened to a slot, as the phase that saw it reports it.
type Event string

// The events, in table order.
const (
	EventPrechecked       Event = "prechecked"
	EventRegenerated      Event = "regenerated"
	EventStarting         Event = "starting"
	EventRunning          Event = "running"
	EventWired            Event = "wired"
	EventFailed           Event = "failed"
	EventLost             Event = "lost"
	EventStopped          Event = "stopped"
	EventRebooted         Event = "rebooted"
	EventRecoveredStopped Event = "recovered-stopped"
	EventRecoveredRunning Event = "recovered-running"
	EventRecoveredFailed  Event = "recovered-failed"
)

// Transition is one edge of the state machine, taken or about to be taken.
type Transition struct {
	From  State
	Event Event
	To    State
}

// String renders the transition for people and for error texts, as in
// "Regenerated -> Starting (starting)".
func (t Transition) String() string {
	return string(t.From) + " -> " + string(t.To) + " (" + string(t.Event) + ")"
}

// Rule is one row of the table: an event, the states in which it is legal, and
// the state it leads to.
type Rule struct {
	Event   Event
	From    []State
	To      State
	FiredBy string // which phase fires it
	Meaning string // what has happened, in one sentence
}

// table is the state machine. Everything else in this package, looplab's
// machines and the generated documentation included, is derived from it.
var table = []Rule{
	{
		Event: EventPrechecked, From: []State{Stopped, Failed}, To: PreChecked,
		FiredBy: "pre-start",
		Meaning: "The peer was found down and fenced; one commit takes the claim and records it.",
	},
	{
		Event: EventRegenerated, From: []State{PreChecked}, To: Regenerated,
		FiredBy: "pre-start",
		Meaning: "The host-side configuration was rendered afresh, and systemd has loaded it.",
	},
	{
		Event: EventStarting, From: []State{Regenerated}, To: Starting,
		FiredBy: "post-start",
		Meaning: "The unit has started the stack; the wait for readiness begins.",
	},
	{
		Event: EventRunning, From: []State{Starting}, To: Running,
		FiredBy: "post-start",
		Meaning: "The stack became ready within its budget.",
	},
	{
		Event: EventWired, From: []State{Running}, To: Wired,
		FiredBy: "post-start",
		Meaning: "AfterStart ended well and was verified, or there was none to run.",
	},
	{
		Event: EventFailed, From: []State{PreChecked, Regenerated, Starting, Running}, To: Failed,
		FiredBy: "the phase that was running",
		Meaning: "Its step failed, ran out of time or was interrupted, or the stack died under it.",
	},
	{
		Event: EventLost, From: []State{PreChecked, Regenerated, Starting, Running, Wired}, To: Failed,
		FiredBy: "post-stop, resume, pre-start, or pre-start of the peer as it takes the claim",
		Meaning: "The stack went away unasked while no phase was running.",
	},
	{
		Event: EventStopped, From: []State{PreChecked, Regenerated, Starting, Running, Wired}, To: Stopped,
		FiredBy: "post-stop",
		Meaning: "A stop was asked for, and the container is proven gone.",
	},
	{
		Event: EventRebooted, From: []State{PreChecked, Regenerated, Starting, Running, Wired}, To: Stopped,
		FiredBy: "the first phase that writes after a reboot",
		Meaning: "The boot id changed, and the container is proven not running.",
	},
	{
		Event: EventRecoveredStopped, From: []State{Unknown}, To: Stopped,
		FiredBy: "the first phase that writes after a quarantine",
		Meaning: "The head is lost; the evidence shows no stack of this slot.",
	},
	{
		Event: EventRecoveredRunning, From: []State{Unknown}, To: Running,
		FiredBy: "the first phase that writes after a quarantine",
		Meaning: "The head is lost; the evidence shows the stack up.",
	},
	{
		Event: EventRecoveredFailed, From: []State{Unknown}, To: Failed,
		FiredBy: "the first phase that writes after a quarantine",
		Meaning: "The head is lost; the evidence shows an attempt that ended badly.",
	},
}

// Table returns the rules in table order, one per event. The copy is the
// caller's to keep.
func Table() []Rule {
	rules := slices.Clone(table)
	for i := range rules {
		rules[i].From = slices.Clone(rules[i].From)
	}
	return rules
}

// Next says where ev leads from the given state, without firing anything. Its
// error is an [*UnknownStateError], an [*UnknownEventError] or an
// [*IllegalEventError], in that order of precedence.
func Next(from State, ev Event) (Transition, error) {
	if !from.judged() {
		return Transition{}, &UnknownStateError{State: from}
	}
	i := slices.IndexFunc(table, func(r Rule) bool { return r.Event == ev })
	if i < 0 {
		return Transition{}, &UnknownEventError{Event: ev}
	}
	if !slices.Contains(table[i].From, from) {
		return Transition{}, &IllegalEventError{State: from, Event: ev, Legal: Legal(from)}
	}
	return Transition{From: from, Event: ev, To: table[i].To}, nil
}

// Legal returns the events that are legal in the given state, in table order;
// none for a state that is neither known nor Unknown.
func Legal(from State) []Event {
	var legal []Event
	for _, rule := range table {
		if slices.Contains(rule.From, from) {
			legal = append(legal, rule.Event)
		}
	}
	return legal
}
