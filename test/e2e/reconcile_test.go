package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/node-lifecycle/node-lifecycle/fsm"
	"github.com/node-lifecycle/node-lifecycle/internal/lab"
	"github.com/node-lifecycle/node-lifecycle/journal"
	"github.com/node-lifecycle/node-lifecycle/phases"
)

const upStory = "prechecked regenerated starting running wired"

func (h *host) reconcile(slot string) lab.Result {
	h.t.Helper()
	return h.run("node-lifecycle", "reconcile", slot)
}

// container is what the engine says of the slot's container, by a template.
func (h *host) container(slot, format string) string {
	h.t.Helper()
	return h.ok("docker", "inspect", "--type", "container", "--format", format, "node-"+slot)
}

func TestReconcileOfAWiredSlotBringsTheNewConfigurationIn(t *testing.T) {
	h := newHost(t, setup{busybox: true}.String())
	h.start("kube1")
	container, activation := h.container("kube1", "{{.Id}}"), h.property("kube1", "InvocationID")
	h.write("/etc/node-lifecycle/config.yaml", setup{busybox: true, command: "echo changed; " + runsUntilStopped}.String())

	h.wantExit("reconcile", h.reconcile("kube1"), 0)
	h.wantState("kube1", fsm.Wired)
	h.wantProperty("kube1", "ActiveState", "active")
	h.wantProperty("kube1", "NRestarts", "0")
	h.wantContainers("node-kube1")
	if h.container("kube1", "{{.Id}}") == container || h.property("kube1", "InvocationID") == activation {
		t.Error("the stack was not restarted")
	}
	if command := h.container("kube1", "{{.Config.Cmd}}"); !strings.Contains(command, "echo changed") {
		t.Errorf("the new stack runs the old command: %s", command)
	}
	h.wantStory("kube1", upStory, "requested stop-requested stopped", upStory)
	if end := h.lastNote("kube1", fsm.NoteEnded); end.Phase != phases.PhaseReconcile || end.Exit == nil || *end.Exit != 0 {
		t.Errorf("the last run to end is %s with %v, want reconcile with 0", end.Phase, end.Exit)
	}
}

func TestReconcileBringsAFailedSlotUpOnceTheCauseIsGone(t *testing.T) {
	h := newHost(t, setup{busybox: true, after: "[test, -e, /lab/wired]"}.String())
	if r := h.run("systemctl", "start", unit("kube1")); r.Code == 0 {
		t.Error("the start succeeded")
	}
	h.wantState("kube1", fsm.Failed)

	h.wantExit("reconcile with the cause still there", h.reconcile("kube1"), phases.ExitAfterStart, "Failed", "after-start")
	h.wantState("kube1", fsm.Failed)
	if end := h.last("kube1", "end of the reconcile", func(e *journal.Entry) bool {
		return e.Phase == phases.PhaseReconcile && e.Kind == string(fsm.NoteEnded)
	}); end.Cause != string(phases.CauseAfterStart) || !strings.Contains(end.Error, "after-start") {
		t.Errorf("the reconcile ended with cause %q: %s", end.Cause, end.Error)
	}

	h.open("kube1", "wired")
	h.wantExit("reconcile", h.reconcile("kube1"), 0)
	h.wantState("kube1", fsm.Wired)
	h.wantProperty("kube1", "ActiveState", "active")
	h.wantContainers("node-kube1")
}

// Twice: while the unit is being started, from one of its own commands, and when it is
// up, from a process that somebody left in its cgroup.
func TestReconcileIsRefusedInsideTheUnit(t *testing.T) {
	h := newHost(t, setup{busybox: true}.String())
	h.write("/root/scenario/inside.sh", "node-lifecycle reconcile kube1 2>/root/scenario/said\necho $? >/root/scenario/code\n")
	h.dropIn("kube1", "[Service]\nExecStartPost=/bin/sh /root/scenario/inside.sh\n")
	h.start("kube1")
	container := h.container("kube1", "{{.Id}}")
	if code := h.ok("cat", "/root/scenario/code"); code != "75" {
		t.Errorf("in a command of the unit: exit code %s", code)
	}
	if said := h.ok("cat", "/root/scenario/said"); !strings.Contains(said, "inside "+unit("kube1")) || !strings.Contains(said, "from outside the unit") {
		t.Errorf("in a command of the unit: %s", said)
	}
	h.wantExit("in the unit's cgroup", h.run("sh", "-c", `echo $$ >"/sys/fs/cgroup$0/cgroup.procs" && exec node-lifecycle reconcile kube1`,
		h.property("kube1", "ControlGroup")), phases.ExitTemporary, "inside "+unit("kube1"))

	h.wantStory("kube1", upStory)
	h.wantProperty("kube1", "ActiveState", "active")
	h.wantProperty("kube1", "NRestarts", "0")
	if h.container("kube1", "{{.Id}}") != container {
		t.Error("the stack was restarted")
	}
}

