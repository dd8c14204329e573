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
			if p[r].node != 0 && !p[r].term && !m.driver.heard(&p[r], s, r) {
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

// engineMoves are what the engine and the stack do by themselves.
func (m *model) engineMoves(w *modelWorld, s int, add adder) {
	o := w.objects[s]
	if o.pending {
		add("the engine starts the container of "+modelSlots[s], func(w *modelWorld) { m.engineStarts(w, s) })
	}
	if o.state == objectRunning && !o.ready {
		add("the stack of "+modelSlots[s]+" becomes ready", func(w *modelWorld) { w.objects[s].ready = true })
	}
	if o.state == objectRunning && w.left.dies > 0 {
		add("the stack of "+modelSlots[s]+" dies", func(w *modelWorld) {
			w.left.dies--
			w.objects[s].state = objectExited
		})
	}
}

// engineStarts does what the engine was asked for.
func (m *model) engineStarts(w *modelWorld, s int) {
	o := &w.objects[s]
	o.pending = false
	if o.state == objectCreated || o.state == objectExited && m.v.outside {
		o.state, o.ready = objectRunning, !m.v.byReadiness
	}
}

// unitMoves are what is asked of systemd, and of resume.
func (m *model) unitMoves(w *modelWorld, s int, add adder) {
	u := w.units[s]
	if u.down() && w.left.starts > 0 {
		add("systemd starts the unit of "+modelSlots[s], func(w *modelWorld) {
			w.left.starts--
			m.start(w, s, rolePre)
		})
	}
	if w.left.stops > 0 && !u.asked && !u.down() && u.state != unitStopPost {
		add("somebody stops the unit of "+modelSlots[s], func(w *modelWorld) {
			w.left.stops--
			m.stop(w, s)
		})
	}
	if w.left.resumes > 0 && w.procs[s][roleResume].node == 0 {
		add("somebody resumes "+modelSlots[s], func(w *modelWorld) {
			w.left.resumes--
			m.spawn(w, s, roleResume)
		})
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
		add("the host is rebooted", func(w *modelWorld) {
			w.left.reboots--
			m.reboot(w)
		})
	}
	if w.left.losses > 0 {
		add("the journal is lost", func(w *modelWorld) {
			w.left.losses--
			w.heads = [2]modelHead{}
			w.claim = modelClaim{unknown: !m.v.amnesia}
			for s := range w.procs {
				for r := range w.procs[s] {
					w.procs[s][r].epoch = false
				}
			}
		})
	}
}

func (m *model) reboot(w *modelWorld) {
	for s := range w.procs {
		for r := range w.procs[s] {
			if w.procs[s][r].node != 0 {
				w.bury(s, r)
				m.driver.end(s, r)
			}
		}
		w.units[s] = modelUnit{}
		o := &w.objects[s]
		o.pending = false
		if o.state == objectRunning {
			o.state, o.ready = objectExited, false
			if m.v.autorun {
				o.state, o.pending = objectCreated, true
			}
		}
		h := &w.heads[s]
		h.boot, h.openBoot = olderBoot(h.boot), olderBoot(h.openBoot)
	}
	w.claim.boot = olderBoot(w.claim.boot)
}

func olderBoot(b uint8) uint8 { return min(b, bootOld) }
