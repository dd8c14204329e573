package phases_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-lifecycle/node-lifecycle/fsm"
	"github.com/node-lifecycle/node-lifecycle/journal"
	"github.com/node-lifecycle/node-lifecycle/phases"
)

// toldLocks are free, and tell the world when they are taken and given back.
type toldLocks struct{ w *world }

func (l toldLocks) take(name string) (func(), error) {
	err := l.w.called("lock", name)
	return func() { _ = l.w.called("unlock", name) }, err
}

func (l toldLocks) Slot(context.Context, string, string) (func(), error) { return l.take("slot") }
func (l toldLocks) Host(context.Context, string) (func(), error)         { return l.take("host") }
func (l toldLocks) Reconcile(context.Context, string) (func(), error)    { return l.take("reconcile") }

// calledInOrder fails unless those calls, and of them no others, were made in that order.
func calledInOrder(t *testing.T, w *world, want ...string) {
	t.Helper()
	got := slices.DeleteFunc(slices.Clone(w.calls), func(c string) bool { return !slices.Contains(want, c) })
	if !slices.Equal(got, want) {
		t.Errorf("order of the calls\n%q, want\n%q", got, want)
	}
}

// claimOf is what another process would make of the claim.
func (w *world) claimOf(change func(c *journal.Claim)) {
	w.mutate(func(tx *journal.Tx) error {
		c, err := tx.Claim("kube1+kube2")
		if err != nil {
			return err
		}
		change(&c)
		return tx.SetClaim("kube1+kube2", c)
	})
}

// The whole decision about the peer stands under the host's lock, from the first look
// to the commit, and nothing else does.
func TestPreStart_DecidesUnderTheHostLock(t *testing.T) {
	w := newWorld(t)
	w.hook["unlock host"] = func() {
		if c := w.claim(); c.Holder != "kube1" {
			t.Errorf("the lock is given back while the claim is %q's", c.Holder)
		}
		wantState(t, w, "kube1", fsm.PreChecked)
	}
	l := w.lifecycle("kube1", "a1")
	l.Locks = toldLocks{w}
	if err := l.PreStart(t.Context(), "kube1"); err != nil {
		t.Fatal(err)
	}
	calledInOrder(t, w, "lock slot", "lock host", "Alive kube2", "Fence kube2", "unlock host", "Regenerate kube1", "unlock slot")

	w = newWorld(t)
	w.up("kube2")
	l = w.lifecycle("kube1", "a1")
	l.Locks = toldLocks{w}
	wantError(t, l.PreStart(t.Context(), "kube1"), phases.CausePeerAlive, 76)
	calledInOrder(t, w, "lock slot", "lock host", "Alive kube2", "unlock host", "unlock slot")
}

// The claim is given up under the lock under which the stack was seen to be gone: a run that
// has outlived its unit cannot start it in between. If it did before, it is ended as well.
func TestPostStop_ClearsUnderTheHostLock(t *testing.T) {
	w := newWorld(t)
	w.start("kube1", "a1")
	w.activate("kube1", "a1", "deactivating", "stop-post")
	revived := false
	w.hook["lock host"] = func() {
		if !revived {
			revived = true
			w.up("kube1")
		}
	}
	w.hook["Remove kube1"] = func() {
		delete(w.fail, "Remove")
		if s := w.stack("kube1"); s != nil && s.alive {
			w.fail["Remove"] = errors.New("it is running")
		}
	}
	w.hook["unlock host"] = func() {
		if c := w.claim(); (c.Holder == "") != (w.stack("kube1") == nil) {
			t.Errorf("the lock is given back with the claim %q's and the stack %+v", c.Holder, w.stack("kube1"))
		}
	}
	l := w.lifecycle("kube1", "a1")
	l.Locks = toldLocks{w}
	if err := l.PostStop(t.Context(), "kube1", phases.StopInfo{ServiceResult: "success"}); err != nil {
		t.Fatal(err)
	}
	calledInOrder(t, w, "Stop kube1", "lock host", "Remove kube1", "unlock host", "Stop kube1", "lock host", "Remove kube1", "unlock host")
	wantState(t, w, "kube1", fsm.Failed)

	w.start("kube1", "a2")
	w.activate("kube1", "a2", "deactivating", "stop-post")
	w.hook["lock host"] = func() { w.up("kube1") }
	w.hook["unlock host"] = nil
	wantError(t, l.PostStop(t.Context(), "kube1", phases.StopInfo{ServiceResult: "success"}), phases.CauseUnproven, 69)
	if c := w.claim(); c.Holder != "kube1" {
		t.Errorf("the claim is %q's, want it kept", c.Holder)
	}
}

