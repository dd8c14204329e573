package phases_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/node-lifecycle/node-lifecycle/fsm"
	"github.com/node-lifecycle/node-lifecycle/journal"
	"github.com/node-lifecycle/node-lifecycle/phases"
)

// readied is a world in which pre-start of kube1 has ended in activation a1.
func readied(t *testing.T) *world {
	w := newWorld(t)
	w.activate("kube1", "a1", "activating", "start-pre")
	if err := w.lifecycle("kube1", "a1").PreStart(t.Context(), "kube1"); err != nil {
		t.Fatal(err)
	}
	w.activate("kube1", "a1", "activating", "start-post")
	w.calls = nil
	return w
}

func TestPostStart(t *testing.T) {
	w := readied(t)
	before := len(w.entries("kube1"))
	w.up("kube1")
	if err := w.lifecycle("kube1", "a1").PostStart(t.Context(), "kube1"); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"intent admit",
		"starting", "intent wait-ready",
		"running", "intent after-start",
		"wired", "ended",
	}
	if diff := cmp.Diff(want, w.story("kube1")[before:]); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
	h := w.head("kube1")
	if h.State != string(fsm.Wired) || h.Attempts != 0 || h.LastSuccess != h.Seq-1 || h.Open != nil {
		t.Errorf("head %+v, want Wired, no attempts, the success pinned, nothing open", h)
	}
}

// When run could not start the stack, its own words say why, and not that of a stack that
// never was.
func TestPostStart_SaysWhyRunDidNotStart(t *testing.T) {
	w := readied(t)
	w.fail["Start kube1"] = behaving{text: "no such image", misconfigured: true}
	if _, err := w.lifecycle("kube1", "a1").RunStack(t.Context(), "kube1", io.Discard); err == nil {
		t.Fatal("run did start the stack")
	}
	w.unit("kube1", func(u *phases.UnitStatus) { u.MainExited, u.MainCode, u.MainStatus = true, 1, 78 })
	err := w.lifecycle("kube1", "a1").PostStart(t.Context(), "kube1")
	wantError(t, err, phases.CauseConfig, 78)
	if !strings.Contains(err.Error(), "run did not start the stack: no such image") {
		t.Errorf("error %q", err)
	}
	if e := w.last("kube1", journal.KindTransition); e.Cause != string(phases.CauseConfig) || e.To != string(fsm.Failed) {
		t.Errorf("recorded %s to %s", e.Cause, e.To)
	}
}

func TestPostStart_NeedsItsPreStart(t *testing.T) {
	for _, tc := range []struct {
		name  string
		world func(*testing.T) *world
		end   fsm.State
		text  string
	}{
		{"none at all", newWorld, "", "no pre-start has readied it"},
		{"of another activation", func(t *testing.T) *world {
			w := newWorld(t)
			if err := w.lifecycle("kube1", "a0").PreStart(t.Context(), "kube1"); err != nil {
				t.Fatal(err)
			}
			return w
		}, fsm.Failed, "another activation (a0)"},
		{"twice", func(t *testing.T) *world { w := newWorld(t); w.start("kube1", "a1"); return w }, fsm.Wired, "the slot is Wired"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := tc.world(t)
			w.up("kube1")
			err := w.lifecycle("kube1", "a1").PostStart(t.Context(), "kube1")
			e := wantError(t, err, phases.CauseNoPreStart, 78)
			if !strings.Contains(err.Error(), tc.text) || !strings.Contains(e.Hint, "ExecStartPre=") {
				t.Errorf("error %q, want it to say %q and which line is missing", err, tc.text)
			}
			wantState(t, w, "kube1", tc.end)
		})
	}
}

func TestPostStart_ReadyLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := readied(t)
		s := w.up("kube1")
		s.ready, s.reason = false, "kubelet.service: activating"
		go func() {
			time.Sleep(30 * time.Second)
			w.mu.Lock()
			s.ready = true
			w.mu.Unlock()
		}()
		began := time.Now()
		if err := w.lifecycle("kube1", "a1").PostStart(t.Context(), "kube1"); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(began); waited < 30*time.Second || waited > 31*time.Second {
			t.Errorf("waited %s for a stack that was ready after 30 s", waited)
		}
		if !slices.ContainsFunc(w.statuses, func(s string) bool {
			return s == "waiting for kubelet.service: activating, 12s of 2m0s"
		}) {
			t.Errorf("nobody was told what is being waited for, and how long: %q", w.statuses[:5])
		}
		notes := 0
		for _, e := range w.entries("kube1") {
			if e.Kind == string(fsm.NoteWaiting) {
				notes++
				if e.Detail != "kubelet.service: activating" {
					t.Errorf("noted %q", e.Detail)
				}
			}
		}
		if notes != 1 {
			t.Errorf("one reason was noted %d times", notes)
		}
	})
}

