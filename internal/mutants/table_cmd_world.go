package main

const (
	statusNotesFile = "cmd/node-lifecycle/status_notes.go"
	unitsFile       = "cmd/node-lifecycle/units.go"
	historyFile     = "cmd/node-lifecycle/history_filter.go"
	appFile         = "cmd/node-lifecycle/app.go"
	keptFile        = "cmd/node-lifecycle/kept.go"
	logFile         = "cmd/node-lifecycle/log.go"
	unitRenderFile  = "backend/container/unitfile_render.go"
	dialFile        = "backend/container/engine_dial.go"
	logReaderFile   = "backend/container/logreader.go"
	attendFile      = "backend/container/attend.go"
	imageFile       = "backend/container/engine_image.go"
)

// sightMutants break what people see, and with which configuration a command goes on.
var sightMutants = []mutant{
	{
		Name: "kept-before-a-refusal", Pkg: "cmd/node-lifecycle", Run: "TestScripts/kept",
		Edits:  edit(hooksFile, "\tif byUnit {\n\t\te.keep(s)\n", "\tif byUnit || s.cfg != nil {\n\t\te.keep(s)\n"),
		Breaks: "a hook typed by hand that is refused replaces the configuration that the living slot was started under",
	},
	{
		Name: "kept-never", Pkg: "cmd/node-lifecycle", Run: "TestScripts/kept",
		Edits:  edit(hooksFile, "\tif byUnit {\n\t\te.keep(s)\n", "\tif byUnit && s.cfg == nil {\n\t\te.keep(s)\n"),
		Breaks: "an invalid configuration keeps a living slot from being stopped",
	},
	{
		Name: "kept-is-good-enough-to-begin", Pkg: "cmd/node-lifecycle", Run: "TestScripts/kept",
		Edits:  edit(hooksFile, "e.hook(\"pre-start\", toBegin,", "e.hook(\"pre-start\", toGoOn,"),
		Breaks: "a slot starts under a configuration that nobody has any more",
	},
	{
		Name: "kept-of-another-slot-comes-first", Pkg: "cmd/node-lifecycle", Run: "TestScripts/(kept|slot)",
		Edits:  edit(keptFile, "slot == of || slot == \"\" || ok && !e.hasKept(slot)", "slot == \"\" || ok && of != slot"),
		Breaks: "a slot is stopped by the configuration of its peer's start",
	},
	{
		Name: "units-from-the-environment", Pkg: "cmd/node-lifecycle", Run: "TestScripts/units",
		Edits:  edit(unitsFile, "cfg.Origin(v.Key).Kind == config.OriginEnvironment", "cfg.Origin(v.Key).Kind == config.OriginFlag"),
		Breaks: "units are installed whose hooks use another journal or engine than was meant",
	},
	{
		Name: "status-unknown-is-green", Pkg: "cmd/node-lifecycle",
		Edits:  edit(statusNotesFile, "case s.alive == nil && (s.State", "case s.alive == nil && s.Slot == \"\" && (s.State"),
		Breaks: "a slot that nobody can see has the mark of one that is up",
	},
	{
		Name: "complaint-not-escaped", Pkg: "cmd/node-lifecycle", Run: "TestComplaints|TestLineHandler", Cheap: true,
		Edits:  edit(environmentFile, "\t\tline = render.Escape(strings.ReplaceAll(line, \"\\t\", \"    \"))\n", "\t\t_ = render.Escape\n"),
		Breaks: "what an engine says takes over the terminal of whoever reads it",
	},
	{
		Name: "log-not-escaped", Pkg: "cmd/node-lifecycle", Run: "TestComplaints|TestLineHandler",
		Edits:  edit(logFile, "render.Escape(strings.ReplaceAll(b.String(), \"\\n\", \" \"))", "render.Escape(\"\") + strings.ReplaceAll(b.String(), \"\\n\", \" \")"),
		Breaks: "what an engine says takes over the terminal of whoever reads a hook's output",
	},
	{
		Name: "history-since-behind-until", Pkg: "cmd/node-lifecycle", Run: "TestScripts/usage",
		Edits:  edit(historyFile, "f.until.Before(f.since)", "f.until.Before(time.Time{})"),
		Breaks: "a question that cannot have an answer looks as if nothing had happened",
	},
	{
		Name: "version-runs-the-command", Pkg: "cmd/node-lifecycle", Run: "TestScripts/version",
		Edits:  edit(appFile, "if c.Bool(\"version\") && c.App.Command(c.Args().First()) != nil {", "if c.Bool(\"version\") && c.NArg() < 0 {"),
		Breaks: "reset --version resets",
	},
}

