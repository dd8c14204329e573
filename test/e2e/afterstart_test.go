package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/node-lifecycle/node-lifecycle/fsm"
	"github.com/node-lifecycle/node-lifecycle/internal/lab"
	"github.com/node-lifecycle/node-lifecycle/journal"
)

func TestAfterStartThatFailsFailsTheStart(t *testing.T) {
	h := newHost(t, setup{busybox: true, after: `[/bin/sh, -c, "echo wiring; echo no such driver >&2; exit 7"]`}.String())
	h.wantExit("systemctl start", h.run("systemctl", "start", unit("kube1")), 1)
	e := h.wantAfterStartFailed()
	for _, words := range []string{"exit code 7", "wiring", "no such driver"} {
		if !strings.Contains(e.Error, words) {
			t.Errorf("the error does not say %q: %s", words, e.Error)
		}
	}
}

func TestAfterStartHasItsOwnBudget(t *testing.T) {
	// It takes longer than the wait has left over of its own.
	h := newHost(t, setup{busybox: true, gated: true, ready: "7s", after: `[sleep, "5"]`}.String())
	wait := h.readyAfter(4 * time.Second)
	h.wantExit("systemctl start", wait(), 0)
	h.wantState("kube1", fsm.Wired)
	took := h.transition("kube1", fsm.EventWired).Time.Sub(h.transition("kube1", fsm.EventStarting).Time)
	if took < 9*time.Second {
		t.Errorf("Wired %s after Starting, before after-start can have ended", took)
	}
}

func TestAfterStartThatHangsFailsAtItsOwnTimeout(t *testing.T) {
	h := newHost(t, setup{busybox: true, gated: true, ready: "7s", afterStart: "3s", after: `[/bin/sh, -c, "echo begun; sleep 600"]`}.String())
	wait := h.readyAfter(4 * time.Second)
	h.wantExit("systemctl start", wait(), 1)
	e := h.wantAfterStartFailed()
	if !strings.Contains(e.Error, "begun") || e.Attrs["budget"] != "3s" {
		t.Errorf("failed with a budget of %s: %s", e.Attrs["budget"], e.Error)
	}
	if took := e.Time.Sub(h.transition("kube1", fsm.EventRunning).Time); took < 3*time.Second {
		t.Errorf("failed %s after the stack was up, before its own time was over", took)
	}
}

// readyAfter starts the gated stack of kube1 and opens its first gate that long after it
// has begun to wait.
func (h *host) readyAfter(wait time.Duration) (started func() lab.Result) {
	h.t.Helper()
	started = h.background("systemctl", "start", unit("kube1"))
	h.waitState("kube1", fsm.Starting)
	begun := h.transition("kube1", fsm.EventStarting).Time
	h.waitFor(patience, "the wait to use up its time", func() (bool, string) { return time.Since(begun) >= wait, "" })
	h.open("kube1", "ready")
	return started
}

// wantAfterStartFailed checks that the start failed in after-start and left nothing.
func (h *host) wantAfterStartFailed() journal.Entry {
	h.t.Helper()
	h.wantHook("kube1", "ExecStartPost", "exited 80")
	h.waitOver("kube1")
	e := h.lastTransition("kube1")
	if e.Event != string(fsm.EventFailed) || e.From != string(fsm.Running) || e.Cause != "after-start" {
		h.t.Errorf("%s from %s, cause %s: %s", e.Event, e.From, e.Cause, e.Error)
	}
	if e.EvidenceSize == 0 {
		h.t.Error("there is no evidence")
	}
	h.wantNothingLeft()
	return e
}
