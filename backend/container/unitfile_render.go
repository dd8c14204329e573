package container

import (
	"strconv"
	"strings"
)

// instanceName is systemd's specifier for the escaped name of an instance, here the slot.
const instanceName = "%i"

// RenderUnits renders every unit file that the parameters ask for: the node stack's template, the resume unit, the
// reconcile service and, with a ReconcileInterval, its timer. The error is a [UnitValueError].
func RenderUnits(p UnitParams) ([]UnitFile, error) {
	p, err := p.prepared()
	if err != nil {
		return nil, err
	}
	files := []UnitFile{
		{p.UnitTemplate, p.template()},
		{ResumeUnit, p.resume()},
		{ReconcileUnit, p.reconcile()},
	}
	if p.ReconcileInterval > 0 {
		files = append(files, UnitFile{ReconcileTimer, p.reconcileTimer()})
	}
	return files, nil
}

// RenderTemplate renders the node stack's template unit, one instance per slot. The error is a [UnitValueError].
func RenderTemplate(p UnitParams) ([]byte, error) { return p.render((*UnitParams).template) }

// RenderResume renders the unit that finishes at boot what a crash or a reboot interrupted. The node stack's unit is
// never ordered after it. The error is a [UnitValueError].
func RenderResume(p UnitParams) ([]byte, error) { return p.render((*UnitParams).resume) }

// RenderReconcile renders the service that reconciles a slot, ordered after the slot's unit and never the other way:
// the start it waits for would wait for itself. The error is a [UnitValueError].
func RenderReconcile(p UnitParams) ([]byte, error) { return p.render((*UnitParams).reconcile) }

// RenderReconcileTimer renders the timer that runs the reconcile service every ReconcileInterval, which must be set.
// The error is a [UnitValueError].
func RenderReconcileTimer(p UnitParams) ([]byte, error) {
	if p.ReconcileInterval == 0 {
		return nil, &UnitValueError{"ReconcileInterval", "0", "must be set for a timer"}
	}
	return p.render((*UnitParams).reconcileTimer)
}

func (p UnitParams) render(body func(*UnitParams) []byte) ([]byte, error) {
	p, err := p.prepared()
	if err != nil {
		return nil, err
	}
	return body(&p), nil
}

// template renders the node stack's unit. Every comment gives the reason for a line that looks as if it could be
// changed.
func (p *UnitParams) template() []byte {
	t := newUnitText("To change one slot, use `systemctl edit`.")
	t.begin("Unit")
	t.set("Description", "Node stack "+instanceName)
	t.set("Documentation", projectURL)
	t.comment(
		"Wants=, not Requires= or BindsTo=: those stop the stack together with the engine, or for good",
		"when the engine crashes, although its containers may well live on.")
	t.list("Wants", p.EngineUnit, "network-online.target")
	t.list("After", p.EngineUnit, "network-online.target")
	p.stateMounts(t)
	t.comment(
		"An engine that is away for ten minutes at boot must not use up the starts; a stack that fails",
		"at once must. Starts by hand and by reconcile count as well.")
	t.set("StartLimitIntervalSec", timeSpan(p.StartLimitInterval))
	t.set("StartLimitBurst", strconv.Itoa(p.StartLimitBurst))

	t.begin("Service")
	p.hooks(t)
	p.limits(t)

	t.begin("Install")
	t.set("WantedBy", "multi-user.target")
	return t.bytes()
}

// conditionScript runs its arguments and passes on their two answers. As systemd reads it: "$$" is a "$".
const conditionScript = `'"$$0" "$$@"; case $$? in 0) exit 0;; 76) exit 76;; esac; exit 255'`

// hooks adds the commands and what they need to run.
func (p *UnitParams) hooks(t *unitText) {
	t.set("Type", "exec")
	t.comment("The hooks report with STATUS=, peer-check from behind a shell; exec would not hear that one.")
	t.set("NotifyAccess", "all")
	t.comment("The shell's output would bear the shell's name.")
	t.set("SyslogIdentifier", "node-lifecycle")
	t.comment(
		"No StateDirectory=: systemd takes a directory that it cannot set up for a condition that is not",
		"met. The journal makes its directory itself, and says what is wrong with it.")
	p.environment(t)
	t.comment(
		"Only a condition can refuse a start without failing the unit, and so without being asked again",
		"and again: 76 (the peer is alive) skips the start, 255 (it cannot be known) fails it. systemd",
		"takes every other code for a skip as well, also its own (203: there is no binary) and those of a",
		"process that dies early. So a shell makes 255 of them, or the unit would stay down for good.")
	t.set("ExecCondition", "/bin/sh -c "+conditionScript+" "+p.command("peer-check")+" "+instanceName)
	t.comment(
		"Keep this the last ExecStartPre= and its text as it is. It reloads systemd while it runs, and",
		"systemd skips the rest of a list whose running line it does not find again.")
	t.set("ExecStartPre", p.command("pre-start")+" "+instanceName)
	t.set("ExecStart", p.command("run")+" "+instanceName)
	t.set("ExecStartPost", p.command("post-start")+" "+instanceName)
	t.set("ExecStop", p.command("stop")+" "+instanceName)
	t.comment("Unlike ExecStop= this also runs when the start did not come to its end.")
	t.set("ExecStopPost", p.command("post-stop")+" "+instanceName)
}

