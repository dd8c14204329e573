package phases_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/node-lifecycle/node-lifecycle/fsm"
	"github.com/node-lifecycle/node-lifecycle/journal"
	"github.com/node-lifecycle/node-lifecycle/phases"
)

// wired is a world in which kube1 is up in activation a1.
func wired(t *testing.T) *world {
	w := newWorld(t)
	w.start("kube1", "a1")
	return w
}

func TestPostStop(t *testing.T) {
	asked := func(w *world) { w.unit("kube1", func(u *phases.UnitStatus) { u.JobID, u.JobType = 4, "stop" }) }
	for _, tc := range []struct {
		name  string
		world func(*testing.T) *world
		prep  func(*world)
		info  phases.StopInfo
		end   fsm.State
		last  string // event or note
		cause phases.Cause
		text  string
	}{
		{"the stack died", wired, func(w *world) { w.die("kube1") }, phases.StopInfo{ServiceResult: "exit-code", ExitCode: "exited", ExitStatus: "3"},
			fsm.Failed, "lost", phases.CauseStackDied, "the main process exited with 3"},
		{"the stack ended with 0, unasked", wired, func(w *world) { w.die("kube1") }, phases.StopInfo{ServiceResult: "success", ExitCode: "exited", ExitStatus: "0"},
			fsm.Failed, "lost", phases.CauseStackDied, ""},
		{"run was killed, the container lives", wired, nil, phases.StopInfo{ServiceResult: "signal", ExitCode: "killed", ExitStatus: "KILL"},
			fsm.Failed, "lost", phases.CauseRunDied, "killed by KILL; stopped by its signal; the stack had lived on"},
		{"systemctl stop", wired, asked, phases.StopInfo{ServiceResult: "success"}, fsm.Stopped, "stopped", "", ""},
		{"systemctl restart", wired, func(w *world) {
			w.unit("kube1", func(u *phases.UnitStatus) { u.JobID, u.JobType = 4, "restart" })
		}, phases.StopInfo{ServiceResult: "success"}, fsm.Stopped, "stopped", "", ""},
		{"stop had run, the job is gone", wired, func(w *world) {
			if err := w.lifecycle("kube1", "a1").Stop(w.t.Context(), "kube1"); err != nil {
				w.t.Fatal(err)
			}
		}, phases.StopInfo{ServiceResult: "success"}, fsm.Stopped, "stopped", "", ""},
		{"a stop of an earlier activation is none of this one", wired, func(w *world) {
			w.mutate(func(tx *journal.Tx) error {
				return tx.SetHead("kube1", func(h *journal.Head) { h.StopRequested = "a0" })
			})
			w.die("kube1")
		}, phases.StopInfo{ServiceResult: "success"}, fsm.Failed, "lost", phases.CauseStackDied, ""},
		{"post-start was killed", readied, func(w *world) {
			w.up("kube1")
			w.mutate(func(tx *journal.Tx) error {
				return tx.SetHead("kube1", func(h *journal.Head) {
					h.Open = &journal.Open{Run: "r", Phase: "post-start", Step: "wait-ready", Boot: "boot1"}
				})
			})
		}, phases.StopInfo{ServiceResult: "signal"}, fsm.Failed, "failed", phases.CauseInterrupted, "post-start died in step wait-ready"},
		{"post-start was killed, and run was told to end by systemd", readied, func(w *world) {
			w.up("kube1")
			w.mutate(func(tx *journal.Tx) error {
				return tx.SetHead("kube1", func(h *journal.Head) {
					h.Open = &journal.Open{Run: "r", Phase: "post-start", Step: "wait-ready", Boot: "boot1"}
					h.StopRequested = "a1"
				})
			})
		}, phases.StopInfo{ServiceResult: "signal"}, fsm.Failed, "failed", phases.CauseInterrupted, "post-start died in step wait-ready"},
		{"post-start was killed by a stop that lasted too long", readied, func(w *world) {
			asked(w)
			w.mutate(func(tx *journal.Tx) error {
				return tx.SetHead("kube1", func(h *journal.Head) {
					h.Open = &journal.Open{Run: "r", Phase: "post-start", Step: "wait-ready", Boot: "boot1"}
				})
			})
		}, phases.StopInfo{ServiceResult: "timeout"}, fsm.Stopped, "stopped", "", ""},
		{"stop between the phases", readied, asked, phases.StopInfo{ServiceResult: "success"}, fsm.Stopped, "stopped", "", ""},
		{"pre-start had failed", func(t *testing.T) *world {
			w := newWorld(t)
			w.fail["Regenerate kube1"] = errors.New("no")
			if err := w.lifecycle("kube1", "a1").PreStart(t.Context(), "kube1"); err == nil {
				t.Fatal("no error")
			}
			return w
		}, nil, phases.StopInfo{ServiceResult: "exit-code"}, fsm.Failed, "cleaned", "", ""},
		{"nothing had run", newWorld, nil, phases.StopInfo{ServiceResult: "exit-code"}, "", "cleaned", "", ""},
		{"after a reboot", wired, func(w *world) { w.boot = "boot2" }, phases.StopInfo{}, fsm.Stopped, "rebooted", phases.CauseReboot, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := tc.world(t)
			if tc.prep != nil {
				tc.prep(w)
			}
			if err := w.lifecycle("kube1", "a1").PostStop(t.Context(), "kube1", tc.info); err != nil {
				t.Fatal(err)
			}
			wantState(t, w, "kube1", tc.end)
			story := w.story("kube1")
			if got := story[len(story)-2:]; !slices.Equal(got, []string{tc.last, "ended"}) {
				t.Errorf("ended with %v, want %s", got, tc.last)
			}
			e := w.entries("kube1")[len(story)-2]
			if e.Cause != string(tc.cause) || !strings.Contains(e.Detail, tc.text) {
				t.Errorf("recorded %s: %q, want %s: %q", e.Cause, e.Detail, tc.cause, tc.text)
			}
			if (tc.last == "lost" || tc.last == "failed") != (e.EvidenceSize > 0) {
				t.Errorf("%s has %d bytes of evidence", tc.last, e.EvidenceSize)
			}
			if c := w.claim(); c.Holder != "" {
				t.Errorf("the claim is still %s's", c.Holder)
			}
			if w.stack("kube1") != nil {
				t.Error("something is left of the stack")
			}
			if h := w.head("kube1"); h.Open != nil {
				t.Error("the run is still open")
			}
		})
	}
}

