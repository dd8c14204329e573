package container

import (
	"cmp"
	"fmt"
	"path"
	"time"
)

// Defaults of the zero values in UnitParams.
const (
	DefaultBinary             = "/usr/bin/node-lifecycle"
	DefaultEngineUnit         = "docker.service"
	DefaultUnitTemplate       = "node-stack@.service"
	DefaultStateDir           = "/var/lib/node-lifecycle"
	DefaultRestartDelay       = 20 * time.Second
	DefaultStartLimitInterval = 15 * time.Minute
	DefaultStartLimitBurst    = 5
)

const (
	// startSlack and stopSlack are what a timeout adds to the budget it must outlast.
	startSlack = 2 * time.Minute
	stopSlack  = 30 * time.Second
	// engineOutage is how long the engine may be away at boot without using up the unit's starts.
	engineOutage = 10 * time.Minute
)

// UnitParams are the values that go into the unit files. A zero field means its default.
type UnitParams struct {
	Binary       string // absolute path of node-lifecycle, stable over upgrades: the hook lines must never change
	Config       string // configuration file, for the hooks' environment; "": the built-in place
	EngineUnit   string
	UnitTemplate string // the node stack's unit, a template such as node-stack@.service
	StateDir     string // where the journal is

	StartBudget  time.Duration // the longest phase of a start; TimeoutStart must exceed it
	StopBudget   time.Duration // the longest phase of a stop, the stack's grace included
	EngineWait   time.Duration // how long peer-check waits for the engine; zero: it does not wait
	TimeoutStart time.Duration // of any one start command; 0: what is longer of StartBudget and EngineWait, and 2 min
	TimeoutStop  time.Duration // of a stop, and of any one stop command; 0: StopBudget and 30 s; at least StopBudget

	RestartDelay       time.Duration // before an automatic restart
	StartLimitInterval time.Duration
	StartLimitBurst    int // starts per interval; 0: 5, or as many as ten minutes without an engine take

	ReconcileInterval time.Duration // of the timer; 0: no timer
	ReconcileArgs     []string      // flags of the timer's and the service's reconcile, before the slot
}

// prepared returns the parameters with defaults filled in, or a [UnitValueError] for the first that cannot be.
func (p UnitParams) prepared() (UnitParams, error) {
	p.Binary = cmp.Or(p.Binary, DefaultBinary)
	p.EngineUnit = cmp.Or(p.EngineUnit, DefaultEngineUnit)
	p.UnitTemplate = cmp.Or(p.UnitTemplate, DefaultUnitTemplate)
	p.StateDir = cmp.Or(p.StateDir, DefaultStateDir)
	p.RestartDelay = cmp.Or(p.RestartDelay, DefaultRestartDelay)
	p.StartLimitInterval = cmp.Or(p.StartLimitInterval, DefaultStartLimitInterval)
	for _, check := range []func() error{p.checkTexts, p.checkSpans, p.fillTimeouts, p.fillStartLimit} {
		if err := check(); err != nil {
			return UnitParams{}, err
		}
	}
	return p, nil
}

func (p *UnitParams) checkTexts() error {
	if err := checkExecutable("Binary", p.Binary); err != nil {
		return err
	}
	if err := checkPath("StateDir", p.StateDir); err != nil {
		return err
	}
	if p.Config != "" {
		if err := checkPath("Config", p.Config); err != nil {
			return err
		}
	}
	if err := checkUnitName("EngineUnit", p.EngineUnit); err != nil {
		return err
	}
	for _, arg := range p.ReconcileArgs {
		if err := checkText("ReconcileArgs", arg); err != nil {
			return err
		}
	}
	_, suffix, err := splitTemplate("UnitTemplate", p.UnitTemplate)
	if err == nil && suffix != ".service" {
		err = &UnitValueError{"UnitTemplate", p.UnitTemplate, "is no service; it must end in @.service"}
	}
	return err
}

func (p *UnitParams) checkSpans() error {
	for _, field := range []spanField{
		{"StartBudget", p.StartBudget}, {"StopBudget", p.StopBudget}, {"EngineWait", p.EngineWait},
		{"TimeoutStart", p.TimeoutStart}, {"TimeoutStop", p.TimeoutStop}, {"RestartDelay", p.RestartDelay},
		{"StartLimitInterval", p.StartLimitInterval}, {"ReconcileInterval", p.ReconcileInterval},
	} {
		if err := field.check(); err != nil {
			return err
		}
	}
	if p.RestartDelay < time.Second {
		return &UnitValueError{"RestartDelay", p.RestartDelay.String(), "is shorter than a second"}
	}
	if p.StartLimitInterval > 24*time.Hour {
		return &UnitValueError{"StartLimitInterval", p.StartLimitInterval.String(), "is longer than a day"}
	}
	return nil
}

// fillTimeouts derives the timeouts from the budgets. A timeout below its budget would kill a phase that still has
// time, and at a stop leave a container behind that no unit supervises.
func (p *UnitParams) fillTimeouts() error {
	longest := max(p.StartBudget, p.EngineWait)
	if p.TimeoutStart == 0 {
		p.TimeoutStart = addSpans(longest, startSlack)
	}
	if p.TimeoutStop == 0 {
		p.TimeoutStop = addSpans(p.StopBudget, stopSlack)
	}
	if p.TimeoutStart <= longest && p.TimeoutStart != Infinity {
		return &UnitValueError{"TimeoutStart", p.TimeoutStart.String(),
			fmt.Sprintf("does not exceed the longest phase of a start, %s", longest)}
	}
	if p.TimeoutStop < p.StopBudget {
		return &UnitValueError{"TimeoutStop", p.TimeoutStop.String(),
			fmt.Sprintf("is shorter than a stop may take, %s", p.StopBudget)}
	}
	return nil
}

// fillStartLimit sizes the start limit: an engine that is away at boot must not use it up, and a stack that fails at
// once must.
func (p *UnitParams) fillStartLimit() error {
	outage := min(engineOutage, p.StartLimitInterval)
	starts := int(outage/addSpans(p.EngineWait, p.RestartDelay)) + 1
	if p.StartLimitBurst == 0 {
		p.StartLimitBurst = max(DefaultStartLimitBurst, starts)
	}
	if p.StartLimitBurst < starts {
		return &UnitValueError{"StartLimitBurst", fmt.Sprint(p.StartLimitBurst),
			fmt.Sprintf("is used up before an engine that is away for %s is back; it takes %d starts", engineOutage, starts)}
	}
	if time.Duration(p.StartLimitBurst) >= p.StartLimitInterval/p.RestartDelay {
		return &UnitValueError{"StartLimitInterval", p.StartLimitInterval.String(),
			fmt.Sprintf("is never reached: %d starts take longer, so a broken stack would be started for ever", p.StartLimitBurst)}
	}
	return nil
}

// journalPath is the file without which there is nothing to resume.
func (p *UnitParams) journalPath() string { return path.Join(p.StateDir, "journal.db") }

// restartLimit is the longest that one restart of the node stack's unit may take: the stop command, the wait for what
// is left and the command after the stop, then the condition, the commands before and after the start.
func (p *UnitParams) restartLimit() time.Duration {
	start := addSpans(p.TimeoutStart, addSpans(p.TimeoutStart, p.TimeoutStart))
	stop := addSpans(p.TimeoutStop, addSpans(p.TimeoutStop, p.TimeoutStop))
	return addSpans(start, stop)
}

// addSpans adds two durations that are not negative; Infinity absorbs.
func addSpans(a, b time.Duration) time.Duration {
	if a > Infinity-b {
		return Infinity
	}
	return a + b
}
