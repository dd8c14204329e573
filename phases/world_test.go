package phases_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/node-lifecycle/node-lifecycle/fsm"
	"github.com/node-lifecycle/node-lifecycle/journal"
	"github.com/node-lifecycle/node-lifecycle/phases"
)

// world is a host with an engine and a systemd, as small as a test can see through: a
// stack a slot, a unit a slot, a boot. What is to go wrong is set by the test.
type world struct {
	t *testing.T

	mu       sync.Mutex
	boot     string
	stacks   map[string]*stack
	units    map[string]*phases.UnitStatus
	dead     map[int]bool // pids
	calls    []string
	fail     map[string]error  // by "method slot" or "method"
	hook     map[string]func() // called at the start of "method slot"
	statuses []string
	wakes    map[string][]chan struct{}

	weakFence  bool
	moved      string
	drifted    bool
	unchanged  bool
	exitCode   int
	unrecorded []journal.Entry
	dir        string
}

// stack is the container of a slot: nil in the map means that there is none.
type stack struct {
	alive, ready bool
	reason       string
	exited       bool
	ended        chan struct{}
}

func newWorld(t *testing.T) *world {
	return &world{
		t: t, boot: "boot1", dir: t.TempDir(),
		stacks: map[string]*stack{}, units: map[string]*phases.UnitStatus{}, dead: map[int]bool{},
		fail: map[string]error{}, hook: map[string]func(){}, wakes: map[string][]chan struct{}{},
	}
}

var peers = map[string]string{"kube1": "kube2", "kube2": "kube1"}

// lifecycle is a process that runs a phase of the slot in the activation.
func (w *world) lifecycle(slot, activation string) *phases.Lifecycle {
	return &phases.Lifecycle{
		Controller: w, ReloadSystemd: func(context.Context) error { return w.called("Reload", slot) },
		AfterStart: func(context.Context, string) error { return w.called("AfterStart", slot) },
		Peer:       func(s string) string { return peers[s] },
		Journal:    w.journal(), Host: w, Supervisor: w,
		Self:       phases.Process{PID: 100, Start: 7, Unit: unitOf(slot), Activation: activation, Version: "test"},
		Status:     func(s string) { w.mu.Lock(); w.statuses = append(w.statuses, s); w.mu.Unlock() },
		Unrecorded: func(e journal.Entry) { w.unrecorded = append(w.unrecorded, e) },
	}
}

func (w *world) journal() *journal.Journal {
	return journal.New(w.dir+"/state", journal.Options{Preallocate: -1})
}

func unitOf(slot string) string { return "node-stack@" + slot + ".service" }

