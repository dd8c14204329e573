package phases_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/node-lifecycle/node-lifecycle/phases"
)

// changed is a world in which a stack of an earlier configuration is up, or it is unknown
// whether one is.
type changed struct {
	*world
	alive bool
	err   error
}

func (c changed) Stray(context.Context, string) (bool, string, error) {
	return c.alive, "container old of slot green, which is not configured any more, is running", c.err
}

// A slot does not start beside a stack that the configuration has forgotten, whether it
// has a peer or not.
func TestStray_KeepsTheSlotDown(t *testing.T) {
	for name, peer := range map[string]func(string) string{
		"with a peer":    func(s string) string { return peers[s] },
		"without a peer": func(string) string { return "" },
	} {
		for _, tc := range []struct {
			alive bool
			err   error
			cause phases.Cause
			exit  int
			text  string
		}{
			{true, nil, phases.CausePeerAlive, 76, "another stack is alive: container old of slot green"},
			{false, errEngineGone, phases.CausePeerUnknown, 69, "cannot prove that no stack of an earlier configuration is up"},
		} {
			w := newWorld(t)
			l := w.lifecycle("kube1", "a1")
			l.Peer, l.Controller = peer, changed{w, tc.alive, tc.err}
			for phase, err := range map[string]error{
				"peer-check": l.PeerCheck(t.Context(), "kube1"), "pre-start": l.PreStart(t.Context(), "kube1"),
			} {
				wantError(t, err, tc.cause, tc.exit)
				if !strings.Contains(err.Error(), tc.text) {
					t.Errorf("%s, %s: error %q, want %q", name, phase, err, tc.text)
				}
			}
			if c := w.claim(); c.Holder != "" {
				t.Errorf("%s: the claim is taken", name)
			}
		}
	}
}

// Even with the claim run looks once more: two journals on one host make two claims.
func TestRunStack_LooksAtThePeer(t *testing.T) {
	for name, tc := range map[string]struct {
		world func(*world)
		cause phases.Cause
		exit  int
	}{
		"the peer lives":    {func(w *world) { w.up("kube2") }, phases.CausePeerAlive, 76},
		"nobody can know":   {func(w *world) { w.fail["Alive kube2"] = errEngineGone }, phases.CausePeerUnknown, 69},
		"the peer is down":  {func(*world) {}, "", 0},
		"no such container": {func(w *world) { delete(w.stacks, "kube2") }, "", 0},
	} {
		w := readied(t)
		tc.world(w)
		w.hook["Attend kube1"] = func() { go w.die("kube1") }
		code, err := w.lifecycle("kube1", "a1").RunStack(t.Context(), "kube1", &bytes.Buffer{})
		if tc.cause == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		wantError(t, err, tc.cause, tc.exit)
		if w.stack("kube1") != nil || code != tc.exit {
			t.Errorf("%s: exit code %d, stack %+v", name, code, w.stack("kube1"))
		}
		if e := w.last("kube1", "refused"); e.Phase != "run" || e.Cause != string(tc.cause) {
			t.Errorf("%s: recorded %s by %s", name, e.Cause, e.Phase)
		}
	}
}

// What to do about a living peer depends on whether systemd has anything to stop.
func TestPeerAlive_SaysWhatHelps(t *testing.T) {
	for state, hint := range map[string]string{
		"active":   "stop kube2 first",
		"inactive": "its unit is down; end it with node-lifecycle resume kube2, or by hand",
		"failed":   "its unit is down; end it with node-lifecycle resume kube2, or by hand",
	} {
		w := newWorld(t)
		w.up("kube2")
		w.activate("kube2", "b", state, "x")
		e := wantError(t, w.lifecycle("kube1", "a1").PreStart(t.Context(), "kube1"), phases.CausePeerAlive, 76)
		if e.Hint != hint {
			t.Errorf("unit %s: %q, want %q", state, e.Hint, hint)
		}
	}
}

// A start that was told to end has found out nothing about the engine, and was no attempt
// in vain.
func TestInterruptedBeforeAnythingBegan(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	w := newWorld(t)
	w.hook["Alive kube2"] = func() {
		cancel(phases.Interrupted{Signal: 15, Name: "SIGTERM"})
		w.fail["Alive kube2"] = errors.Join(errEngineGone, context.Canceled)
	}
	wantError(t, w.lifecycle("kube1", "a1").PeerCheck(ctx, "kube1"), phases.CauseInterrupted, 143)
	if e := w.last("kube1", "refused"); e.Cause != string(phases.CauseInterrupted) {
		t.Errorf("recorded %s: %s", e.Cause, e.Error)
	}
	if n := w.head("kube1").Attempts; n != 0 {
		t.Errorf("%d attempts", n)
	}
}
