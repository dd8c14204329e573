package phases_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-lifecycle/node-lifecycle/fsm"
	"github.com/node-lifecycle/node-lifecycle/journal"
	"github.com/node-lifecycle/node-lifecycle/phases"
)

func TestResumeTable_HasNoHoles(t *testing.T) {
	type cell struct {
		state fsm.State
		cut   phases.Cut
		ours  bool
	}
	rules := map[cell]int{}
	for _, r := range phases.ResumeTable() {
		rules[cell{r.State, r.Cut, r.UnitOurs}]++
		if r.Why == "" {
			t.Errorf("%s, %s: no reason", r.State, r.Cut)
		}
	}
	want := 0
	for _, state := range fsm.States() {
		for _, cut := range []phases.Cut{phases.CutInStep, phases.CutBetween, phases.CutByReboot} {
			for _, ours := range []bool{true, false} {
				if cut == phases.CutByReboot && ours {
					continue // no activation outlives its boot
				}
				want++
				if n := rules[cell{state, cut, ours}]; n != 1 {
					t.Errorf("%s, cut off %s, unit ours %v: %d rules, want one", state, cut, ours, n)
				}
			}
		}
	}
	if len(rules) != want {
		t.Errorf("%d rules, want %d", len(rules), want)
	}
	var text bytes.Buffer
	if err := phases.WriteResumeTable(&text); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(text.String(), "\n"); lines != want+2 {
		t.Errorf("printed %d lines for %d cells", lines, want)
	}
}

// cutOff is a slot in the state, with what the cut leaves in the head.
func cutOff(t *testing.T, state fsm.State, cut phases.Cut, unitOurs bool) *world {
	w := newWorld(t)
	w.mutate(func(tx *journal.Tx) error {
		if state != fsm.Stopped {
			e := journal.Entry{
				ID: "x-1", Kind: journal.KindTransition, Event: "test", To: string(state),
				Time: time.Now(), Boot: "boot1", Activation: "a1", Run: "old",
			}
			if _, err := tx.Append("kube1", e, nil); err != nil {
				return err
			}
			if err := tx.SetClaim("kube1+kube2", journal.Claim{Holder: "kube1", Last: "kube1", Epoch: 1, Boot: "boot1", Activation: "a1"}); err != nil {
				return err
			}
		}
		return tx.SetHead("kube1", func(h *journal.Head) {
			if cut != phases.CutBetween {
				h.Open = &journal.Open{Run: "old", Phase: "post-start", Step: "wait-ready", PID: 55, Boot: "boot1", Activation: "a1"}
			}
		})
	})
	w.dead[55] = true
	if cut == phases.CutByReboot {
		w.boot = "boot2"
	}
	if unitOurs {
		w.activate("kube1", "a1", "active", "running")
	}
	return w
}

func TestResume_EveryCell(t *testing.T) {
	for _, rule := range phases.ResumeTable() {
		for _, alive := range []bool{true, false} {
			name := string(rule.State) + " cut off " + string(rule.Cut)
			if rule.UnitOurs {
				name += ", unit ours"
			}
			if alive {
				name += ", stack alive"
			}
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := cutOff(t, rule.State, rule.Cut, rule.UnitOurs)
					if alive {
						w.up("kube1")
					}
					did, err := w.lifecycle("kube1", "").Resume(t.Context(), "kube1")
					if err != nil {
						t.Fatal(err)
					}
					state := rule.State
					if state == fsm.Stopped {
						state = ""
					}
					left := !rule.UnitOurs && (alive || rule.State != fsm.Stopped) // its stack, its claim
					switch {
					case (rule.Do == phases.ResumeClose || rule.Do == phases.ResumeClear) && left:
						want(t, did, phases.ResumeClear)
						wantState(t, w, "kube1", state)
						if s := w.stack("kube1"); s != nil {
							t.Error("a survivor is left")
						}
						if c := w.claim(); c.Holder != "" {
							t.Error("the claim is kept")
						}
					case rule.Do == phases.ResumeContinue && alive:
						want(t, did, phases.ResumeContinue)
						wantState(t, w, "kube1", fsm.Wired)
					case rule.Do == phases.ResumeContinue, rule.Do == phases.ResumeSettle:
						want(t, did, phases.ResumeSettle)
						wantState(t, w, "kube1", settled(rule))
						if s := w.stack("kube1"); s != nil {
							t.Error("a survivor is left")
						}
						if c := w.claim(); c.Holder != "" {
							t.Error("the claim is kept")
						}
					case rule.Do == phases.ResumeClose:
						want(t, did, phases.ResumeClose)
						wantState(t, w, "kube1", state)
					default:
						want(t, did, phases.ResumeNothing)
						wantState(t, w, "kube1", state)
					}
					if rule.Do != phases.ResumeNothing && w.head("kube1").Open != nil {
						t.Error("the run is still open")
					}
					// Twice is the same as once.
					before := len(w.entries("kube1"))
					if _, err := w.lifecycle("kube1", "").Resume(t.Context(), "kube1"); err != nil {
						t.Fatal(err)
					}
					if rule.Do != phases.ResumeNothing && len(w.entries("kube1")) != before {
						t.Errorf("resumed twice: %v", w.story("kube1"))
					}
				})
			})
		}
	}
}

