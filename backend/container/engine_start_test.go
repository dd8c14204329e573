package container

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/node-lifecycle/node-lifecycle/backend/container/enginetest"
)

func TestStart_CreatesAndStarts(t *testing.T) {
	flavors(t, func(t *testing.T, flavor enginetest.Flavor) {
		b := newBench(t, flavor)
		if err := b.Regenerate(t.Context(), testSlot); err != nil {
			t.Fatal(err)
		}
		id := b.start(t, 7)
		c := b.one(t, testContainer)
		if c.ID != id || c.Status != "running" || c.Starts != 1 {
			t.Errorf("container %+v", c)
		}
		s, _ := b.slot(testSlot)
		spec, err := b.storedSpec(s)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{
			LabelContract: "1", LabelSlot: testSlot, LabelPair: "kube1+kube2", LabelEpoch: "7",
			LabelDigest: spec.Digest, LabelBoot: "boot-1", LabelActivation: "act-1",
		}
		if diff := cmp.Diff(want, c.Labels); diff != "" {
			t.Errorf("labels (-want +got):\n%s", diff)
		}
		if c.HostConfig.RestartPolicy.Name != "no" || c.Config.StopSignal != "SIGRTMIN+3" || *c.Config.StopTimeout != 5 {
			t.Errorf("restart policy %q, stop signal %q", c.HostConfig.RestartPolicy.Name, c.Config.StopSignal)
		}
		for _, call := range b.engine.Calls() {
			if call.Op == enginetest.OpStart && call.Ref != id {
				t.Errorf("started as %s, not by its id", call.Ref)
			}
		}
	})
}

func TestStart_RendersAgainWhatHasChanged(t *testing.T) {
	t.Parallel()
	b := newBench(t, enginetest.Docker)
	if err := b.Regenerate(t.Context(), testSlot); err != nil {
		t.Fatal(err)
	}
	s := b.opts.Slots[testSlot]
	s.Command = []string{"/sbin/init"}
	b.opts.Slots[testSlot] = s
	b.start(t, 1)
	wantText(t, b.logged.String(), "has changed since it was written")
	stored, err := b.storedSpec(Slot{Name: testSlot})
	if err != nil || stored.Digest != b.one(t, testContainer).Labels[LabelDigest] {
		t.Errorf("stored specification %v, %v", stored, err)
	}
}

func TestStart_WithoutWhatPreStartMakesSureOf(t *testing.T) {
	t.Parallel()
	b := newBench(t, enginetest.Docker, func(_ *Options, s *Slot) { s.Image = "localhost/absent:1" })
	_, _, err := b.Start(t.Context(), testSlot, 1, "b", "a")
	wantError(t, err, "", "localhost/absent:1: it is not on this host")
	b = newBench(t, enginetest.Docker, func(_ *Options, s *Slot) { s.Devices = []string{"/dev/no-such"} })
	_, _, err = b.Start(t.Context(), testSlot, 1, "b", "a")
	wantError(t, err, "", "/dev/no-such", "is its driver loaded?")
	if n := b.engine.Count(enginetest.OpPull) + b.engine.Count(enginetest.OpCreate); n > 0 {
		t.Errorf("%d requests that change something", n)
	}
}

func TestStart_NoImage(t *testing.T) {
	t.Parallel()
	b := newBench(t, enginetest.Docker, func(_ *Options, s *Slot) { s.Image = "" })
	_, _, err := b.Start(t.Context(), testSlot, 1, "b", "a")
	wantError(t, err, "misconfigured", "has no image", "set container.image")
}

// TestStart_InTheWay lists what may already carry the slot's label or name.
func TestOwns(t *testing.T) {
	for _, test := range []struct {
		what   string
		change func(*Slot)
		want   bool
	}{
		{"with an image", func(*Slot) {}, true},
		{"of somebody else's unit", func(s *Slot) { s.Image = "" }, false},
		{"a plain process", func(s *Slot) { s.Image, s.Container = "", "" }, false},
	} {
		b := newBench(t, enginetest.Docker, func(_ *Options, s *Slot) { test.change(s) })
		if got := b.Owns(testSlot); got != test.want {
			t.Errorf("a slot %s: Owns is %v", test.what, got)
		}
		if b.Owns("unknown") {
			t.Error("owns a slot that is not configured")
		}
	}
}

