package phases_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/node-lifecycle/node-lifecycle/fsm"
	"github.com/node-lifecycle/node-lifecycle/journal"
	"github.com/node-lifecycle/node-lifecycle/phases"
)

func TestPreStart(t *testing.T) {
	w := newWorld(t)
	if err := w.lifecycle("kube1", "a1").PreStart(t.Context(), "kube1"); err != nil {
		t.Fatal(err)
	}
	wantState(t, w, "kube1", fsm.Regenerated)
	want := []string{
		"intent precheck",
		"prechecked", "intent regenerate",
		"done regenerate", "intent reload",
		"regenerated", "ended",
	}
	if diff := cmp.Diff(want, w.story("kube1")); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
	c := w.claim()
	if c.Holder != "kube1" || c.Last != "kube1" || c.Epoch != 1 || c.Boot != "boot1" || c.Activation != "a1" {
		t.Errorf("claim %+v, want kube1's, epoch 1, of this boot and activation", c)
	}
	if h := w.head("kube1"); h.Open != nil || h.Attempts != 1 {
		t.Errorf("open run %v, attempts %d; want none and 1", h.Open, h.Attempts)
	}
	order := []string{"Alive kube2", "Fence kube2", "Regenerate kube1", "Reload kube1", "CheckLoaded kube1"}
	if got := slices.DeleteFunc(slices.Clone(w.calls), func(c string) bool { return !slices.Contains(order, c) }); !slices.Equal(got, order) {
		t.Errorf("order of the calls %v, want %v", got, order)
	}
	for _, e := range w.entries("kube1") {
		if e.PID != 100 || e.Boot != "boot1" || e.Activation != "a1" || e.Version != "test" || e.Run == "" || e.ID == "" {
			t.Errorf("entry %d does not say who wrote it: %+v", e.Seq, e)
		}
	}
}

