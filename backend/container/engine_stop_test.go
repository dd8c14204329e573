package container

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"

	"github.com/node-lifecycle/node-lifecycle/backend/container/enginetest"
)

func TestStop(t *testing.T) {
	const (
		obeys = "localhost/obeys:1"
		deaf  = "localhost/deaf:1"
	)
	for name, test := range map[string]struct {
		spec   enginetest.Spec
		signal string // of the slot
		want   string
	}{
		"ours":               {enginetest.Spec{Image: obeys, Labels: ourLabels(1), Running: true}, "", "stopped on SIGRTMIN+3"},
		"started by another": {enginetest.Spec{Image: obeys, Running: true}, "", "stopped on SIGRTMIN+3"},
		"fenced":             {enginetest.Spec{Name: testContainer + ".nl-fenced", Image: obeys, Running: true}, "", "stopped on SIGRTMIN+3"},
		"configured signal":  {enginetest.Spec{Image: obeys, StopSignal: "SIGTERM", Running: true}, "SIGRTMIN+3", "stopped on SIGRTMIN+3"},
		"needs the KILL":     {enginetest.Spec{Image: deaf, StopSignal: "SIGTERM", Running: true}, "", "did not stop on SIGTERM within"},
		"deaf to configured": {enginetest.Spec{Image: deaf, StopSignal: "SIGTERM", Running: true}, "SIGINT", "did not stop on SIGINT within"},
		"exited":             {enginetest.Spec{Ended: true, ExitCode: 3}, "", "exited with code 3"},
	} {
		t.Run(name, func(t *testing.T) {
			flavors(t, func(t *testing.T, flavor enginetest.Flavor) {
				e := enginetest.New(t, flavor)
				e.AddImage(enginetest.Image{Name: obeys, StopSignal: "SIGRTMIN+3", Program: enginetest.Forever(130, "SIGRTMIN+3")})
				e.AddImage(enginetest.Image{Name: deaf, Program: enginetest.Deaf})
				b := newBenchOn(t, e, func(_ *Options, s *Slot) {
					s.StopSignal, s.StopGrace = test.signal, time.Second
					if test.spec.Labels == nil {
						s.Image = "" // somebody else's unit starts the stack
					}
				})
				spec := test.spec
				if spec.Name == "" {
					spec.Name = testContainer
				}
				id := e.Add(spec)
				detail, err := b.Stop(t.Context(), testSlot)
				if err != nil {
					t.Fatal(err)
				}
				wantText(t, detail, test.want)
				if got := b.one(t, id).Status; got != "exited" {
					t.Errorf("it is %s", got)
				}
			})
		})
	}
}

// Where run starts the containers, one that it did not start is nobody's to stop.
func TestStop_SomebodyElses(t *testing.T) {
	flavors(t, func(t *testing.T, flavor enginetest.Flavor) {
		b := newBench(t, flavor)
		id := b.engine.Add(enginetest.Spec{Name: testContainer, Running: true})
		_, err := b.Stop(t.Context(), testSlot)
		var alive *AliveError
		if !errors.As(err, &alive) || alive.ID != id {
			t.Fatalf("error %v, want an *AliveError of %s", err, id)
		}
		wantText(t, err.Error(), "it is not ours; stop it, or rename it")
		if got := b.one(t, id).Status; got != "running" {
			t.Errorf("it is %s", got)
		}
	})
}

func TestStop_NothingThere(t *testing.T) {
	t.Parallel()
	b := newBench(t, enginetest.Docker)
	detail, err := b.Stop(t.Context(), testSlot)
	if err != nil {
		t.Fatal(err)
	}
	wantText(t, detail, "there is no container")
}

func TestStop_Paused(t *testing.T) {
	flavors(t, func(t *testing.T, flavor enginetest.Flavor) {
		b := newBench(t, flavor)
		id := b.start(t, 1)
		b.engine.Change(id, func(info *container.InspectResponse) {
			info.State.Paused, info.State.Status = true, container.StatePaused
		})
		detail, err := b.Stop(t.Context(), testSlot)
		if err != nil {
			t.Fatal(err)
		}
		wantText(t, detail, "stopped on SIGRTMIN+3")
	})
}