// What was claimed while this slot was looking is not overwritten: somebody decides
// under another lock.
func TestPreStart_ClaimChangesHandsMeanwhile(t *testing.T) {
	w := newWorld(t)
	w.hook["Fence kube2"] = func() {
		w.claimOf(func(c *journal.Claim) { c.Holder, c.Last, c.Epoch = "kube2", "kube2", 7 })
	}
	err := w.lifecycle("kube1", "a1").PreStart(t.Context(), "kube1")
	wantError(t, err, phases.CauseClaim, 76)
	if c := w.claim(); c.Holder != "kube2" || c.Epoch != 7 {
		t.Errorf("claim %+v, want kube2's untouched", c)
	}
	if slices.Contains(w.calls, "Regenerate kube1") {
		t.Error("the start went on")
	}
}

// run looks at the claim and starts the stack in one go.
func TestRunStack_StartsUnderTheHostLock(t *testing.T) {
	w := readied(t)
	w.hook["Attend kube1"] = func() { go w.die("kube1") }
	l := w.lifecycle("kube1", "a1")
	l.Locks = toldLocks{w}
	if code, err := l.RunStack(t.Context(), "kube1", &bytes.Buffer{}); code != 81 || err != nil {
		t.Fatalf("exit code %d, %v", code, err)
	}
	calledInOrder(t, w, "lock host", "Start kube1", "unlock host", "Attend kube1")

	w = readied(t)
	w.hook["lock host"] = func() { // the peer has decided while run waited for the lock
		w.claimOf(func(c *journal.Claim) { c.Holder, c.Last, c.Epoch = "kube2", "kube2", c.Epoch+1 })
	}
	w.fail["Start kube1"] = errors.New("must not be called")
	l = w.lifecycle("kube1", "a1")
	l.Locks = toldLocks{w}
	_, err := l.RunStack(t.Context(), "kube1", &bytes.Buffer{})
	wantError(t, err, phases.CauseClaim, 76)
}

// plainProcess is a backend whose stack nothing of ours starts.
type plainProcess struct {
	phases.Controller
	phases.Aliver
}

// Two stacks that know no claim would both go on: there the name decides.
func TestPreStart_ClaimUnknownAndNoStartOfOurs(t *testing.T) {
	for slot, cause := range map[string]phases.Cause{"kube1": "", "kube2": phases.CausePeerAlive} {
		w := newWorld(t)
		w.claimOf(func(c *journal.Claim) { c.Unknown = true })
		w.activate("kube1", "a", "activating", "start-pre")
		w.activate("kube2", "a", "activating", "start-pre")
		l := w.lifecycle(slot, "a")
		l.Controller = plainProcess{w, w}
		err := l.PreStart(t.Context(), slot)
		if cause == "" && err != nil {
			t.Errorf("%s: %v", slot, err)
		}
		if cause != "" {
			wantError(t, err, cause, 76)
		}
	}
}

// While nobody knows whose claim it is, a peer whose main process has not come, or is not
// going to, holds nobody up; one whose stack may be on its way does.
func TestPreStart_ClaimUnknownAndThePeersUnit(t *testing.T) {
	for _, test := range []struct {
		active, sub string
		ran         bool
		cause       phases.Cause
	}{
		{"inactive", "dead", false, ""},
		{"activating", "condition", false, ""},
		{"activating", "start-pre", false, ""},
		{"activating", "auto-restart", false, ""},
		{"deactivating", "stop-post", false, ""},
		{"activating", "start-post", true, phases.CausePeerAlive},
		{"active", "running", true, phases.CausePeerAlive},
		{"deactivating", "stop-post", true, phases.CausePeerAlive},
	} {
		w := newWorld(t)
		w.claimOf(func(c *journal.Claim) { c.Unknown = true })
		w.activate("kube2", "b", test.active, test.sub)
		w.unit("kube2", func(u *phases.UnitStatus) { u.MainExited = test.ran })
		err := w.lifecycle("kube1", "a").PreStart(t.Context(), "kube1")
		if test.cause == "" && err != nil {
			t.Errorf("beside a peer that is %s (%s): %v", test.active, test.sub, err)
		}
		if test.cause != "" {
			wantError(t, err, test.cause, 76)
		}
	}
}

// blind cannot tell whether anything runs.
type blind struct{ *host }

func (blind) Running(context.Context, string) (bool, string, error) {
	return false, "", errEngineGone
}

func TestWeakEvidence_Unknown(t *testing.T) {
	w := newWorld(t)
	l := w.lifecycle("kube1", "a1")
	l.Controller, l.Supervisor = blind{&host{}}, nil
	wantError(t, l.PreStart(t.Context(), "kube1"), phases.CausePeerUnknown, 69)
	if c := w.claim(); c.Holder != "" {
		t.Errorf("the claim is %s's", c.Holder)
	}
}

