package main

import "github.com/node-lifecycle/node-lifecycle/internal/mutants/overlay"

const (
	postStartFile = "phases/poststart.go"
	postStopFile  = "phases/poststop.go"
)

// startMutants break what pre-start settles, what post-start waits for, and run.
var startMutants = []mutant{
	{
		Name: "survivor-adopted", Pkg: "phases", Run: "TestPreStart",
		Edits:  edit(preStartFile, "\tif !alive {\n\t\treturn \"\", nil\n\t}\n\tstopper", "\tif !alive || seen != \"\" {\n\t\treturn \"\", nil\n\t}\n\tstopper"),
		Breaks: "a stack that outlived its unit runs on beside the one that is started now",
	},
	{
		Name: "own-stack-unknown-is-none", Pkg: "phases", Run: "TestPreStart",
		Edits:  edit(preStartFile, "alive, seen, err := able.Alive(ctx, r.slot)\n\tif err != nil {", "alive, seen, err := able.Alive(ctx, r.slot)\n\tif err != nil && alive {"),
		Breaks: "a start goes on beside a stack that the engine could not be asked about",
	},
	{
		Name: "own-reboot-is-lost", Pkg: "phases", Run: "TestPreStart",
		Edits:  edit(preStartFile, "case r.head.Boot != r.boot():", "case r.head.Boot == \"\":"),
		Breaks: "every reboot looks like a crash of the stack",
	},
	{
		Name: "dead-run-not-settled", Pkg: "phases", Run: "TestPreStart_Settles",
		Edits:  edit(preStartFile, "case !r.state().Live() && what != \"\":", "case !r.state().Live() && what == \"never\":"),
		Breaks: "a pre-start that was killed before it had begun leaves no word",
	},
	{
		Name: "stale-container-left", Pkg: "phases", Run: "TestPreStart",
		Edits:  edit(preStartFile, "if removed, err = r.removeStale(ctx); err == nil {", "if err == nil {"),
		Breaks: "the next run finds its name taken",
	},
	{
		Name: "by-hand-beside-the-unit", Pkg: "phases", Run: "ByHand",
		Edits:  edit(preStartFile, "if r.l.Supervisor == nil || r.l.Force {", "if r.l.Supervisor == nil || !r.l.Force {"),
		Breaks: "post-stop typed by hand ends a stack that is up",
	},
	{
		Name: "reload-when-in-doubt-skipped", Pkg: "phases", Run: "TestPreStart_SkipsTheReload",
		Edits:  edit(preStartFile, "err != nil {\n\t\t\tchanged = true\n", "err != nil {\n\t\t\tchanged = false\n"),
		Breaks: "systemd goes on with the old unit file although nobody knows whether it changed",
	},
	{
		Name: "always-reload", Pkg: "phases", Run: "TestPreStart_SkipsTheReload",
		Edits:  edit(preStartFile, "\tif changed {\n", "\tif changed || out.detail != \"\" {\n"),
		Breaks: "every start of a slot makes systemd reapply the devices of the running one",
	},
	{
		Name: "unit-not-checked-after-reload", Pkg: "phases", Run: "TestPreStart",
		Edits:  edit(preStartFile, "if err := able.CheckLoaded(ctx, r.slot); err != nil {", "if err := able.CheckLoaded(ctx, r.slot); err != nil && !changed {"),
		Breaks: "a broken drop-in is noticed by systemd alone, and its message names no cause",
	},
	{
		Name: "after-start-gets-the-rest", Pkg: "phases", Run: "TestPostStart", Cheap: true,
		Edits:  edit(stepFile, "ctx, cancel := context.WithTimeoutCause(ctx, s.budget(r.l), errBudget)", "ctx, cancel := context.WithDeadlineCause(ctx, r.began.Add(s.budget(r.l)), errBudget)"),
		Breaks: "after a slow start AfterStart has no time left",
	},
	{
		Name: "post-start-without-pre-start", Pkg: "phases", Run: "TestPostStart_NeedsItsPreStart",
		Edits:  edit(postStartFile, "if r.state() != fsm.Regenerated {", "if r.state() == fsm.Failed {"),
		Breaks: "a unit without its pre-start line comes up without any check of the peer",
	},
	{
		Name: "post-start-of-another-activation", Pkg: "phases", Run: "TestPostStart_NeedsItsPreStart",
		Edits:  edit(postStartFile, "if r.head.Activation != r.activation() {", "if r.head.Activation == \"\" {"),
		Breaks: "what was proven for one activation lets another one in",
	},
	{
		Name: "death-not-noticed-in-the-wait", Pkg: "phases", Run: "TestPostStart",
		Edits:  edit(postStartFile, "if err := r.stackDied(ctx); err != nil {\n\t\t\treturn outcome{}, err\n\t\t}\n\t\trunning", "running"),
		Breaks: "a stack that died at once is waited for until the budget is gone",
	},
	{
		Name: "main-process-not-watched", Pkg: "phases", Run: "TestPostStart",
		Edits:  edit(postStartFile, "u.Activation == r.activation() && u.MainExited", "u.Activation != r.activation() && u.MainExited"),
		Breaks: "docker run failed, and the hook waits for a container that will never be there",
	},
	{
		Name: "death-under-after-start-not-noticed", Pkg: "phases", Run: "TestPostStart_AfterStart",
		Edits:  edit(postStartFile, "\t\t\tcancel(err)\n\t\t\treturn\n", "\t\t\treturn\n"),
		Breaks: "AfterStart hangs for three minutes in a container that is gone",
	},
	{
		Name: "transient-error-ends-the-wait", Pkg: "phases", Run: "TestPostStart",
		Edits:  edit(postStartFile, "reason = err.Error() // may pass", "return outcome{}, err // may pass"),
		Breaks: "an engine that restarts during the wait fails the start",
	},
	{
		Name: "peer-not-looked-at-again", Pkg: "phases", Run: "TestPostStart_PeerCameUp", Cheap: true,
		Edits:  edit(postStartFile, "return outcome{detail: reason}, r.stillDown(ctx)", "return outcome{detail: reason}, nil"),
		Breaks: "two stacks run, and nobody says so",
	},
	{
		Name: "lost-event-not-polled", Pkg: "phases", Run: "TestPostStart",
		Edits:  edit(postStartFile, "timer := time.NewTimer(interval)", "timer := time.NewTimer(time.Hour)"),
		Breaks: "one lost event costs the whole wait",
	},
	{
		Name: "after-start-never-given-up", Pkg: "phases", Run: "TestPostStart_AfterStart",
		Edits:  edit(postStartFile, "case <-time.After(journalGrace / 3):", "case <-time.After(24 * time.Hour):"),
		Breaks: "a command that does not heed its end holds the unit up until systemd kills everything",
	},
	{
		Name: "flapping-fills-the-ring", Pkg: "phases", Run: "TestPostStart_Flapping",
		Edits:  edit(postStartFile, "w.notes >= maxWaitingNotes || ", ""),
		Breaks: "a stack that flaps pushes the first failure's neighbours out of the ring",
	},
	{
		Name: "reasons-noted-at-once", Pkg: "phases", Run: "TestPostStart",
		Edits:  edit(postStartFile, "w.notes >= maxWaitingNotes || !due ||", "w.notes >= maxWaitingNotes || !due && reason == \"\" ||"),
		Breaks: "a start that takes two seconds costs a dozen commits",
	},
	{
		Name: "quiet-death-is-success", Pkg: "phases", Run: "TestRunStack",
		Edits:  edit(runStackFile, "return ExitStackDied, nil", "return 0, nil"),
		Breaks: "a stack that powers itself off is not restarted",
	},
	{
		Name: "asked-for-end-is-a-failure", Pkg: "phases", Run: "TestRunStack",
		Edits:  edit(runStackFile, "r.head.StopRequested == r.activation() || r.stopAsked(ctx) {\n\t\treturn 0, nil", "r.head.StopRequested == r.activation() || r.stopAsked(ctx) {\n\t\treturn code, nil"),
		Breaks: "every systemctl stop leaves the unit failed",
	},
	{
		Name: "signal-does-not-stop-the-stack", Pkg: "phases", Run: "TestRunStack",
		Edits:  edit(runStackFile, "stopErr := r.stopStack(attending)", "stopErr := error(nil)\n\tstop()"),
		Breaks: "the unit is down and its container lives on",
	},
	{
		Name: "signal-is-not-noted", Pkg: "phases", Run: "TestRunStack|TestPostStop",
		Edits:  edit(runStackFile, "\tr.noteSignal(attending, endOf(ctx).Error())\n", ""),
		Breaks: "a stack that was stopped by a signal to run counts as lost",
	},
	{
		Name: "start-not-recorded", Pkg: "phases", Run: "TestRunStack",
		Edits:  edit(runStackFile, "if err := r.record(writing, nil, op{note: fsm.NoteDone, entry: entry}); err != nil {", "if err := writing.Err(); err != nil {"),
		Breaks: "nobody can say which container was started when",
	},
	{
		Name: "dead-journal-ends-the-stack", Pkg: "phases", Run: "TestRunStack",
		Edits:  edit(runStackFile, "\t\t\tr.unrecorded(op{note: fsm.NoteDone, entry: entry}, err)\n", "\t\t\treturn \"\", err\n"),
		Breaks: "a full disk takes a stack down that had just come up",
	},
}

