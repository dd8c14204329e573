package e2e

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/node-lifecycle/node-lifecycle/fsm"
	"github.com/node-lifecycle/node-lifecycle/internal/lab"
	"github.com/node-lifecycle/node-lifecycle/journal"
)

func TestCleanStartAndStop(t *testing.T) {
	h := newHost(t, setup{after: "[ctr, version]"}.String())
	began := time.Now()
	h.start("kube1")
	h.wantProperty("kube1", "ActiveState", "active")
	h.wantProperty("kube1", "StatusText", "Wired")
	h.wantStory("kube1", "prechecked regenerated starting running wired")
	h.wantContainers("node-kube1")
	h.wantClaim("kube1")

	h.ok("systemctl", "stop", unit("kube1"))
	h.wantState("kube1", fsm.Stopped)
	h.wantProperty("kube1", "ActiveState", "inactive")
	h.wantProperty("kube1", "Result", "success")
	h.wantStory("kube1", "prechecked regenerated starting running wired stop-requested stopped")
	h.wantNothingLeft()
	if mark := h.ok("cat", "/var/lib/node/kube1/lab/stopped"); mark == "" {
		t.Error("the unit inside the stack did not get to its ExecStop=")
	}
	h.wantSignals("kube1", began, "37") // SIGRTMIN+3, and no KILL
}

func TestSlowStackIsWaitedFor(t *testing.T) {
	h := newHost(t, setup{}.String())
	h.write("/var/lib/node/kube1/lab/mode", "late 30\n")
	started := h.background("systemctl", "start", unit("kube1"))
	h.waitFor(patience, "the status to say what is missing", func() (bool, string) {
		text := h.property("kube1", "StatusText")
		return strings.HasPrefix(text, "waiting for") && strings.Contains(text, "10248") && strings.Contains(text, "503"), text
	})
	h.wantProperty("kube1", "SubState", "start-post")
	h.wantState("kube1", fsm.Starting)

	h.wantExit("systemctl start", started(), 0)
	h.wantProperty("kube1", "StatusText", "Wired")
	h.wantStory("kube1", "prechecked regenerated starting running wired")
	if e := h.lastNote("kube1", fsm.NoteWaiting); !strings.Contains(e.Detail, "503") {
		t.Errorf("the wait was for: %s", e.Detail)
	}
	starting, running := h.transition("kube1", fsm.EventStarting), h.transition("kube1", fsm.EventRunning)
	if waited := running.Time.Sub(starting.Time); waited < 30*time.Second {
		t.Errorf("Running after %s, although kubelet was not ready", waited)
	}
}

func TestStackThatIsNeverReadyFailsAtReadyTimeout(t *testing.T) {
	h := newHost(t, setup{busybox: true, gated: true, ready: "3s"}.String())
	h.wantExit("systemctl start", h.run("systemctl", "start", unit("kube1")), 1)
	h.wantHook("kube1", "ExecStartPost", "exited 79")
	h.wantProperty("kube1", "Result", "exit-code")
	h.waitOver("kube1")
	e := h.lastTransition("kube1")
	if e.Event != string(fsm.EventFailed) || e.From != string(fsm.Starting) || e.Cause != "ready-timeout" {
		t.Errorf("%s from %s, cause %s", e.Event, e.From, e.Cause)
	}
	for _, words := range []string{"not ready after 3", "test: exit code 1"} {
		if !strings.Contains(e.Error, words) {
			t.Errorf("the error does not say %q: %s", words, e.Error)
		}
	}
	if e.EvidenceSize == 0 {
		t.Error("there is no evidence")
	}
	h.wantNothingLeft()
}

