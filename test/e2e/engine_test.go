package e2e

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/node-lifecycle/node-lifecycle/fsm"
	"github.com/node-lifecycle/node-lifecycle/internal/lab"
	"github.com/node-lifecycle/node-lifecycle/journal"
	"github.com/node-lifecycle/node-lifecycle/phases"
)

func (h *host) restartEngine() {
	h.t.Helper()
	if err := h.RestartEngine(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
}

// Without live-restore an engine ends its containers, and this one ends in order, with 0:
// the stack is dead all the same, and the wait does not last until its timeout.
func TestEngineRestartDuringTheWaitEndsTheStack(t *testing.T) {
	h := newHost(t, setup{busybox: true, gated: true}.String())
	holdInWait(h)
	h.restartEngine()

	h.waitState("kube1", fsm.Failed)
	failed := h.lastTransition("kube1")
	if failed.From != string(fsm.Starting) || failed.Phase != phases.PhasePostStart || failed.Cause != string(phases.CauseStackDied) {
		t.Errorf("failed from %s in %s, cause %q: %s", failed.From, failed.Phase, failed.Cause, failed.Error)
	}
	h.waitProperty("kube1", "SubState", "auto-restart")
	h.wantProperty("kube1", "Result", "exit-code")
	if end := h.last("kube1", "end of post-start", func(e *journal.Entry) bool {
		return e.Phase == phases.PhasePostStart && e.Kind == string(fsm.NoteEnded)
	}); end.Exit == nil || *end.Exit != phases.ExitStackDied {
		t.Errorf("post-start ended with %v", end.Exit)
	}
	if all := h.containers(true); len(all) != 0 {
		t.Errorf("containers left: %v", all)
	}
}

// countsLines is a stack whose output shows if any of it is lost or told twice.
const countsLines = `trap 'exit 0' TERM; i=0; while :; do i=$((i+1)); echo "line $i"; sleep 0.05 & wait $!; done`

var lineNumber = regexp.MustCompile(`(?m)^line (\d+)\s*$`)

// lines are the numbers of the lines that the slot's unit has logged.
func (h *host) lines(slot string) (numbers []int) {
	h.t.Helper()
	log := h.ok("journalctl", "--boot", "--no-pager", "--output", "cat", "--unit", unit(slot))
	for _, match := range lineNumber.FindAllStringSubmatch(log, -1) {
		n, err := strconv.Atoi(match[1])
		if err != nil {
			h.t.Fatal(err)
		}
		numbers = append(numbers, n)
	}
	return numbers
}

func (h *host) waitLines(slot string, more int) {
	h.t.Helper()
	have := len(h.lines(slot))
	h.waitFor(patience, strconv.Itoa(more)+" more lines of output", func() (bool, string) {
		now := len(h.lines(slot))
		return now >= have+more, strconv.Itoa(now-have) + " more"
	})
}

// The gate is asked from outside: an exec that is under way as Docker 20.10 ends makes it
// lose the container's output until it is restarted once more.
func TestEngineRestartDuringTheWaitWithLiveRestoreChangesNothing(t *testing.T) {
	t.Parallel() // on a host of its own
	config := setup{busybox: true, gated: true, command: "httpd -p 127.0.0.1:10249 -h /lab; " + countsLines}.String()
	config = strings.ReplaceAll(config, readyAtGate, `[{http: "http://127.0.0.1:10249/ready"}]`)
	h := ownHost(t, config, lab.Options{Name: "live", LiveRestore: true})
	holdInWait(h)
	h.waitLines("kube1", 20)
	process := h.container("kube1", "{{.State.Pid}}")
	h.restartEngine()
	h.waitLines("kube1", 20)
	h.ok("systemctl", "kill", "--signal=KILL", "docker.service")
	h.waitLines("kube1", 20)
	h.wantState("kube1", fsm.Starting)

	h.open("kube1", "ready")
	h.open("kube1", "wired")
	h.waitState("kube1", fsm.Wired)
	h.waitProperty("kube1", "ActiveState", "active")
	h.wantProperty("kube1", "NRestarts", "0")
	if now := h.container("kube1", "{{.State.Pid}}"); now != process {
		t.Errorf("the stack has process %s, it had %s", now, process)
	}
	h.ok("systemctl", "stop", unit("kube1"))
	h.wantProperty("kube1", "Result", "success")
	h.wantStory("kube1", upStory, "stop-requested stopped")
	for i, n := range h.lines("kube1") {
		if n != i+1 {
			t.Fatalf("the %dth line of output is line %d", i+1, n)
		}
	}
}

// An engine that is away at boot, for longer than engine.wait several times over.
func TestEngineAwayAtBootDoesNotUseUpTheStarts(t *testing.T) {
	t.Parallel()                  // on a host of its own
	const away = 10 * time.Minute // that the start limit must allow for
	h := ownHost(t, setup{busybox: true, engineWait: "2s"}.String(), lab.Options{Name: "away"})
	h.enable("kube1")
	h.ok("systemctl", "mask", "--quiet", "docker.service", "docker.socket")
	h.powerCut()
	h.powerOn()
	var tries []journal.Entry
	h.waitFor(2*time.Minute, "three failed attempts", func() (bool, string) {
		tries = tries[:0]
		for _, e := range h.history("kube1") {
			if e.Kind == string(fsm.NoteRefused) {
				tries = append(tries, e)
			}
		}
		return len(tries) >= 3, strconv.Itoa(len(tries))
	})
	for _, e := range tries {
		if e.Cause != string(phases.CauseEngine) || e.Activation == "" {
			t.Errorf("refused with cause %q: %s", e.Cause, e.Error)
		}
	}
	period := tries[2].Time.Sub(tries[0].Time) / 2
	limit, err := strconv.Atoi(h.property("kube1", "StartLimitBurst"))
	if err != nil {
		t.Fatal(err)
	}
	if needed := int(away/period) + 1; limit < needed {
		t.Errorf("an attempt every %s is %d in %s, but the start limit is %d", period, needed, away, limit)
	}
	h.waitProperty("kube1", "SubState", "auto-restart")

	h.ok("systemctl", "unmask", "--quiet", "docker.service", "docker.socket")
	h.ok("systemctl", "start", "docker.socket", "docker.service")
	h.waitState("kube1", fsm.Wired)
	h.waitProperty("kube1", "ActiveState", "active")
	h.wantContainers("node-kube1")
}
