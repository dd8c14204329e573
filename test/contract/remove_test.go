package contract

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	backend "github.com/node-lifecycle/node-lifecycle/backend/container"
)

// races is how often each engine is asked who wins.
const races = 200

// verdict is what a race between a start and the removal of the same container has come to.
type verdict struct {
	started, removed error
	state            string // by the engine, when both had answered
	living           int    // processes in the container, by the kernel
}

// wrong says how the verdict breaks the clause that exactly one of the two wins; "" if it
// does not.
func (v verdict) wrong() string {
	switch {
	case v.started == nil && v.removed == nil:
		return "both have succeeded"
	case v.started != nil && v.removed != nil:
		return "neither has succeeded"
	case v.started == nil && (v.state != "running" || v.living == 0):
		return "the start has won, and the container does not run"
	case v.removed == nil && (v.state != "gone" || v.living != 0):
		return "the removal has won, and the container is still there"
	}
	return ""
}

func (v verdict) String() string {
	return fmt.Sprintf("start: %v; removal: %v; then the container was %s with %d processes", v.started, v.removed, v.state, v.living)
}

// startAgainstRemoval lets a start by id race against a removal of the same container.
func (e *engine) startAgainstRemoval(slot string, at *edge, removal func(id string) error) (verdict, bool) {
	id, err := e.create(slot, slot, sleeps)
	if err != nil {
		e.t.Error(err)
		return verdict{}, false
	}
	defer e.discard(id)
	var v verdict
	v.started, v.removed = at.race(
		func() error { return e.start(id) },
		func() error { return removal(id) },
	)
	at.learn(v.started == nil)
	v.state, v.living = e.state(id), len(e.processes(id))
	return v, true
}

// A late start is fenced by the removal of the container that it would start. That holds
// only if the removal cannot succeed beside the start.
func TestRemoveWithoutForceIsAtomicAgainstStart(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engine) {
		var starts, removals atomic.Int64
		e.spread(races, func(slot string, at *edge) {
			v, ok := e.startAgainstRemoval(slot, at, func(id string) error { return e.remove(id, false) })
			if !ok {
				return
			}
			if wrong := v.wrong(); wrong != "" {
				violated(t, "%s: %v", wrong, v)
			}
			count(&starts, &removals, v.started == nil)
		})
		wantClose(t, starts.Load(), removals.Load())
	})
}

// The same with what the protocol calls: after a nil of Fence the start has failed for good.
// An error of Fence says nothing, and the pair is then refused to the slot that asked.
func TestFenceIsAtomicAgainstStart(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engine) {
		controllers := e.backends()
		var starts, fences, timid atomic.Int64
		e.spread(races/4, func(slot string, at *edge) {
			v, ok := e.startAgainstRemoval(slot, at, func(string) error {
				_, weak, err := controllers[slot].Fence(t.Context(), slot)
				if weak {
					err = errors.New("the fence of a container of ours is weak")
				}
				return err
			})
			if !ok {
				return
			}
			var alive *backend.AliveError
			switch {
			case v.started != nil && v.removed != nil:
				timid.Add(1) // safe: Fence has only not found out that it has won
			case v.wrong() != "":
				violated(t, "%s: %v", v.wrong(), v)
			case v.started == nil && !errors.As(v.removed, &alive):
				violated(t, "the start has won, and Fence does not say that the container is alive: %v", v)
			}
			count(&starts, &fences, v.started == nil)
		})
		wantClose(t, starts.Load(), fences.Load())
		if n := timid.Load(); n > 0 {
			t.Logf("%d times Fence reported an error although the start had failed", n)
		}
	})
}

// A removal with force must break the clause: a race that does not show that shows nothing.
func TestRemoveWithForceIsNotAtomic_Control(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engine) {
		var noticed atomic.Int64
		e.spread(10, func(slot string, at *edge) {
			at.lag = 0 // the start comes first, as it does in the race when it wins
			if v, ok := e.startAgainstRemoval(slot, at, func(id string) error { return e.remove(id, true) }); ok && v.wrong() != "" {
				noticed.Add(1)
			}
		})
		if noticed.Load() == 0 {
			t.Error("a removal with force did not succeed beside a single start")
		}
	})
}

// What was removed stays removed: its id is not given out again, and a start by it does not
// fall back on the name.
func TestStartByIDOfARemovedContainerFails(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engine) {
		e.spread(50, func(slot string, _ *edge) {
			old, err := e.create(slot, slot, sleeps)
			if err == nil {
				err = e.remove(old, false)
			}
			if err != nil {
				t.Error(err)
				return
			}
			if err := e.start(old); err == nil {
				violated(t, "a removed container was started")
			}
			next, err := e.create(slot, slot, sleeps)
			if err != nil {
				t.Error(err)
				return
			}
			defer e.discard(next)
			if err := e.start(old); err == nil {
				violated(t, "a removed container was started while another one had its name")
			}
			if state := e.state(next); state != "created" {
				violated(t, "a start by the id of the container before has made the next one %s", state)
			}
		})
	})
}

// A start by name does what a start by id must not.
func TestStartByNameStartsTheNextContainer_Control(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engine) {
		const name = "by-name"
		old := e.made(e.create(name, name, sleeps))
		if err := e.remove(old, false); err != nil {
			t.Fatal(err)
		}
		next := e.made(e.create(name, name, sleeps))
		defer e.discard(next)
		if err := e.start(name); err != nil || e.state(next) != "running" {
			t.Errorf("a start by name: %v, and the container is %s", err, e.state(next))
		}
	})
}

// backends are the product's views for the slots of the workers.
func (e *engine) backends() map[string]*backend.Controller {
	controllers := make(map[string]*backend.Controller)
	for worker := range workers {
		slot := fmt.Sprintf("slot%d", worker)
		controllers[slot] = e.backend(slot)
	}
	return controllers
}

func count(first, second *atomic.Int64, firstWon bool) {
	if firstWon {
		first.Add(1)
	} else {
		second.Add(1)
	}
}

// wantClose makes sure that the races were races: each side has won often enough.
func wantClose(t *testing.T, wins ...int64) {
	t.Helper()
	sum := int64(0)
	for _, n := range wins {
		sum += n
	}
	t.Logf("the winners: %v of %d", wins, sum)
	if least := slices.Min(wins); least < sum/20 && !t.Failed() {
		t.Errorf("won %v times: these races show little", wins)
	}
}
