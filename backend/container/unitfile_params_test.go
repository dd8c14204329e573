package container

import (
	"strings"
	"testing"
	"time"
)

func TestUnitParamsTimeouts(t *testing.T) {
	for _, tt := range []struct {
		name        string
		p           UnitParams
		start, stop time.Duration
		field       string // of the error
	}{
		{"nothing given", UnitParams{}, 2 * time.Minute, 30 * time.Second, ""},
		{"from the budgets", UnitParams{StartBudget: 5 * time.Minute, StopBudget: time.Minute}, 7 * time.Minute, 90 * time.Second, ""},
		{"peer-check waits longest", UnitParams{StartBudget: time.Minute, EngineWait: 4 * time.Minute}, 6 * time.Minute, 30 * time.Second, ""},
		{"given", UnitParams{StartBudget: time.Minute, StopBudget: time.Minute, TimeoutStart: 61 * time.Second, TimeoutStop: time.Minute}, 61 * time.Second, time.Minute, ""},
		{"no limits", UnitParams{StartBudget: Infinity, TimeoutStop: Infinity}, Infinity, Infinity, ""},
		{"start too short", UnitParams{StartBudget: time.Minute, TimeoutStart: time.Minute}, 0, 0, "TimeoutStart"},
		{"start shorter than the engine's wait", UnitParams{EngineWait: 2 * time.Minute, TimeoutStart: time.Minute}, 0, 0, "TimeoutStart"},
		{"stop too short", UnitParams{StopBudget: time.Minute, TimeoutStop: 59 * time.Second}, 0, 0, "TimeoutStop"},
		{"negative", UnitParams{StopBudget: -1}, 0, 0, "StopBudget"},
		{"negative interval", UnitParams{ReconcileInterval: -1}, 0, 0, "ReconcileInterval"},
	} {
		p, err := tt.p.prepared()
		checkField(t, tt.name, err, tt.field)
		if err == nil && (p.TimeoutStart != tt.start || p.TimeoutStop != tt.stop) {
			t.Errorf("%s: start %v, stop %v", tt.name, p.TimeoutStart, p.TimeoutStop)
		}
	}
}

func checkField(t *testing.T, name string, err error, field string) {
	t.Helper()
	switch {
	case field == "" && err != nil:
		t.Errorf("%s: %v", name, err)
	case field != "" && (err == nil || !strings.HasPrefix(err.Error(), field+" ") || !isMisconfigured(err)):
		t.Errorf("%s: %v, want an error about %s", name, err, field)
	}
}

func TestUnitParamsStartLimit(t *testing.T) {
	for _, tt := range []struct {
		name  string
		p     UnitParams
		burst int
		field string
	}{
		{"peer-check waits two minutes", UnitParams{EngineWait: 2 * time.Minute}, 5, ""},
		{"peer-check waits half a minute", UnitParams{EngineWait: 30 * time.Second}, 13, ""},
		{"peer-check does not wait", UnitParams{}, 31, ""},
		{"given", UnitParams{EngineWait: 2 * time.Minute, StartLimitBurst: 8}, 8, ""},
		{"used up by an engine that is away", UnitParams{EngineWait: 2 * time.Minute, StartLimitBurst: 4}, 0, "StartLimitBurst"},
		{"never reached", UnitParams{EngineWait: time.Minute, StartLimitInterval: 100 * time.Second}, 0, "StartLimitInterval"},
		{"no pause", UnitParams{RestartDelay: time.Millisecond}, 0, "RestartDelay"},
		{"no end", UnitParams{StartLimitInterval: Infinity}, 0, "StartLimitInterval"},
	} {
		p, err := tt.p.prepared()
		checkField(t, tt.name, err, tt.field)
		if err == nil && p.StartLimitBurst != tt.burst {
			t.Errorf("%s: burst %d", tt.name, p.StartLimitBurst)
		}
	}
}

