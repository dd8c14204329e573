package phases_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/node-lifecycle/node-lifecycle/fsm"
	"github.com/node-lifecycle/node-lifecycle/journal"
	"github.com/node-lifecycle/node-lifecycle/phases"
)

func TestRunStack(t *testing.T) {
	stopJob := func(w *world) { w.unit("kube1", func(u *phases.UnitStatus) { u.JobID, u.JobType = 4, "stop" }) }
	for _, tc := range []struct {
		name string
		end  func(w *world, cancel context.CancelCauseFunc) // how the stack ends
		code int
		want int
	}{
		{"dies with a code", func(w *world, _ context.CancelCauseFunc) { w.die("kube1") }, 3, 3},
		{"powers itself off with 0", func(w *world, _ context.CancelCauseFunc) { w.die("kube1") }, 0, 81},
		{"SIGTERM", func(_ *world, cancel context.CancelCauseFunc) {
			cancel(phases.Interrupted{Signal: 15, Name: "SIGTERM"})
		}, 130, 0},
		{"systemctl stop: ExecStop ended it", func(w *world, _ context.CancelCauseFunc) {
			if err := w.lifecycle("kube1", "a1").Stop(w.t.Context(), "kube1"); err != nil {
				w.t.Error(err)
			}
		}, 130, 0},
		{"a stop job without ExecStop", func(w *world, _ context.CancelCauseFunc) { stopJob(w); w.die("kube1") }, 143, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := readied(t)
			w.exitCode = tc.code
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			w.hook["Attend kube1"] = func() { go tc.end(w, cancel) }
			var out bytes.Buffer
			code, err := w.lifecycle("kube1", "a1").RunStack(ctx, "kube1", &out)
			if err != nil || code != tc.want {
				t.Errorf("exit code %d, %v; want %d", code, err, tc.want)
			}
			if out.String() != "output of kube1-1\n" {
				t.Errorf("output %q", out.String())
			}
			if e := w.last("kube1", "done"); e.Detail != "kube1-1" || e.Attrs["epoch"] != "1" {
				t.Errorf("the start is recorded as %+v", e)
			}
			if s := w.stack("kube1"); s == nil || s.alive {
				t.Error("the stack is not down, or somebody has removed it already")
			}
		})
	}
}

func TestRunStack_ChecksTheClaim(t *testing.T) {
	mine := journal.Claim{Holder: "kube1", Last: "kube1", Epoch: 3, Boot: "boot1", Activation: "a1"}
	for _, tc := range []struct {
		name  string
		claim func(c journal.Claim) journal.Claim
		text  string
	}{
		{"nobody's", func(c journal.Claim) journal.Claim { c.Holder = ""; return c }, "held by nobody"},
		{"the peer's", func(c journal.Claim) journal.Claim { c.Holder = "kube2"; return c }, "held by kube2"},
		{"unknown", func(c journal.Claim) journal.Claim { c.Unknown = true; return c }, "unknown"},
		{"of another boot", func(c journal.Claim) journal.Claim { c.Boot = "boot0"; return c }, "another boot"},
		{"of another activation", func(c journal.Claim) journal.Claim { c.Activation = "a0"; return c }, "another activation"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			w.mutate(func(tx *journal.Tx) error { return tx.SetClaim("kube1+kube2", tc.claim(mine)) })
			w.fail["Start kube1"] = errors.New("started without the claim")
			code, err := w.lifecycle("kube1", "a1").RunStack(t.Context(), "kube1", &bytes.Buffer{})
			wantError(t, err, phases.CauseClaim, 76)
			if code != 76 || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("exit code %d, error %q; want 76, %q", code, err, tc.text)
			}
			if slices.Contains(w.calls, "Start kube1") {
				t.Error("started without the claim")
			}
			if e := w.last("kube1", "refused"); e.Phase != "run" || e.Cause != string(phases.CauseClaim) {
				t.Errorf("recorded %+v", e)
			}
		})
	}
}

func TestRunStack_Fails(t *testing.T) {
	w := readied(t)
	w.fail["Start kube1"] = behaving{text: "no such image", misconfigured: true}
	code, err := w.lifecycle("kube1", "a1").RunStack(t.Context(), "kube1", &bytes.Buffer{})
	wantError(t, err, phases.CauseConfig, 78)
	if e := w.last("kube1", "undone"); code != 78 || e.Error != "no such image" || e.Step != "start-stack" {
		t.Errorf("exit code %d, recorded %+v", code, e)
	}

	w = readied(t)
	w.fail["Attend kube1"] = errEngineGone
	code, err = w.lifecycle("kube1", "a1").RunStack(t.Context(), "kube1", &bytes.Buffer{})
	wantError(t, err, phases.CauseEngine, 69)
	if code != 69 {
		t.Errorf("exit code %d", code)
	}

	w = readied(t)
	w.fail["Stop kube1"] = errors.New("still there")
	ctx, cancel := context.WithCancelCause(t.Context())
	w.hook["Attend kube1"] = func() { cancel(phases.Interrupted{Signal: 15, Name: "SIGTERM"}) }
	_, err = w.lifecycle("kube1", "a1").RunStack(ctx, "kube1", &bytes.Buffer{})
	wantError(t, err, phases.CauseUnproven, 69)

	w = readied(t)
	l := w.lifecycle("kube1", "a1")
	l.Locks = heldLocks{}
	_, err = l.RunStack(t.Context(), "kube1", &bytes.Buffer{})
	wantError(t, err, phases.CauseLocked, 75)

	l = &phases.Lifecycle{Controller: &host{}}
	_, err = l.RunStack(t.Context(), "kube1", &bytes.Buffer{})
	wantError(t, err, phases.CauseConfig, 78)
}

