package e2e

import (
	"strings"
	"testing"

	"github.com/node-lifecycle/node-lifecycle/fsm"
	"github.com/node-lifecycle/node-lifecycle/internal/lab"
	"github.com/node-lifecycle/node-lifecycle/journal"
	"github.com/node-lifecycle/node-lifecycle/phases"
)

// The engine is away while kube1 is up, whose stack lives on without it. Nobody can prove
// then that kube1 is down, so kube2 is refused, and told why.
func TestPeerIsRefusedWhileTheEngineIsAway(t *testing.T) {
	t.Parallel() // on a host of its own
	shared := ownHost(t, setup{}.String(), lab.Options{Name: "unproven", LiveRestore: true})
	for _, away := range []struct{ how, gone, back string }{
		{
			"its units are masked and stopped",
			"systemctl mask --quiet docker.service docker.socket; systemctl stop docker.service docker.socket",
			"systemctl unmask --quiet docker.service docker.socket; systemctl reset-failed docker.service docker.socket; systemctl start docker.socket docker.service",
		},
		{
			"it is stopped (SIGSTOP)",
			"systemctl kill --kill-who=main --signal=STOP docker.service",
			"systemctl kill --kill-who=main --signal=CONT docker.service",
		},
	} {
		t.Run(away.how, func(t *testing.T) {
			h := shared.again(t, setup{busybox: true, engineWait: "2s"}.String())
			h.enable("kube1", "kube2")
			h.start("kube1")
			stack := h.container("kube1", "{{.State.Pid}}")

			h.ok("sh", "-c", away.gone)
			h.wantExit("systemctl start of the peer", h.run("systemctl", "start", unit("kube2")), 1)
			h.wantHook("kube2", "ExecCondition", "exited 255")
			h.wantProperty("kube2", "Result", "exit-code")
			h.wantUnproven("peer-check")
			h.ok("systemctl", "stop", unit("kube2")) // it would be tried again
			h.wantExit("pre-start of the peer by hand", h.run("node-lifecycle", "pre-start", "kube2"), phases.ExitUnavailable)
			h.wantUnproven("pre-start")
			h.wantState("kube2", fsm.Stopped)

			h.ok("test", "-d", "/proc/"+stack)
			h.wantProperty("kube1", "ActiveState", "active")
			h.wantState("kube1", fsm.Wired)
			h.wantClaim("kube1")

			h.ok("sh", "-c", away.back)
			h.run("systemctl", "reset-failed", unit("kube2"))
			h.ok("systemctl", "start", unit("kube2"))
			h.wantSkipped("kube2", "container node-kube1")
			if now := h.container("kube1", "{{.State.Pid}}"); now != stack {
				t.Errorf("the stack of kube1 has process %s, it had %s", now, stack)
			}
			h.wantContainers("node-kube1")
			h.wantStory("kube1", upStory)

			h.ok("systemctl", "stop", unit("kube1"))
			h.wantProperty("kube1", "Result", "success")
			h.wantStory("kube1", upStory, "stop-requested stopped")
			h.wantNothingLeft()
		})
	}
}

// wantUnproven checks that kube2's history says what could not be reached, and what could
// therefore not be proven.
func (h *host) wantUnproven(phase string) {
	h.t.Helper()
	e := h.last("kube2", "refusal of "+phase, func(e *journal.Entry) bool {
		return e.Kind == string(fsm.NoteRefused) && e.Phase == phase
	})
	if e.Cause != string(phases.CauseEngine) {
		h.t.Errorf("%s refused with cause %q", phase, e.Cause)
	}
	for _, words := range []string{"the engine did not answer within 2s"} {
		if !strings.Contains(e.Error+e.Detail, words) {
			h.t.Errorf("%s does not say %q: %s; %s", phase, words, e.Error, e.Detail)
		}
	}
}
