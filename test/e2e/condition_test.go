package e2e

import (
	"strings"
	"testing"

	"github.com/node-lifecycle/node-lifecycle/fsm"
)

// An upgrade of the package takes the binary away for a moment, in which a restart may
// fall. systemd's own code for that, 203, would be a condition that is not met: the unit
// down for good, and nobody told.
func TestBinaryThatIsAwayDuringARestartKeepsTheUnitTrying(t *testing.T) {
	h := newHost(t, setup{busybox: true}.String())
	h.dropIn("kube1", "[Service]\nRestartSec=1s\n")
	h.start("kube1")
	const binary = "/usr/bin/node-lifecycle"
	back := func() { h.run("sh", "-c", "test -e "+binary+" || mv "+binary+".away "+binary) }
	defer back()
	h.ok("sh", "-c", "docker kill node-kube1 && mv "+binary+" "+binary+".away")
	h.waitFor(patience, "a restart without the binary", func() (bool, string) {
		got := h.property("kube1", "ExecCondition")
		return strings.Contains(got, "status=255"), got
	})
	for _, not := range []struct{ name, value string }{{"ActiveState", "inactive"}, {"Result", "exec-condition"}} {
		if got := h.property("kube1", not.name); got == not.value {
			t.Errorf("%s of a unit whose binary is away is %s", not.name, got)
		}
	}
	log := h.ok("journalctl", "--boot", "--no-pager", "--output", "cat", "--identifier", "node-lifecycle", "--unit", unit("kube1"), "--lines", "20")
	if !strings.Contains(log, binary+": not found") {
		t.Errorf("the unit's log does not say what is missing: %s", log)
	}
	back()
	h.waitState("kube1", fsm.Wired)
	h.waitProperty("kube1", "ActiveState", "active")
}

// The runtime dies before main when it is not given the memory that it sets aside.
func TestPeerCheckThatDiesBeforeItBeginsFailsTheUnit(t *testing.T) {
	h := newHost(t, setup{busybox: true}.String())
	h.dropIn("kube1", "[Service]\nRestart=no\nLimitAS=64M\n")
	h.wantNotStarted("kube1", "ExecCondition", "exited 255")
}
