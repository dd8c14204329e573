package reliability

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/node-lifecycle/node-lifecycle/internal/mutants/overlay"
)

// victims are what is killed, in turn.
var victims = []string{"pre-start", "run", "post-start", "stop", "post-stop", "reconcile", "resume"}

// casesPerWorld keeps a world's journal below what its ring holds, so that every entry
// that was answered for must still be there.
const casesPerWorld = 40

// TestKill is suite KILL. A hook is killed at a random moment; then resume must end well,
// a full start of the slot, or of its peer, must end in Wired, no entry that was answered
// for may be lost, the journal must verify, and no two stacks may ever have run.
func TestKill(t *testing.T) {
	size := requireSize(t)
	binary := buildProgram(t)
	s, r := seed(t), &result{kinds: make(map[string]int)}
	kill(r, s, binary, size.kills, newPlan, func(err error) { t.Errorf("seed %d: %v", s, err) })
	t.Logf("killed %v; %d had ended before", r.kinds, r.unhit)
	fmt.Println(r.line("KILL", s))
	if r.lost+r.doubleRun+r.crash > 0 {
		t.Errorf("found: %s", r.line("KILL", s))
	}
	for _, hook := range victims {
		if r.kinds[hook] == 0 && size.kills > 20*len(victims) {
			t.Errorf("no %s was killed: the suite shows nothing about it", hook)
		}
	}
}

// Without the fence the suite must see two stacks: a start that its dying process asked
// for is executed when the peer is up.
func TestKill_Mutants(t *testing.T) {
	size := requireSize(t)
	binary := buildProgram(t, overlay.Edit{
		File: "phases/prestart.go", Old: "fenced, weak, err := r.fencePeer(ctx)", New: "fenced, weak, err := \"\", false, error(nil)",
	})
	s, r := seed(t), &result{kinds: make(map[string]int)}
	kill(r, s, binary, size.mutantKills, newLateStart, func(err error) {
		what, _, _ := strings.Cut(err.Error(), "\n")
		t.Log(what)
	})
	r.verdict(t, "kill-without-fence")
}

// drawPlan draws a plan to kill a hook of a slot, which takes about so long.
type drawPlan func(random *rand.Rand, hook, slot string, takes time.Duration) *plan

// kill does cases until there were enough. A worker whose world is broken ends with it.
func kill(r *result, seed uint64, binary string, goal int, draw drawPlan, tell func(error)) {
	var turn atomic.Int64
	inParallel(func(worker int) {
		random := choices(seed, worker)
		for r.count() < goal && r.seen() < 2 {
			if err := killWorld(r, &turn, goal, binary, random, draw); err != nil {
				tell(err)
				return
			}
		}
	})
}

// inParallel calls do for a few workers at once and waits for all of them. Most of their
// time they wait for disks and for each other's processes.
func inParallel(do func(worker int)) {
	var wg sync.WaitGroup
	for worker := range 2 * runtime.NumCPU() {
		wg.Go(func() { do(worker) })
	}
	wg.Wait()
}

// killWorld does some cases in one world.
func killWorld(r *result, turn *atomic.Int64, goal int, binary string, random *rand.Rand, draw drawPlan) error {
	w, err := newWorld(binary)
	if err != nil {
		return err
	}
	defer w.close()
	for range casesPerWorld {
		hook := victims[int(turn.Add(1))%len(victims)]
		p := draw(random, hook, slots[random.IntN(len(slots))], w.takes(hook))
		other := random.IntN(4) == 0
		hit, err := w.killCase(p, other, drawAftermath(random, "post-start"))
		r.tally(w, hook, hit)
		if err != nil {
			if !errors.Is(err, errBooks) || w.crash > 0 {
				r.add(func(r *result) { r.crash++ }) // it did not end as it must
			}
			return fmt.Errorf("%s: %w\nthe latest words:\n%s", p, err, strings.Join(w.talk, "\n"))
		}
		if r.count() >= goal || r.seen() > 1 {
			break
		}
	}
	return nil
}

// tally counts a case.
func (r *result) tally(w *world, hook string, hit bool) {
	most, _ := w.counter.peak()
	r.add(func(r *result) {
		r.lost += w.lost
		r.most = max(r.most, most)
		if most > 1 {
			r.doubleRun++
		}
		if !hit {
			r.unhit++
			return
		}
		r.cases++
		r.kinds[hook]++
	})
}

// errBooks is wrapped by what is wrong with the journal or with the number of stacks.
var errBooks = errors.New("the books are wrong")

