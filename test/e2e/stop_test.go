package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/node-lifecycle/node-lifecycle/fsm"
	"github.com/node-lifecycle/node-lifecycle/journal"
)

// Requests by which hooks are met in the middle of their work: pre-start settling its own
// past, and regenerating.
const (
	listsOwn     = `^GET /containers/json\?.*slot=kube1`
	looksAtImage = `^GET /images/localhost/busybox:lab/json`
)

func TestStopDuringPreStart(t *testing.T) {
	for _, tc := range []struct{ name, at, state, story string }{
		{"before anything has begun", listsOwn, "Stopped", "refused cleaned"},
		{"while it regenerates", looksAtImage, "PreChecked", "prechecked stop-requested stopped"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newHost(t, setup{busybox: true, relayed: true}.String())
			held := newRelay(h).hold(tc.at)
			started := h.background("systemctl", "start", unit("kube1"))
			held.wait()
			h.wantProperty("kube1", "SubState", "start-pre")
			h.wantState("kube1", fsm.State(tc.state))

			h.ok("systemctl", "stop", unit("kube1"))
			h.wantExit("systemctl start", started(), 1)
			h.wantHook("kube1", "ExecStartPre", "exited 143")
			// Red, because a hook that was told to end must not count as one that succeeded.
			h.wantProperty("kube1", "ActiveState", "failed")
			h.wantProperty("kube1", "Result", "exit-code")
			h.wantStory("kube1", tc.story)
			interrupted := h.last("kube1", "interruption", func(e *journal.Entry) bool { return e.Phase == "pre-start" && e.Cause != "" })
			if interrupted.Cause != "interrupted" || interrupted.Error != "interrupted by SIGTERM" {
				t.Errorf("%s, cause %s: %s", interrupted.Kind, interrupted.Cause, interrupted.Error)
			}
			h.wantState("kube1", fsm.Stopped)
			h.wantNothingLeft()
			h.start("kube1")
		})
	}
}

func TestStopDuringTheWait(t *testing.T) {
	h := newHost(t, setup{busybox: true, gated: true}.String())
	began := time.Now()
	started := h.background("systemctl", "start", unit("kube1"))
	h.waitFor(patience, "post-start to wait", func() (bool, string) {
		text := h.property("kube1", "StatusText")
		return strings.Contains(text, "waiting for test"), text
	})
	h.ok("systemctl", "stop", unit("kube1"))
	h.wantExit("systemctl start", started(), 1)
	h.wantHook("kube1", "ExecStartPost", "exited 143")
	h.wantProperty("kube1", "ActiveState", "failed")
	h.wantStory("kube1", "prechecked regenerated starting stop-requested stopped")
	h.wantState("kube1", fsm.Stopped)
	h.wantSignals("kube1", began, "15") // its own stop signal, and no KILL
	h.wantNothingLeft()

	h.open("kube1", "ready")
	h.open("kube1", "wired")
	h.start("kube1")
}

func TestStopOfAStackThatDoesNotHeedItsSignal(t *testing.T) {
	h := newHost(t, setup{busybox: true, command: `trap '' TERM; while :; do sleep 1; done`}.String())
	began := time.Now()
	h.start("kube1")
	h.ok("systemctl", "stop", unit("kube1"))
	h.wantProperty("kube1", "ActiveState", "inactive")
	h.wantStory("kube1", "prechecked regenerated starting running wired stop-requested stopped")
	h.wantSignals("kube1", began, "15", "9")
	if e := h.transition("kube1", fsm.EventStopped); !strings.Contains(e.Detail, "exited with code 137") {
		t.Errorf("the end of the stack is told as: %s", e.Detail)
	}
	h.wantNothingLeft()
}

func TestHooksTypedByHandWhileWiredAreRefused(t *testing.T) {
	h := newHost(t, setup{busybox: true}.String())
	h.start("kube1")
	id, story := h.containerID("kube1"), h.story("kube1")
	for _, hook := range []string{"pre-start", "run", "post-start", "stop", "post-stop"} {
		h.wantExit(hook, h.run("node-lifecycle", hook, "kube1"), 75, "the unit node-stack@kube1.service is active", "systemctl")
	}
	h.wantProperty("kube1", "ActiveState", "active")
	h.wantStory("kube1", story)
	h.wantClaim("kube1")
	h.wantContainers("node-kube1")
	if now := h.containerID("kube1"); now != id {
		t.Errorf("the stack is another one: %s, was %s", now, id)
	}
}