func TestPreStart_Refuses(t *testing.T) {
	for _, tc := range []struct {
		name  string
		world func(*world)
		cause phases.Cause
		exit  int
		text  string
	}{
		{"peer alive", func(w *world) { w.up("kube2") }, phases.CausePeerAlive, 76, "kube2 is alive"},
		{"peer alive but not ready", func(w *world) { w.up("kube2").ready = false }, phases.CausePeerAlive, 76, "kube2 is alive"},
		{"peer unknown", func(w *world) { w.fail["Alive kube2"] = errEngineGone }, phases.CausePeerUnknown, 69, "cannot prove that kube2 is down"},
		{"engine away", func(w *world) { w.fail["WaitEngine"] = errEngineGone }, phases.CauseEngine, 69, "engine did not answer"},
		{"fence fails", func(w *world) { w.fail["Fence kube2"] = errors.New("conflict") }, phases.CausePeerUnknown, 69, "cannot fence kube2"},
		{"peer starts while fenced", func(w *world) {
			w.fail["Fence kube2"] = errors.New("conflict")
			w.hook["Fence kube2"] = func() { w.up("kube2") }
		}, phases.CausePeerAlive, 76, "came alive while it was being fenced"},
		{"no permission", func(w *world) { w.fail["WaitEngine"] = behaving{text: "socket denied", denied: true} }, phases.CauseDenied, 77, "socket denied"},
		{"own stack unknown", func(w *world) { w.fail["Alive kube1"] = errEngineGone }, phases.CauseEngine, 69, "cannot know whether kube1 still has a stack"},
		{"own survivor cannot be stopped", func(w *world) {
			w.up("kube1")
			w.fail["Stop kube1"] = errors.New("still there after the kill")
		}, phases.CauseUnproven, 69, "still there after the kill"},
		{"claim is the peer's and its unit starts", func(w *world) {
			w.mutate(func(tx *journal.Tx) error {
				return tx.SetClaim("kube1+kube2", journal.Claim{Holder: "kube2", Last: "kube2", Epoch: 4})
			})
			w.activate("kube2", "p", "activating", "start-pre")
		}, phases.CausePeerAlive, 76, "holds the claim"},
		{"claim is the peer's and its unit has a job", func(w *world) {
			w.mutate(func(tx *journal.Tx) error {
				return tx.SetClaim("kube1+kube2", journal.Claim{Holder: "kube2", Last: "kube2", Epoch: 4})
			})
			w.unit("kube2", func(u *phases.UnitStatus) { u.JobID, u.JobType = 9, "start" })
		}, phases.CausePeerAlive, 76, "with a start job"},
		{"claim is the peer's and systemd is away", func(w *world) {
			w.mutate(func(tx *journal.Tx) error {
				return tx.SetClaim("kube1+kube2", journal.Claim{Holder: "kube2", Last: "kube2", Epoch: 4})
			})
			w.fail["Unit kube2"] = errors.New("no bus")
		}, phases.CausePeerUnknown, 69, "no bus"},
		{"claim unknown and the peer's unit is up", func(w *world) {
			w.mutate(func(tx *journal.Tx) error { return tx.SetClaim("kube1+kube2", journal.Claim{Unknown: true}) })
			w.activate("kube2", "p", "active", "running")
		}, phases.CausePeerAlive, 76, "holds the claim"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			tc.world(w)
			err := w.lifecycle("kube1", "a1").PreStart(t.Context(), "kube1")
			e := wantError(t, err, tc.cause, tc.exit)
			if !e.Refused || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("error %q (refused %v), want a refusal that says %q", err, e.Refused, tc.text)
			}
			refused := w.last("kube1", string(fsm.NoteRefused))
			if refused.Cause != string(tc.cause) || !strings.Contains(refused.Error, tc.text) {
				t.Errorf("noted %s: %q", refused.Cause, refused.Error)
			}
			if h := w.head("kube1"); h.State != "" || h.Open != nil {
				t.Errorf("a refusal left state %q and open run %v", h.State, h.Open)
			}
			if c := w.claim(); c.Holder == "kube1" {
				t.Error("a refused start holds the claim")
			}
			if slices.Contains(w.calls, "Regenerate kube1") {
				t.Error("a refused start regenerated")
			}
		})
	}
}

func TestPreStart_TakesTheClaimOver(t *testing.T) {
	// The peer's host died while it held the claim: of another boot it stays the peer's
	// until somebody who has looked takes it.
	w := newWorld(t)
	w.start("kube2", "p1")
	w.mu.Lock()
	w.boot, w.stacks, w.units = "boot2", map[string]*stack{}, map[string]*phases.UnitStatus{}
	w.mu.Unlock()

	if err := w.lifecycle("kube1", "a1").PreStart(t.Context(), "kube1"); err != nil {
		t.Fatal(err)
	}
	if c := w.claim(); c.Holder != "kube1" || c.Epoch != 2 || c.Boot != "boot2" {
		t.Errorf("claim %+v, want kube1's with epoch 2", c)
	}
	wantState(t, w, "kube2", fsm.Stopped)
	if e := w.last("kube2", journal.KindTransition); e.Event != string(fsm.EventRebooted) || !strings.Contains(e.Detail, "found down by kube1") {
		t.Errorf("the peer's books say %s: %q", e.Event, e.Detail)
	}
}

func TestPreStart_SettlesThePeersBooks(t *testing.T) {
	w := newWorld(t)
	w.start("kube2", "p1")
	w.die("kube2")
	w.activate("kube2", "p1", "failed", "failed")
	if err := w.lifecycle("kube1", "a1").PreStart(t.Context(), "kube1"); err != nil {
		t.Fatal(err)
	}
	wantState(t, w, "kube2", fsm.Failed)
	if e := w.last("kube2", journal.KindTransition); e.Event != string(fsm.EventLost) {
		t.Errorf("the peer's books say %s, want lost", e.Event)
	}
}

