package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
)

// slotBucket returns a bucket of kube1.
func slotBucket(tx *bbolt.Tx, name []byte) *bbolt.Bucket {
	slot := tx.Bucket(slotsBucket).Bucket([]byte("kube1"))
	if name == nil {
		return slot
	}
	return slot.Bucket(name)
}

// flip flips a bit in the middle of a value.
func flip(bucket *bbolt.Bucket, key []byte) error {
	value := bytes.Clone(bucket.Get(key))
	value[len(value)/2] ^= 0x10
	return bucket.Put(key, value)
}

// damagedJournal returns a journal of six entries with evidence, of which the
// first failure is pinned, after fn has been at it. It is not verified when the
// test ends.
func damagedJournal(t *testing.T, fn func(*bbolt.Tx) error) *Journal {
	t.Helper()
	j := New(t.TempDir(), Options{Preallocate: -1, Keep: 4})
	appendN(t, j, 1, func(int) []byte { return []byte("first") })
	setHead(t, j, func(h *Head) { h.FirstFailure = 1 })
	appendN(t, j, 5, func(n int) []byte { return bytes.Repeat([]byte("e"), 1+1500*n) })
	mustAppend(t, j, func(tx *Tx) error { return tx.SetClaim("pair", Claim{Epoch: 1}) })
	if fn != nil {
		tamper(t, j, fn)
	}
	return j
}

// readEntries returns what can be read, and the numbers the error names.
func readEntries(t *testing.T, j *Journal, q Query) (found, named []uint64, failed error) {
	t.Helper()
	mustView(t, j, func(v *View) error {
		entries, err := v.Entries("kube1", q)
		found, failed = seqs(entries), err
		return nil
	})
	return found, namedSeqs(failed), failed
}

// namedSeqs lists the numbers that the EntryErrors inside err name.
func namedSeqs(err error) []uint64 {
	var named []uint64
	switch e := err.(type) {
	case *EntryError:
		return span(e.First, e.Last)
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			named = append(named, namedSeqs(err)...)
		}
	case interface{ Unwrap() error }:
		named = namedSeqs(e.Unwrap())
	}
	slices.Sort(named)
	return named
}

// Damage to some entries is named by number and hides no other.
func TestEntries_Damage(t *testing.T) {
	rot := func(list ...uint64) func(*bbolt.Tx) error {
		return func(tx *bbolt.Tx) error {
			for _, seq := range list {
				if err := flip(slotBucket(tx, entriesBucket), entryKey(seq)); err != nil {
					return err
				}
			}
			return nil
		}
	}
	lose := func(list ...uint64) func(*bbolt.Tx) error {
		return func(tx *bbolt.Tx) error {
			for _, seq := range list {
				if err := slotBucket(tx, entriesBucket).Delete(entryKey(seq)); err != nil {
					return err
				}
			}
			return nil
		}
	}
	both := func(tx *bbolt.Tx) error { return errors.Join(rot(3)(tx), lose(5)(tx)) }
	for _, test := range []struct {
		name         string
		damage       func(*bbolt.Tx) error
		q            Query
		found, named []uint64
	}{
		{name: "none", found: []uint64{1, 3, 4, 5, 6}},
		{name: "one", damage: rot(4), found: []uint64{1, 3, 5, 6}, named: []uint64{4}},
		{name: "the pinned one", damage: rot(1), found: []uint64{3, 4, 5, 6}, named: []uint64{1}},
		{name: "several", damage: rot(3, 4, 6), found: []uint64{1, 5}, named: []uint64{3, 4, 6}},
		{name: "missing", damage: lose(4, 5), found: []uint64{1, 3, 6}, named: []uint64{4, 5}},
		{name: "missing at the ends", damage: lose(3, 6), found: []uint64{1, 4, 5}, named: []uint64{3, 6}},
		{name: "all missing", damage: lose(1, 3, 4, 5, 6), named: []uint64{3, 4, 5, 6}},
		{name: "both kinds", damage: both, found: []uint64{1, 4, 6}, named: []uint64{3, 5}},
		{name: "a limit does not count it", damage: both, q: Query{Limit: 2}, found: []uint64{1, 4}, named: []uint64{3}},
		{name: "outside the range", damage: both, q: Query{After: 5}, found: []uint64{6}},
		{name: "at the edge of the range", damage: both, q: Query{Before: 6, After: 3}, found: []uint64{4}, named: []uint64{5}},
		{name: "none in the range", damage: lose(4, 5), q: Query{Before: 6, After: 3}, named: []uint64{4, 5}},
	} {
		for _, reverse := range []bool{false, true} {
			if reverse && test.q.Limit > 0 {
				continue
			}
			t.Run(fmt.Sprintf("%s/%t", test.name, reverse), func(t *testing.T) {
				j := damagedJournal(t, test.damage)
				test.q.Reverse = reverse
				found, named, err := readEntries(t, j, test.q)
				slices.Sort(found)
				wantSeqs(t, "found", found, test.found)
				wantSeqs(t, "named", named, test.named)
				if len(test.named) > 0 {
					wantKind(t, err, KindCorrupt, j.Path(), "of kube1: ", "journal verify")
				}
			})
		}
	}
}

