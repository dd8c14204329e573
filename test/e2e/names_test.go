package e2e

import (
	"strings"
	"testing"

	"github.com/node-lifecycle/node-lifecycle/backend/container"
	"github.com/node-lifecycle/node-lifecycle/fsm"
	"github.com/node-lifecycle/node-lifecycle/internal/lab"
	"github.com/node-lifecycle/node-lifecycle/journal"
)

func TestStoppedContainerOfSomebodyElseIsSetAside(t *testing.T) {
	h := newHost(t, setup{busybox: true}.String())
	id := h.ok("docker", "create", "--name", "node-kube1", lab.BusyboxImage, "/bin/true")
	h.start("kube1")
	stale := h.name(id)
	if !strings.HasPrefix(stale, "node-kube1.stale-") {
		t.Errorf("the container that had the name is %q", stale)
	}
	h.wantContainers("node-kube1")
	h.last("kube1", "word about "+stale, func(e *journal.Entry) bool { return strings.Contains(e.Detail, stale) })

	h.ok("systemctl", "stop", unit("kube1"))
	h.wantState("kube1", fsm.Stopped)
	h.start("kube1")
	if now := h.name(id); now != stale {
		t.Errorf("after another start the container is %q, was %q", now, stale)
	}
}

func TestLivingContainerOfSomebodyElseRefusesTheStart(t *testing.T) {
	h := newHost(t, setup{busybox: true}.String())
	id := h.ok("docker", "run", "--detach", "--name", "node-kube1", lab.BusyboxImage, "/bin/sh", "-c", "sleep 600")
	h.wantExit("systemctl start", h.run("systemctl", "start", unit("kube1")), 1)
	h.waitOver("kube1")
	h.wantContainers("node-kube1")
	if now := h.containerID("kube1"); now != id {
		t.Errorf("node-kube1 is %s, was %s", now, id)
	}
	h.wantState("kube1", fsm.Stopped)
	h.wantClaim("")
	e := h.lastNote("kube1", fsm.NoteRefused)
	if e.Cause != "config" || !strings.Contains(e.Error, "not ours") || !strings.Contains(e.Error+e.Detail, "rename it") {
		t.Errorf("refused, cause %s: %s; %s", e.Cause, e.Error, e.Detail)
	}

	h.ok("docker", "rename", "node-kube1", "somebody-elses") // the cure
	h.ok("systemctl", "restart", unit("kube1"))
	h.wantState("kube1", fsm.Wired)
	h.wantContainers("node-kube1", "somebody-elses")
}

func TestStaleContainerOfOursIsRemovedAndRecorded(t *testing.T) {
	h := newHost(t, setup{busybox: true}.String())
	h.start("kube1")
	h.ok("systemctl", "stop", unit("kube1"))
	var ids []string
	for _, name := range []string{"node-kube1", "under-another-name"} {
		ids = append(ids, h.ok("docker", "create", "--name", name, "--label", container.LabelSlot+"=kube1",
			"--label", container.LabelEpoch+"=1", lab.BusyboxImage, "/bin/true"))
	}
	h.start("kube1")
	h.wantContainers("node-kube1")
	if all := h.containers(true); len(all) != 1 {
		t.Errorf("containers: %v", all)
	}
	for _, id := range ids {
		note := h.lastNote("kube1", fsm.NoteDiscarded)
		if !strings.Contains(note.Detail, "removed container") || !strings.Contains(note.Detail, id[:12]) {
			t.Errorf("nothing says that %s was removed: %s", id[:12], note.Detail)
		}
	}
}

// name is the name of a container, "" if there is none any more.
func (h *host) name(id string) string {
	h.t.Helper()
	return h.ok("docker", "ps", "--all", "--no-trunc", "--filter", "id="+id, "--format", "{{.Names}}")
}
