package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/node-lifecycle/node-lifecycle/fsm"
	"github.com/node-lifecycle/node-lifecycle/internal/lab"
	"github.com/node-lifecycle/node-lifecycle/journal"
	"github.com/node-lifecycle/node-lifecycle/phases"
)

// enable has the units started at boot, as an installation does. systemd also keeps what
// it knows of a unit that is down only while something wants it.
func (h *host) enable(slots ...string) {
	h.t.Helper()
	for _, slot := range slots {
		h.ok("systemctl", "enable", "--quiet", unit(slot))
	}
	h.ok("systemctl", "enable", "--quiet", "node-lifecycle-resume.service")
}

// wantSkipped checks that systemd did not start the slot's unit, holds that against
// nobody and does not try again, and that the slot's history says why, once.
func (h *host) wantSkipped(slot, because string) {
	h.t.Helper()
	h.wantProperty(slot, "ActiveState", "inactive")
	h.wantProperty(slot, "SubState", "dead")
	h.wantProperty(slot, "Result", "exec-condition")
	h.wantProperty(slot, "NRestarts", "0")
	h.wantHook(slot, "ExecCondition", "exited 76")
	refused := h.lastNote(slot, fsm.NoteRefused)
	if refused.Cause != string(phases.CausePeerAlive) || !strings.Contains(refused.Error, because) {
		h.t.Errorf("%s was refused with cause %q, want %q in: %s", slot, refused.Cause, because, refused.Error)
	}
	activation := h.property(slot, "InvocationID")
	if activation == "" || refused.Activation != activation {
		h.t.Errorf("the refusal of %s is of activation %q, the unit's is %q", slot, refused.Activation, activation)
	}
}

func TestPeerIsSkippedWhileTheSlotIsUp(t *testing.T) {
	h := newHost(t, setup{busybox: true}.String())
	h.enable("kube1", "kube2")
	h.start("kube1")
	h.wantExit("systemctl start of the peer", h.run("systemctl", "start", unit("kube2")), 0)
	h.wantSkipped("kube2", "container node-kube1")
	h.wantStory("kube2", "refused")
	h.wantExit("pre-start of the peer by hand", h.run("node-lifecycle", "pre-start", "kube2"), phases.ExitPeerAlive, "the peer kube1 is alive", "stop kube1 first")

	h.wantState("kube1", fsm.Wired)
	h.wantStory("kube1", upStory)
	h.wantContainers("node-kube1")
	h.wantClaim("kube1")
}

// Other names for the slots make no other host: the stack that is up is still in the way.
func TestSlotsAreRenamedWhileOneIsUp(t *testing.T) {
	config := setup{busybox: true}.String()
	h := newHost(t, config)
	h.start("kube1")
	renamed := strings.NewReplacer("kube1", "blue", "kube2", "green").Replace(config)
	h.ok("mkdir", "-p", "/var/lib/node/blue/lab", "/var/lib/node/green/lab")
	h.configure(renamed)
	h.enable("blue") // a unit that is skipped and not enabled is forgotten at once
	h.wantExit("systemctl start of a slot by its new name", h.run("systemctl", "start", unit("blue")), 0)
	h.wantSkipped("blue", "of slot kube1, which is not configured any more")
	h.wantContainers("node-kube1")

	// It can still be stopped, and then nothing is in the way.
	h.ok("systemctl", "stop", unit("kube1"))
	h.wantContainers()
	h.start("blue")
	h.wantContainers("node-blue")
	h.ok("systemctl", "stop", unit("blue"))
}

// The unit's whole cgroup is killed, and what would clean up after it does not run.
func TestContainerThatOutlivesItsUnitKeepsThePeerDown(t *testing.T) {
	h := newHost(t, setup{busybox: true}.String())
	h.enable("kube1", "kube2")
	h.start("kube1")
	survivor := h.containerID("kube1")
	h.dropIn("kube1", "[Service]\nExecStopPost=\nRestart=no\n")
	h.ok("systemctl", "kill", "--signal=KILL", unit("kube1"))
	h.waitProperty("kube1", "ActiveState", "failed")
	h.wantContainers("node-kube1")

	h.wantExit("systemctl start of the peer", h.run("systemctl", "start", unit("kube2")), 0)
	h.wantSkipped("kube2", "container node-kube1")
	h.wantContainers("node-kube1")
	h.wantStory("kube1", upStory)

	h.ok("rm", "-r", "/etc/systemd/system/"+unit("kube1")+".d/90-scenario.conf")
	h.ok("systemctl", "daemon-reload")
	h.start("kube1")
	h.wantStory("kube1", upStory, "discarded lost", upStory)
	lost := h.transition("kube1", fsm.EventLost)
	if lost.Cause != string(phases.CauseRunDied) || !strings.Contains(lost.Detail, "survivor ended: container node-kube1") {
		t.Errorf("lost with cause %q: %s", lost.Cause, lost.Detail)
	}
	if all := h.containers(true); len(all) != 1 || h.containerID("kube1") == survivor {
		t.Errorf("containers: %v", all)
	}
	h.wantContainers("node-kube1")
}

