package phases

// move is one thing that can happen next.
type move struct {
	text string
	do   func(*modelWorld)
}

// model is the product, or a variant of it, in its world.
type model struct {
	v        *variant
	programs [2][roles]*program
	driver   driver
}

// driver moves processes: through what is known of them, or for real.
type driver interface {
	// begin starts the program and returns a number that is not 0.
	begin(p *program, slot, role int) int32
	// request is what the process waits for.
	request(p *modelProc, slot, role int) *request
	// advance answers it.
	advance(p *modelProc, slot, role int, a answer)
	// end is told of a process that has ended or was killed.
	end(slot, role int)
	// heard reports whether the process has had its SIGTERM.
	heard(p *modelProc, slot, role int) bool
}

func newModel(v *variant, d driver) *model {
	m := &model{v: v, driver: d}
	for s := range m.programs {
		m.programs[s] = modelPrograms(uint8(s), v.outside)
	}
	return m
}

// moves are all that can happen next.
func (m *model) moves(w *modelWorld) []move {
	var all []move
	add := func(text string, do func(*modelWorld)) { all = append(all, move{text, do}) }
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

type adder func(text string, do func(*modelWorld))

func who(s, r int) string { return modelSlots[s] + " " + roleNames[r] }

// processMoves are the ways in which a process's request can be answered.
func (m *model) processMoves(w *modelWorld, s, r int, add adder) {
	p := &w.procs[s][r]
	q := m.driver.request(p, s, r)
	me := who(s, r) + " "
	m.answers(w, s, r, q, func(text string, change func(*modelWorld) answer) {
		add(me+q.String()+text, func(w *modelWorld) { m.give(w, s, r, change(w)) })
	})
	if p.term {
		add(me+q.String()+": SIGTERM", func(w *modelWorld) {
			w.procs[s][r].term = false
			m.give(w, s, r, answer{code: answerCancelled})
		})
	}
	if w.left.crashes > 0 {
		add(me+"is killed where it "+q.String(), func(w *modelWorld) {
			w.left.crashes--
			m.exit(w, s, r, false)
		})
	}
	if r == roleRun && w.units[s].state >= unitStopHook && w.left.outlives > 0 && w.procs[s][roleGhost].node == 0 {
		add(me+"outlives its unit", func(w *modelWorld) {
			w.left.outlives--
			w.outlive(s)
			m.driver.(outliver).outlive(s)
			m.settleUnit(w, s)
		})
	}
}

// outliver is a driver that has to know when run leaves its unit.
type outliver interface{ outlive(slot int) }

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

// give hands an answer to a process.
func (m *model) give(w *modelWorld, s, r int, a answer) {
	p := &w.procs[s][r]
	if q := m.driver.request(p, s, r); (q.kind == askStart || q.kind == askOutside) && a == (answer{}) {
		return // the request is under way
	}
	p.sent = false
	m.driver.advance(p, s, r, a)
	m.proceed(w, s, r)
}

// proceed answers at once what a process asks within the same move.
func (m *model) proceed(w *modelWorld, s, r int) {
	p, me := &w.procs[s][r], mark(s, r)
	for {
		q := m.driver.request(p, s, r)
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
		m.driver.advance(p, s, r, a)
	}
}

// spawn begins a process.
func (m *model) spawn(w *modelWorld, s, r int) {
	p := modelProc{node: m.driver.begin(m.programs[s][r], s, r)}
	p.acts[0] = w.units[s].activation
	if r == roleResume {
		p.acts[0] = noActivation
	}
	w.procs[s][r] = p
	m.proceed(w, s, r)
}

// exit ends a process, and lets systemd see it.
func (m *model) exit(w *modelWorld, s, r int, ok bool) {
	w.bury(s, r)
	m.driver.end(s, r)
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
