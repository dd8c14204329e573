package reliability

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/node-lifecycle/node-lifecycle/backend/container/enginetest"
	"github.com/node-lifecycle/node-lifecycle/internal/mutants/overlay"
)

// temper is how two operators treat each other.
type temper struct {
	// waits is how many starts of a hundred wait for the peer to be down, lingers how many
	// stops of a hundred wait for the peer to be tried once more.
	waits, lingers int
}

// racesPerWorld is how many starts and stops one world sees.
const racesPerWorld = 60

// TestRace is suite RACE. Both slots are started and stopped beside each other, in random
// order, by an engine that executes some starts late and loses some answers; some hooks
// are killed. Never may two stacks run, and at least three starts of ten must succeed.
func TestRace(t *testing.T) {
	size := requireSize(t)
	binary := buildProgram(t)
	s, r := seed(t), &result{}
	race(t, r, s, binary, size.races, temper{waits: 75, lingers: 25})
	t.Logf("%d starts, %d of them became Wired", r.starts, r.wired)
	fmt.Println(r.line("RACE", s))
	if r.lost+r.doubleRun+r.crash > 0 || r.most > 1 {
		t.Errorf("%d stacks at once; %s\n%s", r.most, r.line("RACE", s), r.latest)
	}
	if 10*r.wired < 3*r.starts {
		t.Errorf("only %d of %d starts became Wired: a host that never starts anything is safe, and useless", r.wired, r.starts)
	}
}

// The suite must see two stacks when the protocol is broken.
func TestRace_Mutants(t *testing.T) {
	size := requireSize(t)
	for _, m := range []struct {
		name  string
		long  bool
		edits []overlay.Edit
	}{
		{"race-without-a-look-at-the-peer", false, []overlay.Edit{
			{File: "phases/peer.go", Old: "if r.peer == \"\" {\n\t\treturn peerDown(", New: "if true {\n\t\treturn peerDown("},
			{File: "phases/peer.go", Old: "if v.cause != \"\" || r.peer == \"\" {", New: "if true {"},
			{File: "phases/prestart.go", Old: "fenced, weak, err := r.fencePeer(ctx)", New: "fenced, weak, err := \"\", false, error(nil)"},
		}},
		{"race-without-unit-and-claim", true, []overlay.Edit{
			{File: "phases/peer.go", Old: "if r.l.Supervisor == nil || r.claim.Holder != r.peer && !r.claim.Unknown {", New: "if true {"},
			{File: "phases/runstack.go", Old: "if err := r.checkClaim(); err != nil {", New: "if err := r.checkClaim(); err != nil && r.claim.Epoch == 0 {"},
			{File: "phases/runstack.go", Old: "if v := r.lookAtStacks(ctx); v.cause != \"\" {", New: "if v := r.lookAtStacks(ctx); v.cause != \"\" && r.claim.Epoch == 0 {"},
		}},
	} {
		t.Run(m.name, func(t *testing.T) {
			if m.long && !size.long {
				t.Skip("needs many races: RELIABILITY=long")
			}
			binary := buildProgram(t, m.edits...)
			s, r := seed(t), &result{}
			race(t, r, s, binary, size.mutantRaces, temper{waits: 25, lingers: 75})
			r.verdict(t, m.name)
		})
	}
}

// verdict says whether the suite saw what a mutant does.
func (r *result) verdict(t *testing.T, mutant string) {
	t.Helper()
	t.Logf("%d stacks at once, %d cases", r.most, r.cases)
	if r.most > 1 {
		fmt.Printf("MUTANT %s killed\n", mutant)
		return
	}
	fmt.Printf("MUTANT %s SURVIVED\n", mutant)
	t.Errorf("the suite does not notice: %d stacks at once in %d cases", r.most, r.cases)
}

// seen is how many stacks ran at once at most, so far.
func (r *result) seen() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.most
}

// race does starts and stops until there were enough of them, or two stacks ran.
func race(t *testing.T, r *result, seed uint64, binary string, goal int, both temper) {
	t.Helper()
	var done atomic.Int64
	inParallel(func(worker int) {
		random := choices(seed, worker)
		for done.Load() < int64(goal) && r.seen() < 2 {
			if err := raceWorld(r, &done, goal, binary, random, both); err != nil {
				t.Errorf("seed %d: %v", seed, err)
				return
			}
		}
	})
}

