package contract

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	backend "github.com/node-lifecycle/node-lifecycle/backend/container"
)

// A name belongs to one container. Start relies on it: what has the slot's name after a
// creation that failed is what stands in the way.
func TestCreateWithANameThatIsTakenFails(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engine) {
		const name = "taken"
		first := e.made(e.create(name, name, sleeps))
		defer e.discard(first)
		for range 10 {
			tried()
			second, err := e.create(name, name, sleeps)
			if err == nil {
				violated(t, "a second container has got the name")
				e.discard(second)
			} else if !strings.Contains(err.Error(), "already in use") {
				violated(t, "the engine does not say that the name is taken, which Start looks for: %v", err)
			}
		}
	})
}

func TestOneOfTwoCreationsOfANameWins(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engine) {
		e.spread(40, func(name string, _ *edge) {
			if won, ids := e.createAtOnce(name, name); won != 1 {
				violated(t, "%d of two creations of one name have succeeded", won)
				for _, id := range ids {
					e.discard(id)
				}
			} else {
				e.discard(name)
			}
		})
	})
}

// Two names have to be noticed as two winners.
func TestOneOfTwoCreationsOfANameWins_Control(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engine) {
		won, ids := e.createAtOnce("one", "another")
		if won != 2 {
			t.Errorf("%d of two creations of two names have succeeded", won)
		}
		for _, id := range ids {
			e.discard(id)
		}
	})
}

func (e *engine) createAtOnce(names ...string) (won int, ids []string) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, name := range names {
		wg.Go(func() {
			id, err := e.create(name, name, sleeps)
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			won, ids = won+1, append(ids, id)
		})
	}
	wg.Wait()
	return won, ids
}

// A renamed container can still be started by its id: that is why the fence of somebody
// else's container is weak, and why it is looked at again.
func TestRenameIsNoFence(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engine) {
		const slot = "renamed"
		c := e.backend(slot)
		id := e.made(e.createForeign(slot, sleeps))
		defer e.discard(id)
		detail, weak, err := c.Fence(t.Context(), slot)
		if err != nil || !weak {
			violated(t, "the fence of somebody else's container: weak is %v: %s, %v", weak, detail, err)
		}
		if err := e.start(slot); err == nil {
			violated(t, "a start by the old name succeeds")
		}
		e.wantAlive(c, slot, "fenced by its name", false)
		e.must("start by id", e.start(id))
		e.wantAlive(c, slot, "started by its id after it was fenced", true)
		_, _, err = c.Fence(t.Context(), slot)
		var alive *backend.AliveError
		if !errors.As(err, &alive) {
			violated(t, "fenced once more while it lives: %v", err)
		}
		tried()
	})
}

// Both sides of the race may succeed. Whatever Fence has said, a look afterwards finds the
// container, under either name.
func TestFenceByNameAgainstStart(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engine) {
		controllers := e.backends()
		var both, seen atomic.Int64
		race := func(slot string, at *edge) {
			id, err := e.createForeign(slot, sleeps)
			if err != nil {
				t.Error(err)
				return
			}
			defer e.discard(id)
			c := controllers[slot]
			var weak bool
			started, fenced := at.race(
				func() error { return e.start(id) },
				func() (err error) { _, weak, err = c.Fence(t.Context(), slot); return err },
			)
			at.learn(fenced != nil)
			var living *backend.AliveError
			switch {
			case started != nil:
				violated(t, "a start by id of a container that was only renamed has failed: %v", started)
			case fenced == nil && !weak:
				violated(t, "Fence promises what a rename cannot keep")
			case fenced != nil && !errors.As(fenced, &living):
				violated(t, "Fence fails, and does not say that the container is alive: %v", fenced)
			}
			e.wantAlive(c, slot, "after the race", true)
			count(&both, &seen, fenced == nil)
		}
		for tries := 0; tries < 4 && both.Load() == 0 && !t.Failed(); tries++ {
			e.spread(12, race)
		}
		t.Logf("both succeeded %d times; Fence saw the container alive %d times", both.Load(), seen.Load())
		if both.Load() == 0 {
			t.Error("Fence never succeeded beside a start: this does not show that a rename is no fence")
		}
	})
}
