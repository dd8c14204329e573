package main

const (
	normalizeFile = "internal/argv/normalize.go"
	budgetsFile   = "internal/config/budgets.go"
	defaultsFile  = "internal/config/defaults.go"
	validateFile  = "internal/config/validate.go"
	decodeFile    = "internal/config/decode.go"
	loadFile      = "internal/config/load.go"
)

// argvMutants break the order of the words of a command line.
var argvMutants = []mutant{
	{
		Name: "argv-flag-behind-the-slot-lost", Pkg: "internal/argv", Run: "TestNormalize",
		Edits:  edit(normalizeFile, "\tcase isFlag(word):\n", "\tcase isFlag(word) && len(w.rest) == 0:\n"),
		Breaks: "history kube1 -n 5 shows everything, pre-start kube1 --force forces nothing",
	},
	{
		Name: "argv-end-of-flags-ignored", Pkg: "internal/argv", Run: "TestNormalize",
		Edits:  edit(normalizeFile, "\tcase word == \"--\":\n\t\tw.ended = true\n", "\tcase word == \"--\":\n"),
		Breaks: "what follows -- is taken for flags",
	},
	{
		Name: "argv-flag-eats-a-flag", Pkg: "internal/argv", Run: "TestNormalize",
		Edits:  edit(normalizeFile, "case isFlag(word) && !isNegative(word) && !accepts(flag, word):", "case isFlag(word) && isNegative(word) && !accepts(flag, word):"),
		Breaks: "a forgotten value takes the next flag with it",
	},
	{
		Name: "argv-boot-eats-the-slot", Pkg: "internal/argv", Run: "TestNormalize",
		Edits:  edit(normalizeFile, "if w.next < len(w.argv) && accepts(flag, w.argv[w.next]) && !w.special(w.argv[w.next]) {", "if w.next < len(w.argv) && !w.special(w.argv[w.next]) {"),
		Breaks: "history -b kube1 takes the slot for a boot",
	},
	{
		Name: "argv-value-missing-is-fine", Pkg: "internal/argv", Run: "TestNormalize",
		Edits:  edit(normalizeFile, "\tcase w.err != nil:\n\t\treturn nil, w.err\n", ""),
		Breaks: "a command runs although a flag has no value",
	},
	{
		Name: "argv-help-runs-the-command", Pkg: "internal/argv", Run: "TestNormalize",
		Edits:  edit(normalizeFile, "\tcase help && !w.lost():\n\t\tw.help = true\n", "\tcase help && !w.lost():\n"),
		Breaks: "reset kube1 -h resets",
	},
	{
		Name: "argv-letters-not-split", Pkg: "internal/argv", Run: "TestNormalize",
		Edits:  edit(normalizeFile, "if dashes == \"-\" {\n\t\treturn w.matchLetters", "if dashes == \"\" {\n\t\treturn w.matchLetters"),
		Breaks: "history -rn5 is not understood",
	},
}

// configMutants break the configuration.
var configMutants = []mutant{
	{
		Name: "config-unknown-key-ignored", Pkg: "internal/config", Run: "TestLoad|TestError", Cheap: true,
		Edits:  edit(decodeFile, "\t\t\td.fail(k, join(key, name), unknownKey(v.Type(), name))\n", ""),
		Breaks: "a mistyped peer: leaves the slot without a guard",
	},
	{
		Name: "config-one-sided-peers", Pkg: "internal/config", Run: "TestLoad|TestConfig",
		Edits:  edit(validateFile, "case other.Peer != name:", "case other.Peer == \"\" && name == \"\":"),
		Breaks: "two stacks run: one slot guards itself against one that does not",
	},
	{
		Name: "config-own-peer", Pkg: "internal/config", Run: "TestLoad|TestConfig",
		Edits:  edit(validateFile, "case peer == name:\n", "case peer == name && !known:\n"),
		Breaks: "a slot that is its own peer refuses every start",
	},
	{
		Name: "config-shared-container", Pkg: "internal/config", Run: "TestLoad|TestConfig",
		Edits:  edit(validateFile, "if first, ok := containers[s.Container.Name]; ok {", "if first, ok := containers[s.Container.Name]; ok && first == name {"),
		Breaks: "the start of one slot removes the other one's container",
	},
	{
		Name: "config-shared-unit", Pkg: "internal/config", Run: "TestLoad|TestConfig",
		Edits:  edit(validateFile, "if first, ok := units[s.Unit]; ok {", "if first, ok := units[s.Unit]; ok && first == name {"),
		Breaks: "two slots take each other's hooks for their own",
	},
	{
		Name: "config-drop-in-loses-the-peer", Pkg: "internal/config", Run: "TestLoad|TestConfig",
		Edits:  edit(defaultsFile, "\t\tif key := slotKey(name, \"peer\"); c.has(key) && c.Slots[name].Peer != other {\n\t\t\treturn\n\t\t}\n", "\t\treturn\n"),
		Breaks: "two stacks run: a drop-in that names one slot's image takes its peer away",
	},
	{
		Name: "config-environment-wins", Pkg: "internal/config", Run: "TestLoad|TestConfig",
		Edits:  edit(loadFile, "\tc.applyEnvironment(o.Getenv, &p)\n\tc.applyOverrides(o.Overrides, &p)\n", "\tc.applyOverrides(o.Overrides, &p)\n\tc.applyEnvironment(o.Getenv, &p)\n"),
		Breaks: "a flag on the command line has no effect",
	},
	{
		Name: "config-missing-file-is-fine", Pkg: "internal/config", Run: "TestLoad",
		Edits:  edit(loadFile, "case !errors.Is(err, fs.ErrNotExist) || o.Required:", "case !errors.Is(err, fs.ErrNotExist):"),
		Breaks: "a mistyped --config means the defaults",
	},
	{
		Name: "config-unit-timeout-below-the-budget", Pkg: "internal/config", Run: "TestBudgets",
		Edits:  edit(budgetsFile, "b.TimeoutStart = wholeSeconds(max(b.PeerCheck, b.PreStart, b.PostStart) + unitSlack)", "b.TimeoutStart = wholeSeconds(max(b.PeerCheck, b.PreStart) + unitSlack)"),
		Breaks: "systemd kills a post-start that still has time",
	},
	{
		Name: "config-stop-timeout-below-the-grace", Pkg: "internal/config", Run: "TestBudgets",
		Edits:  edit(budgetsFile, "lockSlack + evidenceSlack + s.Container.Stop.Grace + killSlack", "lockSlack + evidenceSlack + killSlack"),
		Breaks: "two stacks run: systemd gives up on a stop that the container survives",
	},
	{
		Name: "config-pull-without-time", Pkg: "internal/config", Run: "TestBudgets",
		Edits:  edit(budgetsFile, "if s.Container.Pull != PullNever {", "if s.Container.Pull == PullNever {"),
		Breaks: "fetching an image eats the time of the start",
	},
	{
		Name: "config-engine-away-trips-the-limit", Pkg: "internal/config", Run: "TestBudgets",
		Edits:  edit(budgetsFile, "return max(attempts+1, minStartBurst)", "return max(attempts-1, minStartBurst)"),
		Breaks: "an engine that is slow at boot leaves the unit failed for good",
	},
	{
		Name: "config-busy-poll", Pkg: "internal/config", Run: "TestLoad|TestConfig",
		Edits:  edit(validateFile, "case poll > 0 && poll < minPoll:", "case poll > 0 && poll < 0:"),
		Breaks: "poll: 1us makes every wait a busy loop",
	},
}