// stopMutants break post-stop.
var stopMutants = []mutant{
	{
		Name: "lost-instead-of-stopped", Pkg: "phases", Run: "TestPostStop", Cheap: true,
		Edits:  edit(postStopFile, "case byJob, r.stopNoted() && !r.cutOff():", "case byJob && r.cutOff():"),
		Breaks: "every systemctl stop looks like a crash",
	},
	{
		Name: "success-means-asked", Pkg: "phases", Run: "TestPostStop",
		Edits:  edit(postStopFile, "byJob := r.stopAsked(ctx)", "byJob := info.ServiceResult == \"success\" || r.stopAsked(ctx)"),
		Breaks: "a stack that powers itself off at night looks as if somebody had stopped it",
	},
	{
		Name: "old-stop-request-counts", Pkg: "phases", Run: "TestPostStop",
		Edits:  edit(postStopFile, "return r.head.StopRequested != \"\" && r.head.StopRequested == r.activation()", "return r.head.StopRequested != \"\""),
		Breaks: "one stop makes every later crash look asked for",
	},
	{
		Name: "claim-released-before-gone", Pkg: "phases", Run: "TestPostStop",
		Edits: edit(postStopFile, "\t\t\thow, removed, release, err := r.clearOwn(ctx, r.endStack)\n",
			"\t\t\tif err := r.record(ctx, func(t tx) ([]op, error) { return nil, r.release(t) }); err != nil {\n\t\t\t\treturn out, err\n\t\t\t}\n"+
				"\t\t\thow, removed, release, err := r.clearOwn(ctx, r.endStack)\n"),
		Breaks: "two stacks run: the claim is free while the container still lives",
	},
	{
		Name: "claim-kept-after-stop", Pkg: "phases", Run: "TestPostStop",
		Edits:  edit(postStopFile, "\t\t\tout.books = func(t tx) ([]op, error) { return nil, r.release(t) }\n", ""),
		Breaks: "after a stop the peer is asked about a claim that nobody uses",
	},
	{
		Name: "any-claim-released", Pkg: "phases", Run: "TestPostStop", Cheap: true,
		Edits:  edit(peerFile, "if err != nil || claim.Holder != r.slot {", "if err != nil || claim.Holder == \"\" {"),
		Breaks: "two stacks run: the post-stop of a refused start gives the running peer's claim away",
	},
	{
		Name: "evidence-after-removal", Pkg: "phases", Run: "TestPostStop",
		Edits: []overlay.Edit{
			{File: postStopFile, Old: "\t\t\tout.evidence = r.stopEvidence(ctx)\n", New: ""},
			{File: postStopFile, Old: "\t\t\tout.release = release\n", New: "\t\t\tout.release, out.evidence = release, r.stopEvidence(ctx)\n"},
		},
		Breaks: "the evidence of a crash is taken from a container that is gone",
	},
	{
		Name: "unproven-is-stopped", Pkg: "phases", Run: "TestPostStop",
		Edits:  edit(postStopFile, "if how, err = able.Stop(ctx, r.slot); err != nil {", "if how, err = able.Stop(ctx, r.slot); err != nil && ctx.Err() != nil {"),
		Breaks: "two stacks run: a container that will not die counts as gone",
	},
	{
		Name: "container-left-behind", Pkg: "phases", Run: "TestPostStop",
		Edits:  edit(postStopFile, "removed, err = r.removeStale(ctx)", "err = nil"),
		Breaks: "every stop leaves a container behind",
	},
	{
		Name: "cleared-outside-the-lock", Pkg: "phases", Run: "TestPostStop_Clears",
		Edits: []overlay.Edit{
			{File: preStartFile, Old: "\t\tif removed, err = r.removeStale(ctx); err == nil {\n", New: "\t\tif err == nil {\n"},
			{File: preStartFile, Old: "\t\tif release, err = r.l.locks().Host(ctx, r.phase); err != nil {\n", New: "\t\tif removed, err = r.removeStale(ctx); err != nil {\n\t\t\treturn \"\", \"\", nil, err\n\t\t}\n\t\tif release, err = r.l.locks().Host(ctx, r.phase); err != nil {\n"},
		},
		Breaks: "a stack runs and nobody holds the claim: a run that has outlived its unit starts it in between",
	},
	{
		Name: "run-died-is-stack-died", Pkg: "phases", Run: "TestPostStop",
		Edits:  edit(postStopFile, "\tcase r.survived:\n", "\tcase r.survived && ctx.Err() != nil:\n"),
		Breaks: "the stack is blamed for the death of the process that watched it",
	},
	{
		Name: "post-stop-needs-the-journal", Pkg: "phases", Run: "TestPostStop", Cheap: true,
		Edits:  edit(postStopFile, "\tif loadErr != nil {\n\t\treturn r.stopUnrecorded(ctx, info, loadErr)", "\tif loadErr != nil {\n\t\treturn loadErr"),
		Breaks: "a damaged journal keeps the container from being stopped",
	},
	{
		Name: "post-stop-waits-for-ever", Pkg: "phases", Run: "TestPostStop",
		Edits:  edit(postStopFile, "const slotLockWait = 5 * time.Second", "const slotLockWait = 5 * time.Hour"),
		Breaks: "a hook that hangs keeps the stack from being stopped",
	},
	{
		Name: "skipped-start-is-cleaned", Pkg: "phases", Run: "TestPostStop_Skipped",
		Edits:  edit(postStopFile, "if info.ServiceResult == \"exec-condition\" {", "if info.ServiceResult == \"condition\" {"),
		Breaks: "the refused start of one slot stops what runs in its name",
	},
	{
		Name: "skipped-start-told-twice", Pkg: "phases", Run: "TestPostStop_Skipped",
		Edits:  edit(postStopFile, "if err != nil || len(noted) > 0 {", "if err != nil || len(noted) > 1 {"),
		Breaks: "the real reason of a refusal is hidden behind a general one",
	},
	{
		Name: "killed-hook-is-a-death-of-the-stack", Pkg: "phases", Run: "TestPostStop",
		Edits:  edit(postStopFile, "return r.found != nil && r.state() != fsm.Wired", "return r.found != nil && r.state() == fsm.Wired"),
		Breaks: "a hook that was killed is told as a stack that died",
	},
	{
		Name: "killed-hook-is-a-stop", Pkg: "phases", Run: "TestPostStop",
		Edits:  edit(postStopFile, "case byJob, r.stopNoted() && !r.cutOff():", "case byJob, r.stopNoted():"),
		Breaks: "a hook that was killed is told as a stop, because systemd then ended run as well",
	},
	{
		Name: "stop-not-requested", Pkg: "phases", Run: "TestStop|TestPostStop",
		Edits:  edit(runStackFile, "\tr.requestStop(ctx, \"\")\n", ""),
		Breaks: "a stop whose job is over before post-stop looks counts as a crash",
	},
}