func TestEntries_DamagedHead(t *testing.T) {
	j := damagedJournal(t, func(tx *bbolt.Tx) error { return flip(slotBucket(tx, nil), headKey) })
	found, _, err := readEntries(t, j, Query{})
	wantSeqs(t, "found", found, []uint64{1, 3, 4, 5, 6})
	wantKind(t, err, KindCorrupt, "head of kube1: checksum mismatch")
	if strings.Count(err.Error(), j.Path()) != 1 {
		t.Errorf("it stutters: %v", err)
	}
	mustView(t, j, func(v *View) error {
		_, err := v.Head("kube1")
		wantKind(t, err, KindCorrupt, "head of kube1")
		e, err := v.Entry("kube1", 5)
		if e.Seq != 5 {
			t.Errorf("entry %d", e.Seq)
		}
		return err
	})
	wantKind(t, appendOne(t.Context(), j, "kube1"), KindCorrupt, "head of kube1")
	if err := appendOne(t.Context(), j, "kube2"); err != nil {
		t.Errorf("the other slot: %v", err)
	}
}

func TestEntry_Damage(t *testing.T) {
	j := damagedJournal(t, func(tx *bbolt.Tx) error {
		newer := frame(entryKey(5), []byte(`{"v":2,"seq":"five"}`))
		return errors.Join(flip(slotBucket(tx, entriesBucket), entryKey(4)), slotBucket(tx, entriesBucket).Put(entryKey(5), newer))
	})
	mustView(t, j, func(v *View) error {
		_, err := v.Entry("kube1", 4)
		wantKind(t, err, KindCorrupt, "entry 4 of kube1: checksum mismatch")
		if !errors.Is(err, ErrChecksum) {
			t.Errorf("got %v", err)
		}
		_, err = v.Entry("kube1", 5)
		wantKind(t, err, KindNewer, "entry 5 of kube1: written by a newer version", "or a newer one")
		_, err = v.Entries("kube1", Query{After: 4})
		wantKind(t, err, KindNewer)
		_, err = v.Entries("kube1", Query{})
		wantKind(t, err, KindCorrupt, "entry 4", "entry 5")
		return nil
	})
}

