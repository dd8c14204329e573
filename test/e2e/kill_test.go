package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/node-lifecycle/node-lifecycle/fsm"
	"github.com/node-lifecycle/node-lifecycle/journal"
	"github.com/node-lifecycle/node-lifecycle/phases"
)

// Requests by which hooks are met in the middle of ending a stack.
const (
	stopsContainer   = `^POST /containers/[^/]+/stop`
	removesContainer = `^DELETE /containers/`
)

func TestPreStartIsKilled(t *testing.T) {
	eachSignal(t, setup{busybox: true}, func(h *host, engine *relay, signal string) {
		held := engine.hold(looksAtImage)
		started := h.background("systemctl", "start", unit("kube1"))
		held.wait()
		h.wantState("kube1", fsm.PreChecked)
		h.wantClaim("kube1")
		h.kill("ControlPID", signal)
		h.wantExit("systemctl start", started(), 1)
		h.waitOver("kube1")

		h.wantHook("kube1", "ExecStartPre", ended[signal])
		failed := h.wantInterrupted(map[string]string{"TERM": "pre-start", "KILL": "post-stop"}[signal])
		if signal == "KILL" && !strings.Contains(failed.Detail, "pre-start died in step regenerate") {
			h.t.Errorf("failed, without saying who died: %s", failed.Detail)
		}
		h.wantStory("kube1", map[string]string{"TERM": "prechecked failed cleaned", "KILL": "prechecked failed"}[signal])
		h.wantNothingLeft()
		h.wantNextStart()
	})
}

func TestPreStartIsKilledBeforeItHasBegunAnything(t *testing.T) {
	h := newHost(t, setup{busybox: true, relayed: true}.String())
	held := newRelay(h).hold(listsOwn)
	started := h.background("systemctl", "start", unit("kube1"))
	held.wait()
	h.kill("ControlPID", "KILL")
	h.wantExit("systemctl start", started(), 1)
	h.waitOver("kube1")
	h.wantHook("kube1", "ExecStartPre", ended["KILL"])
	h.wantStory("kube1", "undone cleaned")
	if e := h.lastNote("kube1", fsm.NoteUndone); e.Cause != "interrupted" || !strings.Contains(e.Detail, "pre-start died in step precheck") {
		t.Errorf("undone, cause %s: %s", e.Cause, e.Detail)
	}
	h.wantNothingLeft()
	h.wantNextStart()
}

func TestPostStartIsKilled(t *testing.T) {
	eachSignal(t, setup{busybox: true, gated: true}, func(h *host, _ *relay, signal string) {
		began := time.Now()
		started := h.background("systemctl", "start", unit("kube1"))
		h.waitFor(patience, "post-start to wait", func() (bool, string) {
			text := h.property("kube1", "StatusText")
			return strings.Contains(text, "waiting for test"), text
		})
		h.kill("ControlPID", signal)
		h.wantExit("systemctl start", started(), 1)
		h.waitOver("kube1")

		h.wantHook("kube1", "ExecStartPost", ended[signal])
		failed := h.wantInterrupted(map[string]string{"TERM": "post-start", "KILL": "post-stop"}[signal])
		if signal == "KILL" && !strings.Contains(failed.Detail, "post-start died in step wait-ready") {
			h.t.Errorf("failed, without saying who died: %s", failed.Detail)
		}
		h.wantSignals("kube1", began, "15") // the stack has got its stop signal, and no KILL
		h.wantNothingLeft()
		h.wantNextStart()
	})
}

func TestRunIsKilledWhileItFollowsTheStack(t *testing.T) {
	eachSignal(t, setup{busybox: true}, func(h *host, _ *relay, signal string) {
		began := time.Now()
		h.start("kube1")
		h.kill("MainPID", signal)
		h.waitOver("kube1")
		if signal == "TERM" { // run was asked to end, and so was the stack
			h.wantProperty("kube1", "ActiveState", "inactive")
			h.wantStory("kube1", upStory, "stop-requested stopped")
		} else {
			h.wantProperty("kube1", "Result", "signal")
			h.wantStory("kube1", upStory, "lost")
			if e := h.lastTransition("kube1"); !strings.Contains(e.Detail, "the main process was killed by KILL") || e.EvidenceSize == 0 {
				h.t.Errorf("lost with %d bytes of evidence: %s", e.EvidenceSize, e.Detail)
			}
		}
		h.wantSignals("kube1", began, "15")
		h.wantNothingLeft()
		h.wantNextStart()
	})
}

func TestRunIsKilledWhileItStartsTheStack(t *testing.T) {
	eachSignal(t, setup{busybox: true}, func(h *host, engine *relay, signal string) {
		began := time.Now()
		held := engine.holdLate(`^POST /containers/[^/]+/start`)
		started := h.background("systemctl", "start", unit("kube1"))
		held.wait()
		h.kill("MainPID", signal)
		h.wantExit("systemctl start", started(), 1)
		h.waitOver("kube1")

		h.wantHook("kube1", "ExecStart", ended[signal])
		h.wantHook("kube1", "ExecStartPost", "exited 81")
		failed := h.transition("kube1", fsm.EventFailed)
		if failed.From != string(fsm.Starting) || failed.Cause != string(phases.CauseRunDied) {
			h.t.Errorf("failed from %s, cause %s: %s", failed.From, failed.Cause, failed.Error)
		}
		h.wantNothingLeft()

		held.release() // the engine gets to the start only now
		held.waitPassed()
		if starts := h.events("kube1", "start", began, "{{.ID}}"); starts != "" {
			h.t.Errorf("the stack was started after its unit had ended: %s", starts)
		}
		h.wantNextStart()
	})
}