// onlyOne is a stack that leaves a mark when another one runs beside it.
const onlyOne = `mkdir /pair/up || { echo two >>/pair/two; exit 9; }; trap 'rmdir /pair/up; exit 0' TERM; while :; do sleep 1 & wait $!; done`

// In every other round nobody had the pair last, so that nothing but the claim decides.
func TestOneOfTwoSlotsStartedAtOnceComesUp(t *testing.T) {
	h := newHost(t, setup{busybox: true, command: onlyOne}.String())
	for round := range 20 {
		if round%2 == 0 {
			h.ok("rm", "-rf", "/var/lib/node-lifecycle")
		}
		slots := []string{"kube1", "kube2"}
		if round%4 > 1 {
			slices.Reverse(slots)
		}
		began := time.Now()
		h.run("systemctl", "start", unit(slots[0]), unit(slots[1]))
		var up []string
		for _, slot := range slots {
			if h.property(slot, "ActiveState") == "active" {
				h.wantState(slot, fsm.Wired)
				up = append(up, "node-"+slot)
			}
		}
		if len(up) != 1 {
			t.Fatalf("round %d: up are %v", round, up)
		}
		h.wantContainers(up...)
		h.wantClaim(strings.TrimPrefix(up[0], "node-"))
		if most := h.mostRunning(began); most != 1 {
			t.Errorf("round %d: %d containers ran at the same time", round, most)
		}
		h.ok("systemctl", "stop", unit(slots[0]), unit(slots[1]))
		h.ok("systemctl", "reset-failed")
	}
	if r := h.run("cat", "/var/lib/node/pair/two"); r.Code == 0 {
		t.Errorf("a stack found another one beside it: %s", r.Stdout)
	}
	h.wantNothingLeft()
}

// mostRunning is how many containers have run at the same time since then, by what the
// engine tells, if none did before.
func (h *host) mostRunning(since time.Time) (most int) {
	h.t.Helper()
	stamp := func(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }
	running := 0
	for event := range strings.FieldsSeq(h.ok("docker", "events", "--since", stamp(since), "--until", stamp(time.Now()),
		"--filter", "event=start", "--filter", "event=die", "--format", "{{.Action}}")) {
		if event == "start" {
			running++
		} else {
			running--
		}
		most = max(most, running)
	}
	return most
}

func TestLastHolderOfThePairComesUpAfterAPowerCut(t *testing.T) {
	t.Parallel() // on a host of its own
	h := ownHost(t, setup{busybox: true}.String(), lab.Options{Name: "pair"})
	h.enable("kube1", "kube2")
	for _, slots := range []struct{ holder, other string }{{"kube2", "kube1"}, {"kube1", "kube2"}} {
		h.start(slots.holder)
		h.powerCut()
		h.powerOn()
		h.wantState(slots.holder, fsm.Wired)
		h.wantProperty(slots.holder, "ActiveState", "active")
		h.wantContainers("node-" + slots.holder)
		h.wantClaim(slots.holder)
		h.wantSkipped(slots.other, "peer "+slots.holder)
		h.wantResumed()
		if e := h.transition(slots.holder, fsm.EventRebooted); e.From != string(fsm.Wired) {
			t.Errorf("%s is rebooted from %s", slots.holder, e.From)
		}
		refusals := 0
		for _, e := range h.history(slots.other) {
			if e.Kind == string(fsm.NoteRefused) && e.Boot == h.last(slots.holder, "entry", func(*journal.Entry) bool { return true }).Boot {
				refusals++
			}
		}
		if refusals != 1 {
			t.Errorf("%s was refused %d times in this boot", slots.other, refusals)
		}
		h.ok("systemctl", "stop", unit(slots.holder))
	}
}
