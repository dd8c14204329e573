package reliability

import (
	"sync"
	"syscall"
	"time"

	"github.com/node-lifecycle/node-lifecycle/backend/container"
)

// unit is the supervising unit of a slot. It does what systemd does with the lines that
// `node-lifecycle units` writes.
type unit struct {
	systemd    *systemd
	slot, name string

	job    sync.Mutex // one job at a time
	status container.UnitStatus
	main   *process // of the present activation
}

func (u *unit) look() container.UnitStatus {
	u.systemd.mu.Lock()
	defer u.systemd.mu.Unlock()
	return u.status
}

func (u *unit) set(f func(s *container.UnitStatus)) {
	u.systemd.change(func() { f(&u.status) })
}

// begin makes a job the unit's.
func (u *unit) begin(kind string) {
	u.systemd.change(func() {
		u.systemd.jobs++
		u.status.JobID, u.status.JobType = u.systemd.jobs, kind
	})
}

// start starts the unit and reports whether it became active. One that is up stays so.
func (u *unit) start() bool {
	u.job.Lock()
	defer u.job.Unlock()
	if u.look().ActiveState == "active" {
		return true
	}
	return u.starting("start")
}

// stop stops the unit.
func (u *unit) stop() {
	u.job.Lock()
	defer u.job.Unlock()
	if u.look().ActiveState == "active" {
		u.begin("stop")
		u.stopping("success")
	}
}

func (u *unit) restart() bool {
	u.job.Lock()
	defer u.job.Unlock()
	if u.look().ActiveState == "active" {
		u.begin("restart")
		if !u.stopping("success") {
			return false
		}
	}
	return u.starting("restart")
}

// starting runs the hooks of a start in their order and reports whether the unit became
// active.
func (u *unit) starting(job string) bool {
	u.begin(job)
	u.set(func(s *container.UnitStatus) {
		s.Activation, s.ActiveState, s.SubState, s.Result = newActivation(), "activating", "condition", "success"
		s.MainPID, s.MainExited, s.MainCode, s.MainStatus = 0, false, 0, 0
	})
	u.main = nil
	if e := u.hook("peer-check"); e.code != 0 {
		if e.code > 0 && e.code < 255 {
			return u.over("exec-condition")
		}
		return u.over(e.result())
	}
	u.set(func(s *container.UnitStatus) { s.SubState = "start-pre" })
	if e := u.hook("pre-start"); e.code != 0 {
		return u.over(e.result())
	}
	if !u.startMain() {
		return u.over("resources")
	}
	e := u.hook("post-start")
	switch {
	case e.victim && u.systemd.world.direct().unitGoesOn():
		// As with "ExecStartPost=-": systemd does not mind.
	case e.code != 0:
		return u.over(e.result())
	case u.main.ended():
		return u.over(u.main.wait().result())
	}
	u.settle("active", "running", "success")
	go u.watch(u.main)
	return true
}

// result is what systemd calls the end of a process.
func (e end) result() string {
	switch {
	case e.signal != 0 && e.signal != syscall.SIGTERM: // systemd calls that one clean
		return "signal"
	case e.code != 0:
		return "exit-code"
	}
	return "success"
}

// startMain starts ExecStart= and does not wait for what comes of it (Type=exec).
func (u *unit) startMain() bool {
	p, err := u.systemd.world.spawn(u, "run", nil)
	if err != nil {
		u.systemd.world.fault("start %s of %s: %v", "run", u.slot, err)
		return false
	}
	u.main = p
	u.set(func(s *container.UnitStatus) { s.SubState, s.MainPID = "start-post", p.cmd.Process.Pid })
	go func() {
		e := p.wait()
		u.set(func(s *container.UnitStatus) {
			if s.MainPID != p.cmd.Process.Pid {
				return // another activation has begun
			}
			s.MainExited, s.MainPID, s.MainCode, s.MainStatus = true, 0, 1, e.code
			if e.signal != 0 {
				s.MainCode, s.MainStatus = 2, int(e.signal)
			}
		})
	}()
	return true
}

// watch ends the activation when its main process ends by itself.
func (u *unit) watch(main *process) {
	<-main.done
	u.job.Lock()
	defer u.job.Unlock()
	if u.main == main && u.look().ActiveState == "active" && !u.systemd.world.isOver() {
		u.stopping(main.wait().result())
	}
}

// stopping runs ExecStop=, ends the main process and runs what comes after. It reports
// whether the unit is still there to be started again.
func (u *unit) stopping(result string) bool {
	if u.gone() {
		return false
	}
	u.set(func(s *container.UnitStatus) { s.ActiveState, s.SubState = "deactivating", "stop" })
	if e := u.hook("stop"); e.code != 0 {
		result = e.result()
	}
	u.over(result)
	return !u.systemd.world.direct().unitGone()
}

// gone ends everything of the unit without another hook if that is what became of it when
// one of its processes was killed.
func (u *unit) gone() bool {
	if !u.systemd.world.direct().unitGone() {
		return false
	}
	u.vanish()
	return true
}

// over ends the main process, calls post-stop and leaves the unit down. It returns
// false, as a start that came to this has failed.
func (u *unit) over(result string) bool {
	if u.gone() {
		return false
	}
	u.set(func(s *container.UnitStatus) {
		s.ActiveState, s.SubState, s.Result = "deactivating", "stop-sigterm", result
	})
	env := []string{"SERVICE_RESULT=" + result}
	if u.main != nil {
		u.main.terminate()
		e := u.main.wait()
		u.systemd.world.keep(u.main)
		if result == "success" {
			result = e.result()
			env[0] = "SERVICE_RESULT=" + result
		}
		code, status := e.text()
		env = append(env, "EXIT_CODE="+code, "EXIT_STATUS="+status)
	}
	u.set(func(s *container.UnitStatus) { s.SubState, s.Result = "stop-post", result })
	if e := u.hook("post-stop", env...); e.code != 0 && result == "success" {
		result = e.result()
	}
	if u.gone() {
		return false
	}
	state := "failed"
	if result == "success" || result == "exec-condition" {
		state = "inactive"
	}
	u.settle(state, "dead", result)
	return false
}

// settle makes the unit what it is to stay and ends its job.
func (u *unit) settle(active, sub, result string) {
	u.set(func(s *container.UnitStatus) {
		s.ActiveState, s.SubState, s.Result, s.JobID, s.JobType = active, sub, result, 0, ""
	})
}

// vanish kills everything of the unit and calls no hook, as when the whole service
// manager or the host goes.
func (u *unit) vanish() {
	if u.main != nil {
		u.main.kill()
		<-u.main.done
		u.systemd.world.keep(u.main)
	}
	u.settle("failed", "failed", "signal")
}

// hook runs a hook to its end.
func (u *unit) hook(name string, env ...string) end {
	w := u.systemd.world
	p, err := w.spawn(u, name, env)
	if err != nil {
		w.fault("start %s of %s: %v", name, u.slot, err)
		return end{code: 255}
	}
	began := time.Now()
	e := p.wait()
	w.keep(p)
	w.measure(name, time.Since(began), e)
	return e
}