// killCase kills one process and checks that everything can go on. hit tells whether the
// process was still there to be killed.
func (w *world) killCase(p *plan, other bool, before aftermath) (hit bool, err error) {
	if err := w.lead(p, before); err != nil {
		return false, err
	}
	p.finish(w)
	hit = p.hit()
	w.directed(nil)
	if hit && p.after == hostGone {
		if err := w.reboot(); err != nil {
			return hit, err
		}
	}
	if p.eager {
		w.unit(peerOf(p.slot)).start() // whatever comes of it
	}
	if e := w.call("resume", p.slot); e.code != 0 {
		return hit, fmt.Errorf("resume of %s afterwards ended with %d", p.slot, e.code)
	}
	slot := p.slot
	if other && !w.survivor(p.slot) {
		slot = peerOf(slot)
	}
	err = w.fullStart(slot)
	if err != nil && p.late > 0 {
		// The engine did it in the middle of this start, between the look at what is there
		// and its removal: refused, and systemd tries again (Restart=on-failure).
		err = w.fullStart(slot)
	}
	if err != nil {
		return hit, err
	}
	return hit, w.check()
}

// survivor reports whether a stack of the slot is alive whose unit is not. Resume leaves it
// alone if the books say Failed or Stopped; then it is the slot's own next start that ends
// it, and a start of the peer is refused until then.
func (w *world) survivor(slot string) bool {
	ctx, cancel := context.WithTimeout(background, hookLimit)
	defer cancel()
	w.engine.Wait(ctx, func() bool { return w.engine.Late() == 0 })
	c, ok := w.engine.Container("node-" + slot)
	return ok && c.PID != 0 && w.unit(slot).look().ActiveState != "active"
}

// lead brings the world to where the process runs that the plan is about, and lets it be
// killed.
func (w *world) lead(p *plan, before aftermath) error {
	u := w.unit(p.slot)
	switch p.hook {
	case "pre-start", "run", "post-start":
		w.allDown()
		w.directed(p)
		u.start()
	case "stop", "post-stop":
		if err := w.up(p.slot); err != nil {
			return err
		}
		w.directed(p)
		u.stop()
	case "reconcile":
		if err := w.up(p.slot); err != nil {
			return err
		}
		w.directed(p)
		w.call("reconcile", p.slot)
	case "resume":
		// A run to resume: post-start, killed while it waits or works.
		w.allDown()
		first := &plan{hook: "post-start", slot: p.slot, after: before, answer: 1 + len(w.talk)%3}
		w.directed(first)
		u.start()
		first.finish(w)
		if before == hostGone && first.hit() {
			if err := w.reboot(); err != nil {
				return err
			}
		}
		w.directed(p)
		w.call("resume", p.slot)
	}
	return nil
}

func (w *world) allDown() {
	for _, slot := range slots {
		w.unit(slot).stop()
	}
}

// up makes sure that the slot is up and its peer is not.
func (w *world) up(slot string) error {
	w.unit(peerOf(slot)).stop()
	if w.unit(slot).start() {
		return nil
	}
	return fmt.Errorf("%s did not start: it is %s", slot, w.state(slot))
}

// fullStart takes down what is up, in an orderly way, and starts the slot.
func (w *world) fullStart(slot string) error {
	w.allDown()
	if err := w.up(slot); err != nil {
		return err
	}
	if state := w.state(slot); state != "Wired" {
		return fmt.Errorf("%s is active and its journal says %s", slot, state)
	}
	return nil
}

// check looks for what must never be.
func (w *world) check() error {
	var found []error
	lost, err := w.books()
	w.lost = lost
	if err != nil {
		found = append(found, fmt.Errorf("the journal does not verify: %w", err))
	}
	if lost > 0 {
		found = append(found, fmt.Errorf("%d entries are lost that were answered for", lost))
	}
	if most, which := w.counter.peak(); most > 1 {
		found = append(found, fmt.Errorf("%d stacks ran at once: %s", most, which))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, fault := range w.faults {
		found = append(found, errors.New(fault))
	}
	if len(found) > 0 {
		return fmt.Errorf("%w: %w", errBooks, errors.Join(found...))
	}
	return nil
}

// takes is how long a hook takes when it is let be.
func (w *world) takes(hook string) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if hook == "run" { // it has no end of its own: until the stack is wired
		return w.took["post-start"] + 20*time.Millisecond
	}
	if took := w.took[hook]; took > 0 {
		return took
	}
	return 50 * time.Millisecond
}