func TestStop(t *testing.T) {
	w := wired(t)
	if err := w.lifecycle("kube1", "a1").Stop(t.Context(), "kube1"); err != nil {
		t.Fatal(err)
	}
	if h := w.head("kube1"); h.StopRequested != "a1" || h.State != string(fsm.Wired) {
		t.Errorf("head %+v, want a stop asked for and no transition", h)
	}
	// systemd signals run as soon as stop is over, often before run has seen the end.
	if err := w.lifecycle("kube1", "a1").Stop(t.Context(), "kube1"); err != nil {
		t.Fatal(err)
	}
	asked := slices.DeleteFunc(w.story("kube1"), func(kind string) bool { return kind != string(fsm.NoteStopRequested) })
	if len(asked) != 1 {
		t.Errorf("a stop is noted %d times for one activation", len(asked))
	}
	w = wired(t)
	w.fail["Stop kube1"] = errors.New("still there")
	wantError(t, w.lifecycle("kube1", "a1").Stop(t.Context(), "kube1"), phases.CauseUnproven, 69)
}

func TestReset(t *testing.T) {
	w := newWorld(t)
	w.fail["Regenerate kube1"] = errors.New("no")
	for range 3 {
		_ = w.lifecycle("kube1", "a1").PreStart(t.Context(), "kube1")
	}
	if h := w.head("kube1"); h.Attempts != 3 {
		t.Fatalf("%d attempts, want 3", h.Attempts)
	}
	if err := w.lifecycle("kube1", "").Reset(t.Context(), "kube1"); err != nil {
		t.Fatal(err)
	}
	if h := w.head("kube1"); h.Attempts != 0 || h.State != string(fsm.Failed) {
		t.Errorf("head %+v, want no attempts and the state kept", h)
	}
	if !slices.Contains(w.calls, "ResetFailed kube1") {
		t.Error("systemd still counts")
	}
	w.fail["ResetFailed kube1"] = errEngineGone
	wantError(t, w.lifecycle("kube1", "").Reset(t.Context(), "kube1"), phases.CauseEngine, 69)
}

func TestAttempts(t *testing.T) {
	w := newWorld(t)
	w.start("kube1", "a1")
	success := w.head("kube1").LastSuccess
	w.die("kube1")
	if err := w.lifecycle("kube1", "a1").PostStop(t.Context(), "kube1", phases.StopInfo{}); err != nil {
		t.Fatal(err)
	}
	first := w.last("kube1", journal.KindTransition).Seq
	w.fail["Alive kube2"] = errEngineGone
	for range 2 {
		_ = w.lifecycle("kube1", "a2").PreStart(t.Context(), "kube1")
	}
	h := w.head("kube1")
	if h.Attempts != 2 || h.FirstFailure != first || h.LastSuccess != success {
		t.Errorf("attempts %d, first failure %d, last success %d; want 2, %d, %d", h.Attempts, h.FirstFailure, h.LastSuccess, first, success)
	}
	clear(w.fail)
	w.start("kube1", "a3")
	if h := w.head("kube1"); h.Attempts != 0 || h.FirstFailure != first || h.LastSuccess == success {
		t.Errorf("head %+v: a success ends the streak and keeps its first failure", h)
	}
	// An asked-for stop of a start is no failed attempt.
	w.unit("kube1", func(u *phases.UnitStatus) { u.JobID, u.JobType = 1, "stop" })
	if err := w.lifecycle("kube1", "a3").PostStop(t.Context(), "kube1", phases.StopInfo{}); err != nil {
		t.Fatal(err)
	}
	w.unit("kube1", func(u *phases.UnitStatus) { u.JobID, u.JobType = 0, "" })
	if err := w.lifecycle("kube1", "a4").PreStart(t.Context(), "kube1"); err != nil {
		t.Fatal(err)
	}
	w.unit("kube1", func(u *phases.UnitStatus) { u.JobID, u.JobType = 1, "stop" })
	if err := w.lifecycle("kube1", "a4").PostStop(t.Context(), "kube1", phases.StopInfo{}); err != nil {
		t.Fatal(err)
	}
	if h := w.head("kube1"); h.Attempts != 0 {
		t.Errorf("%d attempts after an asked-for stop", h.Attempts)
	}
}

