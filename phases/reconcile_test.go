package phases_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-lifecycle/node-lifecycle/fsm"
	"github.com/node-lifecycle/node-lifecycle/journal"
	"github.com/node-lifecycle/node-lifecycle/phases"
)

// restarts makes the world's Restart do what systemd would: stop the activation, start
// the next one with its hooks.
func (w *world) restarts(slot, next string, prepare func()) {
	w.hook["Restart "+slot] = func() {
		t := w.t
		w.unit(slot, func(u *phases.UnitStatus) { u.JobID, u.JobType = 8, "restart" })
		old := w.head(slot).Activation
		if err := w.lifecycle(slot, old).PostStop(t.Context(), slot, phases.StopInfo{ServiceResult: "success"}); err != nil {
			t.Error(err)
		}
		if prepare != nil {
			prepare()
		}
		w.activate(slot, next, "activating", "start-pre")
		state := "active"
		err := w.lifecycle(slot, next).PreStart(t.Context(), slot)
		if err == nil {
			w.up(slot)
			err = w.lifecycle(slot, next).PostStart(t.Context(), slot)
		}
		if err != nil {
			state = "failed"
			w.unit(slot, func(u *phases.UnitStatus) { u.JobID, u.JobType = 0, "" })
			if err := w.lifecycle(slot, next).PostStop(t.Context(), slot, phases.StopInfo{ServiceResult: "exit-code"}); err != nil {
				t.Error(err)
			}
			w.mu.Lock()
			w.fail["Restart "+slot] = fmt.Errorf("the restart job ended with failed")
			w.mu.Unlock()
		}
		w.activate(slot, next, state, "")
		w.unit(slot, func(u *phases.UnitStatus) { u.JobID, u.JobType = 0, "" })
	}
}

func reconciler(w *world) *phases.Lifecycle {
	l := w.lifecycle("kube1", "")
	l.Self.Unit, l.Self.PID = "node-lifecycle-reconcile@kube1.service", 300
	return l
}

func TestReconcile(t *testing.T) {
	for _, from := range []fsm.State{fsm.Wired, fsm.Failed} {
		w := wired(t)
		if from == fsm.Failed {
			w.die("kube1")
			w.activate("kube1", "a1", "failed", "failed")
			if err := w.lifecycle("kube1", "a1").PostStop(t.Context(), "kube1", phases.StopInfo{}); err != nil {
				t.Fatal(err)
			}
		}
		wantState(t, w, "kube1", from)
		w.restarts("kube1", "a2", nil)
		if err := reconciler(w).Reconcile(t.Context(), "kube1"); err != nil {
			t.Fatalf("from %s: %v", from, err)
		}
		wantState(t, w, "kube1", fsm.Wired)
		if h := w.head("kube1"); h.Activation != "a2" {
			t.Errorf("Wired in activation %s", h.Activation)
		}
		if i, j := slices.Index(w.calls, "ResetFailed kube1"), slices.Index(w.calls, "Restart kube1"); i < 0 || j != i+1 {
			t.Error("the unit's start limit is not reset directly before the restart")
		}
		end := w.last("kube1", "ended")
		if end.Phase != phases.PhaseReconcile || *end.Exit != 0 {
			t.Errorf("ended %+v", end)
		}
		if w.last("kube1", "requested").Phase != phases.PhaseReconcile {
			t.Error("the request is not in the journal")
		}
	}
}

func TestReconcile_Refuses(t *testing.T) {
	for _, tc := range []struct {
		name  string
		world func(*world, *phases.Lifecycle)
		cause phases.Cause
		exit  int
		text  string
	}{
		{"from inside the unit", func(_ *world, l *phases.Lifecycle) { l.Self.Unit = unitOf("kube1") }, phases.CauseByHand, 75, "inside"},
		{"while a job is queued", func(w *world, _ *phases.Lifecycle) {
			w.unit("kube1", func(u *phases.UnitStatus) { u.JobID, u.JobType = 2, "stop" })
		}, phases.CauseBusy, 75, "has a stop job"},
		{"beside another reconcile", func(_ *world, l *phases.Lifecycle) { l.Locks = heldLocks{} }, phases.CauseLocked, 75, "pid 7"},
		{"no such unit", func(w *world, _ *phases.Lifecycle) {
			w.unit("kube1", func(u *phases.UnitStatus) { u.LoadState = "not-found" })
		}, phases.CauseConfig, 78, "there is no unit"},
		{"systemd away", func(w *world, _ *phases.Lifecycle) { w.fail["Unit kube1"] = errEngineGone }, phases.CauseEngine, 69, ""},
		{"near the start limit", func(w *world, _ *phases.Lifecycle) {
			w.unit("kube1", func(u *phases.UnitStatus) { u.StartLimitBurst = 4 })
			w.start("kube1", "a2")
			w.start("kube1", "a3")
		}, phases.CauseStartLimit, 75, "started 3 times"},
		{"at a limit of its own, below the unit's", func(w *world, l *phases.Lifecycle) {
			w.unit("kube1", func(u *phases.UnitStatus) { u.StartLimitBurst = 30 })
			l.ReconcileLimit = 2
			w.start("kube1", "a2")
		}, phases.CauseStartLimit, 75, "started 2 times"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := wired(t)
				l := reconciler(w)
				tc.world(w, l)
				err := l.Reconcile(t.Context(), "kube1")
				wantError(t, err, tc.cause, tc.exit)
				if !strings.Contains(err.Error(), tc.text) {
					t.Errorf("error %q, want %q", err, tc.text)
				}
				if slices.Contains(w.calls, "Restart kube1") || slices.Contains(w.calls, "ResetFailed kube1") {
					t.Error("a refused reconcile touched the unit")
				}
				if !w.stack("kube1").alive {
					t.Error("the stack is down")
				}
			})
		})
	}
}