func TestPreStart_EndsThePeersOpenRun(t *testing.T) {
	w := newWorld(t)
	w.start("kube2", "p1")
	w.mutate(func(tx *journal.Tx) error {
		return tx.SetHead("kube2", func(h *journal.Head) {
			h.Open = &journal.Open{Run: "old", Phase: "post-stop", Step: "stop", PID: 55, Boot: "boot1", Activation: "p1"}
		})
	})
	w.dead[55] = true
	w.die("kube2")
	w.activate("kube2", "p1", "failed", "failed")
	if err := w.lifecycle("kube1", "a1").PreStart(t.Context(), "kube1"); err != nil {
		t.Fatal(err)
	}
	if h := w.head("kube2"); h.Open != nil || h.State != string(fsm.Failed) {
		t.Errorf("the peer is %s and its run %v is still open", h.State, h.Open)
	}
}

// A pre-start that may not begin says so, and says it of itself: what it found of an
// earlier activation is settled, not failed in its name.
func TestPreStart_RefusedOverAnOldState(t *testing.T) {
	w := readied(t)
	w.up("kube2")
	err := w.lifecycle("kube1", "a2").PreStart(t.Context(), "kube1")
	if e := wantError(t, err, phases.CausePeerAlive, 76); !e.Refused || strings.Contains(err.Error(), "not in the journal") {
		t.Errorf("error %q (refused %v), want a refusal that is in the journal", err, e.Refused)
	}
	story := w.story("kube1")
	if got, want := story[len(story)-3:], []string{"lost", "refused", "ended"}; !slices.Equal(got, want) {
		t.Errorf("history ends with %v, want %v", got, want)
	}
	if e := w.last("kube1", "refused"); e.Activation != "a2" || e.Cause != string(phases.CausePeerAlive) {
		t.Errorf("refused: %+v", e)
	}
}

// reader is a log that looks into the journal whenever it is told of an entry.
type reader struct{ look func(message string) }

func (reader) Enabled(context.Context, slog.Level) bool { return true }
func (r reader) Handle(_ context.Context, record slog.Record) error {
	r.look(record.Message)
	return nil
}
func (r reader) WithAttrs([]slog.Attr) slog.Handler { return r }
func (r reader) WithGroup(string) slog.Handler      { return r }

// Whoever reads of a transition finds it in the journal, and with it the intent of the
// step that comes next: the two are one commit.
func TestPhases_TellWhatIsDurable(t *testing.T) {
	w := newWorld(t)
	told := 0
	log := slog.New(reader{func(message string) {
		_, change, found := strings.Cut(message, ": ")
		if !found || !strings.Contains(change, " → ") {
			return
		}
		told++
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var head journal.Head
		err := w.journal().View(ctx, func(v *journal.View) (err error) {
			head, err = v.Head("kube1")
			return err
		})
		to := strings.Fields(change)[2]
		if to = strings.TrimSuffix(to, ":"); err != nil || head.State != to {
			t.Errorf("told %q while the journal says %q (%v)", message, head.State, err)
		}
		next := map[string]string{"PreChecked": "regenerate", "Starting": "wait-ready", "Running": "after-start"}[to]
		if next != "" && (head.Open == nil || head.Open.Step != next) {
			t.Errorf("told %q while the open run is %+v, want it at %s", message, head.Open, next)
		}
	}})
	l := w.lifecycle("kube1", "a1")
	l.Log = log
	if err := l.PreStart(t.Context(), "kube1"); err != nil {
		t.Fatal(err)
	}
	w.up("kube1")
	if err := l.PostStart(t.Context(), "kube1"); err != nil {
		t.Fatal(err)
	}
	if told != 5 {
		t.Errorf("told of %d transitions, want 5", told)
	}
}

// A stop after a reset leaves nothing to count down.
func TestAttempts_NeverBelowZero(t *testing.T) {
	w := readied(t)
	if err := w.lifecycle("kube1", "").Reset(t.Context(), "kube1"); err != nil {
		t.Fatal(err)
	}
	w.unit("kube1", func(u *phases.UnitStatus) { u.JobID, u.JobType = 1, "stop" })
	if err := w.lifecycle("kube1", "a1").PostStop(t.Context(), "kube1", phases.StopInfo{}); err != nil {
		t.Fatal(err)
	}
	wantState(t, w, "kube1", fsm.Stopped)
	if h := w.head("kube1"); h.Attempts != 0 {
		t.Errorf("%d attempts", h.Attempts)
	}
}