// raceWorld lets two operators loose on one world.
func raceWorld(r *result, done *atomic.Int64, goal int, binary string, random *rand.Rand, both temper) error {
	w, err := newWorld(binary)
	if err != nil {
		return err
	}
	defer w.close()
	w.directed(&chaos{random: rand.New(rand.NewPCG(random.Uint64(), 1))})
	var operators sync.WaitGroup
	for i, slot := range slots {
		mine := rand.New(rand.NewPCG(random.Uint64(), uint64(i)))
		operators.Go(func() {
			for range racesPerWorld / len(slots) {
				if most, _ := w.counter.soFar(); most > 1 || done.Add(1) > int64(goal) {
					return
				}
				w.operate(r, slot, mine, both)
			}
		})
	}
	operators.Wait()
	w.systemd.quiet()
	w.directed(nil)
	err = w.check()
	most, _ := w.counter.peak()
	r.add(func(r *result) {
		r.most = max(r.most, most)
		if most > 1 {
			r.doubleRun++
		}
		if err != nil {
			r.latest = err.Error() + "\n" + strings.Join(w.talk, "\n")
		}
		r.crash += w.crash
		r.lost += w.lost
	})
	if err != nil && most < 2 {
		return err
	}
	if err = w.calmDown(most); err != nil {
		r.add(func(r *result) { r.crash++ }) // it did not end as it must
	}
	return err
}

// operate starts the slot if it is down and stops it otherwise, after a while.
func (w *world) operate(r *result, slot string, random *rand.Rand, t temper) {
	time.Sleep(time.Duration(random.Int64N(int64(40 * time.Millisecond))))
	u := w.unit(slot)
	if u.look().ActiveState == "active" {
		if random.IntN(100) < t.lingers {
			w.attempted(peerOf(slot), 250*time.Millisecond)
		}
		u.stop()
		r.add(func(r *result) { r.cases++ })
		return
	}
	if random.IntN(100) < t.waits {
		// Then both are often started in the same moment; otherwise beside a peer that is up.
		peer := w.unit(peerOf(slot))
		w.systemd.await(func() bool { return peer.status.Down() }, time.Second)
	}
	wired := u.start()
	r.add(func(r *result) {
		r.cases++
		r.starts++
		if wired {
			r.wired++
		}
	})
}

// attempted waits until the slot has been tried to start once more, whatever came of it.
func (w *world) attempted(slot string, limit time.Duration) {
	u := w.unit(slot)
	before := u.look().Activation
	w.systemd.await(func() bool {
		return u.status.Activation != before && (u.status.Down() || u.status.ActiveState == "active")
	}, limit)
}

// calmDown makes sure that after all that each slot can be started.
func (w *world) calmDown(most int) error {
	if most > 1 {
		return nil // the program is broken on purpose, or the suite has found enough
	}
	for _, slot := range slots {
		if e := w.call("resume", slot); e.code != 0 {
			return fmt.Errorf("resume of %s afterwards ended with %d", slot, e.code)
		}
	}
	for _, slot := range slots {
		if err := w.fullStart(slot); err != nil {
			return errors.Join(err, errors.New(strings.Join(w.talk, "\n")))
		}
	}
	return w.check()
}

// chaos disturbs the engine and kills a hook now and then.
type chaos struct {
	mu     sync.Mutex
	random *rand.Rand
}

// draw returns a number below n.
func (c *chaos) draw(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.random.IntN(n)
}

func (c *chaos) spawned(p *process, _ string) {
	if c.draw(25) == 0 {
		time.AfterFunc(time.Duration(c.draw(40))*time.Millisecond, p.kill)
	}
}

func (c *chaos) request(op enginetest.Op) enginetest.Action {
	late := time.Duration(1+c.draw(40)) * time.Millisecond
	switch roll := c.draw(20); {
	case op == enginetest.OpStart && roll < 4:
		return enginetest.Action{Break: true, Later: late}
	case op == enginetest.OpStart && roll < 10:
		return enginetest.Action{Delay: late}
	case op == enginetest.OpStart && roll == 10:
		return enginetest.Action{Break: true, Do: true}
	case op == enginetest.OpCreate && roll < 2, op == enginetest.OpRemove && roll < 2:
		return enginetest.Action{Break: true, Do: roll == 0}
	}
	return enginetest.Action{}
}

func (*chaos) answered(*acks)   {}
func (*chaos) unitGone() bool   { return false }
func (*chaos) unitGoesOn() bool { return false }