func TestStart_InTheWay(t *testing.T) {
	const big = 65 << 20
	for name, test := range map[string]struct {
		spec  enginetest.Spec
		now   string // its name afterwards; a "*" at the end stands for anything; empty: gone
		alive bool   // refused, because it lives
		class string // of the refusal
		text  string
	}{
		"ours, exited":              {enginetest.Spec{Name: testContainer, Labels: ourLabels(1), Ended: true}, "", false, "", ""},
		"ours, exited, other name":  {enginetest.Spec{Name: "old", Labels: ourLabels(1), Ended: true}, "", false, "", ""},
		"ours, never started":       {enginetest.Spec{Name: testContainer, Labels: ourLabels(1)}, "", false, "", ""},
		"ours, exited, big":         {enginetest.Spec{Name: testContainer, Labels: ourLabels(1), Ended: true, WritableSize: big}, testContainer + ".kept-1", false, "", ""},
		"ours, kept":                {enginetest.Spec{Name: testContainer + ".kept-1", Labels: ourLabels(1), Ended: true}, testContainer + ".kept-1", false, "", ""},
		"ours, running":             {enginetest.Spec{Name: testContainer, Labels: ourLabels(1), Running: true}, testContainer, true, "", "is alive"},
		"ours, running, other name": {enginetest.Spec{Name: "old", Labels: ourLabels(1), Running: true}, "old", true, "", "is alive"},
		"somebody's, exited":        {enginetest.Spec{Name: testContainer, Ended: true, WritableSize: big}, testContainer + ".stale-*", false, "", ""},
		"somebody's, fenced":        {enginetest.Spec{Name: testContainer + ".nl-fenced", Ended: true}, testContainer + ".nl-fenced", false, "", ""},
		"somebody's, fenced, alive": {enginetest.Spec{Name: testContainer + ".nl-fenced", Running: true}, testContainer + ".nl-fenced", true, "", "is alive"},
		"somebody's, running":       {enginetest.Spec{Name: testContainer, Running: true}, testContainer, true, "misconfigured", "it is not ours; stop it, or rename it"},
		"somebody's, running, restarts": {
			enginetest.Spec{Name: testContainer, Running: true, RestartPolicy: "always"}, testContainer, true, "misconfigured",
			"docker update --restart=no node-kube1, then stop it",
		},
		"somebody's, restarts": {
			enginetest.Spec{Name: testContainer, Ended: true, RestartPolicy: "unless-stopped"}, testContainer, false, "misconfigured",
			`restart policy "unless-stopped"; docker update --restart=no node-kube1`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			flavors(t, func(t *testing.T, flavor enginetest.Flavor) {
				b := newBench(t, flavor)
				old := b.engine.Add(test.spec)
				id, _, err := b.Start(t.Context(), testSlot, 2, "boot-1", "act-1")
				var alive *AliveError
				switch {
				case test.text == "" && err != nil:
					t.Fatal(err)
				case test.text == "":
					if c := b.one(t, id); c.Status != "running" || c.Name != testContainer {
						t.Errorf("the new container: %+v", c)
					}
				default:
					wantError(t, err, test.class, test.text)
					if errors.As(err, &alive) != test.alive {
						t.Errorf("%v: AliveError is %v", err, !test.alive)
					}
				}
				if test.now == "" {
					b.absent(t, old)
					return
				}
				got, prefix := b.one(t, old).Name, strings.TrimSuffix(test.now, "*")
				if got != test.now && (prefix == test.now || !strings.HasPrefix(got, prefix)) {
					t.Errorf("its name is %s now, want %s", got, test.now)
				}
			})
		})
	}
}

func TestStart_StaleNameIsTakenToo(t *testing.T) {
	t.Parallel()
	b := newBench(t, enginetest.Docker)
	old := b.engine.Add(enginetest.Spec{Name: testContainer, Ended: true})
	b.engine.On(enginetest.OpRename, enginetest.Action{Status: 409, Message: "name already in use"})
	b.start(t, 2)
	wantText(t, b.one(t, old).Name, ".stale-", "-"+short(old))
}