func TestOneOfTwoReconcilesWinsAndTheOtherNamesIt(t *testing.T) {
	h := newHost(t, setup{busybox: true, gated: true}.String())
	h.open("kube1", "ready")
	h.open("kube1", "wired")
	h.start("kube1")
	h.shut("kube1", "ready")
	first := h.background("node-lifecycle", "reconcile", "kube1")
	h.waitState("kube1", fsm.Starting)

	holder := h.lastNote("kube1", fsm.NoteRequested)
	h.wantExit("the second", h.reconcile("kube1"), phases.ExitTemporary, fmt.Sprintf("pid %d (reconcile)", holder.PID))
	h.open("kube1", "ready")
	h.wantExit("the first", first(), 0)
	h.wantStory("kube1", upStory, "requested stop-requested stopped", upStory)
}

// A unit of somebody's own, under the slot's name, that does not call the hooks.
func TestReconcileNamesTheLineThatTheUnitLacks(t *testing.T) {
	h := newHost(t, setup{busybox: true}.String())
	for _, lines := range []struct{ has, lacks string }{
		{"", "ExecStartPre=… pre-start kube1"},
		{"ExecStartPre=node-lifecycle pre-start kube1\n", "ExecStartPost=… post-start kube1"},
	} {
		h.write("/etc/systemd/system/"+unit("kube1"), "[Service]\n"+lines.has+"ExecStart=sleep infinity\n")
		h.ok("systemctl", "daemon-reload")
		h.wantExit("reconcile of a unit without "+lines.lacks, h.reconcile("kube1"), phases.ExitConfig, lines.lacks)
		h.wantProperty("kube1", "ActiveState", "active")
	}
}

func TestReconcileStopsShortOfTheStartLimit(t *testing.T) {
	h := newHost(t, setup{busybox: true, engineWait: "2m"}.String())
	var limit int
	fmt.Sscan(h.property("kube1", "StartLimitBurst"), &limit)
	h.start("kube1")
	starts := 1
	var refused lab.Result
	for ; starts < limit+2; starts++ {
		if refused = h.reconcile("kube1"); refused.Code != 0 {
			break
		}
	}
	h.wantExit(fmt.Sprintf("reconcile after %d starts", starts), refused, phases.ExitTemporary, fmt.Sprintf("reconcile stops at %d", limit-1), "node-lifecycle reset kube1")
	if starts != limit-1 {
		t.Errorf("reconcile refused after %d starts, the start limit being %d", starts, limit)
	}
	h.wantProperty("kube1", "ActiveState", "active")
	h.wantProperty("kube1", "Result", "success")
	h.wantState("kube1", fsm.Wired)
	h.wantContainers("node-kube1")

	h.ok("node-lifecycle", "reset", "kube1")
	h.wantExit("reconcile after a reset", h.reconcile("kube1"), 0)
	h.wantState("kube1", fsm.Wired)
}

// The service that the timer calls restarts a stack only if it has to.
func TestReconcileServiceRestartsOnlyWhatHasChanged(t *testing.T) {
	h := newHost(t, setup{busybox: true}.String())
	h.start("kube1")
	h.ok("systemctl", "start", "node-lifecycle-reconcile@kube1.service")
	h.wantStory("kube1", upStory)
	h.write("/etc/node-lifecycle/config.yaml", setup{busybox: true, command: "echo changed; " + runsUntilStopped}.String())
	h.ok("systemctl", "start", "node-lifecycle-reconcile@kube1.service")
	h.wantState("kube1", fsm.Wired)
	h.wantStory("kube1", upStory, "requested stop-requested stopped", upStory)
}
