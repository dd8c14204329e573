package phases

// move is one thing that can happen next.
type move struct {
	text  string
	world modelWorld
}

// model is the product, or a variant of it, in its world.
type model struct {
	*tree
	programs [2][roles]*program
	slow     bool // a started stack becomes ready later
	autorun  bool // the engine starts what ran before a reboot
	amnesia  bool // a lost journal is taken for an empty one
}

func newModel(v *variant) *model {
	m := &model{tree: newTree(v), slow: v.byReadiness, autorun: v.autorun, amnesia: v.amnesia}
	for s := range m.programs {
		m.programs[s] = modelPrograms(uint8(s), v.outside)
	}
	return m
}

// moves are all that can happen next.
func (m *model) moves(w *modelWorld) []move {
	var all []move
	add := func(text string, next modelWorld) {
		all = append(all, move{text, next})
	}
	for s := range w.procs {
		for r := range w.procs[s] {
			if w.procs[s][r].node != 0 {
				m.processMoves(w, s, r, add)
			}
		}
		m.engineMoves(w, s, add)
		m.unitMoves(w, s, add)
	}
	m.hostMoves(w, add)
	return all
}

type adder func(text string, next modelWorld)

func who(s, r int) string { return modelSlots[s] + " " + roleNames[r] }

// processMoves are the ways in which a process's request can be answered.
func (m *model) processMoves(w *modelWorld, s, r int, add adder) {
	p := &w.procs[s][r]
	q := &m.nodes[p.node].request
	say := func(text string) string { return who(s, r) + " " + q.String() + text }
	m.answers(w, s, r, q, func(text string, change func(*modelWorld) answer) {
		next := *w
		a := change(&next)
		m.give(&next, s, r, a)
		add(say(text), next)
	})
	if p.term {
		next := *w
		next.procs[s][r].term = false
		m.give(&next, s, r, answer{code: answerCancelled})
		add(say(": SIGTERM"), next)
	}
	if w.left.crashes > 0 {
		next := *w
		next.left.crashes--
		m.exit(&next, s, r, false)
		add(who(s, r)+" is killed where it "+q.String(), next)
	}
	if r == roleRun && w.units[s].state >= unitStopHook && w.left.outlives > 0 && w.procs[s][roleGhost].node == 0 {
		next := *w
		next.left.outlives--
		next.outlive(s)
		m.settleUnit(&next, s)
		add(who(s, r)+" outlives its unit", next)
	}
}

// outlive takes run out of its unit.
func (w *modelWorld) outlive(s int) {
	w.procs[s][roleGhost], w.procs[s][roleRun] = w.procs[s][roleRun], modelProc{}
	w.procs[s][roleGhost].term = false
	if w.host == mark(s, roleRun) {
		w.host = mark(s, roleGhost)
	}
}

// answers lists what the world may say to a request, each with what it changes.
func (m *model) answers(w *modelWorld, s, r int, q *request, can func(string, func(*modelWorld) answer)) {
	yes, no := answer{code: answerYes}, answer{code: answerNo}
	o := w.objects[q.slot]
	fault := func() {
		if w.left.faults > 0 {
			can(": no answer", func(w *modelWorld) answer { w.left.faults--; return answer{code: answerError} })
		}
	}
	boolean := func(b bool) {
		can(map[bool]string{true: ": yes", false: ": no"}[b], func(*modelWorld) answer {
			if b {
				return yes
			}
			return no
		})
		fault()
	}
	action := func(possible bool, do func(*modelWorld)) {
		if !possible {
			can(": refused", func(*modelWorld) answer { return answer{code: answerError} })
			return
		}
		can("", func(w *modelWorld) answer { do(w); return yes })
		fault()
	}
	remove := func(w *modelWorld) { w.replace(q.slot, modelObject{}) }
	switch q.kind {
	case askSlotLock, askHostLock:
		m.lockAnswers(w, s, r, q, can)
	case askBegin:
		can("", func(*modelWorld) answer { return yes })
	case askAlive:
		alive := o.state == objectRunning
		if m.v.byReadiness && int(q.slot) != s {
			alive = alive && o.ready
		}
		boolean(alive)
	case askDied:
		boolean(o.state == objectExited)
	case askUnit:
		can("", func(w *modelWorld) answer {
			return answer{code: answerYes, unit: w.tellUnit(&w.procs[s][r], q.slot, int(q.slot) == s)}
		})
		fault()
	case askRemove:
		if m.v.noRemoval && r == rolePostStop {
			remove = func(*modelWorld) {}
		}
		action(o.state != objectRunning, remove)
	case askFence:
		if m.v.outside {
			remove = func(w *modelWorld) { w.objects[q.slot].fenced = true }
		}
		action(o.state != objectRunning, remove)
	case askUnfence:
		action(true, func(w *modelWorld) { w.objects[q.slot].fenced = false })
	case askOutside:
		m.outsideAnswers(w, s, r, q, can)
	case askStop:
		can("", func(w *modelWorld) answer {
			if w.objects[q.slot].state == objectRunning {
				w.objects[q.slot].state = objectExited
			}
			return yes
		})
		fault()
	case askClear:
		action(o.state != objectRunning, remove)
	case askCreate:
		action(o.state == objectNone, func(w *modelWorld) {
			w.replace(q.slot, modelObject{state: objectCreated})
			w.procs[s][r].made = true
		})
	case askStart:
		m.startAnswers(w, s, r, q, can)
	case askRunning:
		switch {
		case o.state == objectRunning && o.ready:
			boolean(true)
		case o.state == objectExited:
			boolean(false) // and is found dead at the next look
		case w.left.timeouts > 0:
			can(": not until the timeout", func(w *modelWorld) answer { w.left.timeouts--; return answer{code: answerTimeout} })
		}
	case askAttend:
		if o.state != objectRunning || !w.procs[s][r].made {
			can(": it has ended", func(*modelWorld) answer { return yes })
		}
	}
}