func TestStart_WaitsForANameThatIsBeingRemoved(t *testing.T) {
	for name, labels := range map[string]map[string]string{"ours": ourLabels(1), "somebody's": nil} {
		t.Run(name, func(t *testing.T) {
			flavors(t, func(t *testing.T, flavor enginetest.Flavor) {
				b := newBench(t, flavor)
				old := b.engine.Add(enginetest.Spec{Name: testContainer, Labels: labels, Ended: true})
				b.engine.RemoveLazily(80 * time.Millisecond)
				if err := b.remove(t.Context(), Slot{}, object{InspectResponse: inspectID(old)}); err != nil {
					t.Fatal(err)
				}
				b.start(t, 2)
				b.absent(t, old)
			})
		})
	}
}

// An engine may free a name a little after it has answered the removal.
func TestStart_NameIsFreedLate(t *testing.T) {
	for name, message := range map[string]string{
		"docker": `Conflict. The container name "/node-kube1" is already in use by container "c0"`,
		"podman": "creating container storage: the container name is already in use by c0: that name is already in use",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, enginetest.Flavor(name))
			status := map[string]int{"docker": 409, "podman": 500}[name]
			again := enginetest.Action{Status: status, Message: message}
			b.engine.On(enginetest.OpCreate, again, again, again)
			b.start(t, 2)
		})
	}
}

// TestStart_OddAnswersToCreate goes through creations whose answer is lost.
func TestStart_OddAnswersToCreate(t *testing.T) {
	t.Parallel()
	t.Run("done, answer lost", func(t *testing.T) {
		b := newBench(t, enginetest.Docker)
		b.engine.On(enginetest.OpCreate, enginetest.Action{Break: true, Do: true})
		id := b.start(t, 2)
		if c := b.one(t, id); c.Starts != 1 {
			t.Errorf("container %+v", c)
		}
		if n := len(b.engine.Containers()); n != 1 {
			t.Errorf("%d containers", n)
		}
	})
	t.Run("not done, link broken", func(t *testing.T) {
		b := newBench(t, enginetest.Docker)
		b.engine.On(enginetest.OpCreate, enginetest.Action{Break: true})
		b.start(t, 2)
	})
	t.Run("done late", func(t *testing.T) {
		b := newBench(t, enginetest.Docker)
		b.engine.On(enginetest.OpCreate, enginetest.Action{Break: true, Later: 5 * time.Millisecond})
		b.start(t, 2)
		if n := len(b.engine.Containers()); n != 1 {
			t.Errorf("%d containers", n)
		}
	})
	t.Run("somebody was faster", func(t *testing.T) {
		b := newBench(t, enginetest.Docker)
		b.engine.On(enginetest.OpCreate, enginetest.Action{Run: func() {
			b.engine.Add(enginetest.Spec{Name: testContainer, Running: true})
		}})
		_, _, err := b.Start(t.Context(), testSlot, 2, "boot-1", "act-1")
		wantError(t, err, "misconfigured", "has just been taken by")
	})
	t.Run("no such image", func(t *testing.T) {
		b := newBench(t, enginetest.Docker)
		b.engine.On(enginetest.OpCreate, enginetest.Action{Status: 404, Message: "No such image: x"})
		_, _, err := b.Start(t.Context(), testSlot, 2, "boot-1", "act-1")
		wantError(t, err, "misconfigured", "No such image", "correct the slot's container section")
	})
	t.Run("refused", func(t *testing.T) {
		b := newBench(t, enginetest.Docker)
		b.engine.On(enginetest.OpCreate, enginetest.Action{Status: 500, Message: "no space left on device"})
		_, _, err := b.Start(t.Context(), testSlot, 2, "boot-1", "act-1")
		wantError(t, err, "", "no space left on device")
	})
	t.Run("the engine goes away", func(t *testing.T) {
		b := newBench(t, enginetest.Docker)
		b.engine.On(enginetest.OpCreate, enginetest.Action{Break: true, Run: b.engine.Stop})
		_, _, err := b.Start(within(t, 100*time.Millisecond), testSlot, 2, "boot-1", "act-1")
		wantError(t, err, "unreachable")
	})
	t.Run("the caller's time is over", func(t *testing.T) {
		b := newBench(t, enginetest.Docker)
		ctx, cancel := context.WithCancel(t.Context())
		b.engine.On(enginetest.OpCreate, enginetest.Action{Hang: true, Run: cancel})
		if _, _, err := b.Start(ctx, testSlot, 2, "boot-1", "act-1"); !errors.Is(err, context.Canceled) {
			t.Errorf("Start = %v", err)
		}
	})
}