func TestPostStart_NeverReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := readied(t)
		s := w.up("kube1")
		s.ready, s.reason = false, "kubelet.service: activating"
		began := time.Now()
		err := w.lifecycle("kube1", "a1").PostStart(t.Context(), "kube1")
		e := wantError(t, err, phases.CauseReadyTimeout, 79)
		if waited := time.Since(began); waited != phases.DefaultReadyTimeout {
			t.Errorf("waited %s, want %s", waited, phases.DefaultReadyTimeout)
		}
		if !strings.Contains(e.Error(), "kubelet.service: activating") || e.Budget != phases.DefaultReadyTimeout {
			t.Errorf("error %q does not name the last reason", e)
		}
		failed := w.last("kube1", journal.KindTransition)
		if failed.From != string(fsm.Starting) || failed.Attrs["budget"] != "2m0s" || !strings.Contains(failed.Error, "kubelet.service: activating") {
			t.Errorf("recorded %+v", failed)
		}
	})
}

func TestPostStart_EndOfTheWaitHidesNoReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := readied(t)
		s := w.up("kube1")
		s.ready, s.reason = false, "kubelet.service: activating"
		began := time.Now()
		w.hook["Running kube1"] = func() { // the last question is cut off by the end of the wait
			if time.Since(began) > phases.DefaultReadyTimeout-2*time.Second {
				time.Sleep(5 * time.Second)
				w.mu.Lock()
				w.fail["Running kube1"] = context.DeadlineExceeded
				w.mu.Unlock()
			}
		}
		err := w.lifecycle("kube1", "a1").PostStart(t.Context(), "kube1")
		wantError(t, err, phases.CauseReadyTimeout, 79)
		if !strings.Contains(err.Error(), "kubelet.service: activating") {
			t.Errorf("error %q does not name the last reason", err)
		}
	})
}

func TestPostStart_EngineErrorsPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := readied(t)
		w.up("kube1")
		w.fail["Running kube1"], w.fail["Died kube1"] = errEngineGone, errEngineGone
		go func() {
			time.Sleep(20 * time.Second)
			w.mu.Lock()
			clear(w.fail)
			w.mu.Unlock()
		}()
		if err := w.lifecycle("kube1", "a1").PostStart(t.Context(), "kube1"); err != nil {
			t.Fatalf("an engine that was away for 20 s failed the start: %v", err)
		}

		w = readied(t)
		w.fail["Running kube1"] = errEngineGone
		err := w.lifecycle("kube1", "a1").PostStart(t.Context(), "kube1")
		wantError(t, err, phases.CauseReadyTimeout, 79)
		if !strings.Contains(err.Error(), errEngineGone.text) {
			t.Errorf("error %q does not name the last reason", err)
		}
	})
}

func TestPostStart_StackDiesInTheWait(t *testing.T) {
	for _, tc := range []struct {
		name  string
		die   func(*world)
		cause phases.Cause
		text  string
	}{
		{"container, with an event", func(w *world) { w.die("kube1") }, phases.CauseStackDied, "container exited with 3"},
		{"container, its event lost", func(w *world) {
			w.mu.Lock()
			w.stacks["kube1"].alive, w.stacks["kube1"].exited = false, true
			w.mu.Unlock()
		}, phases.CauseStackDied, "container exited with 3"},
		{"main process of the unit", func(w *world) {
			w.unit("kube1", func(u *phases.UnitStatus) { u.MainExited, u.MainCode, u.MainStatus = true, 1, 125 })
		}, phases.CauseRunDied, "exit code 125, and the stack lives on"},
		{"main process of the unit, and with it the stack", func(w *world) {
			w.mu.Lock()
			w.stacks["kube1"] = nil
			w.mu.Unlock()
			w.unit("kube1", func(u *phases.UnitStatus) { u.MainExited, u.MainCode, u.MainStatus = true, 1, 125 })
		}, phases.CauseStackDied, "exit code 125"},
		{"main process of the unit, by a signal", func(w *world) {
			w.unit("kube1", func(u *phases.UnitStatus) { u.MainExited, u.MainCode, u.MainStatus = true, 2, 9 })
		}, phases.CauseRunDied, "signal 9"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := readied(t)
				w.up("kube1").ready = false
				var died time.Time
				go func() {
					time.Sleep(7500 * time.Millisecond)
					died = time.Now()
					tc.die(w)
				}()
				err := w.lifecycle("kube1", "a1").PostStart(t.Context(), "kube1")
				wantError(t, err, tc.cause, 81)
				if late := time.Since(died); late > phases.DefaultPollInterval {
					t.Errorf("noticed %s after the stack had died", late)
				}
				if !strings.Contains(err.Error(), tc.text) {
					t.Errorf("error %q, want %q", err, tc.text)
				}
				wantState(t, w, "kube1", fsm.Failed)
			})
		})
	}
}