func TestPostStop_SaysWhoDied(t *testing.T) {
	w := newWorld(t)
	w.mutate(func(tx *journal.Tx) error {
		return tx.SetHead("kube1", func(h *journal.Head) {
			h.Open = &journal.Open{Run: "r", Phase: "pre-start", Step: "precheck", Boot: "boot1"}
		})
	})
	if err := w.lifecycle("kube1", "a1").PostStop(t.Context(), "kube1", phases.StopInfo{ServiceResult: "signal"}); err != nil {
		t.Fatal(err)
	}
	if e := w.last("kube1", string(fsm.NoteUndone)); e.Cause != string(phases.CauseInterrupted) || !strings.Contains(e.Detail, "pre-start died in step precheck") {
		t.Errorf("recorded %s: %q", e.Cause, e.Detail)
	}
	if got := w.last("kube1", string(fsm.NoteCleaned)); got.Detail != "" {
		t.Errorf("cleaned: %q", got.Detail)
	}
}

func TestPostStop_EvidenceBeforeRemoval(t *testing.T) {
	w := wired(t)
	w.die("kube1")
	if err := w.lifecycle("kube1", "a1").PostStop(t.Context(), "kube1", phases.StopInfo{}); err != nil {
		t.Fatal(err)
	}
	if e, r := slices.Index(w.calls, "Evidence kube1"), slices.Index(w.calls, "Remove kube1"); e < 0 || r < e {
		t.Errorf("evidence at %d, removal at %d of %v", e, r, w.calls)
	}
}

