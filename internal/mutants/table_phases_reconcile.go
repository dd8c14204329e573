package main

const (
	reconcileFile = "phases/reconcile.go"
	resumeFile    = "phases/resume.go"
)

// reconcileMutants break reconcile.
var reconcileMutants = []mutant{
	{
		Name: "reconcile-inside-the-unit", Pkg: "phases", Run: "TestReconcile",
		Edits:  edit(reconcileFile, "case r.l.Self.Unit == u.Name && u.Name != \"\":", "case r.l.Self.Unit == u.Name && u.Name == \"\":"),
		Breaks: "a hook that restarts its own unit is killed by the restart, again and again",
	},
	{
		Name: "reconcile-beside-a-job", Pkg: "phases", Run: "TestReconcile",
		Edits:  edit(reconcileFile, "case u.JobID != 0:", "case u.JobID != 0 && u.JobType == \"restart\":"),
		Breaks: "a stop that somebody has just asked for is turned into a restart",
	},
	{
		Name: "start-limit-off-by-one", Pkg: "phases", Run: "TestReconcile", Cheap: true,
		Edits:  edit(reconcileFile, "own := u.StartLimitBurst - 1", "own := u.StartLimitBurst"),
		Breaks: "the restart trips the limit: systemd stops the healthy unit and does not start it again",
	},
	{
		Name: "start-limit-counts-for-ever", Pkg: "phases", Run: "TestReconcile",
		Edits:  edit(reconcileFile, "since := time.Now().Add(-interval)", "since := time.Now().Add(-1000 * interval)"),
		Breaks: "after a few restarts in a year reconcile refuses for good",
	},
	{
		Name: "reset-does-not-count", Pkg: "phases", Run: "TestReconcile",
		Edits:  edit(reconcileFile, "since = e.Time // what lies before", "_ = e.Time // what lies before"),
		Breaks: "reset does not let reconcile go on",
	},
	{
		Name: "start-limit-not-reset", Pkg: "phases", Run: "TestReconcile",
		Edits:  edit(reconcileFile, "if err := r.l.Supervisor.ResetFailed(ctx, r.slot); err != nil {", "if err := ctx.Err(); err != nil {"),
		Breaks: "the restart trips the limit although the journal counted few starts",
	},
	{
		Name: "reconcile-without-request", Pkg: "phases", Run: "TestReconcile",
		Edits:  edit(reconcileFile, "op{note: fsm.NoteRequested, entry: journal.Entry{Step: \"restart\", Detail: \"restart of the stack\"}}", "[]op{}..."),
		Breaks: "nobody can say who asked for the restart",
	},
	{
		Name: "reconcile-ok-when-failed", Pkg: "phases", Run: "TestReconcile",
		Edits:  edit(reconcileFile, "case restartErr == nil && r.state() == fsm.Wired:", "case restartErr == nil || r.state() == fsm.Wired:"),
		Breaks: "reconcile says that all is well and the slot is down",
	},
	{
		Name: "old-activation-is-the-new-one", Pkg: "phases", Run: "TestReconcile",
		Edits:  edit(reconcileFile, "r.head.Activation == u.Activation && u.Activation != before.Activation || r.l.Supervisor == nil", "r.head.Activation == u.Activation || r.l.Supervisor == nil"),
		Breaks: "reconcile reports the state from before the restart",
	},
	{
		Name: "reconcile-takes-an-open-run-for-the-end", Pkg: "phases", Run: "TestReconcile",
		Edits:  edit(reconcileFile, "if mine && r.state().Terminal() && r.head.Open == nil {", "if mine && r.head.Open == nil {"),
		Breaks: "reconcile reports the end of a start between pre-start and post-start",
	},
	{
		Name: "reconcile-closes-a-hooks-run", Pkg: "phases", Run: "TestReconcile",
		Edits:  edit(reconcileFile, "\tend.head = nil // the open run, if any, is a hook's\n", ""),
		Breaks: "the end of reconcile takes the slot from a hook that is still at work",
	},
	{
		Name: "missing-hooks-not-told", Pkg: "phases", Run: "TestReconcile",
		Edits:  edit(reconcileFile, "if !seen[line.phase] && u.ActiveState == \"active\" {", "if !seen[line.phase] && u.ActiveState == \"failed\" {"),
		Breaks: "a unit without our lines gives an error that names no cause",
	},
	{
		Name: "refused-restart-is-not-told", Pkg: "phases", Run: "TestReconcile",
		Edits:  edit(reconcileFile, "case word.Kind == string(fsm.NoteRefused):", "case word.Kind == string(fsm.NoteGap):"),
		Breaks: "reconcile does not say that the peer is alive",
	},
}

