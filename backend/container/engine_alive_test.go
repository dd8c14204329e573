package container

import (
	"errors"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"

	"github.com/node-lifecycle/node-lifecycle/backend/container/enginetest"
)

// TestAlive_States lists every state a container can be found in. Whatever may
// hold a process is alive; what nobody knows is an error.
func TestAlive_States(t *testing.T) {
	t.Parallel()
	const start = "2026-12-01T02:03:11Z"
	for name, test := range map[string]struct {
		state  container.State
		alive  bool
		detail string
		fails  bool
	}{
		"running":                {container.State{Status: "running", Running: true, Pid: 7, StartedAt: start}, true, "running since", false},
		"paused":                 {container.State{Status: "paused", Running: true, Paused: true, Pid: 7}, true, "paused, pid 7", false},
		"paused only in status":  {container.State{Status: "paused"}, true, "paused", false},
		"restarting":             {container.State{Status: "restarting", Restarting: true, Running: true}, true, "restarting (3)", false},
		"removing with process":  {container.State{Status: "removing", Pid: 7}, true, "pid 7 is still set", false},
		"removing":               {container.State{Status: "removing"}, false, "removing", false},
		"dead":                   {container.State{Status: "dead"}, false, "dead", false},
		"created":                {container.State{Status: "created", StartedAt: "0001-01-01T00:00:00Z"}, false, "never started", false},
		"created by a power cut": {container.State{Status: "created", StartedAt: start}, false, "nobody saw how", false},
		"exited": {
			container.State{Status: "exited", ExitCode: 137, OOMKilled: true, Error: "boom", StartedAt: start},
			false, "exited with code 137, killed for lack of memory (boom)", false,
		},
		"stopping with process": {container.State{Status: "stopping", Pid: 7}, true, "stopping", false},
		"stopped":               {container.State{Status: "stopped", StartedAt: start}, false, "exited with code 0", false},
		"unheard of":            {container.State{Status: "levitating"}, false, `state "levitating"`, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, enginetest.Docker)
			b.engine.Add(enginetest.Spec{Name: testContainer})
			b.engine.Change(testContainer, func(info *container.InspectResponse) {
				info.State, info.RestartCount = &test.state, 3
			})
			alive, detail, err := b.Alive(t.Context(), testSlot)
			if test.fails {
				wantError(t, err, "", test.detail)
				return
			}
			if err != nil || alive != test.alive {
				t.Errorf("Alive = %v, %v; want %v", alive, err, test.alive)
			}
			wantText(t, detail, testContainer, test.detail)
		})
	}
}

// TestAlive_WhoCounts lists whose containers are the slot's.
func TestAlive_WhoCounts(t *testing.T) {
	for name, test := range map[string]struct {
		spec  enginetest.Spec
		alive bool
	}{
		"ours":                    {enginetest.Spec{Name: testContainer, Labels: ourLabels(1), Running: true}, true},
		"ours by label alone":     {enginetest.Spec{Name: "renamed", Labels: ourLabels(1), Running: true}, true},
		"ours, kept":              {enginetest.Spec{Name: testContainer + ".kept-3", Labels: ourLabels(3), Running: true}, true},
		"somebody's by our name":  {enginetest.Spec{Name: testContainer, Running: true}, true},
		"somebody's, fenced":      {enginetest.Spec{Name: testContainer + ".nl-fenced", Running: true}, true},
		"somebody's, similar":     {enginetest.Spec{Name: testContainer + "2", Running: true}, false},
		"of another slot":         {enginetest.Spec{Name: "node-kube2", Labels: map[string]string{LabelSlot: "kube2"}, Running: true}, false},
		"somebody's, put aside":   {enginetest.Spec{Name: testContainer + ".stale-20261201T000000Z", Running: true}, false},
		"nobody's, but a label":   {enginetest.Spec{Name: "x", Labels: map[string]string{LabelSlot: ""}, Running: true}, false},
		"ours of a newer version": {enginetest.Spec{Name: "y", Labels: map[string]string{LabelSlot: testSlot, LabelContract: "9"}, Running: true}, true},
	} {
		t.Run(name, func(t *testing.T) {
			flavors(t, func(t *testing.T, flavor enginetest.Flavor) {
				b := newBench(t, flavor)
				b.engine.Add(test.spec)
				alive, detail, err := b.Alive(t.Context(), testSlot)
				if err != nil || alive != test.alive {
					t.Errorf("Alive = %v, %q, %v; want %v", alive, detail, err, test.alive)
				}
			})
		})
	}
}

func TestAlive_NothingThere(t *testing.T) {
	t.Parallel()
	b := newBench(t, enginetest.Docker)
	alive, detail, err := b.Alive(t.Context(), testSlot)
	if alive || err != nil {
		t.Errorf("Alive = %v, %v", alive, err)
	}
	wantText(t, detail, "there is no container "+testContainer)
}

