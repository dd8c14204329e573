package main

import "github.com/node-lifecycle/node-lifecycle/internal/mutants/overlay"

const (
	fsmTable = "fsm/table.go"
	fsmFire  = "fsm/fire.go"
	fsmState = "fsm/state.go"
)

// fsmMutants break the table of the state machine and the judge around the library.
var fsmMutants = []mutant{
	{
		Name: "fsm-no-retry", Pkg: "fsm", Cheap: true,
		Edits:  edit(fsmTable, "From: []State{Stopped, Failed}, To: PreChecked", "From: []State{Stopped}, To: PreChecked"),
		Breaks: "a slot that failed once can never be started again",
	},
	{
		Name: "fsm-start-from-unknown", Pkg: "fsm",
		Edits:  edit(fsmTable, "From: []State{Stopped, Failed}, To: PreChecked", "From: []State{Stopped, Failed, Unknown}, To: PreChecked"),
		Breaks: "a slot whose head was lost starts as if it were known to be down",
	},
	{
		Name: "fsm-start-from-running", Pkg: "fsm",
		Edits:  edit(fsmTable, "From: []State{Stopped, Failed}, To: PreChecked", "From: []State{Stopped, Failed, Wired}, To: PreChecked"),
		Breaks: "a slot that is up is started once more, and nobody settles the stack it has",
	},
	{
		Name: "fsm-skip-regenerate", Pkg: "fsm",
		Edits:  edit(fsmTable, "From: []State{Regenerated}, To: Starting", "From: []State{PreChecked, Regenerated}, To: Starting"),
		Breaks: "a stack counts as started on a configuration that was never refreshed",
	},
	{
		Name: "fsm-wired-without-wait", Pkg: "fsm",
		Edits:  edit(fsmTable, "From: []State{Running}, To: Wired", "From: []State{Starting, Running}, To: Wired"),
		Breaks: "a stack counts as wired although it never became ready",
	},
	{
		Name: "fsm-lost-not-from-wired", Pkg: "fsm", Cheap: true,
		Edits: edit(fsmTable, "Event: EventLost, From: []State{PreChecked, Regenerated, Starting, Running, Wired}",
			"Event: EventLost, From: []State{PreChecked, Regenerated, Starting, Running}"),
		Breaks: "a stack that dies in the middle of the night stays Wired in the books",
	},
	{
		Name: "fsm-wired-may-fail", Pkg: "fsm",
		Edits: edit(fsmTable, "Event: EventFailed, From: []State{PreChecked, Regenerated, Starting, Running}",
			"Event: EventFailed, From: []State{PreChecked, Regenerated, Starting, Running, Wired}"),
		Breaks: "a hook that fails beside a healthy stack makes it Failed",
	},
	{
		Name: "fsm-starting-cannot-fail", Pkg: "fsm",
		Edits: edit(fsmTable, "Event: EventFailed, From: []State{PreChecked, Regenerated, Starting, Running}",
			"Event: EventFailed, From: []State{PreChecked, Regenerated, Running}"),
		Breaks: "a stack that never becomes ready stays Starting for ever",
	},
	{
		Name: "fsm-stopped-is-failed", Pkg: "fsm",
		Edits: edit(fsmTable, "Event: EventStopped, From: []State{PreChecked, Regenerated, Starting, Running, Wired}, To: Stopped",
			"Event: EventStopped, From: []State{PreChecked, Regenerated, Starting, Running, Wired}, To: Failed"),
		Breaks: "every systemctl stop looks like a failure",
	},
	{
		Name: "fsm-reboot-keeps-running", Pkg: "fsm",
		Edits: edit(fsmTable, "Event: EventRebooted, From: []State{PreChecked, Regenerated, Starting, Running, Wired}, To: Stopped",
			"Event: EventRebooted, From: []State{PreChecked, Regenerated, Starting, Running, Wired}, To: Running"),
		Breaks: "after a reboot the books say that the stack is up",
	},
	{
		Name: "fsm-wired-not-live", Pkg: "fsm",
		Edits:  edit(fsmState, "{Wired, true, true,", "{Wired, false, true,"),
		Breaks: "the peer's books are not settled when its stack was up",
	},
	{
		Name: "fsm-starting-terminal", Pkg: "fsm",
		Edits:  edit(fsmState, "{Starting, true, false,", "{Starting, true, true,"),
		Breaks: "reconcile reports the end of a start that still goes on",
	},
	{
		Name: "fsm-veto-without-cancel", Pkg: "fsm",
		Edits:  edit(fsmFire, "e.Cancel(vetoed)", "e.Err = vetoed"),
		Breaks: "the library moves on although nothing is on disk",
	},
	{
		Name: "fsm-veto-forgotten", Pkg: "fsm",
		Edits: []overlay.Edit{
			{File: fsmFire, Old: "e.Cancel(vetoed)", New: "vetoed = nil"},
		},
		Breaks: "a transition is reported although its commit failed",
	},
	{
		Name: "fsm-cancelled-half-way", Pkg: "fsm", Cheap: true,
		Edits:  edit(fsmFire, "machine.Event(context.WithoutCancel(ctx), string(ev))", "machine.Event(ctx, string(ev))"),
		Breaks: "a SIGTERM in the commit leaves an entry on disk and reports that there is none",
	},
	{
		Name: "fsm-fires-when-over", Pkg: "fsm",
		Edits:  edit(fsmFire, "case ctx.Err() != nil:\n\t\treturn Transition{}, tooLate(ctx, from, ev)\n\t", ""),
		Breaks: "a phase that is out of time goes on to change the state",
	},
	{
		Name: "fsm-panic-passes", Pkg: "fsm",
		Edits:  edit(fsmFire, "if v := recover(); v != nil {", "if v := any(nil); v != nil {"),
		Breaks: "a panic in the commit leaves the journal's transaction open",
	},
	{
		Name: "fsm-unknown-state-judged", Pkg: "fsm",
		Edits:  edit(fsmFire, "case !from.judged():\n\t\treturn Transition{}, &UnknownStateError{State: from}\n\t", ""),
		Breaks: "a state that a newer version wrote is judged by a table that does not have it",
	},
}
