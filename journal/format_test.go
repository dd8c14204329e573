package journal

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"
)

// update rewrites the golden texts. The database of a format is never rewritten:
// it stands for those in the field.
var update = flag.Bool("update", false, "rewrite golden files, and make the database of this format if there is none")

const fixtureDir = "testdata/format-1"

// writeFixture fills a journal with one of everything.
func writeFixture(t *testing.T, j *Journal) {
	t.Helper()
	exit := 0
	entry := func(n int, kind string, more func(*Entry)) Entry {
		e := anEntry(n)
		e.Kind, e.Time, e.Boottime = kind, aTime.Add(time.Duration(n)*time.Second), time.Duration(100+n)*time.Second
		if more != nil {
			more(&e)
		}
		return e
	}
	mustAppend(t, j, func(tx *Tx) error {
		for _, e := range []struct {
			entry    Entry
			evidence string
		}{
			{entry: entry(1, "intent", func(e *Entry) { e.Deadline = aTime.Add(time.Minute) })},
			{entry: entry(2, KindTransition, func(e *Entry) { e.Event, e.From, e.To = "prechecked", "Stopped", "PreChecked" })},
			{entry: entry(3, "done", func(e *Entry) {
				e.Attrs = map[string]string{"units": "3", "changed": "false"}
				e.Detail = "nothing to do <“as it should be”>"
				e.Extra = Extra{"later": json.RawMessage(`{"b": [1,  2], "a":null}`)}
			})},
			{entry: entry(4, KindTransition, func(e *Entry) {
				e.Event, e.From, e.To = "failed", "PreChecked", "Failed"
				e.Cause, e.Error = "interrupted", "pre-start kube1: regenerate: context deadline exceeded"
			}), evidence: `{"container":"absent","log":"` + strings.Repeat("0123456789", 300) + `"}`},
			{entry: entry(5, "ended", func(e *Entry) { e.Exit = &exit })},
		} {
			if _, err := tx.Append("kube1", e.entry, []byte(e.evidence)); err != nil {
				return err
			}
		}
		err := tx.SetHead("kube1", func(h *Head) {
			h.FirstFailure, h.LastSuccess, h.Attempts, h.StopRequested = 4, 3, 2, h.Activation
			h.Open = &Open{Run: h.Run, Phase: "post-start", Step: "wait", PID: 4242, Start: 987654, Boot: h.Boot, Activation: h.Activation, Since: aTime, Deadline: aTime.Add(time.Minute)}
		})
		if err != nil {
			return err
		}
		if _, err := tx.Append("kube2", entry(1, "refused", nil), nil); err != nil {
			return err
		}
		return tx.SetClaim("kube1+kube2", Claim{Holder: "kube1", Last: "kube2", Epoch: 7, Boot: "b", Activation: "a", Time: aTime, Weak: true})
	})
}

// What is on disk, key by key: whoever changes this changes the format.
func TestFormat_Layout(t *testing.T) {
	j := open(t, Options{})
	writeFixture(t, j)
	golden(t, "testdata/layout.golden", dump(t, j.Path()))
}

// A database that an earlier build of this format wrote opens, reads, verifies
// and takes further entries.
func TestFormat_Database(t *testing.T) {
	path := filepath.Join(fixtureDir, databaseName)
	if _, err := os.Stat(path); err != nil && *update {
		makeFixture(t, path)
	}
	copied := open(t, Options{})
	if err := os.WriteFile(copied.Path(), fixture(t), 0o600); err != nil {
		t.Fatal(err)
	}
	golden(t, filepath.Join(fixtureDir, "read.golden"), readAll(t, copied))

	last := mustHead(t, copied, "kube1")
	mustAppend(t, copied, func(tx *Tx) error {
		e, err := tx.Append("kube1", anEntry(6), nil)
		if e.Seq != last.Seq+1 || e.Prev != last.Hash {
			t.Errorf("entry %d continues %q, want %d and %q", e.Seq, e.Prev, last.Seq+1, last.Hash)
		}
		return err
	})
}

