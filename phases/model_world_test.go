package phases

import (
	"fmt"

	"github.com/node-lifecycle/node-lifecycle/fsm"
)

// modelWorld is all there is at one moment: the books, the engine, systemd, the processes.
// It is comparable, so that the search knows where it has been.
type modelWorld struct {
	heads    [2]modelHead
	claim    modelClaim
	objects  [2]modelObject
	units    [2]modelUnit
	procs    [2][roles]modelProc
	host     uint8    // who holds the host's lock: a process's mark, 0 nobody
	slotLock [2]uint8 // and the slots'
	left     budget
	started  uint8 // how many activations there were, where they are numbered for good
}

// budget is what may still happen of what nobody asked for.
type budget struct {
	starts, stops, crashes, outlives, dies, faults, timeouts uint8
	reboots, losses, resumes                                 uint8
}

// modelObject is the container of a slot's name.
type modelObject struct {
	state   uint8
	pending bool // the engine has been asked to start it and has not got round to it
	ready   bool
	fenced  bool // it has been given another name
}

const (
	objectNone uint8 = iota
	objectCreated
	objectRunning
	objectExited
)

var objectNames = [...]string{"none", "created", "running", "exited"}

// modelUnit is a unit as systemd drives it.
type modelUnit struct {
	state      uint8
	activation uint8
	asked      bool // a stop job is at work
	ran        bool // the main process has been started
}

const (
	unitInactive uint8 = iota
	unitFailed
	unitStartPre
	unitStarting // main process and start-post
	unitActive
	unitStopHook
	unitStopping
	unitStopPost
)

var unitNames = [...]string{"inactive", "failed", "start-pre", "start-post", "running", "stop", "stop-sigterm", "stop-post"}

func (u modelUnit) down() bool { return u.state == unitInactive || u.state == unitFailed }

// modelUnitView is what the product is told of a unit.
type modelUnitView struct {
	state, activation    uint8
	asked                bool
	mainRuns, mainExited bool
}

func (v modelUnitView) status(slot string) UnitStatus {
	u := UnitStatus{Name: "node-stack@" + slot + ".service", LoadState: "loaded", Activation: activationName(v.activation), MainExited: v.mainExited}
	switch v.state {
	case unitInactive:
		u.ActiveState, u.SubState = "inactive", "dead"
	case unitFailed:
		u.ActiveState, u.SubState = "failed", "failed"
	case unitStartPre, unitStarting:
		u.ActiveState, u.SubState, u.JobID, u.JobType = "activating", unitNames[v.state], 1, "start"
	case unitActive:
		u.ActiveState, u.SubState = "active", "running"
	default:
		u.ActiveState, u.SubState = "deactivating", unitNames[v.state]
	}
	if v.mainRuns {
		u.MainPID = 1
	}
	if v.asked {
		u.JobID, u.JobType = 1, "stop"
	}
	return u
}

// The processes that a slot can have, each at most once.
const (
	roleCheck int = iota
	rolePre
	roleRun
	rolePost
	roleStop
	rolePostStop
	roleResume
	roleGhost // a run that has outlived its unit
	roles
)

var roleNames = [...]string{"peer-check", "pre-start", "run", "post-start", "stop", "post-stop", "resume", "outlived run"}

// modelProc is a process: where it is in its tree of answers, and what it knows the
// activations by.
type modelProc struct {
	node  int32 // 0: there is none
	acts  [6]uint8
	epoch bool // it knows the claim's present epoch
	sent  bool // its request to the engine is under way
	made  bool // the container in its slot is the one that it created
	term  bool // SIGTERM has been sent and not arrived
}

// noActivation is what a process has for its own that belongs to none.
const noActivation = 255

func mark(slot, role int) uint8 { return uint8(slot*roles+role) + 1 }

// local is the number by which a process knows an activation; it may be new to it.
func (p *modelProc) local(activation uint8) uint8 {
	if activation == 0 {
		return 0
	}
	for i, have := range p.acts {
		switch have {
		case activation:
			return uint8(i + 1)
		case 0:
			p.acts[i] = activation
			return uint8(i + 1)
		}
	}
	panic("a process knows too many activations")
}

func (p *modelProc) global(local uint8) uint8 {
	if local == 0 {
		return 0
	}
	return p.acts[local-1]
}

// tellHead is a head as a process sees it.
func (w *modelWorld) tellHead(p *modelProc, me uint8, slot uint8) modelHead {
	h := w.heads[slot]
	h.run, h.openRun = runAs(h.run, me), runAs(h.openRun, me)
	h.activation, h.stop, h.openActs = p.local(h.activation), p.local(h.stop), p.local(h.openActs)
	return h
}

// In the world's heads a run is the mark of its process, or deadRun.
const deadRun = 255

func runAs(run, me uint8) uint8 {
	switch run {
	case 0:
		return runNone
	case me:
		return runMine
	case deadRun:
		return runDead
	}
	return runAlive
}

