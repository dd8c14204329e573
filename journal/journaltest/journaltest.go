// Package journaltest gives tests a journal that is checked when they end.
package journaltest

import (
	"context"
	"errors"
	"io/fs"
	"testing"

	"github.com/node-lifecycle/node-lifecycle/journal"
)

// MustOpen returns the journal in a directory of the test's own, and verifies it
// when the test ends: every checksum, the chain, the heads and the rings. A test
// that leaves a damaged journal behind fails, whatever it tested. The file is not
// preallocated, because a test needs little.
func MustOpen(t testing.TB) *journal.Journal {
	t.Helper()
	return MustOpenIn(t, t.TempDir(), journal.Options{Preallocate: -1})
}

// MustOpenIn is MustOpen for a given directory and options.
func MustOpenIn(t testing.TB, dir string, o journal.Options) *journal.Journal {
	t.Helper()
	j := journal.New(dir, o)
	t.Cleanup(func() { Verify(t, j) })
	return j
}

// Verify fails the test if the journal is damaged. One that does not exist is
// not.
func Verify(t testing.TB, j *journal.Journal) {
	t.Helper()
	// The context of the test is already over when it cleans up.
	err := j.View(context.Background(), (*journal.View).Verify)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the journal does not verify: %v", err)
	}
}