func TestEvidence_Damage(t *testing.T) {
	for _, test := range []struct {
		name, says string
		damage     func(tx *bbolt.Tx) error
		kept       int
	}{
		{"a piece", "piece 1: checksum mismatch", func(tx *bbolt.Tx) error {
			return flip(slotBucket(tx, evidenceBucket), chunkKey(6, 1))
		}, 6001 - (maxChunk - checksumSize)},
		{"a piece missing", "piece 1 is missing", func(tx *bbolt.Tx) error {
			return slotBucket(tx, evidenceBucket).Delete(chunkKey(6, 1))
		}, 6001 - (maxChunk - checksumSize)},
		{"the last piece missing", "bytes of 6001", func(tx *bbolt.Tx) error {
			return slotBucket(tx, evidenceBucket).Delete(chunkKey(6, 3))
		}, 3 * (maxChunk - checksumSize)},
		{"the entry", "checksum mismatch", func(tx *bbolt.Tx) error {
			return flip(slotBucket(tx, entriesBucket), entryKey(6))
		}, 6001},
		{"the entry missing", "missing", func(tx *bbolt.Tx) error {
			return slotBucket(tx, entriesBucket).Delete(entryKey(6))
		}, 6001},
	} {
		t.Run(test.name, func(t *testing.T) {
			j := damagedJournal(t, test.damage)
			mustView(t, j, func(v *View) error {
				data, err := v.Evidence("kube1", 6)
				wantKind(t, err, KindCorrupt, "entry 6 of kube1", test.says)
				if len(data) != test.kept {
					t.Errorf("%d bytes are left, want %d", len(data), test.kept)
				}
				return nil
			})
		})
	}
}

// Every way in which a journal can be wrong is found by Verify, and nothing else
// is.
func TestVerify(t *testing.T) {
	reframe := func(bucket *bbolt.Bucket, key []byte, old, new string) error {
		payload, err := unframe(key, bucket.Get(key))
		if err != nil || !bytes.Contains(payload, []byte(old)) {
			return fmt.Errorf("%s has no %s: %w", payload, old, err)
		}
		return bucket.Put(key, frame(key, bytes.Replace(payload, []byte(old), []byte(new), 1)))
	}
	head := func(old, new string) func(*bbolt.Tx) error {
		return func(tx *bbolt.Tx) error { return reframe(slotBucket(tx, nil), headKey, old, new) }
	}
	entries := func(fn func(*bbolt.Bucket) error) func(*bbolt.Tx) error {
		return func(tx *bbolt.Tx) error { return fn(slotBucket(tx, entriesBucket)) }
	}
	evidence := func(fn func(*bbolt.Bucket) error) func(*bbolt.Tx) error {
		return func(tx *bbolt.Tx) error { return fn(slotBucket(tx, evidenceBucket)) }
	}
	for _, test := range []struct {
		name, says string
		damage     func(*bbolt.Tx) error
	}{
		{"nothing", "", nil},
		{"an entry changed with its checksum", "entry 5 of kube1: does not continue", entries(func(b *bbolt.Bucket) error { return reframe(b, entryKey(4), "regenerate", "Regenerate") })},
		{"the last entry changed with its checksum", "entry 6 of kube1: it is not the entry the head ends with", entries(func(b *bbolt.Bucket) error { return reframe(b, entryKey(6), "regenerate", "Regenerate") })},
		{"an entry flipped", "entry 4 of kube1: checksum mismatch", entries(func(b *bbolt.Bucket) error { return flip(b, entryKey(4)) })},
		{"an entry missing", "entry 4 of kube1: missing", entries(func(b *bbolt.Bucket) error { return b.Delete(entryKey(4)) })},
		{"the newest entries missing", "entries 5 to 6 of kube1: missing", entries(func(b *bbolt.Bucket) error { return errors.Join(b.Delete(entryKey(5)), b.Delete(entryKey(6))) })},
		{"an entry beyond the head", "entry 7 of kube1: the head ends with entry 6", entries(func(b *bbolt.Bucket) error { return b.Put(entryKey(7), b.Get(entryKey(6))) })},
		{"an entry nothing keeps", "entry 2 of kube1: it is older than the ring", entries(func(b *bbolt.Bucket) error { return b.Put(entryKey(2), b.Get(entryKey(3))) })},
		{"a strange key", "is no sequence number", entries(func(b *bbolt.Bucket) error { return b.Put([]byte("x"), []byte("y")) })},
		{"a pinned entry missing", "entry 1 of kube1: pinned, but missing", entries(func(b *bbolt.Bucket) error { return b.Delete(entryKey(1)) })},
		{"the head flipped", "head of kube1: checksum mismatch", func(tx *bbolt.Tx) error { return flip(slotBucket(tx, nil), headKey) }},
		{"the head missing", "head of kube1: checksum mismatch", func(tx *bbolt.Tx) error { return slotBucket(tx, nil).Delete(headKey) }},
		{"a bucket missing", "slot kube1 lacks its buckets", func(tx *bbolt.Tx) error { return slotBucket(tx, nil).DeleteBucket(evidenceBucket) }},
		{"the head's bytes", "bytes, it says 9", head(`"bytes":`, `"bytes":9`)},
		{"the head's captures", "4 captures of evidence are kept, it says 14", head(`"captures":`, `"captures":1`)},
		{"the head's hash", "it is not the entry the head ends with", head(`"hash":"`, `"hash":"0`)},
		{"a piece of evidence flipped", "evidence: piece 0: checksum mismatch", evidence(func(b *bbolt.Bucket) error { return flip(b, chunkKey(5, 0)) })},
		{"evidence short", "evidence: 3982 bytes of 4501", evidence(func(b *bbolt.Bucket) error { return b.Delete(chunkKey(5, 2)) })},
		{"evidence of nothing", "entry 9 of kube1: it has evidence, but is missing", evidence(func(b *bbolt.Bucket) error { return b.Put(chunkKey(9, 0), frame(chunkKey(9, 0), []byte("x"))) })},
		{"evidence nothing keeps", "entry 2 of kube1: it has evidence", evidence(func(b *bbolt.Bucket) error { return b.Put(chunkKey(2, 0), frame(chunkKey(2, 0), []byte("x"))) })},
		{"a strange piece", "is no piece of evidence", evidence(func(b *bbolt.Bucket) error { return b.Put([]byte("x"), []byte("y")) })},
		{"the claim flipped", "claim of pair: checksum mismatch", func(tx *bbolt.Tx) error { return flip(tx.Bucket(pairsBucket), []byte("pair")) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			j := damagedJournal(t, test.damage)
			err := j.View(t.Context(), (*View).Verify)
			if test.says == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			wantKind(t, err, KindCorrupt, j.Path(), test.says)
		})
	}
}

