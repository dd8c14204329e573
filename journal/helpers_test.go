package journal

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"
)

// aTime is the wall clock of entries in tests.
var aTime = time.Date(2026, 12, 1, 2, 5, 49, 21e6, time.UTC)

// anEntry returns an entry of everyday length.
func anEntry(n int) Entry {
	return Entry{
		ID: fmt.Sprintf("01JDW000000000000000000000-%d", n), Kind: "done", Run: "01JDW000000000000000000000",
		Phase: "pre-start", Step: "regenerate", Time: aTime, Boot: "5c31f0c2a6a14b3c9f6a0d5b9f3f2b11",
		Activation: "8d0c6f1e2b7a4c55a1d8f3b2c4e5f607", PID: 4242, Version: "v1.0.0",
	}
}

// open returns a journal in a directory of the test's own that is verified when
// the test ends.
func open(t testing.TB, o Options) *Journal {
	t.Helper()
	if o.Preallocate == 0 {
		o.Preallocate = -1
	}
	j := New(t.TempDir(), o)
	t.Cleanup(func() {
		if err := j.View(context.Background(), (*View).Verify); err != nil && KindOf(err) != KindNotExist {
			t.Errorf("the journal does not verify: %v", err)
		}
	})
	return j
}

// appendOne appends one entry in a transaction of its own.
func appendOne(ctx context.Context, j *Journal, slot string) error {
	return j.Append(ctx, func(tx *Tx) error {
		_, err := tx.Append(slot, anEntry(1), nil)
		return err
	})
}

// fillRing appends n entries in few transactions.
func fillRing(t testing.TB, j *Journal, n int) {
	t.Helper()
	for n > 0 {
		mustAppend(t, j, func(tx *Tx) error {
			for range min(n, 500) {
				if _, err := tx.Append("kube1", anEntry(n), nil); err != nil {
					return err
				}
				n--
			}
			return nil
		})
	}
}

func mustAppend(t testing.TB, j *Journal, fn func(*Tx) error) {
	t.Helper()
	if err := j.Append(context.Background(), fn); err != nil {
		t.Fatal(err)
	}
}

func mustView(t testing.TB, j *Journal, fn func(*View) error) {
	t.Helper()
	if err := j.View(context.Background(), fn); err != nil {
		t.Fatal(err)
	}
}

func mustEntries(t testing.TB, j *Journal, slot string, q Query) (found []Entry) {
	t.Helper()
	mustView(t, j, func(v *View) (err error) {
		found, err = v.Entries(slot, q)
		return err
	})
	return found
}

func mustHead(t testing.TB, j *Journal, slot string) (head Head) {
	t.Helper()
	mustView(t, j, func(v *View) (err error) {
		head, err = v.Head(slot)
		return err
	})
	return head
}

// tamper changes the database behind the journal's back.
func tamper(t testing.TB, j *Journal, fn func(*bbolt.Tx) error) {
	t.Helper()
	db, err := bbolt.Open(j.Path(), 0o600, &bbolt.Options{Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Update(fn); err != nil {
		t.Fatal(err)
	}
}

// seqs lists the sequence numbers of entries.
func seqs(entries []Entry) []uint64 {
	var list []uint64
	for _, e := range entries {
		list = append(list, e.Seq)
	}
	return list
}

// wantKind fails the test unless err is of that kind, and unless its text has all
// the given parts.
func wantKind(t testing.TB, err error, kind Kind, parts ...string) {
	t.Helper()
	if err == nil || KindOf(err) != kind {
		t.Fatalf("got kind %q (%v), want %q", KindOf(err), err, kind)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the message lacks %q: %v", part, err)
		}
	}
}
