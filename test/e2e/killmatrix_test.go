package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/node-lifecycle/node-lifecycle/fsm"
	"github.com/node-lifecycle/node-lifecycle/internal/lab"
	"github.com/node-lifecycle/node-lifecycle/journal"
	"github.com/node-lifecycle/node-lifecycle/phases"
)

// Suite HOSTKILL: every hook of the unit, and run, is killed at every point of its work: at
// each request to the engine, before the engine sees it, after it has done it, and with the
// engine doing it only later, and in each step that the journal knows. Then resume must do
// what its table says, and the next start must come up.
//
//	E2E_LONG=1 go test -v -count=1 -run TestKilledHooks ./test/e2e    all of the matrix
//	E2E_SEED=N …                                                      the same sample again

// aftermaths are what becomes of the host when the hook is dead.
var aftermaths = []struct{ name, dropIn string }{
	{"same boot", "[Service]\nRestart=no\n"},
	{"same boot, no post-stop", "[Service]\nRestart=no\nExecStopPost=\n"},
	{"same boot, the unit goes on without post-start", "[Service]\nRestart=no\nExecStartPost=\nExecStartPost=-/usr/bin/node-lifecycle post-start %i\n"},
	{"power cut", "[Service]\nRestart=no\n"},
}

const (
	shipped = iota
	noPostStop
	lenient
	powerCut
)

// victims are the hooks in the order in which the unit calls them.
var victims = []string{"peer-check", "pre-start", "run", "post-start", "stop", "post-stop"}

// steps are the points that the journal knows.
var steps = []point{
	{hook: "pre-start", step: "precheck"}, {hook: "pre-start", step: "regenerate"}, {hook: "pre-start", step: "reload"},
	{hook: "post-start", step: "admit"}, {hook: "post-start", step: "wait-ready"}, {hook: "post-start", step: "after-start"},
	{hook: "post-stop", step: "stop"},
}

// killCase is one cell of the matrix.
type killCase struct {
	point
	aftermath int
}

func (c killCase) String() string { return c.point.String() + ", " + aftermaths[c.aftermath].name }

func TestKilledHooksResumeAsTheTableSays(t *testing.T) {
	t.Parallel() // on a host of its own
	w := &killWorld{host: ownHost(t, setup{}.String(), lab.Options{Name: "kills"}), t: t}
	w.begin()
	all := w.matrix()
	seed := killSeed(t)
	cases := all
	if os.Getenv("E2E_LONG") == "" {
		cases = sample(all, rand.New(rand.NewPCG(seed, 0)))
	}
	slices.SortStableFunc(cases, func(a, b killCase) int { return a.aftermath - b.aftermath })
	tried, wrong, missed := 0, 0, 0
	rows := map[phases.ResumeRule]int{}
	for _, c := range cases {
		ok := t.Run(c.String(), func(t *testing.T) {
			w.host = &host{Host: w.Host, t: t}
			w.gate.h = w.host
			w.tellWhenFailed()
			rule, hit := w.kill(c)
			if !hit {
				missed++
				t.Logf("%s was missed", c)
				return
			}
			rows[rule]++
		})
		tried++
		if !ok {
			wrong++
			w.host = &host{Host: w.Host, t: t}
			w.begin() // the next case must not suffer for this one
		}
	}
	for rule, n := range rows {
		t.Logf("%d times: %s, cut off %s, the unit's activation is the run's: %v: %s", n, rule.State, rule.Cut, rule.UnitOurs, rule.Do)
	}
	fmt.Printf("SUITE HOSTKILL cases=%d of=%d wrong=%d missed=%d rows=%d seed=%d\n", tried, len(all), wrong, missed, len(rows), seed)
	if missed*5 > tried {
		t.Errorf("%d of %d hooks were missed: this shows little", missed, tried)
	}
	for _, hook := range victims {
		if !slices.ContainsFunc(cases, func(c killCase) bool { return c.hook == hook }) {
			t.Errorf("no %s was killed: this shows nothing about it", hook)
		}
	}
}

// killSeed is the number that the sample follows from.
func killSeed(t *testing.T) uint64 {
	text := os.Getenv("E2E_SEED")
	if text == "" {
		return uint64(time.Now().UnixNano()) % 1_000_000
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("E2E_SEED: %v", err)
	}
	return n
}