// Evidence that was kept by a pin only is found to be kept by nothing once the
// head forgets the pin.
func TestVerify_EvidenceOutsideItsRing(t *testing.T) {
	j := New(t.TempDir(), Options{Preallocate: -1})
	appendN(t, j, 1, func(int) []byte { return []byte("first") })
	setHead(t, j, func(h *Head) { h.FirstFailure = 1 })
	appendN(t, j, maxCaptures, func(int) []byte { return []byte("later") })
	if err := j.View(t.Context(), (*View).Verify); err != nil {
		t.Fatal(err)
	}
	tamper(t, j, func(tx *bbolt.Tx) error {
		bucket := slotBucket(tx, nil)
		h, err := decodeFramed[Head](headKey, bucket.Get(headKey))
		if err != nil {
			return err
		}
		h.FirstFailure = 0
		payload, err := json.Marshal(h)
		if err != nil {
			return err
		}
		return bucket.Put(headKey, frame(headKey, payload))
	})
	wantKind(t, j.View(t.Context(), (*View).Verify), KindCorrupt, "entry 1 of kube1: its evidence is older than the ring")
}

func TestClaim_Damage(t *testing.T) {
	j := damagedJournal(t, func(tx *bbolt.Tx) error { return flip(tx.Bucket(pairsBucket), []byte("pair")) })
	mustView(t, j, func(v *View) error {
		_, err := v.Claim("pair")
		wantKind(t, err, KindCorrupt, "claim of pair: checksum mismatch")
		return nil
	})
}

