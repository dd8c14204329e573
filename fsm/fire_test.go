package fsm

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// journal stands in for the transaction of a real one: it remembers what was
// committed and can be told to fail.
type journal struct {
	entries []Transition
	fail    error
}

func (j *journal) commit(t Transition) error {
	if j.fail != nil {
		return j.fail
	}
	j.entries = append(j.entries, t)
	return nil
}

func TestAWholeLifeOfASlot(t *testing.T) {
	var j journal
	state := Stopped
	for _, ev := range []Event{
		EventPrechecked, EventRegenerated, EventStarting, EventFailed, // a bad start
		EventPrechecked, EventRegenerated, EventStarting, EventRunning, EventWired, // a good one
		EventRebooted,
	} {
		tr, err := Fire(t.Context(), state, ev, j.commit)
		if err != nil {
			t.Fatal(err)
		}
		state = tr.To
	}
	want := []Transition{
		{Stopped, EventPrechecked, PreChecked},
		{PreChecked, EventRegenerated, Regenerated},
		{Regenerated, EventStarting, Starting},
		{Starting, EventFailed, Failed},
		{Failed, EventPrechecked, PreChecked},
		{PreChecked, EventRegenerated, Regenerated},
		{Regenerated, EventStarting, Starting},
		{Starting, EventRunning, Running},
		{Running, EventWired, Wired},
		{Wired, EventRebooted, Stopped},
	}
	if diff := cmp.Diff(want, j.entries); diff != "" {
		t.Errorf("committed (-want +got):\n%s", diff)
	}
}

func TestFromUnknownOnlyEvidenceLeadsOut(t *testing.T) {
	out := map[Event]State{
		EventRecoveredStopped: Stopped,
		EventRecoveredRunning: Running,
		EventRecoveredFailed:  Failed,
	}
	for _, r := range Table() {
		var j journal
		tr, err := Fire(t.Context(), Unknown, r.Event, j.commit)
		to, legal := out[r.Event]
		if legal {
			want := Transition{Unknown, r.Event, to}
			if err != nil || tr != want || !slices.Equal(j.entries, []Transition{want}) {
				t.Errorf("%s: %v, %v, committed %v; want %v", r.Event, tr, err, j.entries, want)
			}
			continue
		}
		if !errors.As(err, new(*IllegalEventError)) || len(j.entries) > 0 {
			t.Errorf("%s: %v, committed %v; want it refused", r.Event, err, j.entries)
		}
	}
	for _, s := range States() {
		for ev := range out {
			if _, err := Next(s, ev); !errors.As(err, new(*IllegalEventError)) {
				t.Errorf("%s in %s: %v; want it refused", ev, s, err)
			}
		}
	}
}

func TestRefusalsNameWhatWouldBeLegal(t *testing.T) {
	tests := []struct {
		from State
		ev   Event
		want error
		text string
	}{
		{
			Stopped, EventWired,
			&IllegalEventError{Stopped, EventWired, []Event{EventPrechecked}},
			`event "wired" is not legal in state Stopped (legal: prechecked)`,
		},
		{
			Wired, EventFailed,
			&IllegalEventError{Wired, EventFailed, []Event{EventLost, EventStopped, EventRebooted}},
			`event "failed" is not legal in state Wired (legal: lost, stopped, rebooted)`,
		},
		{
			"Draining", EventLost,
			&UnknownStateError{"Draining"},
			`unknown state "Draining" (known: Stopped, PreChecked, Regenerated, Starting, Running, Wired, Failed); ` +
				`if a newer version wrote it, use that version`,
		},
		{
			Wired, "drained",
			&UnknownEventError{"drained"},
			`unknown event "drained" (known: prechecked, regenerated, starting, running, wired, failed, lost, stopped, ` +
				`rebooted, recovered-stopped, recovered-running, recovered-failed); if a newer version wrote it, use that version`,
		},
		{
			"", "", // an unknown state counts before an unknown event
			&UnknownStateError{""},
			"",
		},
	}
	for _, tt := range tests {
		var j journal
		tr, err := Fire(t.Context(), tt.from, tt.ev, j.commit)
		if diff := cmp.Diff(tt.want, err); diff != "" {
			t.Errorf("Fire(%q, %q) (-want +got):\n%s", tt.from, tt.ev, diff)
		}
		if tt.text != "" && err.Error() != tt.text {
			t.Errorf("Fire(%q, %q) says\n%s, want\n%s", tt.from, tt.ev, err, tt.text)
		}
		if len(j.entries) > 0 || tr != (Transition{}) {
			t.Errorf("Fire(%q, %q) committed %v and returned %v", tt.from, tt.ev, j.entries, tr)
		}
		_, err = Next(tt.from, tt.ev)
		if diff := cmp.Diff(tt.want, err); diff != "" {
			t.Errorf("Next(%q, %q) (-want +got):\n%s", tt.from, tt.ev, diff)
		}
	}
}

