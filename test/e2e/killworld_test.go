package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/node-lifecycle/node-lifecycle/fsm"
	"github.com/node-lifecycle/node-lifecycle/internal/lab"
	"github.com/node-lifecycle/node-lifecycle/internal/mutants/overlay"
	"github.com/node-lifecycle/node-lifecycle/journal"
	"github.com/node-lifecycle/node-lifecycle/phases"
)

// killWorld is the host whose kube1 is started and stopped over and over again.
type killWorld struct {
	*host
	t      *testing.T
	gate   *gate
	dropIn string
}

// begin gives a host without a past, with kube1 up.
func (w *killWorld) begin() {
	w.host = w.again(w.host.t, setup{busybox: true, gated: true, relayed: true}.String())
	w.openGates()
	w.gate, w.dropIn = newGate(w.host), ""
	w.use(shipped)
	w.start("kube1")
}

func (w *killWorld) openGates() {
	w.open("kube1", "ready")
	w.open("kube1", "wired")
}

func (w *killWorld) use(aftermath int) {
	if text := aftermaths[aftermath].dropIn; text != w.dropIn {
		w.host.dropIn("kube1", text)
		w.dropIn = text
	}
}

// matrix lists the points that one stop and one start come by, with everything that can
// become of them.
func (w *killWorld) matrix() (all []killCase) {
	for aftermath := range aftermaths {
		w.use(aftermath)
		w.gate.mu.Lock()
		w.gate.seen = nil
		w.gate.mu.Unlock()
		w.ok("systemctl", "stop", unit("kube1"))
		w.start("kube1")
		w.gate.mu.Lock()
		points := slices.Concat(steps, w.gate.seen)
		w.gate.mu.Unlock()
		for _, p := range points {
			for _, p.when = range p.whens() {
				c := killCase{p, aftermath}
				if slices.Contains(victims, p.hook) && !slices.Contains(all, c) &&
					(aftermath != lenient || p.hook == "post-start") && (aftermath != noPostStop || p.hook != "post-stop") {
					all = append(all, c)
				}
			}
		}
	}
	w.host.t.Logf("%d cells", len(all))
	return all
}

// whens are how far a request can have come. One that changes nothing is the same after it
// as before, and some end with the hook that has asked.
func (p point) whens() []string {
	switch {
	case p.request == "":
		return []string{""}
	case strings.HasPrefix(p.request, "GET"), strings.HasPrefix(p.request, "HEAD"),
		strings.HasSuffix(p.request, "/wait"), strings.HasSuffix(p.request, "/exec/ID/start"):
		return []string{"before"}
	}
	return []string{"before", "after", "late"}
}

// kill kills the hook of a cell, has resume settle what is left, and starts kube1 again. It
// begins and ends with kube1 up. hit is false if the hook was not met at its point.
func (w *killWorld) kill(c killCase) (rule phases.ResumeRule, hit bool, wrong []string) {
	w.host.t.Helper()
	w.use(c.aftermath)
	verb := "start"
	if c.hook == "stop" || c.hook == "post-stop" {
		verb = "stop"
	} else {
		w.ok("systemctl", "stop", unit("kube1"))
	}
	trap, over := w.gate.set(c.point), make(chan struct{})
	go func(ctx context.Context, host *lab.Host) {
		defer close(over)
		_, _ = host.Exec(ctx, "systemctl", verb, unit("kube1")) // how it ends is for systemd to tell
	}(w.host.t.Context(), w.Host)
	pid := trap.caught(w.host, over)
	if pid != 0 {
		w.end(c, trap, pid, over)
		rule, wrong = w.resume()
	}
	<-over
	w.nextStart()
	return rule, pid != 0, wrong
}

// end kills the process, or the host, and returns when whoever clears up after it has done so.
func (w *killWorld) end(c killCase, t *trap, pid int, over <-chan struct{}) {
	w.host.t.Helper()
	if c.aftermath == powerCut {
		w.powerCut()
		w.powerOn()
		w.gate.listen()
		return
	}
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		w.host.t.Fatal(err)
	}
	<-over
	w.waitFor(patience, "the unit to end, or to be up", func() (bool, string) {
		got := w.property("kube1", "SubState")
		return got == "dead" || got == "failed" || got == "running", got
	})
	if c.when == "late" {
		close(t.late)
	}
	if c.request != "" {
		<-t.done
	}
}

// resume calls resume, twice, and holds it to its table.
func (w *killWorld) resume() (rule phases.ResumeRule, wrong []string) {
	w.host.t.Helper()
	before := w.look()
	rule = before.rule(w.host)
	complain := func(format string, args ...any) {
		wrong = append(wrong, fmt.Sprintf("it was %s, cut off %s, and resume should %s: ", rule.State, rule.Cut, rule.Do)+fmt.Sprintf(format, args...))
	}
	alive := len(w.containers(false)) > 0
	w.wantExit("resume", w.run("node-lifecycle", "resume", "kube1"), 0)
	after := w.look()
	want := before.wants(rule, alive)
	if after.state != want {
		complain("it is %s, want %s", after.state, want)
	}
	if after.open != nil {
		complain("%s is still open in step %s", after.open.Phase, after.open.Step)
	}
	if n := after.entries - before.entries; n > 0 && rule.Do == phases.ResumeNothing {
		complain("it has written %d entries", n)
	}
	// The rows that do nothing leave a survivor to the slot's next start.
	if running := w.containers(false); (rule.Do == phases.ResumeSettle || rule.Do == phases.ResumeClear) && len(running) > 0 {
		complain("there runs %v", running)
	}
	w.wantExit("resume, once more", w.run("node-lifecycle", "resume", "kube1"), 0)
	if n := w.look().entries - after.entries; n > 0 {
		complain("once more, it has written %d entries", n)
	}
	return rule, wrong
}

