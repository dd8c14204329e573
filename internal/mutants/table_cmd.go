package main

const (
	mainFile        = "cmd/node-lifecycle/main.go"
	environmentFile = "cmd/node-lifecycle/environment.go"
	locksFile       = "cmd/node-lifecycle/locks.go"
	slotsFile       = "cmd/node-lifecycle/slots.go"
	wireFile        = "cmd/node-lifecycle/wire.go"
	hooksFile       = "cmd/node-lifecycle/hooks.go"
)

// cmdMutants break what systemd and scripts learn of the program, and how it is put
// together.
var cmdMutants = []mutant{
	{
		Name: "peer-check-answers-anything", Pkg: "cmd/node-lifecycle", Cheap: true,
		Edits:  edit(mainFile, "if code == 0 || code == phases.ExitPeerAlive {", "if code >= 0 {"),
		Breaks: "systemd takes an engine that is away for a skip, and the node stays down without a failed unit",
	},
	{
		Name: "peer-check-fails-for-a-living-peer", Pkg: "cmd/node-lifecycle",
		Edits:  edit(mainFile, "if code == 0 || code == phases.ExitPeerAlive {", "if code == 0 {"),
		Breaks: "the unit of the idle slot fails, and is restarted, for as long as its peer is up",
	},
	{
		Name: "peer-check-unknown-is-a-skip", Pkg: "cmd/node-lifecycle",
		Edits:  edit(mainFile, "\treturn 255\n", "\treturn phases.ExitPeerAlive\n"),
		Breaks: "a bug in peer-check looks like a living peer",
	},
	{
		Name: "peer-check-usage-is-a-skip", Pkg: "cmd/node-lifecycle",
		Edits:  edit(environmentFile, "if arg == \"peer-check\" {", "if arg == \"peer-check\" && e.args[0] == arg && len(e.args) == 2 {"),
		Breaks: "a mistyped flag in ExecCondition= skips every start without a word",
	},
	{
		Name: "panic-is-success", Pkg: "cmd/node-lifecycle",
		Edits:  edit(mainFile, "\t\t\tcode = phases.ExitBug\n", "\t\t\tcode = 0\n"),
		Breaks: "systemd starts the stack after a pre-start that crashed",
	},
	{
		Name: "sigterm-not-heard", Pkg: "cmd/node-lifecycle",
		Edits:  edit(mainFile, "signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)", "signal.Notify(signals, syscall.SIGINT, syscall.SIGHUP)"),
		Breaks: "a stop ends a phase without its last words",
	},
	{
		Name: "acts-without-root", Pkg: "cmd/node-lifecycle",
		Edits:  edit(slotsFile, "if e.euid == 0 {", "if e.euid >= 0 {"),
		Breaks: "who is not root gets an error of the lock instead of being told",
	},
	{
		Name: "foreign-activation", Pkg: "cmd/node-lifecycle",
		Edits:  edit(wireFile, "if self.Unit != cfg.Slots[slot].Unit {", "if self.Unit == \"\" {"),
		Breaks: "a hook typed in a shell that some other service started claims the pair in that service's name",
	},
	{
		Name: "locks-of-both-slots-are-one", Pkg: "cmd/node-lifecycle",
		Edits:  edit(locksFile, "l.path(slot + \".lock\")", "l.path(\"slot.lock\")"),
		Breaks: "the phases of one slot wait for those of the other",
	},
	{
		Name: "host-lock-of-a-slot", Pkg: "cmd/node-lifecycle",
		Edits:  edit(locksFile, "return held(filelock.Acquire(ctx, l.hostPath, l.holder(phase)))", "return held(filelock.Acquire(ctx, l.hostPath+\".\"+phase, l.holder(phase)))"),
		Breaks: "two stacks run: pre-start and run do not exclude each other",
	},
	{
		Name: "reconcile-waits-for-another", Pkg: "cmd/node-lifecycle",
		Edits:  edit(locksFile, "filelock.TryAcquire(path, l.holder(\"reconcile\"))", "filelock.Acquire(context.Background(), path, l.holder(\"reconcile\"))"),
		Breaks: "a timer piles up reconciles behind one that hangs",
	},
	{
		Name: "reader-gone-is-an-error", Pkg: "cmd/node-lifecycle",
		Edits:  edit(environmentFile, "\t\treturn 0 // whoever read", "\t\treturn 1 // whoever read"),
		Breaks: "history | head fails",
	},
	{
		Name: "run-exits-like-an-error", Pkg: "cmd/node-lifecycle",
		Edits:  edit(hooksFile, "return &exitError{code: code, err: err}", "return err"),
		Breaks: "the unit does not end with the code of its stack",
	},
	{
		Name: "service-result-not-passed", Pkg: "cmd/node-lifecycle",
		Edits:  edit(hooksFile, "ServiceResult: e.getenv(\"SERVICE_RESULT\"),", "ServiceResult: e.getenv(\"RESULT\"),"),
		Breaks: "a start that was skipped is cleaned up as if it had run",
	},
}