func TestReconcile_StartLimitForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := wired(t)
		w.unit("kube1", func(u *phases.UnitStatus) { u.StartLimitBurst = 3 })
		w.start("kube1", "a2")
		wantError(t, reconciler(w).Reconcile(t.Context(), "kube1"), phases.CauseStartLimit, 75)
		if err := w.lifecycle("kube1", "").Reset(t.Context(), "kube1"); err != nil {
			t.Fatal(err)
		}
		w.restarts("kube1", "a3", nil)
		if err := reconciler(w).Reconcile(t.Context(), "kube1"); err != nil {
			t.Errorf("after a reset: %v", err)
		}
		w.start("kube1", "a4")
		wantError(t, reconciler(w).Reconcile(t.Context(), "kube1"), phases.CauseStartLimit, 75)
		time.Sleep(16 * time.Minute)
		w.restarts("kube1", "a5", nil)
		if err := reconciler(w).Reconcile(t.Context(), "kube1"); err != nil {
			t.Errorf("after the interval: %v", err)
		}
	})
}

func TestReconcile_Fails(t *testing.T) {
	for _, tc := range []struct {
		name  string
		world func(*world)
		cause phases.Cause
		exit  int
		text  string
	}{
		{"the new activation fails", func(w *world) {
			w.restarts("kube1", "a2", func() { w.fail["Regenerate kube1"] = errors.New("no such device") })
		}, phases.CauseRegenerate, 78, "the slot is Failed: regenerate: no such device"},
		{"the new activation is refused", func(w *world) {
			w.restarts("kube1", "a2", func() { w.up("kube2") })
		}, phases.CausePeerAlive, 76, "the new start was refused: the peer kube2 is alive"},
		{"no hooks at all", func(w *world) {
			w.hook["Restart kube1"] = func() { w.activate("kube1", "a2", "active", "running") }
		}, phases.CauseNoHooks, 78, "ExecStartPre=… pre-start kube1"},
		{"no post-start", func(w *world) {
			w.hook["Restart kube1"] = func() {
				w.activate("kube1", "a2", "activating", "start-pre")
				if err := w.lifecycle("kube1", "a2").PreStart(w.t.Context(), "kube1"); err != nil {
					w.t.Error(err)
				}
				w.activate("kube1", "a2", "active", "running")
			}
		}, phases.CauseNoHooks, 78, "ExecStartPost=… post-start kube1"},
		{"the restart is refused", func(w *world) {
			w.fail["Restart kube1"] = errors.New("job canceled")
		}, phases.CauseStart, 69, "job canceled"},
		{"systemd away before the restart", func(w *world) { w.fail["ResetFailed kube1"] = errEngineGone }, phases.CauseEngine, 69, "cannot connect"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := wired(t)
				tc.world(w)
				err := reconciler(w).Reconcile(t.Context(), "kube1")
				wantError(t, err, tc.cause, tc.exit)
				if !strings.Contains(err.Error(), tc.text) {
					t.Errorf("error %q, want %q", err, tc.text)
				}
				end := w.last("kube1", "ended")
				if end.Phase != phases.PhaseReconcile || *end.Exit != tc.exit || end.Error == "" {
					t.Errorf("ended %+v", end)
				}
				for _, e := range w.entries("kube1") {
					if e.Phase == phases.PhaseReconcile && e.Kind == journal.KindTransition {
						t.Errorf("reconcile wrote the transition %s", e.Event)
					}
				}
			})
		})
	}
}

