package reliability

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/node-lifecycle/node-lifecycle/backend/container/enginetest"
)

// aftermath is what a kill does beyond the process.
type aftermath string

const (
	// systemdGoesOn: systemd notices and does what it does then.
	systemdGoesOn aftermath = "systemd goes on"
	// unitGone: everything of the unit is gone at once and no other hook is called. The
	// container lives on.
	unitGone aftermath = "the unit is gone"
	// hostGone: the host reboots.
	hostGone aftermath = "the host reboots"
	// unitIgnores: the unit goes on as if nothing had happened.
	unitIgnores aftermath = "the unit does not mind"
)

// plan kills one process once.
type plan struct {
	hook, slot string
	after      aftermath
	// One of the three says when: a time after its start, its nth request to engine or
	// systemd, its nth entry that was answered for.
	delay       time.Duration
	nth, answer int
	// undone: what the dying process asks for at that moment is not done.
	undone bool
	// late: it is killed as it asks for the start of the stack, and the engine does that so
	// much later.
	late time.Duration
	// eager: somebody starts the peer at once, before anybody resumes.
	eager bool

	mu       sync.Mutex
	victim   *process
	requests int
	answers  int
}

// newPlan draws a plan for a process that takes about as long as it is said to.
func newPlan(random *rand.Rand, hook, slot string, takes time.Duration) *plan {
	p := &plan{hook: hook, slot: slot, after: drawAftermath(random, hook)}
	p.eager = random.IntN(3) == 0
	if hook == "run" && random.IntN(3) == 0 {
		p.late = drawLate(random)
		return p
	}
	switch random.IntN(3) {
	case 0:
		p.delay = 1 + time.Duration(random.Int64N(int64(max(takes, time.Millisecond))))
	case 1:
		p.nth, p.undone = 1+random.IntN(12), random.IntN(3) == 0
	case 2:
		p.answer = 1 + random.IntN(3)
	}
	return p
}

// newLateStart draws the plan that the fence is there for: run dies as it asks for the
// start, its unit is gone, the peer is started at once, and then the engine does what it
// was asked to.
func newLateStart(random *rand.Rand, _, slot string, _ time.Duration) *plan {
	return &plan{hook: "run", slot: slot, after: unitGone, late: drawLate(random), eager: true}
}

// drawLate draws a time between nothing and what a start of the peer takes.
func drawLate(random *rand.Rand) time.Duration {
	return 1 + time.Duration(random.Int64N(int64(600*time.Millisecond)))
}

func drawAftermath(random *rand.Rand, hook string) aftermath {
	all := []aftermath{systemdGoesOn, unitGone, unitGone, hostGone}
	switch hook {
	case "post-start":
		all = append(all, unitIgnores)
	case "reconcile", "resume":
		all = []aftermath{systemdGoesOn} // they run outside the unit
	}
	return all[random.IntN(len(all))]
}

func (p *plan) String() string {
	s := fmt.Sprintf("%s of %s killed ", p.hook, p.slot)
	switch {
	case p.late > 0:
		s += fmt.Sprintf("at its start, which is done %s late", p.late)
	case p.nth > 0:
		s += fmt.Sprintf("at request %d (undone %v)", p.nth, p.undone)
	case p.answer > 0:
		s += fmt.Sprintf("after entry %d", p.answer)
	default:
		s += fmt.Sprintf("after %s", p.delay)
	}
	if p.eager {
		s += ", the peer started at once"
	}
	return s + "; then " + string(p.after)
}

func (p *plan) spawned(started *process, slot string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.victim != nil || started.hook != p.hook || slot != p.slot {
		return
	}
	p.victim = started
	if p.delay > 0 {
		time.AfterFunc(p.delay, started.kill)
	}
}

func (p *plan) request(op enginetest.Op) enginetest.Action {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.victim == nil {
		return enginetest.Action{}
	}
	if p.late > 0 && op == enginetest.OpStart {
		p.victim.kill()
		return enginetest.Action{Break: true, Later: p.late}
	}
	if p.requests++; p.requests == p.nth {
		p.victim.kill()
		return enginetest.Action{Break: p.undone}
	}
	return enginetest.Action{}
}

func (p *plan) answered(a *acks) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.victim == nil || p.victim.acks != a {
		return
	}
	if p.answers++; p.answers == p.answer {
		p.victim.kill()
	}
}

// hit reports whether the process has died of the kill.
func (p *plan) hit() bool {
	p.mu.Lock()
	victim := p.victim
	p.mu.Unlock()
	return victim != nil && victim.ended() && victim.wait().victim
}

func (p *plan) unitGone() bool {
	return (p.after == unitGone || p.after == hostGone) && p.hit()
}

func (p *plan) unitGoesOn() bool { return p.after == unitIgnores }

// finish makes sure that a process which does not end by itself has been killed, and
// that the kill has had its effect on the unit.
func (p *plan) finish(w *world) {
	p.mu.Lock()
	victim := p.victim
	p.mu.Unlock()
	if victim == nil {
		return
	}
	if p.hook == "run" {
		if p.delay == 0 {
			victim.kill()
		}
		<-victim.done
		u := w.unit(p.slot)
		w.systemd.await(func() bool { return u.status.ActiveState != "active" || u.main != victim }, hookLimit)
	}
	<-victim.done
	w.systemd.quiet()
}