func TestPostStart_PeerCameUp(t *testing.T) {
	w := readied(t)
	w.up("kube1")
	w.up("kube2")
	err := w.lifecycle("kube1", "a1").PostStart(t.Context(), "kube1")
	wantError(t, err, phases.CausePeerAlive, 76)
	if !strings.Contains(err.Error(), "two stacks") {
		t.Errorf("error %q is not loud enough", err)
	}
	wantState(t, w, "kube1", fsm.Failed)
}

func TestPostStart_AfterStart(t *testing.T) {
	type setup struct {
		after func(w *world, ctx context.Context) error
		cause phases.Cause
		exit  int
		text  string
		took  time.Duration
	}
	for name, tc := range map[string]setup{
		"fails": {func(*world, context.Context) error { return errors.New("nvidia-smi: exit 9") }, phases.CauseAfterStart, 80, "nvidia-smi: exit 9", 0},
		"hangs and heeds its context": {func(_ *world, ctx context.Context) error { <-ctx.Done(); return fmt.Errorf("killed: %w", ctx.Err()) },
			phases.CauseAfterStart, 80, "killed", phases.DefaultAfterStartTimeout},
		"hangs and does not": {func(w *world, _ context.Context) error { time.Sleep(time.Hour); return nil },
			phases.CauseAfterStart, 80, "did not end in time", phases.DefaultAfterStartTimeout + 300*time.Millisecond},
		"panics": {func(*world, context.Context) error { panic("index out of range") }, phases.CauseBug, 70, "index out of range", 0},
		"stack dies under it": {func(w *world, ctx context.Context) error {
			time.Sleep(5 * time.Second)
			w.die("kube1")
			<-ctx.Done()
			return ctx.Err()
		}, phases.CauseStackDied, 81, "the stack died", 5 * time.Second},
		"fails because the stack died": {func(w *world, ctx context.Context) error {
			w.mu.Lock()
			w.stacks["kube1"].exited = true
			w.mu.Unlock()
			return errors.New("exec: container is not running")
		}, phases.CauseStackDied, 81, "the stack died", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := readied(t)
				w.up("kube1")
				l := w.lifecycle("kube1", "a1")
				l.AfterStart = func(ctx context.Context, _ string) error { return tc.after(w, ctx) }
				began := time.Now()
				err := l.PostStart(t.Context(), "kube1")
				wantError(t, err, tc.cause, tc.exit)
				if took := time.Since(began); took != tc.took {
					t.Errorf("took %s, want %s", took, tc.took)
				}
				if !strings.Contains(err.Error(), tc.text) {
					t.Errorf("error %q, want %q", err, tc.text)
				}
				if e := w.last("kube1", journal.KindTransition); e.From != string(fsm.Running) || e.To != string(fsm.Failed) {
					t.Errorf("recorded %s → %s", e.From, e.To)
				}
				time.Sleep(2 * time.Hour) // let what does not heed its context end
			})
		})
	}
}

func TestPostStart_AfterStartHasABudgetOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := readied(t)
		s := w.up("kube1")
		s.ready = false
		go func() {
			time.Sleep(phases.DefaultReadyTimeout - 1500*time.Millisecond) // between two polls
			w.mu.Lock()
			s.ready = true
			w.mu.Unlock()
		}()
		l := w.lifecycle("kube1", "a1")
		l.AfterStart = func(ctx context.Context, _ string) error {
			time.Sleep(phases.DefaultAfterStartTimeout - time.Second)
			return ctx.Err()
		}
		if err := l.PostStart(t.Context(), "kube1"); err != nil {
			t.Errorf("after-start was limited to what the wait had left over: %v", err)
		}
	})
}

