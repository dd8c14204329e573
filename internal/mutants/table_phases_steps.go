package main

import "github.com/node-lifecycle/node-lifecycle/internal/mutants/overlay"

const (
	stepFile     = "phases/step.go"
	runFile      = "phases/run.go"
	exitCodeFile = "phases/errors.go"
)

// stepMutants break how a phase writes down what it does.
var stepMutants = []mutant{
	{
		Name: "intent-not-written", Pkg: "phases", Run: "TestPreStart|TestPostStart",
		Edits:  edit(stepFile, "if err := r.record(ctx, nil, r.intent(s)); err != nil {", "if r.intent(s); ctx.Err() != nil {\n\t\terr := ctx.Err()"),
		Breaks: "a process that dies in its first step leaves no trace",
	},
	{
		Name: "outcome-and-intent-in-two-commits", Pkg: "phases", Cheap: true,
		Edits: edit(stepFile, "\t\tops = append(ops, r.intent(next))\n",
			"\t\tif err := r.record(ctx, out.books, ops...); err != nil {\n\t\t\treturn err\n\t\t}\n\t\tout.books, ops = nil, []op{r.intent(next)}\n"),
		Breaks: "a process killed between the two seems to have stopped at a step that had ended; and every step costs two flushes",
	},
	{
		Name: "told-before-it-is-durable", Pkg: "phases",
		Edits:  edit(runFile, "\t\t\twritten = append(written, e)\n", "\t\t\tr.l.tell(&e)\n"),
		Breaks: "people read of a transition that a crash then takes back",
	},
	{
		Name: "taken-over-run-writes-on", Pkg: "phases", Run: "TestRun_TakenOver", Cheap: true,
		Edits:  edit(runFile, "if head.Open == nil || head.Open.Run != r.id {", "if head.Open != nil && head.Open.Run == \"\" {"),
		Breaks: "a hook that hung writes Wired over a stop",
	},
	{
		Name: "interrupted-is-success", Pkg: "phases", Run: "Interrupted",
		Edits:  edit(stepFile, "if err := r.perform(ctx, s, next); err != nil {", "if err := r.perform(ctx, s, next); err != nil && ctx.Err() == nil {"),
		Breaks: "after a kill of pre-start by hand systemd starts the stack",
	},
	{
		Name: "interrupted-exits-1", Pkg: "phases", Run: "Interrupted",
		Edits:  edit(exitCodeFile, "return 128 + signal.Signal", "return 128"),
		Breaks: "people and scripts cannot tell an interruption from a crash",
	},
	{
		Name: "stop-job-is-a-failure", Pkg: "phases", Run: "Interrupted", Cheap: true,
		Edits:  edit(stepFile, "case f.Cause == CauseInterrupted && !f.Refused && r.stopAsked(ctx):", "case f.Cause == CauseInterrupted && f.Refused && r.stopAsked(ctx):"),
		Breaks: "a stop during a start counts as a failed attempt",
	},
	{
		Name: "start-job-is-a-stop", Pkg: "phases",
		Edits:  edit(abilitiesFile, `case "stop", "restart", "try-restart":`, `case "start", "stop", "restart", "try-restart":`),
		Breaks: "a start that timed out looks as if somebody had asked for the stop",
	},
	{
		Name: "no-last-words-after-sigterm", Pkg: "phases", Run: "Interrupted",
		Edits:  edit(stepFile, "if ctx.Err() != nil {\n\t\treturn late(ctx)\n\t}\n", ""),
		Breaks: "an interrupted phase writes nothing down",
	},
	{
		Name: "refusal-is-a-failure", Pkg: "phases", Run: "TestPreStart",
		Edits:  edit(stepFile, "f.Refused = !s.ends && !r.canFail()", "f.Refused = s.ends && !r.canFail()"),
		Breaks: "every start that the peer forbids counts as failed",
	},
	{
		Name: "refused-run-fails-an-older-one", Pkg: "phases", Run: "TestPreStart",
		Edits:  edit(stepFile, "if r.phase == PhasePreStart && r.head.Run != r.id {", "if r.phase == \"\" {"),
		Breaks: "a pre-start that may not begin fails the activation before it, with the wrong reason",
	},
	{
		Name: "panic-ends-the-process", Pkg: "phases", Run: "TestPreStart_Fails",
		Edits:  edit(stepFile, "if v := recover(); v != nil {", "if v := any(nil); v != nil {"),
		Breaks: "a bug in a backend leaves an open run and no reason",
	},
	{
		Name: "budget-of-the-step-ignored", Pkg: "phases", Run: "TestPostStart",
		Edits:  edit(stepFile, "context.WithTimeoutCause(ctx, s.budget(r.l), errBudget)", "context.WithTimeoutCause(ctx, 100*s.budget(r.l), errBudget)"),
		Breaks: "a stack that never becomes ready is waited for until systemd kills the hook",
	},
	{
		Name: "no-evidence", Pkg: "phases", Run: "TestPreStart_Fails|TestPostStop",
		Edits:  edit(stepFile, "\treturn evidence\n", "\treturn evidence[:0]\n"),
		Breaks: "after a failed start nobody can say what the container's last words were",
	},
	{
		Name: "after-the-commit-forgotten", Pkg: "phases", Run: "TestPreStart",
		Edits:  edit(stepFile, "if out.after != nil {", "if out.after != nil && next == nil {"),
		Breaks: "two stacks run: the second look behind a weak fence is not taken",
	},
	{
		Name: "run-stays-open", Pkg: "phases", Run: "TestPreStart|TestPostStart",
		Edits:  edit(stepFile, "entry: journal.Entry{Exit: &code},\n\t\thead:  func(h *journal.Head) { h.Open = nil },", "entry: journal.Entry{Exit: &code},"),
		Breaks: "every phase that ended looks as if it had been killed",
	},
	{
		Name: "living-peer-counts-as-an-attempt", Pkg: "phases", Run: "TestPostStop|TestAttempts", Cheap: true,
		Edits:  edit(runFile, "countsAsAttempt(Cause(e.Cause)) && startedBy(e)", "startedBy(e)"),
		Breaks: "the idle slot of a healthy pair reports more failed attempts every day",
	},
	{
		Name: "success-keeps-the-attempts", Pkg: "phases", Run: "TestAttempts|TestPostStart",
		Edits:  edit(runFile, "h.Attempts, h.LastSuccess = 0, e.Seq", "h.LastSuccess = e.Seq"),
		Breaks: "a slot that is up reports failed attempts",
	},
	{
		Name: "stop-counts-as-an-attempt", Pkg: "phases", Run: "TestAttempts",
		Edits:  edit(runFile, "h.Attempts = max(0, h.Attempts-1)", "h.Attempts = max(0, h.Attempts)"),
		Breaks: "a start that somebody called off counts as failed",
	},
	{
		Name: "attempts-below-zero", Pkg: "phases", Run: "TestAttempts",
		Edits:  edit(runFile, "h.Attempts = max(0, h.Attempts-1)", "h.Attempts--"),
		Breaks: "a stop after a reset makes the number of attempts negative",
	},
	{
		Name: "newest-failure-pinned", Pkg: "phases", Run: "TestAttempts",
		Edits:  edit(runFile, "if h.FirstFailure <= h.LastSuccess {", "if h.FirstFailure <= seq {"),
		Breaks: "after a night of restarts the first failure, which has the reason, is gone",
	},
	{
		Name: "success-not-pinned", Pkg: "phases", Run: "TestAttempts|TestPostStart",
		Edits:  edit(runFile, "h.Attempts, h.LastSuccess = 0, e.Seq", "h.Attempts = 0"),
		Breaks: "nobody can say when the slot was up last",
	},
	{
		Name: "run-of-another-boot-lives", Pkg: "phases",
		Edits:  edit(runFile, "return o.Boot == l.Host.Boot() && l.Host.ProcessAlive(o.PID, o.Start)", "return l.Host.ProcessAlive(o.PID, o.Start)"),
		Breaks: "after a reboot some new process has the old number, and resume does nothing",
	},
	{
		Name: "every-run-lives", Pkg: "phases",
		Edits:  edit(runFile, "return o.Boot == l.Host.Boot() && l.Host.ProcessAlive(o.PID, o.Start)", "return o.Boot == l.Host.Boot()"),
		Breaks: "resume never does anything",
	},
	{
		Name: "any-panic-is-a-locked-journal", Pkg: "phases",
		Edits:  edit(exitCodeFile, "\tCauseBug:          ExitBug,\n", "\tCauseBug:          ExitTemporary,\n"),
		Breaks: "a bug looks like something to try again",
	},
	{
		Name: "regenerate-after-reload", Pkg: "phases", Run: "TestPreStart",
		Edits: []overlay.Edit{
			{File: preStartFile, Old: "do: regenerate,", New: "do: reload_,"},
			{File: preStartFile, Old: "do: reload,", New: "do: regenerate,"},
			{File: preStartFile, Old: "do: reload_,", New: "do: reload,"},
		},
		Breaks: "systemd has loaded the configuration of the start before this one",
	},
}