// unitMutants break the units, and what is read of an engine.
var unitMutants = []mutant{
	{
		Name: "condition-skips-for-any-code", Pkg: "backend/container", Run: "TestCondition",
		Edits:  edit(unitRenderFile, "76) exit 76;; esac; exit 255'", "76) exit 76;; *) exit $$?;; esac'"),
		Breaks: "a binary that is away for a moment leaves the node down for good, and nobody is told",
	},
	{
		Name: "condition-skips-for-nobody", Pkg: "backend/container", Run: "TestCondition",
		Edits:  edit(unitRenderFile, "76) exit 76;; esac", "77) exit 77;; esac"),
		Breaks: "the unit of the idle slot fails, and is restarted, for as long as its peer is up",
	},
	{
		Name: "condition-eats-an-answer", Pkg: "backend/container", Run: "TestCondition",
		Edits:  edit(unitRenderFile, "`'\"$$0\" \"$$@\"; case", "`'\"$$0\" \"$$1\"; case"),
		Breaks: "peer-check is not told the slot, and no slot starts any more",
	},
	{
		Name: "condition-status-not-heard", Pkg: "backend/container", Run: "TestTemplateRules",
		Edits:  edit(unitRenderFile, "t.set(\"NotifyAccess\", \"all\")", "t.set(\"NotifyAccess\", \"exec\")"),
		Breaks: "systemctl status says nothing while peer-check waits for the engine",
	},
	{
		Name: "state-directory-not-mounted", Pkg: "backend/container", Run: "TestTemplateRules|TestRendered",
		Edits:  edit(unitRenderFile, "t.set(\"RequiresMountsFor\", quotedWord(p.StateDir))", "_ = quotedWord(p.StateDir)"),
		Breaks: "a start before the mount makes a second journal, which knows nothing of the claim",
	},
	{
		Name: "answer-without-end", Pkg: "backend/container", Run: "TestAnswerWithoutEnd",
		Edits:  edit(dialFile, "if room <= 0 && len(p) > 0 {\n\t\treturn 0, &longAnswerError{m.limit}\n\t}\n\tn, err := m.Conn.Read(p[:min(int64(len(p)), room)])", "_ = room\n\tn, err := m.Conn.Read(p)"),
		Breaks: "a server that talks without end takes all memory of the host",
	},
	{
		Name: "answers-add-up", Pkg: "backend/container", Run: "TestManyAnswers",
		Edits:  edit(dialFile, "\tm.read.Store(0)\n", ""),
		Breaks: "a long wait loses its connection again and again",
	},
	{
		Name: "frame-without-end", Pkg: "backend/container", Run: "TestReadFrames",
		Edits:  edit(logReaderFile, "if size > frameMax {", "if size > 1<<32-1 {"),
		Breaks: "eight bytes make run ask for 4 GiB",
	},
	{
		Name: "log-has-a-limit", Pkg: "backend/container", Run: "TestAttend_OutputLonger",
		Edits:  edit(attendFile, "if own, err = a.engine.unmetered(cli); err != nil {", "if own = cli; err != nil {"),
		Breaks: "run reads the log from the beginning of the overlap for ever, once that is longer than the limit",
	},
	{
		Name: "pull-that-tells-much-fails", Pkg: "backend/container", Run: "TestPullThatTellsMuch",
		Edits:  edit(imageFile, "errors.As(err, &long) && pause(bounded, c.opts.PollInterval)", "errors.As(err, &long) && !pause(bounded, c.opts.PollInterval)"),
		Breaks: "a large image cannot be pulled",
	},
}

// configUnitMutants break what the configuration and the units must agree on.
var configUnitMutants = []mutant{
	{
		Name: "config-unknown-variable-ignored", Pkg: "cmd/node-lifecycle", Run: "TestScripts/environment", Cheap: true,
		Edits:  edit(loadFile, "\tunknownVariables(o.Environ, &p)\n", ""),
		Breaks: "a mistyped variable goes unnoticed",
	},
	{
		Name: "config-instance-of-the-peer", Pkg: "internal/config", Run: "TestError|TestLoad",
		Edits:  edit(validateFile, "_, other := c.Slots[instance]; other && instance != name", "_, other := c.Slots[instance]; other && instance == \"\""),
		Breaks: "the unit of one slot starts and stops the other",
	},
	{
		Name: "config-path-that-units-refuse", Pkg: "cmd/node-lifecycle", Run: "TestUnitsRefuse",
		Edits:  edit(validateFile, "if msg := unitPathFault(c.StateDir); msg != \"\" {", "if msg := pathFault(c.StateDir); msg != \"\" {"),
		Breaks: "config check is silent about what units refuses",
	},
	{
		Name: "config-two-names-of-a-directory", Pkg: "internal/config", Run: "TestLoad",
		Edits:  edit(loadFile, "\tc.StateDir = cleanPath(c.StateDir)\n", ""),
		Breaks: "a slash at the end of state_dir is refused by units",
	},
}