// A stack of ours that is alive although the books know nothing of it is ended. One that
// somebody else's command has started is, beside books that are whole, left alone.
func TestResume_AfterALostJournal(t *testing.T) {
	for _, tc := range []struct {
		name          string
		unknown, ours bool
		ended         bool
	}{
		{"the claim is unknown", true, true, true},
		{"the journal was deleted", false, true, true},
		{"the claim is unknown, and the stack somebody else's", true, false, true},
		{"a stack that never was a slot's", false, false, false},
	} {
		w := newWorld(t)
		w.claimOf(func(c *journal.Claim) { c.Unknown = tc.unknown })
		w.up("kube1")
		l := w.lifecycle("kube1", "")
		if !tc.ours {
			l.Controller = notOurs{w}
		}
		did, err := l.Resume(t.Context(), "kube1")
		if err != nil {
			t.Fatal(err)
		}
		if left := w.stack("kube1") != nil; left == tc.ended || (did == phases.ResumeClear) != tc.ended {
			t.Errorf("%s: resume did %q, the stack is left: %v", tc.name, did, left)
		}
	}
}

// notOurs is a world in which other people's commands start the stacks.
type notOurs struct{ *world }

func (notOurs) Owns(string) bool { return false }

// Beside an engine that does not answer there is nothing to say of a slot that never ran.
func TestResume_NeverRanAndTheEngineIsAway(t *testing.T) {
	w := newWorld(t)
	w.fail["Alive kube1"] = errEngineGone
	if did, err := w.lifecycle("kube1", "").Resume(t.Context(), "kube1"); did != phases.ResumeNothing || err != nil {
		t.Errorf("%q, %v", did, err)
	}
}

// What a post-stop could not end, resume ends, but never beside a unit that is at work.
func TestResume_LeavesTheUnitAlone(t *testing.T) {
	for _, state := range []string{"active", "activating", "deactivating"} {
		w := cutOff(t, fsm.Failed, phases.CutBetween, false)
		w.up("kube1")
		w.activate("kube1", "a9", state, "running")
		did, err := w.lifecycle("kube1", "").Resume(t.Context(), "kube1")
		if err != nil {
			t.Fatal(err)
		}
		want(t, did, phases.ResumeNothing)
		if s := w.stack("kube1"); s == nil || !s.alive {
			t.Errorf("resume has ended a stack whose unit is %s", state)
		}
	}
}

func want(t *testing.T, got, want phases.Resumption) {
	t.Helper()
	if got != want {
		t.Errorf("resume did %q, want %q", got, want)
	}
}

// settled is where settling leads to.
func settled(rule phases.ResumeRule) fsm.State {
	if rule.Cut == phases.CutByReboot {
		return fsm.Stopped
	}
	return fsm.Failed
}

func TestResume_ContinuesWithTheRightStep(t *testing.T) {
	w := cutOff(t, fsm.Running, phases.CutInStep, true)
	w.up("kube1")
	if _, err := w.lifecycle("kube1", "").Resume(t.Context(), "kube1"); err != nil {
		t.Fatal(err)
	}
	story := w.story("kube1")
	if want := []string{"test", "resumed", "intent after-start", "wired", "ended"}; !slices.Equal(story, want) {
		t.Errorf("history %v, want %v", story, want)
	}
	if e := w.last("kube1", journal.KindTransition); e.Activation != "a1" || e.Phase != phases.PhaseResume {
		t.Errorf("wired in activation %q by %s", e.Activation, e.Phase)
	}
	if n := count(w.calls, "AfterStart kube1"); n != 1 {
		t.Errorf("after-start ran %d times", n)
	}
}

func count(list []string, s string) (n int) {
	for _, v := range list {
		if v == s {
			n++
		}
	}
	return n
}