func runFrom(local, me, was uint8) uint8 {
	switch local {
	case runNone:
		return 0
	case runMine:
		return me
	}
	return was // somebody else's is never written anew
}

func (w *modelWorld) tellClaim(p *modelProc) modelClaim {
	c := w.claim
	c.activation = p.local(c.activation)
	c.moved = !p.epoch
	p.epoch = true
	return c
}

// commit takes over what a process's transaction has written.
func (w *modelWorld) commit(p *modelProc, me uint8, writes *modelWrites) {
	for s, written := range writes.heads {
		if written == nil {
			continue
		}
		was, h := w.heads[s], *written
		h.run, h.openRun = runFrom(h.run, me, was.run), runFrom(h.openRun, me, was.openRun)
		h.activation, h.stop, h.openActs = p.global(h.activation), p.global(h.stop), p.global(h.openActs)
		w.heads[s] = h
	}
	if writes.claim == nil {
		return
	}
	w.claim = *writes.claim
	w.claim.activation = p.global(w.claim.activation)
	if !writes.bump {
		return
	}
	for s := range w.procs {
		for r := range w.procs[s] {
			w.procs[s][r].epoch = false
		}
	}
	p.epoch = true
}

// tellUnit is a unit as a process sees it.
func (w *modelWorld) tellUnit(p *modelProc, slot uint8, own bool) modelUnitView {
	u := w.units[slot]
	v := modelUnitView{state: u.state, asked: u.asked}
	v.mainRuns = u.ran && w.procs[slot][roleRun].node != 0
	v.mainExited = u.ran && !v.mainRuns
	if own {
		v.activation = p.local(u.activation)
	}
	if w.started > 0 {
		v.activation = u.activation // everybody knows it by the same number
	}
	return v
}

// bury takes a process out of the world: its locks are free, its runs are a dead one's.
func (w *modelWorld) bury(slot, role int) {
	me := mark(slot, role)
	w.procs[slot][role] = modelProc{}
	if w.host == me {
		w.host = 0
	}
	for s := range w.heads {
		if w.slotLock[s] == me {
			w.slotLock[s] = 0
		}
		if w.heads[s].run == me {
			w.heads[s].run = deadRun
		}
		if w.heads[s].openRun == me {
			w.heads[s].openRun = deadRun
		}
	}
}

// canonical renames the activations in the order in which they are met, and forgets those
// that nobody knows any more.
func (w *modelWorld) canonical() {
	var known [40]uint8
	next := uint8(0)
	rename := func(a *uint8) {
		if *a == 0 || *a == noActivation {
			return
		}
		if known[*a] == 0 {
			next++
			known[*a] = next
		}
		*a = known[*a]
	}
	for s := range w.units {
		rename(&w.units[s].activation)
	}
	for s := range w.heads {
		h := &w.heads[s]
		rename(&h.activation)
		rename(&h.stop)
		rename(&h.openActs)
	}
	rename(&w.claim.activation)
	for s := range w.procs {
		for r := range w.procs[s] {
			p := &w.procs[s][r]
			for i := range p.acts {
				rename(&p.acts[i])
			}
		}
	}
}

// freshActivation is one that nobody knows yet.
func (w *modelWorld) freshActivation() uint8 {
	if w.started > 0 {
		w.started++
		return w.started
	}
	highest := uint8(0)
	see := func(a uint8) {
		if a != noActivation {
			highest = max(highest, a)
		}
	}
	for s := range w.units {
		see(w.units[s].activation)
		see(w.heads[s].activation)
		see(w.heads[s].stop)
		see(w.heads[s].openActs)
		for r := range w.procs[s] {
			for _, a := range w.procs[s][r].acts {
				see(a)
			}
		}
	}
	see(w.claim.activation)
	return highest + 1
}

// replace puts another container, or none, in a slot's place.
func (w *modelWorld) replace(slot uint8, o modelObject) {
	w.objects[slot] = o
	for r := range w.procs[slot] {
		w.procs[slot][r].made = false
	}
}

// stateName is the state in a head.
func (h modelHead) stateName() fsm.State {
	if h.state == 0 {
		return fsm.Stopped
	}
	return fsm.State(modelNames.name(h.state))
}

func (w *modelWorld) String() string {
	text := ""
	for s, slot := range modelSlots {
		text += fmt.Sprintf("%s %s, unit %s, container %s", slot, w.heads[s].stateName(), unitNames[w.units[s].state], objectNames[w.objects[s].state])
		if w.objects[s].pending {
			text += " (start under way)"
		}
		text += "; "
	}
	switch {
	case w.claim.unknown:
		text += "the claim is unknown"
	case w.claim.holder == 0:
		text += "nobody holds the claim"
	default:
		text += slotOfMark(w.claim.holder) + " holds the claim"
	}
	return text
}
