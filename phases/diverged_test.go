package phases_test

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/node-lifecycle/node-lifecycle/fsm"
	"github.com/node-lifecycle/node-lifecycle/journal"
	"github.com/node-lifecycle/node-lifecycle/phases"
)

// Wherever a phase looks at the world and finds it other than the books say, the slot's
// history tells both sides, and the log warns.
func TestDiverged(t *testing.T) {
	for name, tc := range map[string]struct {
		act          func(*world, *phases.Lifecycle)
		books, world string
	}{
		"a stack is alive of which the books say that it failed": {func(w *world, l *phases.Lifecycle) {
			w.mutate(func(tx *journal.Tx) error {
				_, err := tx.Append("kube1", journal.Entry{ID: "x-1", Kind: journal.KindTransition, Event: "failed", To: "Failed", Boot: "boot1"}, nil)
				return err
			})
			w.up("kube1")
			if err := l.PreStart(w.t.Context(), "kube1"); err != nil {
				w.t.Error(err)
			}
		}, "kube1 is Failed", "survivor ended: container running"},
		"the peer is started behind the back of a start": {func(w *world, l *phases.Lifecycle) {
			if err := l.PreStart(w.t.Context(), "kube1"); err != nil {
				w.t.Error(err)
			}
			w.activate("kube1", "a1", "activating", "start-post")
			w.up("kube1")
			w.up("kube2")
			e := wantError(w.t, l.PostStart(w.t.Context(), "kube1"), phases.CausePeerAlive, 76)
			if !strings.Contains(e.Error(), "two stacks") || !strings.Contains(e.Hint, "find out who started kube2") {
				w.t.Errorf("error %q", e)
			}
		}, "kube2 is down", "both stacks are alive"},
		"run holds the claim and the peer is up": {func(w *world, l *phases.Lifecycle) {
			if err := l.PreStart(w.t.Context(), "kube1"); err != nil {
				w.t.Error(err)
			}
			w.up("kube2")
			_, err := l.RunStack(w.t.Context(), "kube1", &bytes.Buffer{})
			wantError(w.t, err, phases.CausePeerAlive, 76)
		}, "kube1 holds the claim", "the peer kube2 is alive"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			var log bytes.Buffer
			l := w.lifecycle("kube1", "a1")
			l.Log = slog.New(slog.NewTextHandler(&log, nil))
			w.activate("kube1", "a1", "activating", "start-pre")
			tc.act(w, l)
			e := w.last("kube1", string(fsm.NoteDiverged))
			if !strings.Contains(e.Attrs["books"], tc.books) || !strings.Contains(e.Attrs["world"], tc.world) ||
				!strings.Contains(e.Detail, e.Attrs["books"]) || !strings.Contains(e.Detail, e.Attrs["world"]) {
				t.Errorf("recorded %q, %v", e.Detail, e.Attrs)
			}
			if !strings.Contains(log.String(), "level=WARN") {
				t.Errorf("nothing warned:\n%s", &log)
			}
		})
	}
	// What the books say is no news.
	w := newWorld(t)
	w.start("kube1", "a1")
	w.activate("kube1", "a1", "deactivating", "stop-post")
	if err := w.lifecycle("kube1", "a1").PostStop(t.Context(), "kube1", phases.StopInfo{}); err != nil {
		t.Fatal(err)
	}
	if story := w.story("kube1"); slices.Contains(story, string(fsm.NoteDiverged)) {
		t.Errorf("history %v", story)
	}
}