func TestStopIsKilled(t *testing.T) {
	eachSignal(t, setup{busybox: true}, func(h *host, engine *relay, signal string) {
		began := time.Now()
		h.start("kube1")
		held := engine.hold(stopsContainer)
		stopped := h.background("systemctl", "stop", unit("kube1"))
		held.wait()
		h.wantProperty("kube1", "SubState", "stop")
		h.kill("ControlPID", signal)
		h.wantExit("systemctl stop", stopped(), 0)

		h.wantHook("kube1", "ExecStop", ended[signal])
		h.wantProperty("kube1", "ActiveState", "failed")
		h.wantStory("kube1", upStory, "stop-requested stopped")
		h.wantSignals("kube1", began, "15") // by run, which systemd has told to end
		h.wantNothingLeft()
		h.wantNextStart()
	})
}

func TestPostStopIsKilledBeforeItRemovesTheContainer(t *testing.T) {
	eachSignal(t, setup{busybox: true}, func(h *host, engine *relay, signal string) {
		h.start("kube1")
		held := engine.hold(removesContainer)
		stopped := h.background("systemctl", "stop", unit("kube1"))
		held.wait()
		h.wantProperty("kube1", "SubState", "stop-post")
		h.kill("ControlPID", signal)
		h.wantExit("systemctl stop", stopped(), 0)

		h.wantHook("kube1", "ExecStopPost", ended[signal])
		h.wantProperty("kube1", "ActiveState", "failed")
		h.wantStory("kube1", upStory, "stop-requested", map[string]string{"TERM": "unproven"}[signal])
		h.wantContainers()
		h.wantClaim("kube1") // nobody has proven it void
		h.wantNextStart()
		lost := h.transition("kube1", fsm.EventLost)
		if lost.Phase != "pre-start" || lost.Cause != "interrupted" || !strings.Contains(lost.Detail, "a stop was asked for") {
			h.t.Errorf("%s: lost, cause %s: %s", lost.Phase, lost.Cause, lost.Detail)
		}
	})
}

func TestPostStopIsKilledBeforeItStopsASurvivor(t *testing.T) {
	eachSignal(t, setup{busybox: true}, func(h *host, engine *relay, signal string) {
		h.start("kube1")
		held := engine.hold(stopsContainer)
		h.kill("MainPID", "KILL") // so that the container outlives its unit
		held.wait()
		h.wantProperty("kube1", "SubState", "stop-post")
		h.kill("ControlPID", signal)
		h.waitOver("kube1")
		h.wantHook("kube1", "ExecStopPost", ended[signal])
		h.wantContainers("node-kube1")
		h.wantClaim("kube1")

		h.ok("systemctl", "start", unit("kube2")) // skipped, which systemd calls done
		h.wantProperty("kube2", "ActiveState", "inactive")
		if e := h.lastNote("kube2", fsm.NoteRefused); e.Cause != "peer-alive" || !strings.Contains(e.Error, "node-kube1") {
			h.t.Errorf("kube2 refused, cause %s: %s", e.Cause, e.Error)
		}
		h.wantContainers("node-kube1")

		h.wantNextStart()
		lost := h.transition("kube1", fsm.EventLost)
		if lost.Phase != "pre-start" || !strings.Contains(lost.Detail, "survivor ended") {
			h.t.Errorf("%s: lost: %s", lost.Phase, lost.Detail)
		}
	})
}

// ended is how systemd tells of the end of a hook.
var ended = map[string]string{"TERM": "exited 143", "KILL": "killed 9"}

// eachSignal runs a scenario once with each signal that may meet a hook.
func eachSignal(t *testing.T, config setup, scenario func(h *host, engine *relay, signal string)) {
	for _, signal := range []string{"TERM", "KILL"} {
		t.Run("SIG"+signal, func(t *testing.T) {
			config.relayed = true
			h := newHost(t, config.String())
			scenario(h, newRelay(h), signal)
		})
	}
}

// kill sends a signal to the process of kube1's unit that a property names, as somebody
// at a shell would.
func (h *host) kill(property, signal string) {
	h.t.Helper()
	pid := h.property("kube1", property)
	if pid == "0" {
		h.t.Fatalf("%s of %s: there is no such process", property, unit("kube1"))
	}
	h.ok("kill", "-"+signal, pid)
}

// wantInterrupted checks that the phase recorded the last start as interrupted.
func (h *host) wantInterrupted(phase string) journal.Entry {
	h.t.Helper()
	e := h.lastTransition("kube1")
	if e.Event != string(fsm.EventFailed) || e.Phase != phase || e.Cause != "interrupted" {
		h.t.Errorf("%s: %s, cause %s; want %s: failed, cause interrupted", e.Phase, e.Event, e.Cause, phase)
	}
	return e
}

// wantNextStart checks that the next start comes up, with the claim and with one stack.
// It is a restart, because a start waits for the one that systemd has planned already.
func (h *host) wantNextStart() {
	h.t.Helper()
	h.open("kube1", "ready")
	h.open("kube1", "wired")
	h.ok("systemctl", "restart", unit("kube1"))
	h.wantState("kube1", fsm.Wired)
	h.wantContainers("node-kube1")
	h.wantClaim("kube1")
}