// A restart that is still queued when the call returns is waited for: the slot that is up
// meanwhile is the old one.
func TestReconcile_WaitsForTheNewActivation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := wired(t)
		w.restarts("kube1", "a2", func() { w.fail["Regenerate kube1"] = errors.New("no such device") })
		later := w.hook["Restart kube1"]
		w.hook["Restart kube1"] = func() {
			w.unit("kube1", func(u *phases.UnitStatus) { u.JobID, u.JobType = 8, "restart" })
			time.AfterFunc(10*time.Second, later)
		}
		err := reconciler(w).Reconcile(t.Context(), "kube1")
		wantError(t, err, phases.CauseRegenerate, 78)
		if !strings.Contains(err.Error(), "no such device") {
			t.Errorf("error %q does not say why the new activation failed", err)
		}
	})
}

// A refusal from before the restart is no answer to it, not even where no activation
// tells them apart.
func TestReconcile_OldRefusal(t *testing.T) {
	w := newWorld(t)
	w.up("kube2")
	l := reconciler(w)
	l.Supervisor = nil
	wantError(t, l.PreStart(t.Context(), "kube1"), phases.CausePeerAlive, 76)
	err := l.Reconcile(t.Context(), "kube1")
	wantError(t, err, phases.CauseNotWired, 81)
	if strings.Contains(err.Error(), "kube2") {
		t.Errorf("error %q tells of what was before", err)
	}
}

// The end of reconcile leaves a hook's run alone.
func TestReconcile_LeavesTheHooksRunOpen(t *testing.T) {
	w := wired(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	w.hook["Restart kube1"] = func() {
		w.mutate(func(tx *journal.Tx) error {
			return tx.SetHead("kube1", func(h *journal.Head) {
				h.Open = &journal.Open{Run: "hook", Phase: "pre-start", Step: "precheck", PID: 100, Boot: "boot1", Activation: "a2"}
			})
		})
		cancel(phases.Interrupted{Signal: 15, Name: "SIGTERM"})
	}
	wantError(t, reconciler(w).Reconcile(ctx, "kube1"), phases.CauseInterrupted, 143)
	if h := w.head("kube1"); h.Open == nil || h.Open.Run != "hook" {
		t.Errorf("open run %+v, want the hook's", h.Open)
	}
	if e := w.last("kube1", "ended"); e.Phase != phases.PhaseReconcile {
		t.Errorf("the end is %s's", e.Phase)
	}
}

func TestReconcile_NoEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := wired(t)
		w.hook["Restart kube1"] = func() { w.activate("kube1", "a2", "activating", "start-post") }
		wantError(t, reconciler(w).Reconcile(t.Context(), "kube1"), phases.CauseTimeout, 69)
	})
}

func TestReconcile_Interrupted(t *testing.T) {
	w := wired(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	w.hook["Restart kube1"] = func() { cancel(phases.Interrupted{Signal: 2, Name: "SIGINT"}) }
	err := reconciler(w).Reconcile(ctx, "kube1")
	wantError(t, err, phases.CauseInterrupted, 130)
	wantState(t, w, "kube1", fsm.Wired)
}

func TestReconcileNeeded(t *testing.T) {
	for _, tc := range []struct {
		name   string
		world  func(*world)
		reason string
	}{
		{"up and current", func(*world) {}, ""},
		{"unit down", func(w *world) { w.drifted = true; w.activate("kube1", "a1", "inactive", "dead") }, ""},
		{"unit at work", func(w *world) {
			w.drifted = true
			w.unit("kube1", func(u *phases.UnitStatus) { u.JobID, u.JobType = 3, "restart" })
		}, ""},
		{"stack gone under a unit that is up", func(w *world) { w.die("kube1") }, "the stack is not alive"},
		{"specification out of date", func(w *world) { w.drifted = true }, "the image is another one"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := wired(t)
			tc.world(w)
			before := len(w.entries("kube1"))
			reason, err := reconciler(w).ReconcileNeeded(t.Context(), "kube1")
			if err != nil || !strings.Contains(reason, tc.reason) || (reason == "") != (tc.reason == "") {
				t.Errorf("reason %q, %v; want %q", reason, err, tc.reason)
			}
			if len(w.entries("kube1")) != before {
				t.Error("asking was written down")
			}
		})
	}
	for _, method := range []string{"Unit kube1", "Alive kube1", "Drifted kube1"} {
		w := wired(t)
		w.fail[method] = errEngineGone
		_, err := reconciler(w).ReconcileNeeded(t.Context(), "kube1")
		wantError(t, err, phases.CauseEngine, 69)
	}
}