// fixture returns the committed database.
func fixture(t *testing.T) []byte {
	t.Helper()
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Skip("needs a little-endian machine, as the one that wrote the database")
	}
	data, err := os.ReadFile(filepath.Join(fixtureDir, databaseName))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func makeFixture(t *testing.T, path string) {
	j := open(t, Options{})
	writeFixture(t, j)
	data, err := os.ReadFile(j.Path())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(fixtureDir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// readAll renders everything a View can read.
func readAll(t *testing.T, j *Journal) string {
	t.Helper()
	var b strings.Builder
	line := func(name string, v any) {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %s\n", name, text)
	}
	mustView(t, j, func(v *View) error {
		for _, slot := range v.Slots() {
			head, err := v.Head(slot)
			if err != nil {
				return err
			}
			line(slot, head)
			entries, err := v.Entries(slot, Query{})
			if err != nil {
				return err
			}
			for _, e := range entries {
				line(" ", e)
				if e.EvidenceSize > 0 {
					evidence, err := v.Evidence(slot, e.Seq)
					if err != nil {
						return err
					}
					line("  evidence", string(evidence))
				}
			}
		}
		claim, err := v.Claim("kube1+kube2")
		line("claim", claim)
		return err
	})
	return b.String()
}

// dump renders the buckets and keys of a database as they are.
func dump(t *testing.T, path string) string {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var b strings.Builder
	err = db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, bucket *bbolt.Bucket) error {
			fmt.Fprintf(&b, "%s\n", name)
			return dumpBucket(&b, bucket, "  ")
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func dumpBucket(b *strings.Builder, bucket *bbolt.Bucket, indent string) error {
	return bucket.ForEach(func(key, value []byte) error {
		name := string(key)
		if strings.ContainsFunc(name, unicode.IsControl) {
			name = fmt.Sprintf("%x", key)
		}
		if value != nil {
			fmt.Fprintf(b, "%s%s = %s\n", indent, name, value)
			return nil
		}
		fmt.Fprintf(b, "%s%s\n", indent, name)
		return dumpBucket(b, bucket.Bucket(key), indent+"  ")
	})
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; -update rewrites it):\n%s", path, diff)
	}
}

// The committed database itself, as a checkout leaves it: other mode, no lock
// file. Reading leaves no trace.
func TestFormat_ReadsACopy(t *testing.T) {
	dir, data := t.TempDir(), fixture(t)
	if err := os.WriteFile(filepath.Join(dir, databaseName), data, 0o644); err != nil {
		t.Fatal(err)
	}
	j := New(dir, Options{})
	if err := j.View(context.Background(), (*View).Verify); err != nil {
		t.Fatal(err)
	}
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != 1 {
		t.Errorf("reading left %v (%v)", names, err)
	}
	after, err := os.ReadFile(j.Path())
	if err != nil || string(after) != string(data) {
		t.Errorf("reading changed the database (%v)", err)
	}
}

// A newer format is not damage. It is neither read nor touched.
func TestFormat_Newer(t *testing.T) {
	j := open(t, Options{})
	fillRing(t, j, 1)
	putFormat(t, j, `{"format":2}`)
	t.Cleanup(func() { putFormat(t, j, `{"format":1}`) }) // so that it verifies
	before, err := os.ReadFile(j.Path())
	if err != nil {
		t.Fatal(err)
	}
	wantKind(t, appendOne(t.Context(), j, "kube1"), KindNewer, j.Path(), "it has format 2, this program knows formats up to 1", "or a newer one")
	wantKind(t, j.View(t.Context(), func(*View) error { return nil }), KindNewer)
	after, err := os.ReadFile(j.Path())
	if err != nil || string(after) != string(before) {
		t.Errorf("the database changed (%v)", err)
	}
}

func TestFormat_Damaged(t *testing.T) {
	for name, damage := range map[string]func(*bbolt.Tx) error{
		"checksum":    func(tx *bbolt.Tx) error { return tx.Bucket(metaBucket).Put(formatKey, []byte(`00000000 {"format":1}`)) },
		"no format":   func(tx *bbolt.Tx) error { return tx.Bucket(metaBucket).Delete(formatKey) },
		"format zero": func(tx *bbolt.Tx) error { return tx.Bucket(metaBucket).Put(formatKey, frame(formatKey, []byte(`{}`))) },
		"no meta":     func(tx *bbolt.Tx) error { return tx.DeleteBucket(metaBucket) },
		"no slots":    func(tx *bbolt.Tx) error { return tx.DeleteBucket(slotsBucket) },
		"no pairs":    func(tx *bbolt.Tx) error { return tx.DeleteBucket(pairsBucket) },
	} {
		t.Run(name, func(t *testing.T) {
			j := New(t.TempDir(), Options{Preallocate: -1})
			fillRing(t, j, 1)
			tamper(t, j, damage)
			wantKind(t, appendOne(t.Context(), j, "kube1"), KindCorrupt, j.Path(), "journal verify")
			wantKind(t, j.View(t.Context(), func(*View) error { return nil }), KindCorrupt, j.Path())
		})
	}
}

func putFormat(t *testing.T, j *Journal, text string) {
	t.Helper()
	tamper(t, j, func(tx *bbolt.Tx) error {
		return tx.Bucket(metaBucket).Put(formatKey, frame(formatKey, []byte(text)))
	})
}