func TestPostStart_Interrupted(t *testing.T) {
	for _, job := range []string{"start", "stop"} {
		synctest.Test(t, func(t *testing.T) {
			w := readied(t)
			w.up("kube1").ready = false
			w.unit("kube1", func(u *phases.UnitStatus) { u.JobID, u.JobType = 5, job })
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(10*time.Second, func() { cancel(phases.Interrupted{Signal: 15, Name: "SIGTERM"}) })
			began := time.Now()
			err := w.lifecycle("kube1", "a1").PostStart(ctx, "kube1")
			wantError(t, err, phases.CauseInterrupted, 143)
			if took := time.Since(began); took > 11*time.Second {
				t.Errorf("ended %s after SIGTERM", took-10*time.Second)
			}
			want := fsm.Failed
			if job == "stop" {
				want = fsm.Starting // post-stop fires stopped
			}
			wantState(t, w, "kube1", want)
			if w.head("kube1").Open != nil {
				t.Error("the run is still open")
			}
		})
	}
}

func TestPostStart_ReasonThatNeverLastsIsNoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := readied(t)
		s := w.up("kube1")
		s.ready = false
		began := time.Now()
		w.hook["Running kube1"] = func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			s.reason = fmt.Sprint("kubelet: not ready for another ", 30*time.Second-time.Since(began))
			s.ready = time.Since(began) >= 30*time.Second
		}
		if err := w.lifecycle("kube1", "a1").PostStart(t.Context(), "kube1"); err != nil {
			t.Fatal(err)
		}
		var noted []string
		for _, e := range w.entries("kube1") {
			if e.Kind == string(fsm.NoteWaiting) {
				noted = append(noted, e.Detail)
			}
		}
		if want := []string{"kubelet: not ready for another 20s", "kubelet: not ready for another 10s"}; !slices.Equal(noted, want) {
			t.Errorf("noted %q, want %q", noted, want)
		}
	})
}

func TestPostStart_FlappingReasonsDoNotFillTheRing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := readied(t)
		s := w.up("kube1")
		s.ready = false
		go func() {
			for i := range 200 {
				time.Sleep(3 * time.Second)
				w.mu.Lock()
				s.reason = fmt.Sprint("reason ", i)
				w.mu.Unlock()
			}
		}()
		l := w.lifecycle("kube1", "a1")
		l.ReadyTimeout = 9 * time.Minute
		wantError(t, l.PostStart(t.Context(), "kube1"), phases.CauseReadyTimeout, 79)
		notes := 0
		for _, e := range w.entries("kube1") {
			if e.Kind == string(fsm.NoteWaiting) {
				notes++
			}
		}
		if notes != 50 {
			t.Errorf("%d notes of reasons, want at most 50", notes)
		}
		time.Sleep(2 * time.Minute)
	})
}

func TestRun_TakenOver(t *testing.T) {
	// post-stop could not wait for the slot's lock and went on: what the hook would have
	// written is not true any more.
	w := readied(t)
	w.up("kube1")
	l := w.lifecycle("kube1", "a1")
	l.AfterStart = func(ctx context.Context, _ string) error {
		other := w.lifecycle("kube1", "a1")
		other.Locks = heldSlot{}
		return other.PostStop(context.WithoutCancel(ctx), "kube1", phases.StopInfo{ServiceResult: "timeout"})
	}
	err := l.PostStart(t.Context(), "kube1")
	if e := wantError(t, err, phases.CauseTakenOver, 75); e == nil {
		t.Fatal("no error")
	}
	wantState(t, w, "kube1", fsm.Failed)
	if e := w.last("kube1", journal.KindTransition); e.Phase != phases.PhasePostStop {
		t.Errorf("the last word is %s's", e.Phase)
	}
}

// heldSlot has the slot's lock in other hands; the host's is free.
type heldSlot struct{ heldLocks }

func (heldSlot) Slot(context.Context, string, string) (func(), error) {
	return nil, lockedError(context.DeadlineExceeded)
}
func (heldSlot) Host(context.Context, string) (func(), error) { return func() {}, nil }