func (m *model) lockAnswers(w *modelWorld, s, r int, q *request, can func(string, func(*modelWorld) answer)) {
	me := mark(s, r)
	if q.kind == askHostLock {
		if w.host == 0 || m.v.noLock {
			can("", func(w *modelWorld) answer { w.host = me; return answer{code: answerYes} })
		}
		return
	}
	switch {
	case w.slotLock[q.slot] == 0:
		can("", func(w *modelWorld) answer { w.slotLock[q.slot] = me; return answer{code: answerYes} })
	case r == roleResume || r == rolePostStop: // they do not wait for long
		can(": not in time", func(*modelWorld) answer { return answer{code: answerTimeout} })
	}
}

// startAnswers lets the engine take its time: it has the request first, and acts later,
// perhaps when nobody waits for it any more.
func (m *model) startAnswers(w *modelWorld, s, r int, q *request, can func(string, func(*modelWorld) answer)) {
	o, made := w.objects[q.slot], w.procs[s][r].made
	switch {
	case !w.procs[s][r].sent:
		if !made {
			can(": there is none", func(*modelWorld) answer { return answer{code: answerError} })
			return
		}
		can(": request sent", func(w *modelWorld) answer {
			w.objects[q.slot].pending, w.procs[s][r].sent = true, true
			return answer{}
		})
	case !o.pending || !made:
		code, text := answerYes, ""
		if !made || o.state == objectCreated {
			code, text = answerError, ": there is none"
		}
		can(text, func(*modelWorld) answer { return answer{code: code} })
	}
}

// outsideAnswers is for a command that starts a container by its name, again and again.
func (m *model) outsideAnswers(w *modelWorld, s, r int, q *request, can func(string, func(*modelWorld) answer)) {
	o := w.objects[q.slot]
	switch {
	case !w.procs[s][r].sent && o.fenced:
		can(": there is none of this name", func(*modelWorld) answer { return answer{code: answerError} })
	case !w.procs[s][r].sent:
		can(": request sent", func(w *modelWorld) answer {
			w.objects[q.slot].pending, w.procs[s][r].sent, w.procs[s][r].made = true, true, true
			if !m.v.lateOutside {
				m.engineStarts(w, int(q.slot))
			}
			return answer{}
		})
	case !o.pending:
		can("", func(*modelWorld) answer { return answer{code: answerYes} })
	}
}

// give hands an answer to a process and answers at once what it asks within the same move.
func (m *model) give(w *modelWorld, s, r int, a answer) {
	p, me := &w.procs[s][r], mark(s, r)
	if q := &m.nodes[p.node].request; (q.kind == askStart || q.kind == askOutside) && a == (answer{}) {
		return // the request is under way
	}
	p.sent = false
	p.node = m.child(p.node, a)
	for {
		q := &m.nodes[p.node].request
		a := answer{code: answerYes}
		switch q.kind {
		case askHead:
			a.head = w.tellHead(p, me, q.slot)
		case askClaim:
			a.claim = w.tellClaim(p)
		case askCommit:
			w.commit(p, me, q.write)
		case askUnlockHost:
			if w.host == me {
				w.host = 0
			}
		case askUnlockSlot:
			if w.slotLock[q.slot] == me {
				w.slotLock[q.slot] = 0
			}
		case askOwnUnit, askAbort:
		case askExit:
			m.exit(w, s, r, q.ok)
			return
		default:
			return
		}
		p.node = m.child(p.node, a)
	}
}

// spawn begins a process.
func (m *model) spawn(w *modelWorld, s, r int) {
	p := modelProc{node: m.root(m.programs[s][r])}
	if r != roleResume {
		p.acts[0] = w.units[s].activation
	} else {
		p.acts[0] = noActivation
	}
	w.procs[s][r] = p
	if q := &m.nodes[p.node].request; !q.kind.scheduled() {
		m.giveFirst(w, s, r)
	}
}

// giveFirst answers what a process asks at once when it begins.
func (m *model) giveFirst(w *modelWorld, s, r int) {
	m.give(w, s, r, answer{code: answerYes})
}

// exit ends a process, and lets systemd see it.
func (m *model) exit(w *modelWorld, s, r int, ok bool) {
	w.bury(s, r)
	u := &w.units[s]
	switch {
	case r == roleCheck && ok && u.state == unitStartPre:
		m.spawn(w, s, rolePre)
		return
	case r == rolePre && ok && u.state == unitStartPre && !u.asked:
		u.state, u.ran = unitStarting, true
		m.spawn(w, s, roleRun)
		m.spawn(w, s, rolePost)
		return
	case r == rolePost && ok && u.state == unitStarting:
		u.state = unitActive
	case (r == rolePost || r == roleRun) && (u.state == unitStarting || u.state == unitActive):
		u.state = unitStopping
	case r == roleStop:
		u.state = unitStopping
	}
	m.settleUnit(w, s)
}
