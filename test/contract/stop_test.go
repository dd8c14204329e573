package contract

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/moby/moby/client"

	backend "github.com/node-lifecycle/node-lifecycle/backend/container"
)

// After a nil of Stop nothing of the container lives, by the kernel.
func TestStopLeavesNothingAlive(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engine) {
		controllers := e.backends()
		type kind struct {
			name, script string
			paused       bool
		}
		kinds := []kind{{name: "with a child", script: hasChild}, {name: "deaf to its signal", script: isDeaf}, {name: "paused", script: hasChild, paused: true}}
		var turn atomic.Int64
		e.spread(2*len(kinds), func(slot string, _ *edge) {
			k := kinds[int(turn.Add(1))%len(kinds)]
			id, err := e.create(slot, slot, k.script)
			if err == nil {
				err = e.start(id)
			}
			if err == nil && k.paused {
				_, err = e.cli.ContainerPause(t.Context(), id, client.ContainerPauseOptions{})
			}
			if err != nil {
				t.Error(err)
				return
			}
			defer e.discard(id)
			if len(e.processes(id)) == 0 {
				t.Errorf("%s: no process is found in a running container: this shows nothing", k.name)
			}
			detail, err := controllers[slot].Stop(t.Context(), slot)
			if err != nil {
				t.Errorf("%s: Stop: %v", k.name, err)
				return
			}
			if living := e.processes(id); len(living) > 0 {
				violated(t, "%s: after Stop (%s) the processes %v live", k.name, detail, living)
			}
			e.wantAlive(controllers[slot], slot, "after Stop, "+k.name, false)
		})
	})
}

// Stop is no fence: a start that comes after its look succeeds. What ends a stack for good is
// Stop and then Remove, and both again if Remove finds the container alive. A nil of both is
// final.
func TestStopAndRemoveAgainstStart(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engine) {
		controllers := e.backends()
		var starts, ends, again atomic.Int64
		e.spread(24, func(slot string, at *edge) {
			id, err := e.create(slot, slot, hasChild)
			if err != nil {
				t.Error(err)
				return
			}
			defer e.discard(id)
			c := controllers[slot]
			started, ended := at.race(
				func() error { return e.start(id) },
				func() (err error) {
					for range 3 {
						if _, err = c.Stop(t.Context(), slot); err != nil {
							return err
						}
						_, err = c.Remove(t.Context(), slot, 0)
						var alive *backend.AliveError
						if !errors.As(err, &alive) {
							return err
						}
						again.Add(1)
					}
					return err
				},
			)
			at.learn(started == nil)
			count(&starts, &ends, started == nil)
			if ended != nil {
				t.Logf("an error, which is never taken for an end: %v", ended)
				return
			}
			if living := e.processes(id); len(living) > 0 {
				violated(t, "after Stop and Remove the processes %v live (the start: %v)", living, started)
			}
			e.wantAlive(c, slot, "after Stop and Remove", false)
			if err := e.start(id); err == nil {
				violated(t, "after Stop and Remove the container was started")
			}
		})
		t.Logf("the start succeeded %d times and failed %d times; %d times Remove found the container alive after Stop", starts.Load(), ends.Load(), again.Load())
		if starts.Load() == 0 || ends.Load() == 0 {
			t.Error("one side has never won: this shows little")
		}
	})
}

// What was said of Stop alone: a start that comes after its look succeeds, and has to be
// noticed.
func TestStopAlone_Control(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engine) {
		const slot = "stop-alone"
		c := e.backend(slot)
		id := e.made(e.create(slot, slot, sleeps))
		defer e.discard(id)
		if _, err := c.Stop(t.Context(), slot); err != nil {
			t.Fatal(err)
		}
		e.must("start", e.start(id))
		if len(e.processes(id)) == 0 {
			t.Error("a container that was started after Stop is not noticed")
		}
	})
}