func TestStop_Restarting(t *testing.T) {
	flavors(t, func(t *testing.T, flavor enginetest.Flavor) {
		b := newBench(t, flavor)
		b.engine.Add(enginetest.Spec{Name: testContainer, Labels: ourLabels(1), RestartPolicy: "always", Ended: true})
		b.engine.Change(testContainer, func(info *container.InspectResponse) {
			info.State.Restarting, info.State.Running, info.State.Status = true, true, container.StateRestarting
		})
		if _, err := b.Stop(t.Context(), testSlot); err != nil {
			t.Fatal(err)
		}
		if alive, detail, err := b.Alive(t.Context(), testSlot); alive || err != nil {
			t.Errorf("Alive = %v, %s, %v", alive, detail, err)
		}
	})
}

// Everything of the slot is stopped, not only the first that is found.
func TestStop_TwoAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, enginetest.Docker)
	b.engine.Add(enginetest.Spec{Name: testContainer, Image: testImage, Labels: ourLabels(1), Running: true})
	b.engine.Add(enginetest.Spec{Name: "stray", Image: testImage, Labels: ourLabels(1), Running: true})
	detail, err := b.Stop(t.Context(), testSlot)
	if err != nil {
		t.Fatal(err)
	}
	wantText(t, detail, testContainer, "stray")
	for _, c := range b.engine.Containers() {
		if c.Status != "exited" {
			t.Errorf("%s is %s", c.Name, c.Status)
		}
	}
}

// When the caller has less time than the grace, the KILL comes earlier.
func TestStop_ShortOfTime(t *testing.T) {
	t.Parallel()
	e := enginetest.New(t, enginetest.Docker)
	e.AddImage(enginetest.Image{Name: testImage, Program: enginetest.Deaf})
	b := newBenchOn(t, e, func(o *Options, s *Slot) { s.StopGrace, o.CallTimeout = time.Hour, 2*time.Second })
	e.Add(enginetest.Spec{Name: testContainer, Image: testImage, Labels: ourLabels(1), Running: true})
	detail, err := b.Stop(within(t, 6*time.Second), testSlot)
	if err != nil {
		t.Fatal(err)
	}
	wantText(t, detail, "was killed")
}

// TestStop_OddAnswers goes through what the engine may answer to the request.
func TestStop_OddAnswers(t *testing.T) {
	flavors(t, func(t *testing.T, flavor enginetest.Flavor) {
		for name, action := range map[string]enginetest.Action{
			"done, answer lost": {Break: true, Do: true},
			"not done":          {Break: true},
			"refused":           {Status: 500, Message: "container state improper"},
		} {
			t.Run(name, func(t *testing.T) {
				b := newBench(t, flavor)
				id := b.start(t, 1)
				b.hurry(t, 300*time.Millisecond)
				b.away = time.Minute
				b.engine.On(enginetest.OpStop, action)
				if _, err := b.Stop(t.Context(), testSlot); err != nil {
					t.Fatal(err)
				}
				if got := b.one(t, id).Status; got != "exited" {
					t.Errorf("it is %s", got)
				}
			})
		}
	})
}

func TestStop_SurvivesItsKill(t *testing.T) {
	t.Parallel()
	b := newBench(t, enginetest.Docker)
	b.start(t, 1)
	b.hurry(t, 200*time.Millisecond)
	b.away = time.Minute
	b.engine.Intercept(func(c enginetest.Call) enginetest.Action {
		if c.Op == enginetest.OpStop || c.Op == enginetest.OpKill {
			return enginetest.Action{Status: 500, Message: "no such shim"}
		}
		return enginetest.Action{}
	})
	_, err := b.Stop(t.Context(), testSlot)
	wantError(t, err, "", "still lives after a KILL", "no such shim")
}

func TestStop_GoneMeanwhile(t *testing.T) {
	t.Parallel()
	b := newBench(t, enginetest.Docker)
	id := b.engine.Add(enginetest.Spec{Name: testContainer, Image: testImage, Labels: ourLabels(1), Running: true})
	b.engine.On(enginetest.OpStop, enginetest.Action{Run: func() {
		b.engine.Kill(id)
		if err := b.remove(t.Context(), Slot{}, object{InspectResponse: inspectID(id)}); err != nil {
			t.Error(err)
		}
	}})
	detail, err := b.Stop(t.Context(), testSlot)
	if err != nil {
		t.Fatal(err)
	}
	wantText(t, detail, "is gone")
}

