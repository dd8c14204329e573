package container

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"

	"github.com/node-lifecycle/node-lifecycle/backend/container/enginetest"
)

// TestRunning_States lists what a container may be instead of up; the detail
// names the first thing that is missing.
func TestRunning_States(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		state  container.State
		detail string
	}{
		"restarting":        {container.State{Status: "restarting", Running: true, Restarting: true}, "is restarting (3)"},
		"paused":            {container.State{Status: "paused", Running: true, Paused: true, Pid: 7}, "is paused"},
		"without a process": {container.State{Status: "running", Running: true}, "is running without a process"},
		"removing":          {container.State{Status: "removing"}, "is removing"},
		"dead":              {container.State{Status: "dead"}, "is dead"},
		"created":           {container.State{Status: "created"}, "is created, never started"},
		"exited":            {container.State{Status: "exited", ExitCode: 1}, "exited with code 1"},
		"unheard of":        {container.State{Status: "levitating"}, "is levitating"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, enginetest.Docker)
			b.engine.Add(enginetest.Spec{Name: testContainer})
			b.engine.Change(testContainer, func(info *container.InspectResponse) {
				info.State, info.RestartCount = &test.state, 3
			})
			running, detail, err := b.Running(t.Context(), testSlot)
			if running || err != nil {
				t.Errorf("Running = %v, %v", running, err)
			}
			wantText(t, detail, testContainer, test.detail)
		})
	}
}

func TestRunning_Absent(t *testing.T) {
	t.Parallel()
	b := newBench(t, enginetest.Docker)
	running, detail, err := b.Running(t.Context(), testSlot)
	if running || err != nil {
		t.Errorf("Running = %v, %v", running, err)
	}
	wantText(t, detail, "container node-kube1 does not exist")
}

func TestRunning_TwoAlive(t *testing.T) {
	t.Parallel()
	b := newBench(t, enginetest.Docker)
	b.start(t, 1)
	b.engine.Add(enginetest.Spec{Name: "stray", Labels: ourLabels(2), Running: true})
	running, detail, err := b.Running(t.Context(), testSlot)
	if running || err != nil {
		t.Errorf("Running = %v, %v", running, err)
	}
	wantText(t, detail, "are both alive")
}

func TestRunning_SteadyContainer(t *testing.T) {
	flavors(t, func(t *testing.T, flavor enginetest.Flavor) {
		b := newBench(t, flavor)
		id := b.start(t, 1)
		for range 2 { // with a look of its own, and with an earlier one
			running, detail, err := b.Running(t.Context(), testSlot)
			if !running || err != nil {
				t.Fatalf("Running = %v, %s, %v", running, detail, err)
			}
			wantText(t, detail, testContainer, short(id), "runs since")
		}
	})
}

// An engine calls a container that it restarts in a loop running.
func TestRunning_CrashLoop(t *testing.T) {
	t.Parallel()
	b := newBench(t, enginetest.Docker)
	id := b.start(t, 1)
	var looks atomic.Int32
	b.engine.Intercept(func(c enginetest.Call) enginetest.Action {
		if c.Op == enginetest.OpInspect {
			n := int(looks.Add(1))
			b.engine.Change(id, func(info *container.InspectResponse) {
				running(info)
				info.RestartCount = n
			})
		}
		return enginetest.Action{}
	})
	for range 3 {
		up, detail, err := b.Running(t.Context(), testSlot)
		if up || err != nil {
			t.Errorf("Running = %v, %v", up, err)
		}
		wantText(t, detail, "restarted between two looks")
	}
}

// secondLook lets something happen between the two looks of one Running.
func secondLook(b *bench, happen func()) {
	looks := 0
	b.engine.Intercept(func(c enginetest.Call) enginetest.Action {
		if c.Op != enginetest.OpInspect || strings.HasSuffix(c.Ref, fencedSuffix) {
			return enginetest.Action{}
		}
		if looks++; looks == 3 { // by its id from the list, by its name, and then again
			return enginetest.Action{Run: happen}
		}
		return enginetest.Action{}
	})
}

