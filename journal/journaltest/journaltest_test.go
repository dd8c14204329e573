package journaltest

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/node-lifecycle/node-lifecycle/journal"
)

// recorder is a testing.TB that keeps its errors to itself.
type recorder struct {
	testing.TB
	errors []string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func appendOne(t *testing.T, j *journal.Journal) {
	t.Helper()
	err := j.Append(t.Context(), func(tx *journal.Tx) error {
		_, err := tx.Append("kube1", journal.Entry{ID: "the-entry", Kind: "done"}, nil)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestMustOpen(t *testing.T) {
	appendOne(t, MustOpen(t))
	MustOpen(t) // one that is never written to is fine too
}

func TestVerify(t *testing.T) {
	j := journal.New(t.TempDir(), journal.Options{Preallocate: -1})
	appendOne(t, j)
	r := &recorder{TB: t}
	Verify(r, j)
	if len(r.errors) != 0 {
		t.Fatal(r.errors)
	}
	data, err := os.ReadFile(j.Path())
	if err != nil {
		t.Fatal(err)
	}
	damaged := bytes.ReplaceAll(data, []byte("the-entry"), []byte("The-entry"))
	if err := os.WriteFile(j.Path(), damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	Verify(r, j)
	if len(r.errors) != 1 || !strings.Contains(r.errors[0], "entry 1 of kube1: checksum mismatch") {
		t.Errorf("got %q", r.errors)
	}
}
