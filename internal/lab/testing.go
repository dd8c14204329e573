package lab

import (
	"context"
	"testing"
	"time"
)

// New boots a host for a test: it skips the test where the lab cannot run, fails
// it when the boot fails, and closes the host at the test's end. After a failure
// it logs the end of the host's journal.
func New(t testing.TB, o Options) *Host {
	t.Helper()
	Require(t)
	if o.Log == nil {
		o.Log = t.Output()
	}
	h, err := Boot(t.Context(), o)
	if err != nil {
		t.Fatalf("boot a lab host: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() && h.On() {
			logJournal(t, h)
		}
		if err := h.Close(); err != nil {
			t.Errorf("close a lab host: %v", err)
		}
	})
	return h
}

func logJournal(t testing.TB, h *Host) {
	// The test's own context is done by now.
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	text, err := h.Output(ctx, "journalctl", "--boot", "--no-pager", "--output", "short-precise", "--lines", "200")
	if err != nil {
		t.Logf("read the journal of host %s: %v", h.ID(), err)
		return
	}
	t.Logf("the end of the journal of host %s:\n%s", h.ID(), text)
}