func TestPeerCheck(t *testing.T) {
	for _, tc := range []struct {
		name  string
		world func(*world)
		cause phases.Cause
		exit  int
	}{
		{"peer down", func(*world) {}, "", 0},
		{"peer alive", func(w *world) { w.up("kube2") }, phases.CausePeerAlive, 76},
		{"engine away", func(w *world) { w.fail["WaitEngine"] = errEngineGone }, phases.CauseEngine, 69},
		{"peer unknown", func(w *world) { w.fail["Alive kube2"] = errEngineGone }, phases.CausePeerUnknown, 69},
		{"both start at boot, the peer had the pair last", func(w *world) {
			w.mutate(func(tx *journal.Tx) error {
				return tx.SetClaim("kube1+kube2", journal.Claim{Last: "kube2", Epoch: 2, Boot: "boot0"})
			})
			w.unit("kube2", func(u *phases.UnitStatus) { u.JobID, u.JobType = 2, "start" })
		}, phases.CausePeerAlive, 76},
		{"both start at boot, this slot had the pair last", func(w *world) {
			w.mutate(func(tx *journal.Tx) error {
				return tx.SetClaim("kube1+kube2", journal.Claim{Last: "kube1", Epoch: 2, Boot: "boot0"})
			})
			w.unit("kube2", func(u *phases.UnitStatus) { u.JobID, u.JobType = 2, "start" })
		}, "", 0},
		{"the peer had the pair last and is down", func(w *world) {
			w.mutate(func(tx *journal.Tx) error {
				return tx.SetClaim("kube1+kube2", journal.Claim{Last: "kube2", Epoch: 2})
			})
		}, "", 0},
		{"systemd away", func(w *world) {
			w.mutate(func(tx *journal.Tx) error {
				return tx.SetClaim("kube1+kube2", journal.Claim{Last: "kube2", Epoch: 2})
			})
			w.fail["Unit kube2"] = errors.New("no bus")
		}, phases.CausePeerUnknown, 69},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			tc.world(w)
			err := w.lifecycle("kube1", "a1").PeerCheck(t.Context(), "kube1")
			if tc.cause == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wantError(t, err, tc.cause, tc.exit)
			before := len(w.entries("kube1"))
			if before == 0 {
				t.Error("the refusal of a unit's start is not in the journal")
			}
			// Asked by hand it is a question and leaves nothing.
			wantError(t, w.lifecycle("kube1", "").PeerCheck(t.Context(), "kube1"), tc.cause, tc.exit)
			if len(w.entries("kube1")) != before {
				t.Error("a question by hand was written down")
			}
		})
	}
}

func TestWeakEvidence(t *testing.T) {
	// A Controller with three methods only: an open, living run of the peer refuses,
	// otherwise it is enough that the peer is not running.
	w := newWorld(t)
	h := &host{running: map[string]bool{}}
	l := func(slot, activation string) *phases.Lifecycle {
		l := w.lifecycle(slot, activation)
		l.Controller, l.Supervisor = h, nil
		return l
	}
	w.mutate(func(tx *journal.Tx) error {
		return tx.SetHead("kube2", func(h *journal.Head) {
			h.Open = &journal.Open{Run: "r", Phase: "pre-start", PID: 9, Boot: "boot1"}
		})
	})
	err := l("kube1", "a1").PreStart(t.Context(), "kube1")
	wantError(t, err, phases.CausePeerAlive, 76)
	if !strings.Contains(err.Error(), "pre-start of the peer kube2 is running (pid 9)") {
		t.Errorf("error %q", err)
	}
	w.dead[9] = true
	if err := l("kube1", "a1").PreStart(t.Context(), "kube1"); err != nil {
		t.Fatal(err)
	}
	for _, e := range w.entries("kube1") {
		if e.Event == string(fsm.EventPrechecked) && e.Attrs["evidence"] != "weak" {
			t.Errorf("the entry does not say that the evidence was weak: %v", e.Attrs)
		}
	}
	h.running["kube1"] = true
	if err := l("kube1", "a1").PostStart(t.Context(), "kube1"); err != nil {
		t.Fatal(err)
	}
	wantState(t, w, "kube1", fsm.Wired)
	if d := time.Since(w.head("kube1").Since); d > time.Minute {
		t.Errorf("since %s ago", d)
	}
}

func TestRunStack_StoppedWhileItStarts(t *testing.T) {
	// The signal comes while the engine starts the stack: the start is still recorded.
	w := readied(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	w.hook["Start kube1"] = func() { cancel(phases.Interrupted{Signal: 15, Name: "SIGTERM"}) }
	code, err := w.lifecycle("kube1", "a1").RunStack(ctx, "kube1", &bytes.Buffer{})
	if code != 0 || err != nil {
		t.Errorf("exit code %d, %v", code, err)
	}
	if e := w.last("kube1", "done"); e.Step != "start-stack" || len(w.unrecorded) > 0 {
		t.Errorf("recorded %+v, unrecorded %v", e, w.unrecorded)
	}
}