func TestTheCommitsErrorVetoes(t *testing.T) {
	j := journal{fail: &fs.PathError{Op: "write", Path: "journal.db", Err: fs.ErrPermission}}
	tr, err := Fire(t.Context(), Running, EventWired, j.commit)

	var path *fs.PathError
	if !errors.Is(err, fs.ErrPermission) || !errors.As(err, &path) || path != j.fail {
		t.Errorf("error %v does not lead to the commit's", err)
	}
	want := "transition Running -> Wired (wired) was not committed: write journal.db: permission denied"
	if err.Error() != want {
		t.Errorf("error says\n%s, want\n%s", err, want)
	}
	if tr != (Transition{}) {
		t.Errorf("transition %v returned although it was vetoed", tr)
	}
}

// An error that happens to be one of ours, or one of looplab's, is still the
// commit's and not taken for a refusal of this event.
func TestTheCommitMayReturnAnyError(t *testing.T) {
	inner := &IllegalEventError{State: Wired, Event: EventFailed}
	_, err := Fire(t.Context(), Running, EventWired, func(Transition) error { return inner })
	if !errors.Is(err, inner) || !strings.HasPrefix(err.Error(), "transition Running -> Wired (wired) was not committed: ") {
		t.Errorf("error %v", err)
	}
}

func TestFireWithoutACommitIsRefused(t *testing.T) {
	_, err := Fire(t.Context(), Stopped, EventPrechecked, nil)
	if !errors.Is(err, errNoCommit) {
		t.Errorf("error %v, want %v", err, errNoCommit)
	}
}

func TestADoneContextIsNamedWithItsCause(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("terminated"))
	_, err := Fire(ctx, Stopped, EventPrechecked, new(journal).commit)
	if !errors.Is(err, context.Canceled) || !errors.Is(err, context.Cause(ctx)) {
		t.Errorf("error %v leads to neither the context's error nor its cause", err)
	}
	want := `event "prechecked" in state "Stopped" was not fired: context canceled (terminated)`
	if err.Error() != want {
		t.Errorf("error says\n%s, want\n%s", err, want)
	}
}

// A commit may judge another slot's event: the claim is taken from the peer and
// its books are settled in one transaction.
func TestACommitMayFireForThePeer(t *testing.T) {
	var own, peer journal
	_, err := Fire(t.Context(), Stopped, EventPrechecked, func(tr Transition) error {
		if _, err := Fire(t.Context(), Wired, EventLost, peer.commit); err != nil {
			return err
		}
		return own.commit(tr)
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(own.entries) != 1 || len(peer.entries) != 1 {
		t.Errorf("committed %v for the slot and %v for its peer", own.entries, peer.entries)
	}
}

// Two processes that read the same head must be told apart by the caller's
// transaction; within it, exactly one of them can go on.
func TestATransactionAroundFireLetsOneOfManyWin(t *testing.T) {
	var (
		mu    sync.Mutex
		state = Stopped
		won   int
		wg    sync.WaitGroup
	)
	for range 8 {
		wg.Go(func() {
			mu.Lock()
			defer mu.Unlock()
			tr, err := Fire(t.Context(), state, EventPrechecked, func(Transition) error { return nil })
			switch {
			case err == nil:
				state, won = tr.To, won+1
			case !errors.As(err, new(*IllegalEventError)):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if won != 1 || state != PreChecked {
		t.Errorf("%d winners, state %s", won, state)
	}
}

// Without any lock the judge itself must not be disturbed by its neighbours.
func TestFireIsSafeForConcurrentUse(t *testing.T) {
	var wg sync.WaitGroup
	for _, s := range append(States(), Unknown) {
		for _, r := range Table() {
			wg.Go(func() {
				want, wantErr := Next(s, r.Event)
				got, err := Fire(t.Context(), s, r.Event, func(Transition) error { return nil })
				if got != want || (err == nil) != (wantErr == nil) {
					t.Errorf("%s in %s: %v, %v; want %v, %v", r.Event, s, got, err, want, wantErr)
				}
			})
		}
	}
	wg.Wait()
}