func TestStackThatDiesDuringTheWait(t *testing.T) {
	h := newHost(t, setup{busybox: true, gated: true, command: `until [ -e /lab/die ]; do sleep 0.1; done; exit 3`}.String())
	began := time.Now()
	started := h.background("systemctl", "start", unit("kube1"))
	h.waitState("kube1", fsm.Starting)
	h.waitFor(patience, "the stack to run", func() (bool, string) { return len(h.containers(false)) == 1, "" })
	h.open("kube1", "die")
	h.wantExit("systemctl start", started(), 1)
	h.wantHook("kube1", "ExecStartPost", "exited 81")
	h.waitOver("kube1")

	e := h.lastTransition("kube1")
	if e.Event != string(fsm.EventFailed) || e.Cause != "stack-died" || !strings.Contains(e.Error, "exited with code 3") {
		t.Errorf("%s, cause %s: %s", e.Event, e.Cause, e.Error)
	}
	nano, err := strconv.ParseInt(h.events("kube1", "die", began, "{{.TimeNano}}"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if late := e.Time.Sub(time.Unix(0, nano)); late > time.Second {
		t.Errorf("post-start noticed the death after %s", late)
	}
	h.wantNothingLeft()
}

func TestStackThatPowersItselfOffIsLostAndRestarted(t *testing.T) {
	h := newHost(t, setup{busybox: true, command: `until rm /lab/off 2>/dev/null; do sleep 0.1; done; exit 0`}.String())
	h.dropIn("kube1", "[Service]\nRestartSec=1\n") // the scenario need not wait for the usual delay
	h.start("kube1")
	first := h.property("kube1", "InvocationID")
	h.open("kube1", "off")
	h.waitFor(patience, "a second activation to be Wired", func() (bool, string) {
		now := h.property("kube1", "InvocationID")
		return now != first && h.property("kube1", "StatusText") == "Wired", now
	})
	h.waitState("kube1", fsm.Wired)
	lost := h.transition("kube1", fsm.EventLost)
	if lost.Activation != first || lost.From != string(fsm.Wired) || lost.Cause != "stack-died" {
		t.Errorf("lost in activation %s from %s, cause %s", lost.Activation, lost.From, lost.Cause)
	}
	if !strings.Contains(lost.Detail, "exited with 81") || lost.EvidenceSize == 0 {
		t.Errorf("lost with %d bytes of evidence: %s", lost.EvidenceSize, lost.Detail)
	}
	h.wantStory("kube1", "prechecked regenerated starting running wired lost",
		"prechecked regenerated starting running wired")
	h.wantProperty("kube1", "NRestarts", "1")
	h.wantContainers("node-kube1")
	h.wantClaim("kube1")
}

func TestUnitThatSkipsPreStartIsRefused(t *testing.T) {
	h := newHost(t, setup{busybox: true}.String())
	h.dropIn("kube1", "[Service]\nExecStartPre=\n")
	h.wantNoPreStart()
	h.wantNothingLeft()
}

func TestUnitThatSkipsPreStartWithAnExecStartOfItsOwnIsRefused(t *testing.T) {
	image := "      image: " + lab.BusyboxImage + "\n" // without it the stack is somebody else's to start
	h := newHost(t, strings.ReplaceAll(setup{busybox: true}.String(), image, ""))
	h.dropIn("kube1", "[Service]\nExecStartPre=\n"+
		"ExecStart=\nExecStart=/usr/bin/docker run --name node-kube1 "+lab.BusyboxImage+" /bin/sh -c \"trap 'exit 0' TERM; while :; do sleep 0.1; done\"\n"+
		"ExecStartPost=\nExecStartPost=/bin/sh -c \"until docker top node-kube1; do sleep 0.1; done\"\n"+
		"ExecStartPost=/usr/bin/node-lifecycle post-start kube1\n")
	began := time.Now()
	h.wantNoPreStart()
	if h.events("kube1", "die", began, "{{.ID}}") == "" {
		t.Error("the stack has not been stopped, or was never there")
	}
	h.wantContainers()
	h.wantClaim("")
}

// wantNoPreStart checks that post-start refuses to let a start of kube1 in.
func (h *host) wantNoPreStart() {
	h.t.Helper()
	h.wantExit("systemctl start", h.run("systemctl", "start", unit("kube1")), 1)
	h.wantHook("kube1", "ExecStartPost", "exited 78")
	h.waitOver("kube1")
	h.wantState("kube1", fsm.Stopped)
	e := h.last("kube1", "refusal of post-start", func(e *journal.Entry) bool {
		return e.Kind == string(fsm.NoteRefused) && e.Phase == "post-start"
	})
	if e.Cause != "no-pre-start" || !strings.Contains(e.Detail, "ExecStartPre") {
		h.t.Errorf("refused, cause %s: %s; %s", e.Cause, e.Error, e.Detail)
	}
}