func TestRunning_BetweenTwoLooks(t *testing.T) {
	t.Parallel()
	t.Run("it exits", func(t *testing.T) {
		b := newBench(t, enginetest.Docker)
		id := b.start(t, 1)
		secondLook(b, func() { b.engine.Kill(id) })
		up, detail, err := b.Running(t.Context(), testSlot)
		if up || err != nil {
			t.Errorf("Running = %v, %v", up, err)
		}
		wantText(t, detail, "exited with code 137")
	})
	t.Run("it goes", func(t *testing.T) {
		b := newBench(t, enginetest.Docker)
		b.start(t, 1)
		b.engine.On(enginetest.OpInspect, enginetest.Action{}, enginetest.Action{}, enginetest.Action{},
			enginetest.Action{Status: 404, Message: "No such container"})
		up, detail, err := b.Running(t.Context(), testSlot)
		if up || err != nil {
			t.Errorf("Running = %v, %v", up, err)
		}
		wantText(t, detail, "is gone")
	})
	t.Run("the engine fails", func(t *testing.T) {
		b := newBench(t, enginetest.Docker)
		b.start(t, 1)
		b.engine.On(enginetest.OpInspect, enginetest.Action{}, enginetest.Action{}, enginetest.Action{},
			enginetest.Action{Status: 500, Message: "who knows"})
		_, _, err := b.Running(t.Context(), testSlot)
		wantError(t, err, "", "who knows")
	})
	t.Run("the caller's time ends", func(t *testing.T) {
		b := newBench(t, enginetest.Docker, func(o *Options, _ *Slot) { o.PollInterval = time.Second })
		b.start(t, 1)
		if _, _, err := b.Running(within(t, 300*time.Millisecond), testSlot); err == nil {
			t.Error("no error")
		}
	})
}

func TestHealth(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	start := now.Add(-time.Minute)
	at := func(d time.Duration, output string) *container.HealthcheckResult {
		return &container.HealthcheckResult{End: start.Add(d), Output: output}
	}
	for name, test := range map[string]struct {
		health  *container.Health
		started time.Time
		passed  bool
		missing string
	}{
		"no check":           {nil, start, false, ""},
		"no check, Podman":   {&container.Health{}, start, false, ""},
		"none":               {&container.Health{Status: "none"}, start, false, ""},
		"healthy":            {&container.Health{Status: "healthy", Log: []*container.HealthcheckResult{nil, at(time.Second, "")}}, start, true, ""},
		"healthy, no result": {&container.Health{Status: "healthy"}, start, false, ""},
		"healthy before":     {&container.Health{Status: "healthy", Log: []*container.HealthcheckResult{at(-time.Second, "")}}, start, false, ""},
		"unhealthy before":   {&container.Health{Status: "unhealthy", Log: []*container.HealthcheckResult{at(-time.Second, "")}}, start, false, ""},
		"unhealthy": {
			&container.Health{Status: "unhealthy", Log: []*container.HealthcheckResult{at(time.Second, "ok"), at(2*time.Second, "refused\nmore")}},
			start, false, "engine health check: unhealthy: refused",
		},
		"starting":         {&container.Health{Status: "starting"}, start, false, "engine health check: starting"},
		"starting, old":    {&container.Health{Status: "starting", Log: []*container.HealthcheckResult{at(-time.Hour, "old")}}, start, false, "engine health check: starting"},
		"starting, frozen": {&container.Health{Status: "starting"}, now.Add(-time.Hour), false, ""},
		"healthy, frozen":  {&container.Health{Status: "healthy", Log: []*container.HealthcheckResult{at(-20*time.Minute, "")}}, now.Add(-time.Hour), false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := object{InspectResponse: container.InspectResponse{
				State: &container.State{StartedAt: stamped(test.started), Health: test.health},
			}}
			passed, missing := health(o, now)
			if passed != test.passed || missing != test.missing {
				t.Errorf("%v, %q; want %v, %q", passed, missing, test.passed, test.missing)
			}
		})
	}
	slow := object{InspectResponse: container.InspectResponse{Config: &container.Config{Healthcheck: &container.HealthConfig{
		Interval: time.Minute, Timeout: time.Second, StartPeriod: time.Hour,
	}}}}
	if got, want := patience(slow), time.Hour+3*(time.Minute+time.Second); got != want {
		t.Errorf("patience %s, want %s", got, want)
	}
}

func stamped(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func TestRunning_EngineHealth(t *testing.T) {
	flavors(t, func(t *testing.T, flavor enginetest.Flavor) {
		b := newBench(t, flavor)
		id := b.start(t, 1)
		b.engine.SetHealth(id, container.Unhealthy, &container.HealthcheckResult{End: time.Now(), Output: "kubelet refused"})
		up, detail, err := b.Running(t.Context(), testSlot)
		if up || err != nil {
			t.Errorf("Running = %v, %v", up, err)
		}
		wantText(t, detail, "unhealthy: kubelet refused")
		b.engine.SetHealth(id, container.Healthy, &container.HealthcheckResult{End: time.Now()})
		if up, detail, err := b.Running(t.Context(), testSlot); !up || err != nil {
			t.Errorf("Running = %v, %s, %v", up, detail, err)
		}
	})
}