// Rings over damage go on: what is missing is skipped, and what cannot be
// reconciled ends the append and changes nothing.
func TestAppend_OverDamage(t *testing.T) {
	j := damagedJournal(t, func(tx *bbolt.Tx) error {
		return errors.Join(slotBucket(tx, entriesBucket).Delete(entryKey(3)), slotBucket(tx, entriesBucket).Delete(entryKey(4)))
	})
	appendN(t, j, 4, nil)
	found, named, _ := readEntries(t, j, Query{})
	wantSeqs(t, "found", found, []uint64{1, 7, 8, 9, 10})
	wantSeqs(t, "named", named, nil)

	j = damagedJournal(t, func(tx *bbolt.Tx) error { // no evidence, though the head counts four
		b := slotBucket(tx, evidenceBucket)
		return b.ForEach(func(k, _ []byte) error { return b.Delete(k) })
	})
	wantKind(t, j.Append(t.Context(), func(tx *Tx) error {
		_, _ = tx.Append("kube1", anEntry(1), nil) // must not be committed by who does not look
		return nil
	}), KindCorrupt, "captures of evidence are missing")
	if head := mustHead(t, j, "kube1"); head.Seq != 6 {
		t.Errorf("the last entry is %d, want 6", head.Seq)
	}

	j = damagedJournal(t, func(tx *bbolt.Tx) error { // a bucket where an entry was
		b := slotBucket(tx, entriesBucket)
		if err := b.Delete(entryKey(3)); err != nil {
			return err
		}
		_, err := b.CreateBucket(entryKey(3))
		return err
	})
	wantKind(t, appendOne(t.Context(), j, "kube1"), KindCorrupt)

	j = damagedJournal(t, func(tx *bbolt.Tx) error { // a value where a slot must be
		return tx.Bucket(slotsBucket).Put([]byte("kube2"), []byte("x"))
	})
	wantKind(t, appendOne(t.Context(), j, "kube2"), KindCorrupt)

	j = damagedJournal(t, func(tx *bbolt.Tx) error { // a bucket where a claim must be
		_, err := tx.Bucket(pairsBucket).CreateBucket([]byte("other"))
		return err
	})
	wantKind(t, j.Append(t.Context(), func(tx *Tx) error { return tx.SetClaim("other", Claim{}) }), KindCorrupt)
}

// Bit rot on the disk, in any byte of any entry: it is named, or was where no
// entry is.
func TestEntries_BitRotOnDisk(t *testing.T) {
	j := damagedJournal(t, nil)
	whole, err := os.ReadFile(j.Path())
	if err != nil {
		t.Fatal(err)
	}
	var stored [][]byte
	db, err := bbolt.Open(j.Path(), 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.View(func(tx *bbolt.Tx) error {
		return slotBucket(tx, entriesBucket).ForEach(func(_, v []byte) error {
			stored = append(stored, bytes.Clone(v))
			return nil
		})
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for n, value := range stored {
		seq := []uint64{1, 3, 4, 5, 6}[n]
		for i := 0; i < len(value); i += 7 {
			rotten := bytes.Clone(whole)
			for at := 0; ; { // every copy: old pages hold some too
				next := bytes.Index(whole[at:], value)
				if next < 0 {
					break
				}
				at += next + len(value)
				rotten[at-len(value)+i] ^= 1 << (i % 8)
			}
			if err := os.WriteFile(j.Path(), rotten, 0o600); err != nil {
				t.Fatal(err)
			}
			found, named, _ := readEntries(t, j, Query{})
			if len(found) != 4 || len(named) != 1 || named[0] != seq {
				t.Fatalf("byte %d of entry %d: found %v, named %v", i, seq, found, named)
			}
		}
	}
}
