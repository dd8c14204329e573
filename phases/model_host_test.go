package phases

// settleUnit does what systemd does by itself.
func (m *model) settleUnit(w *modelWorld, s int) {
	u, p := &w.units[s], &w.procs[s]
	switch u.state {
	case unitStartPre:
		if p[rolePre].node == 0 && p[roleCheck].node == 0 {
			u.state = unitStopPost
			m.spawn(w, s, rolePostStop)
		}
	case unitStopping:
		if p[roleRun].node == 0 && p[rolePost].node == 0 && p[roleStop].node == 0 {
			u.state = unitStopPost
			m.spawn(w, s, rolePostStop)
			return
		}
		for _, r := range []int{roleRun, rolePost} {
			if p[r].node != 0 && !w.procs[s][r].heard(m) {
				p[r].term = true
			}
		}
	case unitStopPost:
		if p[rolePostStop].node == 0 {
			u.state = unitFailed
			if u.asked {
				u.state = unitInactive
			}
			u.asked, u.ran = false, false
		}
	}
}

// heard reports whether a process has had its SIGTERM.
func (p modelProc) heard(m *model) bool {
	for _, a := range m.nodes[p.node].path {
		if a.code == answerCancelled {
			return true
		}
	}
	return p.term
}

// engineMoves are what the engine and the stack do by themselves.
func (m *model) engineMoves(w *modelWorld, s int, add adder) {
	o := w.objects[s]
	if o.pending {
		next := *w
		m.engineStarts(&next, s)
		add("the engine starts the container of "+modelSlots[s], next)
	}
	if o.state == objectRunning && !o.ready {
		next := *w
		next.objects[s].ready = true
		add("the stack of "+modelSlots[s]+" becomes ready", next)
	}
	if o.state == objectRunning && w.left.dies > 0 {
		next := *w
		next.left.dies--
		next.objects[s].state = objectExited
		add("the stack of "+modelSlots[s]+" dies", next)
	}
}

// engineStarts does what the engine was asked for.
func (m *model) engineStarts(w *modelWorld, s int) {
	o := &w.objects[s]
	o.pending = false
	if o.state == objectCreated || o.state == objectExited && m.v.outside {
		o.state, o.ready = objectRunning, !m.slow
	}
}

// unitMoves are what is asked of systemd, and of resume.
func (m *model) unitMoves(w *modelWorld, s int, add adder) {
	u := w.units[s]
	if u.down() && w.left.starts > 0 {
		next := *w
		next.left.starts--
		m.start(&next, s, rolePre)
		add("systemd starts the unit of "+modelSlots[s], next)
	}
	if w.left.stops > 0 && !u.asked && !u.down() && u.state != unitStopPost {
		next := *w
		next.left.stops--
		m.stop(&next, s)
		add("somebody stops the unit of "+modelSlots[s], next)
	}
	if w.left.resumes > 0 && w.procs[s][roleResume].node == 0 {
		next := *w
		next.left.resumes--
		m.spawn(&next, s, roleResume)
		add("somebody resumes "+modelSlots[s], next)
	}
}

func (m *model) start(w *modelWorld, s, first int) {
	w.units[s] = modelUnit{state: unitStartPre, activation: w.freshActivation()}
	if m.v.outside && w.objects[s].state == objectExited {
		w.objects[s].state = objectCreated // how it ended before is no news to this activation
	}
	m.spawn(w, s, first)
}

func (m *model) stop(w *modelWorld, s int) {
	u := &w.units[s]
	u.asked = true
	switch u.state {
	case unitStartPre:
		for _, r := range []int{roleCheck, rolePre} {
			if w.procs[s][r].node != 0 {
				w.procs[s][r].term = true
			}
		}
	case unitActive:
		u.state = unitStopHook
		m.spawn(w, s, roleStop)
	case unitStarting:
		u.state = unitStopping
		m.settleUnit(w, s)
	}
}

// hostMoves are what happens to all at once.
func (m *model) hostMoves(w *modelWorld, add adder) {
	if w.left.reboots > 0 {
		next := *w
		next.left.reboots--
		m.reboot(&next)
		add("the host is rebooted", next)
	}
	if w.left.losses > 0 {
		next := *w
		next.left.losses--
		next.heads = [2]modelHead{}
		next.claim = modelClaim{unknown: !m.amnesia}
		for s := range next.procs {
			for r := range next.procs[s] {
				next.procs[s][r].epoch = false
			}
		}
		add("the journal is lost", next)
	}
}

func (m *model) reboot(w *modelWorld) {
	for s := range w.procs {
		for r := range w.procs[s] {
			if w.procs[s][r].node != 0 {
				w.bury(s, r)
			}
		}
		w.units[s] = modelUnit{}
		o := &w.objects[s]
		o.pending = false
		if o.state == objectRunning {
			o.state, o.ready = objectExited, false
			if m.autorun {
				o.state, o.pending = objectCreated, true
			}
		}
		h := &w.heads[s]
		h.boot, h.openBoot = olderBoot(h.boot), olderBoot(h.openBoot)
	}
	w.claim.boot = olderBoot(w.claim.boot)
}

func olderBoot(b uint8) uint8 { return min(b, bootOld) }