// nextStart brings kube1 up, whatever it was.
func (w *killWorld) nextStart() {
	w.host.t.Helper()
	w.openGates()
	w.run("systemctl", "reset-failed", unit("kube1"))
	w.ok("systemctl", "start", unit("kube1"))
	w.wantState("kube1", fsm.Wired)
	w.wantContainers("node-kube1")
	w.wantClaim("kube1")
}

// books is what the journal and systemd say of kube1.
type books struct {
	state   fsm.State
	entries int
	open    *journal.Entry // the intent whose run is not over
	last    journal.Entry  // the last transition
	up      bool           // the unit is active or activating
	unit    string         // its activation
	boot    string         // of the host
}

func (w *killWorld) look() (b books) {
	w.host.t.Helper()
	b.state = fsm.Stopped
	entries := w.history("kube1")
	for i := range entries {
		switch e := &entries[i]; {
		case e.Kind == string(fsm.NoteIntent):
			b.open = e
		case e.Kind == string(fsm.NoteEnded):
			b.open = nil
		case e.To != "":
			b.state, b.last = fsm.State(e.To), *e
		}
	}
	b.entries = len(entries)
	active := w.property("kube1", "ActiveState")
	b.up = active == "active" || active == "activating"
	b.unit = w.property("kube1", "InvocationID")
	b.boot = strings.ReplaceAll(w.BootID(), "-", "")
	return b
}

// rule is the row of resume's table that applies.
func (b books) rule(h *host) phases.ResumeRule {
	h.t.Helper()
	cut, activation := phases.CutBetween, b.last.Activation
	if b.open != nil {
		cut, activation = phases.CutInStep, b.open.Activation
	}
	if b.open != nil && !b.ofThisBoot(b.open) || b.state.Live() && !b.ofThisBoot(&b.last) {
		cut = phases.CutByReboot
	}
	ours := cut != phases.CutByReboot && b.up && activation != "" && activation == b.unit
	for _, rule := range phases.ResumeTable() {
		if rule.State == b.state && rule.Cut == cut && rule.UnitOurs == ours {
			return rule
		}
	}
	h.t.Fatalf("the table has no row for %s, cut off %s, ours: %v", b.state, cut, ours)
	return phases.ResumeRule{}
}

func (b books) ofThisBoot(e *journal.Entry) bool {
	return strings.ReplaceAll(e.Boot, "-", "") == b.boot
}

// wants is where the slot must be when resume has done what the row says.
func (b books) wants(rule phases.ResumeRule, alive bool) fsm.State {
	switch {
	case rule.Do == phases.ResumeNothing, rule.Do == phases.ResumeClose, rule.Do == phases.ResumeClear:
		return b.state
	case rule.Do == phases.ResumeContinue && alive:
		return fsm.Wired
	case rule.Cut == phases.CutByReboot:
		return fsm.Stopped
	}
	return fsm.Failed
}

func unmarshal(text string, into any) error { return json.Unmarshal([]byte(text), into) }

// control has resume only say that it has settled. The suite has to see that it has not.
func (w *killWorld) control(t *testing.T) {
	w.hand(t)
	w.tellWhenFailed()
	w.install(broken(t, overlay.Edit{
		File: "phases/resume.go", Old: "return ResumeSettle, r.settleAsPostStop(ctx)", New: "return ResumeSettle, nil",
	}))
	_, hit, wrong := w.kill(killCase{point{hook: "post-start", step: "wait-ready"}, powerCut})
	if !hit || len(wrong) == 0 {
		t.Errorf("the hook was met: %v; what is wrong: %v", hit, wrong)
	}
	w.install(binary(t))
}

// hand gives the host to a test.
func (w *killWorld) hand(t *testing.T) {
	w.host = &host{Host: w.Host, t: t}
	w.gate.h = w.host
}

// install puts another program in the place of the one under test, which may be running.
func (w *killWorld) install(path string) {
	w.host.t.Helper()
	program, err := os.ReadFile(path)
	if err == nil {
		err = w.WriteFile(lab.BinaryPath+".new", program, 0o755)
	}
	if err != nil {
		w.host.t.Fatal(err)
	}
	w.ok("mv", lab.BinaryPath+".new", lab.BinaryPath)
}

// broken builds the program with an edit.
func broken(t *testing.T, edit overlay.Edit) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	changed, err := overlay.Write(root, t.TempDir(), []overlay.Edit{edit}, nil)
	if err != nil {
		t.Fatalf("the program has changed, and the control does not fit it any more: %v", err)
	}
	path, err := buildTo(filepath.Join(t.TempDir(), "node-lifecycle"), "urfave_cli_no_docs", "-overlay", changed)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