// sample draws two cells for each hook, one of them with a power cut, and one with the other
// ways that a boot can go on.
func sample(all []killCase, random *rand.Rand) (cases []killCase) {
	draw := func(fits func(killCase) bool) {
		from := slices.DeleteFunc(slices.Clone(all), func(c killCase) bool { return !fits(c) || slices.Contains(cases, c) })
		if len(from) > 0 {
			cases = append(cases, from[random.IntN(len(from))])
		}
	}
	for _, hook := range victims {
		for _, aftermath := range []int{shipped, powerCut} {
			draw(func(c killCase) bool { return c.hook == hook && c.aftermath == aftermath })
		}
	}
	draw(func(c killCase) bool { return c.aftermath == lenient })
	draw(func(c killCase) bool { return c.aftermath == noPostStop })
	return cases
}

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
	w.ok("systemctl", "stop", unit("kube1"))
	w.start("kube1")
	w.gate.mu.Lock()
	points := slices.Clone(steps)
	for _, p := range w.gate.seen {
		whens := []string{"before"}
		if !strings.HasPrefix(p.request, "GET") && !strings.HasPrefix(p.request, "HEAD") &&
			!strings.HasSuffix(p.request, "/wait") && !strings.HasSuffix(p.request, "/exec/ID/start") { // those end with the hook
			whens = append(whens, "after", "late")
		}
		for _, p.when = range whens {
			if slices.Contains(victims, p.hook) && !slices.Contains(points, p) {
				points = append(points, p)
			}
		}
	}
	w.gate.mu.Unlock()
	for _, p := range points {
		for aftermath := range aftermaths {
			if aftermath != lenient || p.hook == "post-start" {
				all = append(all, killCase{p, aftermath})
			}
		}
	}
	w.host.t.Logf("%d points, %d cells", len(points), len(all))
	return all
}

// kill kills the hook of a cell, has resume settle what is left, and starts kube1 again. It
// begins and ends with kube1 up. hit is false if the hook was not met at its point.
func (w *killWorld) kill(c killCase) (rule phases.ResumeRule, hit bool) {
	w.host.t.Helper()
	w.use(c.aftermath)
	var job func() lab.Result
	var t *trap
	if c.hook == "stop" || c.hook == "post-stop" {
		t = w.gate.set(c.point)
		job = w.background("systemctl", "stop", unit("kube1"))
	} else {
		w.ok("systemctl", "stop", unit("kube1"))
		t = w.gate.set(c.point)
		job = w.background("systemctl", "start", unit("kube1"))
	}
	pid := t.caught(w.host)
	if pid != 0 {
		w.end(c, t, pid, job)
		rule = w.resume()
	} else {
		job()
	}
	w.nextStart()
	return rule, pid != 0
}

// end kills the process, or the host, and returns when whoever clears up after it has done so.
func (w *killWorld) end(c killCase, t *trap, pid int, job func() lab.Result) {
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
	job()
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

// resume calls resume, twice, and checks it against its table.
func (w *killWorld) resume() phases.ResumeRule {
	w.host.t.Helper()
	before := w.look()
	rule := before.rule(w.host)
	alive := len(w.containers(false)) > 0
	w.wantExit("resume", w.run("node-lifecycle", "resume", "kube1"), 0)
	after := w.look()
	want := before.wants(rule, alive)
	if after.state != want || after.open != nil {
		w.host.t.Errorf("it was %s, cut off %s: resume should %s and leave it %s, it is %s, open: %v",
			rule.State, rule.Cut, rule.Do, want, after.state, after.open)
	}
	if rule.Do == phases.ResumeNothing && after.entries != before.entries {
		w.host.t.Errorf("it was %s, cut off %s: resume should do nothing, and has written %d entries", rule.State, rule.Cut, after.entries-before.entries)
	}
	if running := w.containers(false); want != fsm.Wired && len(running) > 0 {
		w.host.t.Errorf("it is %s, and there runs %v", want, running)
	}
	w.wantExit("resume, once more", w.run("node-lifecycle", "resume", "kube1"), 0)
	if again := w.look(); again.entries != after.entries {
		w.host.t.Errorf("resume, once more, has written %d entries", again.entries-after.entries)
	}
	return rule
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
	case rule.Do == phases.ResumeNothing, rule.Do == phases.ResumeClose:
		return b.state
	case rule.Do == phases.ResumeContinue && alive:
		return fsm.Wired
	case rule.Cut == phases.CutByReboot:
		return fsm.Stopped
	}
	return fsm.Failed
}

func unmarshal(text string, into any) error { return json.Unmarshal([]byte(text), into) }