// TestStart_OddAnswersToStart goes through starts whose outcome the answer
// leaves open. Whatever happens, either the container runs and Start says so,
// or there is nothing left that could come to life.
func TestStart_OddAnswersToStart(t *testing.T) {
	flavors(t, func(t *testing.T, flavor enginetest.Flavor) {
		for name, test := range map[string]struct {
			action enginetest.Action
			runs   bool
			text   string
		}{
			"done, answer lost":     {enginetest.Action{Break: true, Do: true}, true, ""},
			"not done, link broken": {enginetest.Action{Break: true}, false, "broke"},
			"done much later":       {enginetest.Action{Break: true, Later: 300 * time.Millisecond}, false, "broke"},
			"refused":               {enginetest.Action{Status: 500, Message: "OCI runtime create failed"}, false, "OCI runtime create failed"},
		} {
			t.Run(name, func(t *testing.T) {
				b := newBench(t, flavor)
				b.engine.On(enginetest.OpStart, test.action)
				id, _, err := b.Start(t.Context(), testSlot, 2, "boot-1", "act-1")
				if test.runs {
					if err != nil || b.one(t, id).Status != "running" {
						t.Errorf("Start = %v", err)
					}
					return
				}
				if err == nil {
					t.Fatal("Start says that the container runs")
				}
				wantText(t, err.Error(), test.text)
				// A late start finds nothing to start.
				b.engine.Wait(within(t, 10*time.Second), func() bool { return b.engine.Late() == 0 })
				if all := b.engine.Containers(); len(all) > 0 {
					t.Errorf("left behind: %+v", all)
				}
			})
		}
	})
}

// The engine executes the start while we are about to take the container away.
func TestStart_LateStartWins(t *testing.T) {
	flavors(t, func(t *testing.T, flavor enginetest.Flavor) {
		b := newBench(t, flavor)
		b.engine.On(enginetest.OpStart, enginetest.Action{Break: true})
		b.engine.On(enginetest.OpRemove, enginetest.Action{Run: func() { b.engine.Change(testContainer, running) }})
		id, _, err := b.Start(t.Context(), testSlot, 2, "boot-1", "act-1")
		if err != nil || b.one(t, id).Status != "running" {
			t.Errorf("Start = %v", err)
		}
	})
}

func TestStart_EngineRestartsMeanwhile(t *testing.T) {
	t.Parallel()
	b := newBench(t, enginetest.Docker)
	b.engine.On(enginetest.OpStart, enginetest.Action{Break: true, Do: true, Run: func() {
		b.engine.On(enginetest.OpInspect, enginetest.Action{Break: true}, enginetest.Action{Break: true})
	}})
	b.start(t, 2)
}

func TestStart_CancelledLeavesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, enginetest.Docker)
	ctx, cancel := context.WithCancel(t.Context())
	b.engine.On(enginetest.OpStart, enginetest.Action{Hang: true, Run: cancel})
	if _, _, err := b.Start(ctx, testSlot, 2, "boot-1", "act-1"); !errors.Is(err, context.Canceled) {
		t.Errorf("Start = %v", err)
	}
	if all := b.engine.Containers(); len(all) > 0 {
		t.Errorf("left behind: %+v", all)
	}
}

func TestStart_FencedMeanwhile(t *testing.T) {
	flavors(t, func(t *testing.T, flavor enginetest.Flavor) {
		b := newBench(t, flavor)
		b.engine.On(enginetest.OpStart, enginetest.Action{Run: func() {
			if _, _, err := b.Fence(t.Context(), testSlot); err != nil {
				t.Error(err)
			}
		}})
		_, _, err := b.Start(t.Context(), testSlot, 2, "boot-1", "act-1")
		wantError(t, err, "", "No such container")
	})
}

func TestStart_EngineHangsInTheMiddle(t *testing.T) {
	t.Parallel()
	b := newBench(t, enginetest.Docker, func(o *Options, _ *Slot) { o.CallTimeout = 200 * time.Millisecond })
	b.away = 50 * time.Millisecond
	b.engine.On(enginetest.OpStart, enginetest.Action{Hang: true, Run: func() {
		b.engine.Intercept(func(enginetest.Call) enginetest.Action { return enginetest.Action{Hang: true} })
	}})
	_, _, err := b.Start(t.Context(), testSlot, 2, "boot-1", "act-1")
	wantError(t, err, "unreachable")
}