// The size of the start limit, checked against systemd's way of counting: an interval begins with the first start after
// the last one is over.
func TestStartLimitOutlastsTheOutage(t *testing.T) {
	for _, wait := range []time.Duration{0, time.Second, 30 * time.Second, 2 * time.Minute, 9 * time.Minute, 20 * time.Minute} {
		p, err := UnitParams{EngineWait: wait}.prepared()
		if err != nil {
			t.Fatal(err)
		}
		simulate := func(attempt, until time.Duration) (refused bool) {
			var begun time.Duration
			starts := 0
			for now := time.Duration(0); now <= until; now += attempt + p.RestartDelay {
				if starts == 0 || now >= begun+p.StartLimitInterval {
					begun, starts = now, 0
				}
				if starts++; starts > p.StartLimitBurst {
					return true
				}
			}
			return false
		}
		if simulate(wait, engineOutage) {
			t.Errorf("wait %v: start-limit-hit before the engine is back", wait)
		}
		if !simulate(0, 24*time.Hour) {
			t.Errorf("wait %v: a stack that fails at once is started for ever", wait)
		}
	}
}

func TestUnitParamsTexts(t *testing.T) {
	for _, tt := range []struct {
		name  string
		p     UnitParams
		field string
	}{
		{"newline", UnitParams{Binary: "/usr/bin/nl\nExecStartPre=/bin/evil"}, "Binary"},
		{"relative", UnitParams{Binary: "node-lifecycle"}, "Binary"},
		{"not clean", UnitParams{Binary: "/usr//bin/nl"}, "Binary"},
		{"the root", UnitParams{StateDir: "/"}, "StateDir"},
		{"variable in the executable", UnitParams{Binary: "/usr/$X"}, "Binary"},
		{"backslash in the executable", UnitParams{Binary: `/usr/\x41`}, "Binary"},
		{"no UTF-8", UnitParams{Config: "/etc/\xff"}, "Config"},
		{"NUL", UnitParams{StateDir: "/var/\x00"}, "StateDir"},
		{"C1 control", UnitParams{StateDir: "/var/\u0085x"}, "StateDir"},
		{"trailing space", UnitParams{StateDir: "/var/x "}, "StateDir"},
		{"trailing wide space", UnitParams{StateDir: "/var/x\u2003"}, "StateDir"},
		{"too long", UnitParams{StateDir: "/" + strings.Repeat("x", unitPathMax)}, "StateDir"},
		{"second directive in an argument", UnitParams{ReconcileArgs: []string{"a\rb"}}, "ReconcileArgs"},
		{"two engines", UnitParams{EngineUnit: "a.service b.service"}, "EngineUnit"},
		{"no engine's unit", UnitParams{EngineUnit: "docker"}, "EngineUnit"},
		{"specifier in a unit", UnitParams{EngineUnit: "%i.service"}, "EngineUnit"},
		{"no template", UnitParams{UnitTemplate: "node-stack.service"}, "UnitTemplate"},
		{"instance", UnitParams{UnitTemplate: "node-stack@kube1.service"}, "UnitTemplate"},
		{"no service", UnitParams{UnitTemplate: "node-stack@.socket"}, "UnitTemplate"},
		{"everything odd but allowed", oddParams("/opt/50% off/node-lifecycle"), ""},
	} {
		_, err := tt.p.prepared()
		checkField(t, tt.name, err, tt.field)
	}
	_, err := UnitParams{StateDir: "/" + strings.Repeat("x", 5000)}.prepared()
	if len(err.Error()) > 400 {
		t.Errorf("an error text of %d bytes", len(err.Error()))
	}
}

func TestRenderDropInRefusals(t *testing.T) {
	for name, d := range map[string]DropIn{
		"DropIn.TimeoutStart": {TimeoutStart: -1},
		"DropIn.TimeoutStop":  {TimeoutStop: -1},
		"DropIn.EngineUnit":   {EngineUnit: "docker.service\nExecStartPre=/bin/evil"},
	} {
		_, err := RenderDropIn(d)
		checkField(t, name, err, name)
	}
	if path := DropInPath("/etc/systemd/system", fakeUnit); path != "/etc/systemd/system/node-stack@kube1.service.d/50-node-lifecycle.conf" {
		t.Error(path)
	}
}