func TestResume_LeavesARunningRunAlone(t *testing.T) {
	w := cutOff(t, fsm.Starting, phases.CutInStep, true)
	delete(w.dead, 55)
	if did, err := w.lifecycle("kube1", "").Resume(t.Context(), "kube1"); err != nil || did != phases.ResumeNothing {
		t.Errorf("%q, %v: the run's process lives", did, err)
	}
	w.dead[55] = true
	l := w.lifecycle("kube1", "")
	l.Locks = heldSlot{}
	if did, err := l.Resume(t.Context(), "kube1"); err != nil || did != phases.ResumeNothing {
		t.Errorf("%q, %v: the slot's lock is held", did, err)
	}
	if story := w.story("kube1"); !slices.Equal(story, []string{"test"}) {
		t.Errorf("history %v", story)
	}
}

// Without systemd nothing says that the unit has ended: what is up stays up, and what can
// be taken up is.
func TestResume_WithoutSystemd(t *testing.T) {
	for _, tc := range []struct {
		state fsm.State
		cut   phases.Cut
		did   phases.Resumption
		end   fsm.State
	}{
		{fsm.Wired, phases.CutBetween, phases.ResumeNothing, fsm.Wired},
		{fsm.Starting, phases.CutInStep, phases.ResumeContinue, fsm.Wired},
		{fsm.Wired, phases.CutByReboot, phases.ResumeSettle, fsm.Stopped},
	} {
		w := cutOff(t, tc.state, tc.cut, false)
		w.up("kube1")
		l := w.lifecycle("kube1", "")
		l.Supervisor = nil
		if did, err := l.Resume(t.Context(), "kube1"); did != tc.did || err != nil {
			t.Errorf("%s, cut off %s: %q, %v; want %q", tc.state, tc.cut, did, err, tc.did)
		}
		wantState(t, w, "kube1", tc.end)
	}
}

func TestResume_TwoSlotsApart(t *testing.T) {
	w := cutOff(t, fsm.Running, phases.CutInStep, true)
	w.up("kube1")
	w.mutate(func(tx *journal.Tx) error {
		e := journal.Entry{ID: "y-1", Kind: journal.KindTransition, Event: "test", To: "PreChecked", Time: time.Now(), Boot: "boot1", Activation: "p1"}
		if _, err := tx.Append("kube2", e, nil); err != nil {
			return err
		}
		return tx.SetHead("kube2", func(h *journal.Head) {
			h.Open = &journal.Open{Run: "old2", Phase: "pre-start", Step: "regenerate", PID: 55, Boot: "boot1", Activation: "p1"}
		})
	})
	for _, slot := range []string{"kube1", "kube2"} {
		if _, err := w.lifecycle(slot, "").Resume(t.Context(), slot); err != nil {
			t.Fatal(err)
		}
	}
	wantState(t, w, "kube1", fsm.Wired)
	wantState(t, w, "kube2", fsm.Failed)
	if e := w.last("kube2", journal.KindTransition); !strings.Contains(e.Detail, "pre-start died in step regenerate") {
		t.Errorf("kube2's failure says %q", e.Detail)
	}
	if c := w.claim(); c.Holder != "kube1" {
		t.Errorf("settling kube2 took the claim of kube1: %+v", c)
	}
}

func TestResume_Cannot(t *testing.T) {
	for name, tc := range map[string]struct {
		world func(*world)
		cause phases.Cause
	}{
		"systemd away":           {func(w *world) { w.fail["Unit kube1"] = errEngineGone }, phases.CauseEngine},
		"engine away":            {func(w *world) { w.fail["WaitEngine"] = errEngineGone }, phases.CauseEngine},
		"the survivor will stay": {func(w *world) { w.up("kube1"); w.fail["Stop kube1"] = errors.New("stuck") }, phases.CauseUnproven},
	} {
		t.Run(name, func(t *testing.T) {
			w := cutOff(t, fsm.Starting, phases.CutInStep, false)
			tc.world(w)
			_, err := w.lifecycle("kube1", "").Resume(t.Context(), "kube1")
			wantError(t, err, tc.cause, 69)
			wantState(t, w, "kube1", fsm.Starting)
			if c := w.claim(); c.Holder != "kube1" {
				t.Error("the claim was given up")
			}
		})
	}
	if did, err := newWorld(t).lifecycle("kube1", "").Resume(t.Context(), "kube1"); did != phases.ResumeNothing || err != nil {
		t.Errorf("a slot that never ran: %q, %v", did, err)
	}
}