func TestPreStart_ClaimOfNobody(t *testing.T) {
	// Both units are activating at once and nobody holds the claim: one must win.
	w := newWorld(t)
	w.activate("kube1", "a1", "activating", "start-pre")
	w.activate("kube2", "p1", "activating", "start-pre")
	if err := w.lifecycle("kube1", "a1").PreStart(t.Context(), "kube1"); err != nil {
		t.Fatalf("the first is refused: %v", err)
	}
	err := w.lifecycle("kube2", "p1").PreStart(t.Context(), "kube2")
	wantError(t, err, phases.CausePeerAlive, 76)
}

func TestPreStart_ClaimUnknownAndBothBeforeTheirMain(t *testing.T) {
	for _, slot := range []string{"kube1", "kube2"} {
		w := newWorld(t)
		w.mutate(func(tx *journal.Tx) error { return tx.SetClaim("kube1+kube2", journal.Claim{Unknown: true, Epoch: 3}) })
		w.activate("kube1", "a", "activating", "start-pre")
		w.activate("kube2", "a", "activating", "condition")
		if err := w.lifecycle(slot, "a").PreStart(t.Context(), slot); err != nil {
			t.Errorf("%s: two starts at once refuse each other for ever: %v", slot, err)
		}
		if c := w.claim(); c.Unknown || c.Epoch != 4 || c.Holder != slot {
			t.Errorf("claim %+v, want %s's and known", c, slot)
		}
	}
}

func TestPreStart_Settles(t *testing.T) {
	for _, tc := range []struct {
		name  string
		world func(*world)
		event string // the transition or note before prechecked
		cause phases.Cause
		text  string
	}{
		{"survivor of a lost unit", func(w *world) { w.start("kube1", "a0") }, "lost", phases.CauseRunDied, "survivor ended"},
		{"post-stop never ran", func(w *world) { w.start("kube1", "a0"); w.die("kube1") }, "lost", phases.CauseStackDied, "nobody recorded a stop"},
		{"post-stop was killed", func(w *world) {
			w.start("kube1", "a0")
			if err := w.lifecycle("kube1", "a0").Stop(w.t.Context(), "kube1"); err != nil {
				w.t.Fatal(err)
			}
			w.mutate(func(tx *journal.Tx) error {
				return tx.SetHead("kube1", func(h *journal.Head) {
					h.Open = &journal.Open{Run: "r", Phase: "post-stop", Step: "stop", Boot: "boot1"}
				})
			})
		}, "lost", phases.CauseInterrupted, "a stop was asked for, and nobody recorded its end; post-stop died in step stop"},
		{"reboot", func(w *world) {
			w.start("kube1", "a0")
			w.boot, w.stacks = "boot2", map[string]*stack{}
		}, "rebooted", phases.CauseReboot, ""},
		{"reboot after which the engine started the stack by itself", func(w *world) {
			w.start("kube1", "a0")
			w.boot = "boot2"
		}, "rebooted", phases.CauseReboot, "survivor ended"},
		{"post-start was killed", func(w *world) {
			w.start("kube1", "a0")
			w.mutate(func(tx *journal.Tx) error {
				if _, err := tx.Append("kube1", journal.Entry{ID: "x", Time: time.Now(), Kind: journal.KindTransition, Event: "x", From: "Wired", To: "Starting", Boot: "boot1"}, nil); err != nil {
					return err
				}
				return tx.SetHead("kube1", func(h *journal.Head) {
					h.Open = &journal.Open{Run: "old", Phase: "post-start", Step: "wait-ready", PID: 55, Boot: "boot1"}
				})
			})
		}, "failed", phases.CauseInterrupted, "post-start died in step wait-ready (pid 55"},
		{"pre-start was killed before it had begun", func(w *world) {
			w.mutate(func(tx *journal.Tx) error {
				return tx.SetHead("kube1", func(h *journal.Head) {
					h.Open = &journal.Open{Run: "old", Phase: "pre-start", Step: "precheck", PID: 55, Boot: "boot1"}
				})
			})
		}, "undone precheck", phases.CauseInterrupted, "pre-start died in step precheck"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			tc.world(w)
			w.activate("kube1", "a1", "activating", "start-pre")
			if err := w.lifecycle("kube1", "a1").PreStart(t.Context(), "kube1"); err != nil {
				t.Fatal(err)
			}
			wantState(t, w, "kube1", fsm.Regenerated)
			story := w.story("kube1")
			i := len(story) - 1
			for story[i] != "prechecked" {
				i--
			}
			if story[i-1] != tc.event {
				t.Fatalf("settled with %q, want %q", story[i-1], tc.event)
			}
			e := w.entries("kube1")[i-1]
			if e.Cause != string(tc.cause) || !strings.Contains(e.Detail, tc.text) {
				t.Errorf("settled %s: %q, want %s: %q", e.Cause, e.Detail, tc.cause, tc.text)
			}
			if s := w.stack("kube1"); s != nil {
				t.Error("what was left of the stack is still there")
			}
		})
	}
}