// A name that is the beginning of some container's id must not be taken for
// that container.
func TestAlive_NameLooksLikeAnID(t *testing.T) {
	t.Parallel()
	e := enginetest.New(t, enginetest.Docker)
	id := e.Add(enginetest.Spec{Name: "other", Running: true})
	b := newBenchOn(t, e, func(_ *Options, s *Slot) { s.Container = id[:10] })
	if alive, detail, err := b.Alive(t.Context(), testSlot); alive || err != nil {
		t.Errorf("Alive = %v, %q, %v", alive, detail, err)
	}
}

func TestAlive_ContainerVanishesWhileLooking(t *testing.T) {
	t.Parallel()
	b := newBench(t, enginetest.Docker)
	b.engine.Add(enginetest.Spec{Name: "elsewhere", Labels: ourLabels(1), Running: true})
	b.engine.On(enginetest.OpInspect, enginetest.Action{Status: 404, Message: "No such container"})
	if alive, _, err := b.Alive(t.Context(), testSlot); alive || err != nil {
		t.Errorf("Alive = %v, %v", alive, err)
	}
}

func TestAlive_EngineTroubleIsNeverNo(t *testing.T) {
	t.Parallel()
	for _, op := range []enginetest.Op{enginetest.OpPing, enginetest.OpList, enginetest.OpInspect} {
		for name, action := range map[string]enginetest.Action{
			"500":  {Status: 500, Message: "internal"},
			"409":  {Status: 409, Message: "conflict"},
			"gone": {Break: true},
			"hang": {Hang: true},
		} {
			t.Run(string(op)+" "+name, func(t *testing.T) {
				t.Parallel()
				b := newBench(t, enginetest.Docker, func(o *Options, _ *Slot) { o.CallTimeout = 100 * time.Millisecond })
				b.engine.Add(enginetest.Spec{Name: testContainer, Labels: ourLabels(1), Running: true})
				b.engine.Intercept(func(c enginetest.Call) enginetest.Action {
					if c.Op == op {
						return action
					}
					return enginetest.Action{}
				})
				if alive, detail, err := b.Alive(t.Context(), testSlot); err == nil {
					t.Errorf("Alive = %v, %q without an error", alive, detail)
				}
			})
		}
	}
}

func TestDied(t *testing.T) {
	t.Parallel()
	old := ourLabels(1)
	old[LabelActivation] = "act-0"
	for name, test := range map[string]struct {
		spec *enginetest.Spec
		died bool
		text string
	}{
		"absent":                          {nil, false, "there is no container"},
		"created":                         {&enginetest.Spec{Name: testContainer, Labels: ourLabels(2)}, false, "never started"},
		"running":                         {&enginetest.Spec{Name: testContainer, Labels: ourLabels(2), Running: true}, false, "running"},
		"exited":                          {&enginetest.Spec{Name: testContainer, Labels: ourLabels(2), Ended: true, ExitCode: 7}, true, "exited with code 7"},
		"exited, of an earlier start":     {&enginetest.Spec{Name: testContainer, Labels: old, Ended: true}, false, "earlier start"},
		"exited, kept":                    {&enginetest.Spec{Name: testContainer + ".kept-2", Labels: ourLabels(2), Ended: true}, false, "earlier start"},
		"somebody's, exited, never alive": {&enginetest.Spec{Name: testContainer, Ended: true}, false, "earlier start"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, enginetest.Docker)
			if test.spec != nil {
				b.engine.Add(*test.spec)
			}
			died, detail, err := b.Died(t.Context(), testSlot)
			if err != nil || died != test.died {
				t.Errorf("Died = %v, %v; want %v", died, err, test.died)
			}
			wantText(t, detail, test.text)
		})
	}
}

func TestDied_SomebodysContainerThatWasSeenAlive(t *testing.T) {
	t.Parallel()
	b := newBench(t, enginetest.Docker)
	b.engine.Add(enginetest.Spec{Name: testContainer, Running: true})
	if died, _, err := b.Died(t.Context(), testSlot); died || err != nil {
		t.Fatalf("Died = %v, %v", died, err)
	}
	b.engine.Kill(testContainer)
	died, detail, err := b.Died(t.Context(), testSlot)
	if !died || err != nil {
		t.Errorf("Died = %v, %v", died, err)
	}
	wantText(t, detail, "exited with code 137")
}

func TestDied_UnitUnknown(t *testing.T) {
	t.Parallel()
	b := newBench(t, enginetest.Docker)
	b.engine.Add(enginetest.Spec{Name: testContainer, Labels: ourLabels(2), Ended: true})
	b.systemd.fail(errors.New("no bus"))
	_, _, err := b.Died(t.Context(), testSlot)
	wantError(t, err, "", "no bus")
}
