package e2e

import (
	"os"
	"strings"
	"testing"

	"github.com/node-lifecycle/node-lifecycle/fsm"
	"github.com/node-lifecycle/node-lifecycle/internal/lab"
	"github.com/node-lifecycle/node-lifecycle/journal"
	"github.com/node-lifecycle/node-lifecycle/phases"
)

// cuts are the states that the power may go in: how the slot is held in each of them, and
// what its history says before the cut, and of the cut.
var cuts = []struct {
	state          fsm.State
	hold           func(*host)
	before, closes string
}{
	{fsm.Stopped, holdInPrecheck, "", "undone"},
	{fsm.PreChecked, holdInReload, "prechecked", "rebooted"},
	{fsm.Regenerated, holdBeforeRun, "prechecked regenerated", "rebooted"},
	{fsm.Starting, holdInWait, "prechecked regenerated starting", "discarded rebooted"},
	{fsm.Running, holdInAfterStart, "prechecked regenerated starting running", "discarded rebooted"},
	{fsm.Wired, startUp, upStory, "discarded rebooted"},
	{fsm.Failed, failInAfterStart, "prechecked regenerated starting running failed cleaned", ""},
}

// The unit is enabled, and so is the resume unit, as an installation has them. Whatever
// kept the slot where it was is gone after the boot.
func TestPowerCutInEveryState(t *testing.T) {
	t.Parallel() // on a host of its own
	boots := ownHost(t, setup{}.String(), lab.Options{Name: "power"})
	for _, cut := range cuts {
		t.Run(string(cut.state), func(t *testing.T) {
			h := boots.again(t, setup{busybox: true, gated: true}.String())
			h.enable("kube1")
			cut.hold(h)
			h.wantState("kube1", cut.state)
			h.wantStory("kube1", cut.before)
			h.powerCut()
			for _, gate := range []string{"ready", "wired", "run"} {
				h.open("kube1", gate)
			}
			h.powerOn()

			h.waitState("kube1", fsm.Wired)
			h.waitProperty("kube1", "ActiveState", "active")
			h.wantProperty("kube1", "NRestarts", "0")
			if all := h.containers(true); len(all) != 1 {
				t.Errorf("containers: %v", all)
			}
			h.wantContainers("node-kube1")
			h.wantStory("kube1", cut.before, cut.closes, upStory)
			h.wantResumed()
			if strings.Contains(cut.closes, "rebooted") {
				e := h.last("kube1", "rebooted", func(e *journal.Entry) bool { return e.Event == string(fsm.EventRebooted) })
				if e.From != string(cut.state) || e.Cause != string(phases.CauseReboot) || !strings.EqualFold(e.Boot, strings.ReplaceAll(h.BootID(), "-", "")) {
					t.Errorf("rebooted from %s, cause %q, in boot %s; the boot is %s", e.From, e.Cause, e.Boot, h.BootID())
				}
			}
		})
	}
}

// wantResumed waits for the resume unit of this boot and wants it to have ended well.
func (h *host) wantResumed() {
	h.t.Helper()
	const resume = "node-lifecycle-resume.service"
	h.waitFor(patience, resume+" to be over", func() (bool, string) {
		state := h.ok("systemctl", "show", resume, "--value", "--property", "ActiveState")
		return state == "inactive" || state == "failed", state
	})
	for property, want := range map[string]string{"Result": "success", "ExecMainStatus": "0", "ConditionResult": "yes"} {
		if got := h.ok("systemctl", "show", resume, "--value", "--property", property); got != want {
			h.t.Errorf("%s of %s is %q, want %q", property, resume, got, want)
		}
	}
}

func (h *host) startInBackground(slot string) {
	h.t.Helper()
	h.ok("systemctl", "start", "--no-block", unit(slot))
}

// waitStep waits until a phase of the slot is in a step.
func (h *host) waitStep(slot, phase, step string) {
	h.t.Helper()
	h.waitFor(patience, slot+" to be in "+phase+": "+step, func() (bool, string) {
		entries := h.history(slot)
		if len(entries) == 0 {
			return false, "an empty history"
		}
		e := entries[len(entries)-1]
		return e.Kind == string(fsm.NoteIntent) && e.Phase == phase && e.Step == step, e.Phase + ": " + e.Step + ": " + e.Kind
	})
}

func (h *host) waitFile(path string) {
	h.t.Helper()
	h.waitFor(patience, path, func() (bool, string) { return h.run("test", "-e", path).Code == 0, "no such file" })
}

// holdInPrecheck takes the host lock that precheck needs for its decision.
func holdInPrecheck(h *host) {
	h.background("flock", "/run/lock/node-lifecycle.lock", "sh", "-c", "touch /run/held; exec sleep infinity")
	h.waitFile("/run/held")
	h.startInBackground("kube1")
	h.waitStep("kube1", phases.PhasePreStart, "precheck")
}

// holdInReload lets a generator, which systemd runs as it reloads, not come to its end.
func holdInReload(h *host) {
	const generator = "/etc/systemd/system-generators/scenario"
	script := "#!/bin/sh\n[ -e /run/hold ] || exit 0\ntouch /run/held\nwhile :; do sleep 1; done\n"
	if err := h.WriteFile(generator, []byte(script), 0o755); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = h.InRoot(func() error { return os.Remove(generator) }) })
	h.ok("touch", "/run/hold")
	h.startInBackground("kube1")
	h.waitFile("/run/held")
}

// holdBeforeRun lets the unit wait between pre-start and run.
func holdBeforeRun(h *host) {
	h.dropIn("kube1", "[Service]\nExecStartPre=/bin/sh -c 'until [ -e /var/lib/node/kube1/lab/run ]; do sleep 0.1; done'\n")
	h.startInBackground("kube1")
	h.waitState("kube1", fsm.Regenerated)
}

func holdInWait(h *host) {
	h.startInBackground("kube1")
	h.waitStep("kube1", phases.PhasePostStart, "wait-ready")
	h.waitFor(patience, "the container", func() (bool, string) { return len(h.containers(false)) == 1, "none" })
}

func holdInAfterStart(h *host) {
	h.open("kube1", "ready")
	h.startInBackground("kube1")
	h.waitStep("kube1", phases.PhasePostStart, "after-start")
}

func startUp(h *host) {
	h.open("kube1", "ready")
	h.open("kube1", "wired")
	h.start("kube1")
}

func failInAfterStart(h *host) {
	h.configure(setup{busybox: true, after: "[test, -e, /lab/wired]"}.String())
	if r := h.run("systemctl", "start", unit("kube1")); r.Code == 0 {
		h.t.Error("the start succeeded")
	}
}