func TestPreStart_Fails(t *testing.T) {
	for _, tc := range []struct {
		name  string
		world func(*world)
		cause phases.Cause
		exit  int
		step  string
	}{
		{"regenerate", func(w *world) { w.fail["Regenerate kube1"] = errors.New("no such device") }, phases.CauseRegenerate, 78, "regenerate"},
		{"configuration", func(w *world) { w.fail["Regenerate kube1"] = behaving{text: "no image", misconfigured: true} }, phases.CauseConfig, 78, "regenerate"},
		{"engine lost", func(w *world) { w.fail["Regenerate kube1"] = errEngineGone }, phases.CauseEngine, 69, "regenerate"},
		{"reload", func(w *world) { w.fail["Reload"] = errors.New("refused") }, phases.CauseReload, 69, "reload"},
		{"the unit does not load any more", func(w *world) { w.fail["CheckLoaded"] = behaving{text: "bad setting", misconfigured: true} }, phases.CauseConfig, 78, "reload"},
		{"panic", func(w *world) { w.hook["Regenerate kube1"] = func() { panic("nil map") } }, phases.CauseBug, 70, "regenerate"},
		{"foreign peer that came up after the claim", func(w *world) {
			w.weakFence = true
			w.hook["Fence kube2"] = func() { w.up("kube2") }
		}, phases.CausePeerAlive, 76, "precheck"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			tc.world(w)
			err := w.lifecycle("kube1", "a1").PreStart(t.Context(), "kube1")
			e := wantError(t, err, tc.cause, tc.exit)
			if e.Refused || e.Step != tc.step {
				t.Errorf("failed in step %q (refused %v), want %q", e.Step, e.Refused, tc.step)
			}
			wantState(t, w, "kube1", fsm.Failed)
			failed := w.last("kube1", journal.KindTransition)
			if failed.From != string(fsm.PreChecked) || failed.Step != tc.step || failed.EvidenceSize == 0 {
				t.Errorf("the failure is recorded as %+v", failed)
			}
			if h := w.head("kube1"); h.Open != nil || h.FirstFailure != failed.Seq {
				t.Errorf("open run %v, first failure %d; want none and %d", h.Open, h.FirstFailure, failed.Seq)
			}
		})
	}
}

func TestPreStart_SkipsTheReload(t *testing.T) {
	w := newWorld(t)
	w.unchanged = true
	if err := w.lifecycle("kube1", "a1").PreStart(t.Context(), "kube1"); err != nil {
		t.Fatal(err)
	}
	if slices.Contains(w.calls, "Reload kube1") {
		t.Error("reloaded although no unit file changed")
	}

	w = newWorld(t)
	w.unchanged = true
	w.fail["Changed"] = errors.New("no bus")
	if err := w.lifecycle("kube1", "a1").PreStart(t.Context(), "kube1"); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(w.calls, "Reload kube1") {
		t.Error("did not reload although nobody knew whether a unit file had changed")
	}
}