// limits adds the timeouts and what happens after a failure.
func (p *UnitParams) limits(t *unitText) {
	t.comment(
		"For each command of a start. Any daemon-reload makes it count for all commands of the same kind",
		"together and forgets every extension, so it is fixed, and longer than the longest phase.")
	t.set("TimeoutStartSec", timeSpan(p.TimeoutStart))
	t.comment(
		"Signal, grace, kill and the wait for the end fit in here. A shorter one leaves a container behind",
		"that no unit supervises.")
	t.set("TimeoutStopSec", timeSpan(p.TimeoutStop))
	t.comment("A hook that outlives its unit would act on the next activation's stack.")
	t.set("KillMode", "control-group")
	t.set("Delegate", "no")
	t.comment(
		"No SuccessExitStatus=: it would hold for the hooks too, and a refused or interrupted pre-start",
		"would count as success and start the stack.")
	t.set("Restart", "on-failure")
	t.set("RestartSec", timeSpan(p.RestartDelay))
}

// resume renders the unit for the boot.
func (p *UnitParams) resume() []byte {
	t := newUnitText(
		"Finishes what a crash or a reboot interrupted. Never order the node stack's unit after this one:",
		"each would wait for the other.")
	t.begin("Unit")
	t.set("Description", "Resume interrupted node stack phases")
	t.set("Documentation", projectURL)
	p.stateMounts(t)
	t.set("ConditionPathExists", literalPercent(p.journalPath()))
	t.list("Wants", p.EngineUnit)
	t.list("After", p.EngineUnit)

	t.begin("Service")
	t.set("Type", "oneshot")
	p.environment(t)
	t.set("ExecStart", p.command("resume"))
	t.comment("Each slot has its own budget; how many slots there are, only the configuration knows.")
	t.set("TimeoutStartSec", timeSpan(Infinity))

	t.begin("Install")
	t.set("WantedBy", "multi-user.target")
	return t.bytes()
}

// reconcile renders the service that reconciles one slot.
func (p *UnitParams) reconcile() []byte {
	node := strings.Replace(p.UnitTemplate, "@", "@"+instanceName, 1)
	t := newUnitText(
		"Brings one slot in line with its configuration. It waits for the node stack's unit, so that unit",
		"must never be ordered after this one: both would wait until a timeout, with the stack stopped.")
	t.begin("Unit")
	t.set("Description", "Reconcile node stack "+instanceName)
	t.set("Documentation", projectURL)
	t.set("After", node)
	p.stateMounts(t)

	t.begin("Service")
	t.set("Type", "oneshot")
	p.environment(t)
	t.set("ExecStart", p.command(append([]string{"reconcile"}, p.ReconcileArgs...)...)+" "+instanceName)
	t.comment("A whole restart of the node stack's unit: three commands to start it, three waits to stop it.")
	t.set("TimeoutStartSec", timeSpan(p.restartLimit()))
	return t.bytes()
}

// reconcileTimer renders the timer of the reconcile service.
func (p *UnitParams) reconcileTimer() []byte {
	t := newUnitText("Enable it for the slots that are to run, never for one that is kept down.")
	t.begin("Unit")
	t.set("Description", "Reconcile node stack "+instanceName+" from time to time")
	t.set("Documentation", projectURL)

	t.begin("Timer")
	t.comment("Counted from the end of the last run, so that two never meet.")
	t.set("OnActiveSec", timeSpan(p.ReconcileInterval))
	t.set("OnUnitInactiveSec", timeSpan(p.ReconcileInterval))
	t.comment("Not every host at the same moment.")
	t.set("RandomizedDelaySec", timeSpan(p.ReconcileInterval/10))

	t.begin("Install")
	t.set("WantedBy", "timers.target")
	return t.bytes()
}

// stateMounts has a unit wait for the file systems that the journal's directory is on: one made before they are mounted
// would be another journal.
func (p *UnitParams) stateMounts(t *unitText) { t.set("RequiresMountsFor", quotedWord(p.StateDir)) }

// environment tells the commands where a configuration is that is not in its usual place. It is no flag, because the
// text of the hook lines must never change.
func (p *UnitParams) environment(t *unitText) {
	if p.Config != "" {
		t.set("Environment", quotedWord("NODE_LIFECYCLE_CONFIG="+p.Config))
	}
}

// command renders a call of node-lifecycle with literal words.
func (p *UnitParams) command(words ...string) string {
	line := quotedWord(p.Binary)
	for _, word := range words {
		line += " " + execWord(word)
	}
	return line
}