// An engine that is being restarted is asked again.
func TestStop_EngineComesBack(t *testing.T) {
	t.Parallel()
	b := newBench(t, enginetest.Docker)
	id := b.start(t, 1)
	b.engine.Stop()
	done := make(chan error, 1)
	go func() {
		_, err := b.Stop(t.Context(), testSlot)
		done <- err
	}()
	if err := b.engine.Resume(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := b.one(t, id).Status; got != "exited" {
		t.Errorf("it is %s", got)
	}
}

func TestStop_EngineStaysAway(t *testing.T) {
	t.Parallel()
	t.Run("bounded by itself", func(t *testing.T) {
		b := newBench(t, enginetest.Docker)
		b.away = 50 * time.Millisecond
		b.engine.Stop()
		_, err := b.Stop(t.Context(), testSlot)
		wantError(t, err, "unreachable")
	})
	t.Run("bounded by the caller", func(t *testing.T) {
		b := newBench(t, enginetest.Docker)
		b.engine.Stop()
		_, err := b.Stop(within(t, 30*time.Millisecond), testSlot)
		wantError(t, err, "unreachable")
	})
}

func TestStop_UnknownState(t *testing.T) {
	t.Parallel()
	b := newBench(t, enginetest.Docker)
	b.engine.Add(enginetest.Spec{Name: testContainer})
	b.engine.Change(testContainer, func(info *container.InspectResponse) { info.State.Status = "levitating" })
	_, err := b.Stop(t.Context(), testSlot)
	wantError(t, err, "", "levitating")
}

func TestRemove(t *testing.T) {
	const big = 65 << 20
	for name, test := range map[string]struct {
		spec  *enginetest.Spec
		epoch uint64
		limit int64
		now   string // its name afterwards; empty: gone
		want  string // part of the detail; "=": there is none
	}{
		"nothing":           {nil, 4, 0, "", "="},
		"ours":              {&enginetest.Spec{Name: testContainer, Labels: ourLabels(4), Ended: true, WritableSize: 1 << 20}, 4, 0, "", "discarding 1MiB"},
		"ours, any epoch":   {&enginetest.Spec{Name: testContainer, Labels: ourLabels(4), Ended: true}, 0, 0, "", "removed"},
		"ours, older":       {&enginetest.Spec{Name: testContainer, Labels: ourLabels(3), Ended: true}, 4, 0, "", "removed"},
		"ours, newer":       {&enginetest.Spec{Name: testContainer, Labels: ourLabels(5), Ended: true}, 4, 0, testContainer, "it is of epoch 5"},
		"ours, big":         {&enginetest.Spec{Name: testContainer, Labels: ourLabels(4), Ended: true, WritableSize: big}, 4, 0, testContainer + ".kept-4", "it holds 65MiB, more than 64MiB"},
		"ours, big, agreed": {&enginetest.Spec{Name: testContainer, Labels: ourLabels(4), Ended: true, WritableSize: big}, 4, -1, "", "removed"},
		"somebody's":        {&enginetest.Spec{Name: testContainer, Ended: true}, 4, 0, testContainer, "="},
		"kept before":       {&enginetest.Spec{Name: testContainer + ".kept-2", Labels: ourLabels(2), Ended: true}, 4, 0, testContainer + ".kept-2", "="},
	} {
		t.Run(name, func(t *testing.T) {
			flavors(t, func(t *testing.T, flavor enginetest.Flavor) {
				b := newBench(t, flavor, func(_ *Options, s *Slot) { s.DiscardLimit = test.limit })
				id := ""
				if test.spec != nil {
					id = b.engine.Add(*test.spec)
				}
				detail, err := b.Remove(t.Context(), testSlot, test.epoch)
				if err != nil {
					t.Fatal(err)
				}
				if test.want != "=" {
					wantText(t, detail, test.want)
				} else if detail != "" {
					t.Errorf("detail %q for nothing", detail)
				}
				if test.now == "" {
					b.absent(t, id)
				} else if got := b.one(t, id).Name; got != test.now {
					t.Errorf("its name is %s now, want %s", got, test.now)
				}
			})
		})
	}
}

func TestRemove_Alive(t *testing.T) {
	flavors(t, func(t *testing.T, flavor enginetest.Flavor) {
		b := newBench(t, flavor)
		b.start(t, 1)
		var alive *AliveError
		if _, err := b.Remove(t.Context(), testSlot, 1); !errors.As(err, &alive) {
			t.Errorf("Remove = %v, want an AliveError", err)
		}
		wantText(t, alive.Error(), testContainer, "is alive", "running")
	})
}

// Only the newest kept container stays, and no restart policy may revive it.
func TestRemove_KeepsTheNewestOnly(t *testing.T) {
	flavors(t, func(t *testing.T, flavor enginetest.Flavor) {
		b := newBench(t, flavor)
		older := b.engine.Add(enginetest.Spec{Name: testContainer + ".kept-2", Labels: ourLabels(2), Ended: true})
		id := b.engine.Add(enginetest.Spec{
			Name: testContainer, Labels: ourLabels(4), Ended: true, WritableSize: 65 << 20, RestartPolicy: "always",
		})
		detail, err := b.Remove(t.Context(), testSlot, 4)
		if err != nil {
			t.Fatal(err)
		}
		wantText(t, detail, "removed the older "+testContainer+".kept-2")
		b.absent(t, older)
		if c := b.one(t, id); c.HostConfig.RestartPolicy.Name != "no" || c.Name != testContainer+".kept-4" {
			t.Errorf("kept: %s with restart policy %q", c.Name, c.HostConfig.RestartPolicy.Name)
		}
	})
}

func TestRemove_KeptNameIsTaken(t *testing.T) {
	flavors(t, func(t *testing.T, flavor enginetest.Flavor) {
		b := newBench(t, flavor)
		b.engine.Add(enginetest.Spec{Name: testContainer + ".kept-4", Ended: true}) // somebody else's
		id := b.engine.Add(enginetest.Spec{Name: testContainer, Labels: ourLabels(4), Ended: true, WritableSize: 65 << 20})
		if _, err := b.Remove(t.Context(), testSlot, 4); err != nil {
			t.Fatal(err)
		}
		if got, want := b.one(t, id).Name, testContainer+".kept-4-"+short(id); got != want {
			t.Errorf("its name is %s, want %s", got, want)
		}
	})
}

func TestRemove_KeepingFails(t *testing.T) {
	t.Parallel()
	for op, text := range map[enginetest.Op]string{enginetest.OpRename: "rename", enginetest.OpUpdate: "restart policy"} {
		t.Run(string(op), func(t *testing.T) {
			b := newBench(t, enginetest.Docker)
			id := b.engine.Add(enginetest.Spec{
				Name: testContainer, Labels: ourLabels(4), Ended: true, WritableSize: 65 << 20, RestartPolicy: "always",
			})
			b.engine.On(op, enginetest.Action{Status: 500, Message: "no"})
			_, err := b.Remove(t.Context(), testSlot, 4)
			wantError(t, err, "", text)
			if got := b.one(t, id).Name; got != testContainer {
				t.Errorf("its name is %s", got)
			}
		})
	}
}

func TestRemove_SaysWhichVolumesStay(t *testing.T) {
	t.Parallel()
	b := newBench(t, enginetest.Docker)
	id := b.engine.Add(enginetest.Spec{Name: testContainer, Labels: ourLabels(4), Ended: true})
	volume := strings.Repeat("ab", 32)
	b.engine.Change(id, func(info *container.InspectResponse) {
		info.Mounts = []container.MountPoint{
			{Type: "volume", Name: volume, Destination: "/var"}, {Type: "volume", Name: "named", Destination: "/data"},
		}
	})
	detail, err := b.Remove(t.Context(), testSlot, 4)
	if err != nil {
		t.Fatal(err)
	}
	wantText(t, detail, "leaving anonymous volume abababababab (/var) behind")
}

func TestGraceWithin(t *testing.T) {
	t.Parallel()
	c := New(Options{CallTimeout: time.Second})
	defer c.Close()
	s := Slot{StopGrace: 30 * time.Second}
	for left, want := range map[time.Duration]time.Duration{
		time.Hour: 30 * time.Second, 12 * time.Second: 10 * time.Second, time.Second: 0,
	} {
		ctx, cancel := context.WithTimeout(t.Context(), left)
		if got := c.graceWithin(ctx, s); got > want || got < want-time.Second {
			t.Errorf("with %s left: %s, want %s", left, got, want)
		}
		cancel()
	}
	if got := c.graceWithin(t.Context(), s); got != s.StopGrace {
		t.Errorf("without a deadline: %s", got)
	}
}

func TestSignalName(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"SIGTERM": "SIGTERM", "term": "SIGTERM", "15": "SIGTERM", "37": "SIGRTMIN+3", "SIGRTMIN+3": "SIGRTMIN+3",
		"rtmin+3": "SIGRTMIN+3", "9": "SIGKILL", "32": "32",
	} {
		if got := signalName(text); got != want {
			t.Errorf("signalName(%q) = %q, want %q", text, got, want)
		}
	}
}