func TestPreStart_Interrupted(t *testing.T) {
	term := phases.Interrupted{Signal: 15, Name: "SIGTERM"}
	for _, tc := range []struct {
		name string
		in   string // the call during which the signal comes
		job  string
		kind string
		end  fsm.State
	}{
		{"before anything had begun", "Alive kube2", "", "refused", ""},
		{"by somebody", "Regenerate kube1", "", "transition", fsm.Failed},
		{"by a timeout of the unit: the start job is still there", "Regenerate kube1", "start", "transition", fsm.Failed},
		{"by systemctl stop", "Regenerate kube1", "stop", "stop-requested", fsm.PreChecked},
		{"by systemctl restart", "Regenerate kube1", "restart", "stop-requested", fsm.PreChecked},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			ctx, cancel := context.WithCancelCause(t.Context())
			w.hook[tc.in] = func() {
				if tc.job != "" {
					w.unit("kube1", func(u *phases.UnitStatus) { u.JobID, u.JobType = 3, tc.job })
				}
				cancel(term)
			}
			w.fail[tc.in] = context.Canceled
			err := w.lifecycle("kube1", "a1").PreStart(ctx, "kube1")
			wantError(t, err, phases.CauseInterrupted, 143)
			e := w.last("kube1", tc.kind)
			if e.Cause != string(phases.CauseInterrupted) || !strings.Contains(e.Error, "SIGTERM") {
				t.Errorf("recorded %s: %q", e.Cause, e.Error)
			}
			wantState(t, w, "kube1", tc.end)
			if tc.kind == "stop-requested" && w.head("kube1").StopRequested != "a1" {
				t.Error("the head does not know that a stop was asked for")
			}
		})
	}
}

func TestPreStart_ByHand(t *testing.T) {
	w := newWorld(t)
	w.start("kube1", "a1")
	l := w.lifecycle("kube1", "")
	l.Self.Unit = "session-1.scope"
	before := len(w.entries("kube1"))
	wantError(t, l.PreStart(t.Context(), "kube1"), phases.CauseByHand, 75)
	wantError(t, l.PostStop(t.Context(), "kube1", phases.StopInfo{}), phases.CauseByHand, 75)
	wantError(t, l.Stop(t.Context(), "kube1"), phases.CauseByHand, 75)
	if len(w.entries("kube1")) != before || !w.stack("kube1").alive {
		t.Error("a hook typed by hand touched a slot that is up")
	}

	w.fail["Unit kube1"] = errors.New("no bus")
	wantError(t, l.PostStop(t.Context(), "kube1", phases.StopInfo{}), phases.CauseEngine, 69)
	delete(w.fail, "Unit kube1")

	l.Force = true
	if err := l.PostStop(t.Context(), "kube1", phases.StopInfo{}); err != nil {
		t.Errorf("--force: %v", err)
	}
}

func TestPreStart_Locked(t *testing.T) {
	w := newWorld(t)
	l := w.lifecycle("kube1", "a1")
	l.PreStartBudget = 10 * time.Millisecond
	locks := heldLocks{}
	l.Locks = locks
	err := l.PreStart(t.Context(), "kube1")
	wantError(t, err, phases.CauseLocked, 75)
	if e := w.last("kube1", string(fsm.NoteRefused)); e.Cause != string(phases.CauseLocked) {
		t.Errorf("noted %q", e.Cause)
	}
}

// heldLocks is held by somebody who does not give it back.
type heldLocks struct{}

func (heldLocks) Slot(ctx context.Context, _, _ string) (func(), error) {
	<-ctx.Done()
	return nil, lockedError(ctx.Err())
}
func (heldLocks) Host(ctx context.Context, _ string) (func(), error) {
	return nil, lockedError(context.DeadlineExceeded)
}
func (heldLocks) Reconcile(context.Context, string) (func(), error) {
	return nil, lockedError(context.DeadlineExceeded)
}
