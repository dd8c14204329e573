package phases_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-lifecycle/node-lifecycle/phases"
)

// Every failed start of an engine that is away at boot ends in a post-stop, and the next
// one waits for it.
func TestPostStop_DoesNotWaitForTheEngineWhenNothingHadBegun(t *testing.T) {
	w := wired(t)
	w.boot = "boot2"
	w.fail["WaitEngine"] = errEngineGone
	err := w.lifecycle("kube1", "a2").PostStop(t.Context(), "kube1", phases.StopInfo{ServiceResult: "exit-code"})
	wantError(t, err, phases.CauseUnproven, 69)
	if slices.Contains(w.calls, "Stop kube1") {
		t.Error("the stop was tried, which waits for the engine as long as it may")
	}
	if c := w.claim(); c.Holder != "kube1" {
		t.Error("the claim was given up although the stack may live")
	}

	// What this activation has begun is worth the wait.
	w = wired(t)
	w.fail["WaitEngine"] = errEngineGone
	if err := w.lifecycle("kube1", "a1").PostStop(t.Context(), "kube1", phases.StopInfo{ServiceResult: "signal"}); err != nil {
		t.Error(err)
	}
}

// However a stop is cut short, the stack is unproven, and the reason is told.
func TestPostStop_CutShort(t *testing.T) {
	for name, tc := range map[string]struct {
		cut  func(context.CancelCauseFunc)
		exit int
		text string
	}{
		"by its budget": {func(context.CancelCauseFunc) {}, 69, "budget"},
		"by systemd": {func(cancel context.CancelCauseFunc) {
			cancel(phases.Interrupted{Signal: 15, Name: "SIGTERM"})
		}, 143, "interrupted by SIGTERM"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := wired(t)
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				w.fail["Stop kube1"] = errEngineGone
				w.hook["Stop kube1"] = func() { tc.cut(cancel); time.Sleep(2 * phases.DefaultStopBudget) }
				err := w.lifecycle("kube1", "a1").PostStop(ctx, "kube1", phases.StopInfo{ServiceResult: "signal"})
				wantError(t, err, phases.CauseUnproven, tc.exit)
				e := w.last("kube1", "unproven")
				for _, text := range []string{tc.text, errEngineGone.text} {
					if !strings.Contains(e.Error, text) {
						t.Errorf("recorded %q, which lacks %q", e.Error, text)
					}
				}
			})
		})
	}
}

// An engine that hangs from the first question on takes up the whole wait: what is said
// then is that it did not answer, not that the stack is missing.
func TestPostStart_NamesAnEngineThatNeverAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := readied(t)
		w.hook["Died kube1"] = func() { time.Sleep(2 * phases.DefaultReadyTimeout) }
		w.fail["Died kube1"], w.fail["Running kube1"] = errEngineGone, errEngineGone
		err := w.lifecycle("kube1", "a1").PostStart(t.Context(), "kube1")
		wantError(t, err, phases.CauseReadyTimeout, 79)
		if !strings.Contains(err.Error(), errEngineGone.text) {
			t.Errorf("error %q", err)
		}
	})
}