// resumeMutants break resume.
var resumeMutants = []mutant{
	{
		Name: "resume-stops-what-it-may-continue", Pkg: "phases", Run: "TestResume", Cheap: true,
		Edits:  edit(resumeFile, "{fsm.Starting, CutInStep, true, ResumeContinue,", "{fsm.Starting, CutInStep, true, ResumeSettle,"),
		Breaks: "resume takes a healthy stack down because its hook was killed",
	},
	{
		Name: "resume-continues-without-the-unit", Pkg: "phases", Run: "TestResume",
		Edits:  edit(resumeFile, "{fsm.Starting, CutInStep, false, ResumeSettle,", "{fsm.Starting, CutInStep, false, ResumeContinue,"),
		Breaks: "a container without a unit is declared wired, and nothing supervises it",
	},
	{
		Name: "resume-meddles-between-the-phases", Pkg: "phases", Run: "TestResume",
		Edits:  edit(resumeFile, "{fsm.Regenerated, CutBetween, true, ResumeNothing,", "{fsm.Regenerated, CutBetween, true, ResumeSettle,"),
		Breaks: "resume at boot stops a start that is well on its way",
	},
	{
		Name: "resume-stops-a-wired-slot", Pkg: "phases", Run: "TestResume",
		Edits:  edit(resumeFile, "{fsm.Wired, CutBetween, true, ResumeNothing,", "{fsm.Wired, CutBetween, true, ResumeSettle,"),
		Breaks: "resume takes down a slot that is up",
	},
	{
		Name: "resume-leaves-a-lost-slot", Pkg: "phases", Run: "TestResume",
		Edits:  edit(resumeFile, "{fsm.Wired, CutBetween, false, ResumeSettle,", "{fsm.Wired, CutBetween, false, ResumeNothing,"),
		Breaks: "a slot whose unit vanished stays Wired for ever",
	},
	{
		Name: "resume-leaves-a-reboot", Pkg: "phases", Run: "TestResume",
		Edits:  edit(resumeFile, "{fsm.Wired, CutByReboot, false, ResumeSettle,", "{fsm.Wired, CutByReboot, false, ResumeNothing,"),
		Breaks: "after a power cut the books say that the stack is up",
	},
	{
		Name: "resume-settles-what-failed", Pkg: "phases", Run: "TestResume",
		Edits:  edit(resumeFile, "{fsm.Failed, CutBetween, false, ResumeClear,", "{fsm.Failed, CutBetween, false, ResumeSettle,"),
		Breaks: "every resume writes another entry about a failure that is long over",
	},
	{
		Name: "resume-continues-a-dead-stack", Pkg: "phases", Run: "TestResume",
		Edits:  edit(resumeFile, "alive && steps != nil {", "(alive || steps != nil) && steps != nil {"),
		Breaks: "resume waits two minutes for a stack that is gone",
	},
	{
		Name: "resume-beside-a-living-run", Pkg: "phases", Run: "TestResume",
		Edits:  edit(resumeFile, "if l.runLives(r.head.Open) || ", "if "),
		Breaks: "resume waits for, and then settles, a run that is at work",
	},
	{
		Name: "resume-without-the-slots-lock", Pkg: "phases", Run: "TestResume", Cheap: true,
		Edits:  edit(resumeFile, "if release == nil { // held: not interrupted but running\n\t\treturn ResumeNothing, nil\n\t}\n", "if release == nil {\n\t\trelease = func() {}\n\t}\n"),
		Breaks: "resume settles a run that is at work",
	},
	{
		Name: "resume-keeps-the-claim", Pkg: "phases", Run: "TestResume",
		Edits:  edit(resumeFile, "\t\t\tout.books = func(t tx) ([]op, error) { return nil, r.release(t) }\n", ""),
		Breaks: "the peer is asked about a claim that nobody uses",
	},
	{
		Name: "resume-in-its-own-name", Pkg: "phases", Run: "TestResume",
		Edits:  edit(resumeFile, "\tr.self.Activation, r.self.Unit = unit.Activation, unit.Name\n", ""),
		Breaks: "what resume brought up belongs to no activation, and the next post-stop calls it somebody else's",
	},
	{
		Name: "any-activation-is-ours", Pkg: "phases", Run: "TestResume",
		Edits:  edit(resumeFile, "return u, up && activation != \"\" && u.Activation == activation, nil", "return u, up && activation != \"\", nil"),
		Breaks: "resume goes on with a run of an activation that has been over for long",
	},
	{
		Name: "reboot-not-noticed", Pkg: "phases", Run: "TestResume",
		Edits:  edit(resumeFile, "case r.found != nil && r.found.Boot != r.boot(), r.state().Live() && r.head.Boot != r.boot():", "case r.found != nil && r.found.Boot == \"\":"),
		Breaks: "a run from before the reboot is gone on with",
	},
	{
		Name: "resume-without-asking-systemd", Pkg: "phases", Run: "TestResume",
		Edits:  edit(resumeFile, "u, err := r.l.Supervisor.Unit(ctx, r.slot)\n\tif err != nil {", "u, err := r.l.Supervisor.Unit(ctx, r.slot)\n\tif err != nil && u.Name != \"\" {"),
		Breaks: "systemd does not answer, and resume stops a stack whose unit is up",
	},
	{
		Name: "repeatable-ignored", Pkg: "phases", Run: "TestResume",
		Edits:  edit(resumeFile, "postStartSteps[i].from == r.state() &&", "postStartSteps[i].from != fsm.Wired &&"),
		Breaks: "resume begins a start again that had already got further",
	},
}