func TestPostStop_EvidenceMissing(t *testing.T) {
	w := wired(t)
	w.die("kube1")
	w.fail["Evidence kube1"] = errEngineGone
	if err := w.lifecycle("kube1", "a1").PostStop(t.Context(), "kube1", phases.StopInfo{}); err != nil {
		t.Fatal(err)
	}
	e := w.last("kube1", journal.KindTransition)
	var evidence []byte
	err := w.journal().View(t.Context(), func(v *journal.View) (err error) {
		evidence, err = v.Evidence("kube1", e.Seq)
		return err
	})
	if err != nil || !strings.Contains(string(evidence), errEngineGone.text) {
		t.Errorf("evidence %q, %v: want why it is missing", evidence, err)
	}
}

func TestPostStop_Unproven(t *testing.T) {
	w := wired(t)
	w.fail["Stop kube1"] = errors.New("container still running after KILL")
	err := w.lifecycle("kube1", "a1").PostStop(t.Context(), "kube1", phases.StopInfo{ServiceResult: "timeout"})
	wantError(t, err, phases.CauseUnproven, 69)
	wantState(t, w, "kube1", fsm.Wired)
	if c := w.claim(); c.Holder != "kube1" {
		t.Error("the claim was given up although the stack may live")
	}
	if story := w.story("kube1"); !slices.Contains(story, "unproven") {
		t.Errorf("history %v lacks unproven", story)
	}
	// The peer must not start now.
	w.activate("kube1", "a1", "failed", "failed")
	wantError(t, w.lifecycle("kube2", "p").PreStart(t.Context(), "kube2"), phases.CausePeerAlive, 76)
}

func TestPostStop_ReleasesItsOwnClaimOnly(t *testing.T) {
	w := newWorld(t)
	w.start("kube2", "p1")
	if err := w.lifecycle("kube1", "a1").PostStop(t.Context(), "kube1", phases.StopInfo{ServiceResult: "exit-code"}); err != nil {
		t.Fatal(err)
	}
	if c := w.claim(); c.Holder != "kube2" {
		t.Errorf("kube1's post-stop left the claim with %q", c.Holder)
	}
}

func TestPostStop_Skipped(t *testing.T) {
	w := newWorld(t)
	w.start("kube2", "p1")
	l := w.lifecycle("kube1", "a1")
	wantError(t, l.PeerCheck(t.Context(), "kube1"), phases.CausePeerAlive, 76)
	if err := l.PostStop(t.Context(), "kube1", phases.StopInfo{ServiceResult: "exec-condition"}); err != nil {
		t.Fatal(err)
	}
	if story := w.story("kube1"); !slices.Equal(story, []string{"refused"}) {
		t.Errorf("history %v, want one refusal", story)
	}
	if e := w.last("kube1", "refused"); !strings.Contains(e.Error, "kube2 is alive") {
		t.Errorf("refused because of %q", e.Error)
	}
	if h := w.head("kube1"); h.Attempts != 0 {
		t.Errorf("a living peer counts as %d failed attempts", h.Attempts)
	}

	// A condition of somebody else's: peer-check has noted nothing.
	if err := w.lifecycle("kube1", "a2").PostStop(t.Context(), "kube1", phases.StopInfo{ServiceResult: "exec-condition"}); err != nil {
		t.Fatal(err)
	}
	if story := w.story("kube1"); len(story) != 2 {
		t.Errorf("history %v, want a second refusal", story)
	}
}

func TestPostStop_WithoutAJournal(t *testing.T) {
	w := wired(t)
	l := w.lifecycle("kube1", "a1")
	l.Journal = journal.New("/dev/null/state", journal.Options{Preallocate: -1})
	if err := l.PostStop(t.Context(), "kube1", phases.StopInfo{}); err != nil {
		t.Fatalf("a stop failed because of the journal: %v", err)
	}
	if w.stack("kube1") != nil {
		t.Error("the stack is still there")
	}
	if len(w.unrecorded) != 1 || w.unrecorded[0].Slot != "kube1" || w.unrecorded[0].Kind != "cleaned" {
		t.Errorf("unrecorded entries %+v, want one", w.unrecorded)
	}

	w.up("kube1")
	w.fail["Stop kube1"] = errors.New("still running")
	wantError(t, l.PostStop(t.Context(), "kube1", phases.StopInfo{}), phases.CauseUnproven, 69)
}