// called notes a call and gives the failure that the test has set for it.
func (w *world) called(method, slot string) error {
	w.mu.Lock()
	w.calls = append(w.calls, method+" "+slot)
	hook := w.hook[method+" "+slot]
	w.mu.Unlock()
	if hook != nil {
		hook()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.fail[method]; err != nil {
		return err
	}
	return w.fail[method+" "+slot]
}

func (w *world) stack(slot string) *stack {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stacks[slot]
}

// up puts a living, ready stack into the slot, as if run had started it.
func (w *world) up(slot string) *stack {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &stack{alive: true, ready: true, ended: make(chan struct{})}
	w.stacks[slot] = s
	return s
}

func (w *world) die(slot string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.stacks[slot]; s != nil && s.alive {
		s.alive, s.ready, s.exited = false, false, true
		close(s.ended)
	}
	for _, c := range w.wakes[slot] {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

func (w *world) unit(slot string, change func(*phases.UnitStatus)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	u := w.units[slot]
	if u == nil {
		u = &phases.UnitStatus{
			Name: unitOf(slot), LoadState: "loaded", ActiveState: "inactive", SubState: "dead",
			StartLimitInterval: 15 * time.Minute, StartLimitBurst: 8,
		}
		w.units[slot] = u
	}
	change(u)
}

func (w *world) activate(slot, activation, state, sub string) {
	w.unit(slot, func(u *phases.UnitStatus) { u.Activation, u.ActiveState, u.SubState = activation, state, sub })
}

func (w *world) Regenerate(_ context.Context, slot string) error { return w.called("Regenerate", slot) }

func (w *world) Running(_ context.Context, slot string) (bool, string, error) {
	if err := w.called("Running", slot); err != nil {
		return false, "", err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.stacks[slot]
	switch {
	case s == nil:
		return false, "no container yet", nil
	case s.alive && s.ready:
		return true, "all probes pass", nil
	}
	return false, s.reason, nil
}

func (w *world) Restart(_ context.Context, slot string) error { return w.called("Restart", slot) }

func (w *world) Alive(_ context.Context, slot string) (bool, string, error) {
	if err := w.called("Alive", slot); err != nil {
		return false, "", err
	}
	s := w.stack(slot)
	switch {
	case s == nil:
		return false, "no container", nil
	case s.alive:
		return true, "container running", nil
	}
	return false, "container exited", nil
}

func (w *world) Died(_ context.Context, slot string) (bool, string, error) {
	if err := w.called("Died", slot); err != nil {
		return false, "", err
	}
	s := w.stack(slot)
	return s != nil && s.exited, "container exited with 3", nil
}

func (w *world) Fence(_ context.Context, slot string) (string, bool, error) {
	if err := w.called("Fence", slot); err != nil {
		return "", false, err
	}
	return "removed", w.weakFence, nil
}

func (w *world) Changed(_ context.Context, slot string) (bool, error) {
	return !w.unchanged, w.called("Changed", slot)
}

func (w *world) CheckLoaded(_ context.Context, slot string) error {
	return w.called("CheckLoaded", slot)
}

func (w *world) Events(ctx context.Context, slot string) (<-chan struct{}, error) {
	if err := w.called("Events", slot); err != nil {
		return nil, err
	}
	c := make(chan struct{}, 1)
	w.mu.Lock()
	w.wakes[slot] = append(w.wakes[slot], c)
	w.mu.Unlock()
	return c, nil
}

func (w *world) Evidence(_ context.Context, slot string) ([]byte, error) {
	return []byte(`{"slot":"` + slot + `"}`), w.called("Evidence", slot)
}

func (w *world) Stop(_ context.Context, slot string) (string, error) {
	if err := w.called("Stop", slot); err != nil {
		return "", err
	}
	if s := w.stack(slot); s == nil || !s.alive {
		return "", nil
	}
	w.die(slot)
	return "stopped by its signal", nil
}

func (w *world) Remove(_ context.Context, slot string, _ uint64) (string, error) {
	if err := w.called("Remove", slot); err != nil {
		return "", err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.stacks, slot)
	return "", nil
}

func (w *world) Start(_ context.Context, slot string, epoch uint64, _, _ string) (string, string, error) {
	if err := w.called("Start", slot); err != nil {
		return "", w.moved, err
	}
	w.up(slot)
	return fmt.Sprintf("%s-%d", slot, epoch), w.moved, nil
}

func (w *world) Attend(ctx context.Context, slot, id string, out io.Writer) (int, error) {
	if err := w.called("Attend", slot); err != nil {
		return 0, err
	}
	fmt.Fprintln(out, "output of", id)
	select {
	case <-w.stack(slot).ended:
		return w.exitCode, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (w *world) Drifted(_ context.Context, slot string) (bool, string, error) {
	return w.drifted, "the image is another one", w.called("Drifted", slot)
}

func (w *world) WaitEngine(ctx context.Context) error { return w.called("WaitEngine", "") }

func (w *world) Boot() string                        { return w.boot }
func (w *world) Boottime() time.Duration             { return time.Hour }
func (w *world) ProcessAlive(pid int, _ uint64) bool { return !w.dead[pid] }

func (w *world) Unit(_ context.Context, slot string) (phases.UnitStatus, error) {
	if err := w.called("Unit", slot); err != nil {
		return phases.UnitStatus{}, err
	}
	w.unit(slot, func(*phases.UnitStatus) {})
	w.mu.Lock()
	defer w.mu.Unlock()
	return *w.units[slot], nil
}

func (w *world) ResetFailed(_ context.Context, slot string) error {
	return w.called("ResetFailed", slot)
}

// What the books say.

func (w *world) head(slot string) (h journal.Head) {
	w.t.Helper()
	err := w.journal().View(w.t.Context(), func(v *journal.View) (err error) {
		h, err = v.Head(slot)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return h
}

func (w *world) claim() (c journal.Claim) {
	w.t.Helper()
	err := w.journal().View(w.t.Context(), func(v *journal.View) (err error) {
		c, err = v.Claim("kube1+kube2")
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func (w *world) entries(slot string) (entries []journal.Entry) {
	w.t.Helper()
	err := w.journal().View(w.t.Context(), func(v *journal.View) (err error) {
		entries, err = v.Entries(slot, journal.Query{})
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return entries
}

func (w *world) last(slot, kind string) journal.Entry {
	w.t.Helper()
	for _, e := range slices.Backward(w.entries(slot)) {
		if e.Kind == kind {
			return e
		}
	}
	w.t.Fatalf("%s has no %s entry", slot, kind)
	return journal.Entry{}
}

// story is the slot's history in short: events of transitions, names of notes.
func (w *world) story(slot string) []string {
	var s []string
	for _, e := range w.entries(slot) {
		switch {
		case e.Kind == journal.KindTransition:
			s = append(s, e.Event)
		case e.Kind == string(fsm.NoteIntent), e.Kind == string(fsm.NoteDone), e.Kind == string(fsm.NoteUndone):
			s = append(s, e.Kind+" "+e.Step)
		default:
			s = append(s, e.Kind)
		}
	}
	return s
}

// mutate writes to the books what a process that is not modelled would have written.
func (w *world) mutate(f func(*journal.Tx) error) {
	w.t.Helper()
	if err := w.journal().Append(w.t.Context(), f); err != nil {
		w.t.Fatal(err)
	}
}

// start brings a slot to Wired, as its unit would.
func (w *world) start(slot, activation string) {
	w.t.Helper()
	w.activate(slot, activation, "activating", "start-pre")
	if err := w.lifecycle(slot, activation).PreStart(w.t.Context(), slot); err != nil {
		w.t.Fatal(err)
	}
	w.up(slot)
	w.activate(slot, activation, "activating", "start-post")
	if err := w.lifecycle(slot, activation).PostStart(w.t.Context(), slot); err != nil {
		w.t.Fatal(err)
	}
	w.activate(slot, activation, "active", "running")
	w.calls = nil
}

func wantState(t *testing.T, w *world, slot string, want fsm.State) {
	t.Helper()
	if got := w.head(slot).State; got != string(want) {
		t.Errorf("%s is %s, want %s", slot, got, want)
	}
}

// wantError checks the cause and the exit code of a phase's error and gives it back.
func wantError(t *testing.T, err error, cause phases.Cause, exit int) *phases.Error {
	t.Helper()
	var e *phases.Error
	if !errors.As(err, &e) {
		t.Fatalf("error %v, want one of cause %s", err, cause)
	}
	if e.Cause != cause {
		t.Errorf("cause %s, want %s (%v)", e.Cause, cause, err)
	}
	if got := phases.ExitCode(err); got != exit {
		t.Errorf("exit code %d, want %d (%v)", got, exit, err)
	}
	return e
}

// behaving is an error that says of itself what an engine's or systemd's would.
type behaving struct {
	text                               string
	unreachable, denied, misconfigured bool
}

func (b behaving) Error() string       { return b.text }
func (b behaving) Unreachable() bool   { return b.unreachable }
func (b behaving) Denied() bool        { return b.denied }
func (b behaving) Misconfigured() bool { return b.misconfigured }

var errEngineGone = behaving{text: "cannot connect to the engine", unreachable: true}