// A signal to run is a stop that was asked for, also without a job of systemd's.
func TestRunStack_SignalIsAStop(t *testing.T) {
	w := wired(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	w.hook["Attend kube1"] = func() { cancel(phases.Interrupted{Signal: 15, Name: "SIGTERM"}) }
	if code, err := w.lifecycle("kube1", "a1").RunStack(ctx, "kube1", &bytes.Buffer{}); code != 0 || err != nil {
		t.Fatalf("exit code %d, %v", code, err)
	}
	if err := w.lifecycle("kube1", "a1").PostStop(t.Context(), "kube1", phases.StopInfo{ServiceResult: "success"}); err != nil {
		t.Fatal(err)
	}
	wantState(t, w, "kube1", fsm.Stopped)
}

// A journal that breaks while the engine starts the stack does not end the stack.
// systemd also tells run to end when another hook has failed. Nobody asked for that stop.
func TestRunStack_SignalAfterAFailure(t *testing.T) {
	for name, prepare := range map[string]func(*world){
		"post-start has failed": func(w *world) {
			w.mutate(func(tx *journal.Tx) error {
				_, err := tx.Append("kube1", journal.Entry{ID: "x-1", Time: time.Now(), Kind: journal.KindTransition, Event: "failed", To: "Failed"}, nil)
				return err
			})
		},
		"post-start was killed": func(w *world) {
			w.dead[55] = true
			w.mutate(func(tx *journal.Tx) error {
				return tx.SetHead("kube1", func(h *journal.Head) {
					h.Open = &journal.Open{Run: "r", Phase: "post-start", Step: "wait-ready", PID: 55, Boot: "boot1"}
				})
			})
		},
	} {
		w := readied(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		w.hook["Attend kube1"] = func() {
			prepare(w)
			cancel(phases.Interrupted{Signal: 15, Name: "SIGTERM"})
		}
		if _, err := w.lifecycle("kube1", "a1").RunStack(ctx, "kube1", &bytes.Buffer{}); err != nil {
			t.Fatal(err)
		}
		if h := w.head("kube1"); h.StopRequested != "" {
			t.Errorf("%s: a stop was noted that nobody asked for", name)
		}
	}
}

// A slot's name becomes a part of paths and keys.
func TestPhases_RefuseWhatIsNoSlot(t *testing.T) {
	l := newWorld(t).lifecycle("kube1", "a1")
	for _, slot := range []string{"", ".", "..", "../x", "a/b", "a\nb", "a\x00"} {
		_, resumeErr := l.Resume(t.Context(), slot)
		_, runErr := l.RunStack(t.Context(), slot, &bytes.Buffer{})
		for phase, err := range map[string]error{
			"pre-start": l.PreStart(t.Context(), slot), "post-start": l.PostStart(t.Context(), slot),
			"post-stop": l.PostStop(t.Context(), slot, phases.StopInfo{}), "stop": l.Stop(t.Context(), slot),
			"reconcile": l.Reconcile(t.Context(), slot), "peer-check": l.PeerCheck(t.Context(), slot),
			"reset": l.Reset(t.Context(), slot), "resume": resumeErr, "run": runErr,
		} {
			if phases.ExitCode(err) != 78 || !strings.Contains(err.Error(), "no name for a slot") {
				t.Errorf("%s %q: %v", phase, slot, err)
			}
		}
	}
}

func TestRunStack_JournalBreaksMeanwhile(t *testing.T) {
	w := readied(t)
	w.hook["Start kube1"] = func() {
		state := w.dir + "/state"
		if err := errors.Join(os.RemoveAll(state), os.WriteFile(state, nil, 0o600)); err != nil {
			t.Error(err)
		}
	}
	w.hook["Attend kube1"] = func() { go w.die("kube1") }
	w.exitCode = 3
	code, err := w.lifecycle("kube1", "a1").RunStack(t.Context(), "kube1", &bytes.Buffer{})
	if code != 3 || err != nil {
		t.Errorf("exit code %d, %v; want the stack's own", code, err)
	}
	if len(w.unrecorded) != 1 || w.unrecorded[0].Detail != "kube1-1" {
		t.Errorf("unrecorded %+v, want the start", w.unrecorded)
	}
}

// stuckLocks has the slot's lock in the hands of a hook that hangs.
type stuckLocks struct{ heldSlot }

func (stuckLocks) Slot(ctx context.Context, _, _ string) (func(), error) {
	<-ctx.Done()
	return nil, lockedError(ctx.Err())
}

// A stop does not hang behind a hook that does not end.
func TestPostStop_GoesOnWithoutTheSlotsLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := wired(t)
		l := w.lifecycle("kube1", "a1")
		l.Locks = stuckLocks{}
		began := time.Now()
		if err := l.PostStop(t.Context(), "kube1", phases.StopInfo{ServiceResult: "timeout"}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("it waited %s for the lock", took)
		}
		if w.stack("kube1") != nil {
			t.Error("the stack is still there")
		}
		wantState(t, w, "kube1", fsm.Failed)
	})
}
