package main

import "github.com/node-lifecycle/node-lifecycle/internal/mutants/overlay"

const (
	peerFile      = "phases/peer.go"
	preStartFile  = "phases/prestart.go"
	runStackFile  = "phases/runstack.go"
	abilitiesFile = "phases/abilities.go"
)

// claimMutants break the protocol that keeps two stacks from running.
var claimMutants = []mutant{
	{
		Name: "peer-evidence-skipped", Pkg: "phases", Run: "TestPreStart|TestPeerCheck",
		Edits:  edit(peerFile, "if r.peer == \"\" {\n\t\treturn peerDown(", "if true {\n\t\treturn peerDown("),
		Breaks: "two stacks run: nobody looks whether the peer is up",
	},
	{
		Name: "peer-evidence-before-the-lock", Pkg: "phases", Run: "TestPreStart", Cheap: true,
		Edits: edit(preStartFile,
			"\tif r.settled, out.release, err = r.settle(ctx); err != nil {\n\t\treturn out, err\n\t}\n\tv := r.lookAtPeer(ctx)\n",
			"\tv := r.lookAtPeer(ctx)\n\tif r.settled, out.release, err = r.settle(ctx); err != nil {\n\t\treturn out, err\n\t}\n"),
		Breaks: "two stacks run: the peer starts between the look and the lock",
	},
	{
		Name: "host-lock-not-held-for-the-commit", Pkg: "phases", Run: "TestPreStart",
		Edits:  edit(preStartFile, "\t}\n\tv := r.lookAtPeer(ctx)\n", "\t}\n\tout.release()\n\tout.release = nil\n\tv := r.lookAtPeer(ctx)\n"),
		Breaks: "two stacks run: both slots decide at the same time",
	},
	{
		Name: "fence-skipped", Pkg: "phases", Run: "TestPreStart", Cheap: true,
		Edits:  edit(preStartFile, "fenced, weak, err := r.fencePeer(ctx)", "fenced, weak, err := \"\", false, error(nil)"),
		Breaks: "two stacks run: the engine executes a start of the peer late",
	},
	{
		Name: "fence-failure-ignored", Pkg: "phases", Run: "TestPreStart",
		Edits:  edit(peerFile, "if err == nil {\n\t\treturn detail, weak, nil", "if err == nil || ctx.Err() == nil {\n\t\treturn detail, weak, nil"),
		Breaks: "two stacks run: the peer could not be fenced and the start goes on",
	},
	{
		Name: "weak-fence-trusted", Pkg: "phases", Run: "TestPreStart",
		Edits:  edit(preStartFile, "if weak {\n", "if weak && false {\n"),
		Breaks: "two stacks run: a renamed container of somebody else's was started all the same",
	},
	{
		Name: "unknown-container-is-no", Pkg: "phases", Run: "TestPreStart|TestPeerCheck", Cheap: true,
		Edits:  edit(peerFile, "alive, detail, err := able.Alive(ctx, r.peer)\n\tswitch {\n\tcase err != nil:", "alive, detail, err := able.Alive(ctx, r.peer)\n\tswitch {\n\tcase err != nil && alive:"),
		Breaks: "two stacks run: an engine that does not answer counts as a peer that is down",
	},
	{
		Name: "unknown-unit-is-no", Pkg: "phases", Run: "TestPreStart",
		Edits: edit(peerFile, "case err != nil:\n\t\treturn r.unknown(ctx, \"cannot prove that \"+r.peer+\" is down\", err), true\n\tcase u.Down():",
			"case err != nil, u.Down():"),
		Breaks: "two stacks run: systemd does not answer, and the peer is between its claim and its start",
	},
	{
		Name: "unknown-weakly-is-no", Pkg: "phases", Run: "TestWeak|TestThree|TestPreStart",
		Edits:  edit(peerFile, "running, detail, err := r.l.Controller.Running(ctx, r.peer)\n\tswitch {\n\tcase err != nil:", "running, detail, err := r.l.Controller.Running(ctx, r.peer)\n\tswitch {\n\tcase err != nil && running:"),
		Breaks: "two stacks run: a backend with three methods could not tell whether the peer runs",
	},
	{
		Name: "unit-evidence-skipped", Pkg: "phases", Run: "TestPreStart", Cheap: true,
		Edits:  edit(peerFile, "if r.l.Supervisor == nil || r.claim.Holder != r.peer && !r.claim.Unknown {", "if true {"),
		Breaks: "two stacks run: the peer holds the claim and has not come to its start yet",
	},
	{
		Name: "unit-evidence-for-nobodys-claim", Pkg: "phases", Run: "TestPreStart",
		Edits:  edit(peerFile, "if r.l.Supervisor == nil || r.claim.Holder != r.peer && !r.claim.Unknown {", "if r.l.Supervisor == nil {"),
		Breaks: "two units that start at once refuse each other for ever",
	},
	{
		Name: "unknown-claim-is-nobodys", Pkg: "phases", Run: "TestPreStart",
		Edits:  edit(peerFile, "r.claim.Holder != r.peer && !r.claim.Unknown {", "r.claim.Holder != r.peer {"),
		Breaks: "two stacks run: the journal was lost while the peer was on its way up",
	},
	{
		Name: "unknown-claim-blocks-both", Pkg: "phases", Run: "TestPreStart",
		Edits:  edit(peerFile, "case r.claim.Unknown && u.beforeMain() && r.goesFirst():\n\t\treturn v, false\n", ""),
		Breaks: "after a lost journal two units that start at once refuse each other for ever",
	},
	{
		Name: "both-go-first", Pkg: "phases", Run: "TestPreStart",
		Edits:  edit(peerFile, "r.owns(r.peer) || r.slot < r.peer", "r.owns(r.peer) || r.slot != r.peer"),
		Breaks: "two stacks run: two plain processes started at once after a lost journal, neither asks for the claim",
	},
	{
		Name: "forgotten-stacks-are-not-looked-for", Pkg: "phases", Run: "TestStray", Cheap: true,
		Edits:  edit(peerFile, "\t\tcase alive:\n\t\t\treturn verdict{cause: CausePeerAlive, err: fmt.Errorf(\"another stack", "\t\tcase alive && ctx.Err() != nil:\n\t\t\treturn verdict{cause: CausePeerAlive, err: fmt.Errorf(\"another stack"),
		Breaks: "two stacks run: the slots were renamed while one was up",
	},
	{
		Name: "run-trusts-its-claim-alone", Pkg: "phases", Run: "TestRunStack_LooksAtThePeer",
		Edits:  edit("phases/runstack.go", "if v := r.lookAtStacks(ctx); v.cause != \"\" {", "if v := r.lookAtStacks(ctx); v.cause != \"\" && ctx.Err() != nil {"),
		Breaks: "two stacks run: the units of one host keep two journals",
	},
	{
		Name: "unit-with-a-job-is-down", Pkg: "phases", Run: "TestPreStart|TestPeerCheck",
		Edits:  edit(abilitiesFile, `u.ActiveState == "failed") && u.JobID == 0`, `u.ActiveState == "failed")`),
		Breaks: "two stacks run: the peer's start is queued and counts as none",
	},
	{
		Name: "epoch-stands-still", Pkg: "phases", Run: "TestPreStart", Cheap: true,
		Edits:  edit(peerFile, "\tclaim.Epoch++\n", ""),
		Breaks: "a container of an old claim cannot be told from one of the new",
	},
	{
		Name: "claim-not-taken", Pkg: "phases", Run: "TestPreStart",
		Edits:  edit(peerFile, "claim.Holder, claim.Last, claim.Unknown = r.slot, r.slot, false", "claim.Last, claim.Unknown = r.slot, false"),
		Breaks: "the peer finds nobody's claim while this slot is on its way up",
	},
	{
		Name: "claim-stays-unknown", Pkg: "phases", Run: "TestPreStart",
		Edits:  edit(peerFile, "claim.Holder, claim.Last, claim.Unknown = r.slot, r.slot, false", "claim.Holder, claim.Last = r.slot, r.slot"),
		Breaks: "after a lost journal no stack can ever be started again",
	},
	{
		Name: "claim-of-an-old-boot", Pkg: "phases", Run: "TestPreStart",
		Edits:  edit(peerFile, "claim.Boot, claim.Activation, claim.Time = r.boot(), r.activation(), r.stepBegan", "claim.Activation, claim.Time = r.activation(), r.stepBegan"),
		Breaks: "run refuses every start after the first reboot",
	},
	{
		Name: "claim-of-an-old-activation", Pkg: "phases", Run: "TestPreStart",
		Edits:  edit(peerFile, "claim.Boot, claim.Activation, claim.Time = r.boot(), r.activation(), r.stepBegan", "claim.Boot, claim.Time = r.boot(), r.stepBegan"),
		Breaks: "run refuses every start after the first activation",
	},
	{
		Name: "claim-changed-hands-unseen", Pkg: "phases", Run: "TestPreStart",
		Edits:  edit(peerFile, "if claim.Epoch != r.claim.Epoch {", "if claim.Epoch < r.claim.Epoch {"),
		Breaks: "two slots hold the claim in turn, each sure that it is alone, when the host lock is not shared",
	},
	{
		Name: "peers-books-not-settled", Pkg: "phases", Run: "TestPreStart", Cheap: true,
		Edits:  edit(peerFile, "return r.settlePeer(t, v)", "return nil, nil"),
		Breaks: "both slots are up in the books, and the peer's failure has no entry",
	},
	{
		Name: "peers-reboot-is-lost", Pkg: "phases", Run: "TestPreStart",
		Edits:  edit(peerFile, "if head.Boot != r.boot() {\n\t\to.event", "if head.Boot == \"\" {\n\t\to.event"),
		Breaks: "every reboot looks like a crash of the stack",
	},
	{
		Name: "peers-run-left-open", Pkg: "phases", Run: "TestPreStart",
		Edits:  edit(peerFile, "\t\thead:  func(h *journal.Head) { h.Open = nil },\n\t}\n\tif head.Boot", "\t}\n\tif head.Boot"),
		Breaks: "resume takes up a run of the peer that has long been settled",
	},
	{
		Name: "peer-check-forgets-the-last-holder", Pkg: "phases", Run: "TestPeerCheck",
		Edits:  edit(peerFile, "if v.cause == \"\" {\n\t\t\tv = r.lookAtLastHolder(ctx)\n\t\t}\n", ""),
		Breaks: "with both units enabled, which slot comes up at boot is a matter of luck",
	},
	{
		Name: "run-does-not-check-the-claim", Pkg: "phases", Run: "TestRunStack",
		Edits:  edit(runStackFile, "if err := r.checkClaim(); err != nil {", "if err := r.checkClaim(); err != nil && r.claim.Epoch == ^uint64(0) {"),
		Breaks: "two stacks run: a late start goes on although the peer has taken the claim",
	},
	{
		Name: "run-with-the-peers-claim", Pkg: "phases", Run: "TestRunStack",
		Edits:  edit(runStackFile, "case c.Holder != r.slot:", "case c.Holder == \"\":"),
		Breaks: "two stacks run: the claim is the peer's",
	},
	{
		Name: "run-with-an-unknown-claim", Pkg: "phases", Run: "TestRunStack",
		Edits:  edit(runStackFile, "case c.Unknown:\n", "case c.Unknown && c.Epoch == 0:\n"),
		Breaks: "two stacks run: the claim was lost with the journal",
	},
	{
		Name: "run-of-another-boot", Pkg: "phases", Run: "TestRunStack",
		Edits:  edit(runStackFile, "case c.Boot != r.boot():\n", "case c.Boot == \"\":\n"),
		Breaks: "a stack is started on what was found out before the reboot",
	},
	{
		Name: "run-of-another-activation", Pkg: "phases", Run: "TestRunStack",
		Edits:  edit(runStackFile, "case c.Activation != r.activation():\n", "case c.Activation == \"\":\n"),
		Breaks: "a stack is started without a pre-start of its own",
	},
	{
		Name: "run-without-the-host-lock", Pkg: "phases", Run: "TestRunStack", Cheap: true,
		Edits:  edit(runStackFile, "\tdefer release()\n\tif err := r.load(ctx)", "\trelease()\n\tif err := r.load(ctx)"),
		Breaks: "two stacks run: the peer decides between the look at the claim and the start",
	},
	{
		Name: "run-reads-the-claim-before-the-lock", Pkg: "phases", Run: "TestRunStack",
		Edits: []overlay.Edit{
			{File: runStackFile, Old: "\trelease, err := r.l.locks().Host(ctx, r.phase)\n", New: "\tloadErr := r.load(ctx)\n\trelease, err := r.l.locks().Host(ctx, r.phase)\n"},
			{File: runStackFile, Old: "\tdefer release()\n\tif err := r.load(ctx); err != nil {", New: "\tdefer release()\n\tif err := loadErr; err != nil {"},
		},
		Breaks: "two stacks run: the claim changes hands while run waits for the lock",
	},
}
