package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"
	"pgregory.net/rapid"
)

// appendN appends n entries in one transaction, with evidence if capture says so.
func appendN(t testing.TB, j *Journal, n int, capture func(n int) []byte) {
	t.Helper()
	mustAppend(t, j, func(tx *Tx) error {
		for i := range n {
			var evidence []byte
			if capture != nil {
				evidence = capture(i)
			}
			if _, err := tx.Append("kube1", anEntry(i), evidence); err != nil {
				return err
			}
		}
		return nil
	})
}

func setHead(t testing.TB, j *Journal, change func(*Head)) {
	t.Helper()
	mustAppend(t, j, func(tx *Tx) error { return tx.SetHead("kube1", change) })
}

// evidenceSeqs lists the entries whose evidence is kept.
func evidenceSeqs(t testing.TB, j *Journal) (list []uint64) {
	t.Helper()
	mustView(t, j, func(v *View) error {
		for seq := range mustSeq(v) {
			data, err := v.Evidence("kube1", seq)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
			if len(data) > 0 {
				list = append(list, seq)
			}
		}
		return nil
	})
	return list
}

func mustSeq(v *View) func(func(uint64) bool) {
	head, _ := v.Head("kube1")
	return func(yield func(uint64) bool) {
		for seq := uint64(1); seq <= head.Seq && yield(seq); seq++ {
		}
	}
}

func span(from, to uint64) (list []uint64) {
	for ; from <= to; from++ {
		list = append(list, from)
	}
	return list
}

func wantSeqs(t testing.TB, what string, got, want []uint64) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestRing_Keep(t *testing.T) {
	j := open(t, Options{Keep: 5})
	appendN(t, j, 3, nil)
	wantSeqs(t, "before the ring is full", seqs(mustEntries(t, j, "kube1", Query{})), span(1, 3))
	for range 9 {
		appendN(t, j, 1, nil)
	}
	wantSeqs(t, "the newest five", seqs(mustEntries(t, j, "kube1", Query{})), span(8, 12))
}

func TestRing_KeepBytes(t *testing.T) {
	j := open(t, Options{KeepBytes: 11_000})
	big := anEntry(1)
	big.Error = strings.Repeat("x", 3000)
	for range 7 {
		mustAppend(t, j, func(tx *Tx) error { _, err := tx.Append("kube1", big, nil); return err })
	}
	head := mustHead(t, j, "kube1")
	if head.Ring.Bytes > 11_000 || head.Ring.Oldest != 5 {
		t.Errorf("got %+v, want entries 5 to 7", head.Ring)
	}
	appendN(t, j, 20, nil)
	if head := mustHead(t, j, "kube1"); head.Ring.Bytes > 11_000 || head.Ring.Oldest != 7 {
		t.Errorf("got %+v, want a big one and twenty small ones", head.Ring)
	}
	// A limit nothing fits keeps the newest.
	j.opts.KeepBytes = 1
	appendN(t, j, 1, nil)
	wantSeqs(t, "the newest", seqs(mustEntries(t, j, "kube1", Query{})), span(28, 28))
}

// A ring that was made smaller shrinks a bounded step at a time.
func TestRing_Shrinks(t *testing.T) {
	j := open(t, Options{})
	appendN(t, j, 3*maxTrim, nil)
	j.opts.Keep = 10
	for _, want := range []int{2*maxTrim + 1, maxTrim + 2, 10, 10} {
		appendN(t, j, 1, nil)
		if got := len(mustEntries(t, j, "kube1", Query{})); got != want {
			t.Errorf("%d entries are left, want %d", got, want)
		}
	}
}

func TestRing_Pins(t *testing.T) {
	j := open(t, Options{Keep: 4})
	appendN(t, j, 3, func(int) []byte { return []byte("evidence") })
	setHead(t, j, func(h *Head) { h.FirstFailure, h.LastSuccess = 1, 3 })
	appendN(t, j, 7, nil)
	wantSeqs(t, "pinned and recent", seqs(mustEntries(t, j, "kube1", Query{})), []uint64{1, 3, 7, 8, 9, 10})
	wantSeqs(t, "pinned evidence", evidenceSeqs(t, j), []uint64{1, 3})

	// Both pins on one entry: it is freed only with the second.
	setHead(t, j, func(h *Head) { h.FirstFailure = 3 })
	wantSeqs(t, "1 is freed", seqs(mustEntries(t, j, "kube1", Query{})), []uint64{3, 7, 8, 9, 10})
	setHead(t, j, func(h *Head) { h.LastSuccess = 10 })
	wantSeqs(t, "3 is still pinned", seqs(mustEntries(t, j, "kube1", Query{})), []uint64{3, 7, 8, 9, 10})
	setHead(t, j, func(h *Head) { h.FirstFailure = 0 })
	wantSeqs(t, "3 is freed", seqs(mustEntries(t, j, "kube1", Query{})), span(7, 10))
	wantSeqs(t, "its evidence too", evidenceSeqs(t, j), nil)

	// A pin in the ring that goes away takes nothing with it.
	setHead(t, j, func(h *Head) { h.LastSuccess = 0 })
	wantSeqs(t, "the ring", seqs(mustEntries(t, j, "kube1", Query{})), span(7, 10))

	err := j.Append(t.Context(), func(tx *Tx) error {
		return tx.SetHead("kube1", func(h *Head) { h.FirstFailure, h.Attempts = 1, 99 })
	})
	wantKind(t, err, KindInvalid, "pinned entry 1 does not exist")
	if head := mustHead(t, j, "kube1"); head.Attempts != 0 || head.FirstFailure != 0 {
		t.Errorf("the refused change is there: %+v", head)
	}
}

func TestRing_Evidence(t *testing.T) {
	j := open(t, Options{})
	capture := func(n int) []byte { return bytes.Repeat([]byte{byte('a' + n%26)}, 1+n*n) }
	for range 2 {
		appendN(t, j, maxCaptures+6, capture)
	}
	wantSeqs(t, "the newest captures", evidenceSeqs(t, j), span(77, 140))
	mustView(t, j, func(v *View) error {
		for seq := uint64(77); seq <= 140; seq++ {
			got, err := v.Evidence("kube1", seq)
			if err != nil || !bytes.Equal(got, capture(int(seq-71))) {
				t.Errorf("evidence of %d has %d bytes (%v)", seq, len(got), err)
			}
		}
		e, err := v.Entry("kube1", 76)
		if err != nil || e.EvidenceSize != 1+5*5 {
			t.Errorf("the entry says that %d bytes were captured (%v)", e.EvidenceSize, err)
		}
		_, err = v.Evidence("kube1", 76)
		wantKind(t, err, KindNotExist, "no evidence is kept for entry 76")
		return nil
	})
}

// Evidence that left its ring while it was pinned goes with the pin, even though
// its entry stays.
func TestRing_EvidenceOfAFormerPin(t *testing.T) {
	j := open(t, Options{})
	appendN(t, j, 1, func(int) []byte { return []byte("first") })
	setHead(t, j, func(h *Head) { h.FirstFailure = 1 })
	appendN(t, j, maxCaptures+1, func(int) []byte { return []byte("later") })
	wantSeqs(t, "pinned and recent", evidenceSeqs(t, j), append([]uint64{1}, span(3, 66)...))
	setHead(t, j, func(h *Head) { h.FirstFailure = 0 })
	wantSeqs(t, "recent only", evidenceSeqs(t, j), span(3, 66))
	wantSeqs(t, "all entries", seqs(mustEntries(t, j, "kube1", Query{})), span(1, 66))
}

// Once the rings are full the file does not grow any more.
func TestRing_FileSize(t *testing.T) {
	j := open(t, Options{Keep: 50})
	capture := func(n int) []byte { return bytes.Repeat([]byte("x"), 1000*(n%10)) }
	size := func() int64 {
		info, err := os.Stat(j.Path())
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	for range 100 {
		appendN(t, j, 3, capture)
	}
	full := size()
	for range 100 {
		appendN(t, j, 3, capture)
	}
	if got := size(); got != full {
		t.Errorf("it grew from %d to %d bytes", full, got)
	}
}

// Pages are filled to the brim, one append after the other.
func TestRing_Density(t *testing.T) {
	j := open(t, Options{})
	for range 60 {
		appendN(t, j, 5, func(n int) []byte { return bytes.Repeat([]byte("x"), (maxChunk-checksumSize)*n) })
	}
	db, err := bbolt.Open(j.Path(), 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.View(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{entriesBucket, evidenceBucket} {
			s := slotBucket(tx, name).Stats()
			if used := float64(s.LeafInuse) / float64(s.LeafAlloc); used < 0.85 {
				t.Errorf("%s: %.0f %% of the pages are used", name, 100*used)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The largest journal of two slots fits into what is preallocated.
func TestRing_Preallocation(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 50 MB: not in short mode")
	}
	j := open(t, Options{Preallocate: DefaultPreallocate})
	evidence := bytes.Repeat([]byte("x"), maxEvidence)
	e := anEntry(1)
	e.Detail = strings.Repeat("d", maxEntry) // cut to the largest entry there is
	for n := range 22 {
		mustAppend(t, j, func(tx *Tx) error {
			for _, slot := range []string{"kube1", "kube2"} {
				for i := range 100 {
					var with []byte
					if (n*100+i)%30 == 0 {
						with = evidence
					}
					if _, err := tx.Append(slot, e, with); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
	info, err := os.Stat(j.Path())
	if err != nil || info.Size() != DefaultPreallocate {
		t.Errorf("the file has %d bytes (%v), want the %d it began with", info.Size(), err, DefaultPreallocate)
	}
}

// ringModel is what the rings must hold, as plain lists.
type ringModel struct {
	entries  []modelEntry // every entry still stored
	seq      uint64
	pins     [2]uint64
	ring     []uint64 // numbers in the ring of entries
	captures []uint64 // numbers in the ring of evidence
}

type modelEntry struct {
	seq      uint64
	id       string
	evidence string // "" if none is stored
}

func (m *ringModel) append(id, evidence string, keep int) {
	m.seq++
	m.entries = append(m.entries, modelEntry{m.seq, id, evidence})
	m.ring = append(m.ring, m.seq)
	if evidence != "" {
		m.captures = append(m.captures, m.seq)
	}
	m.ring = m.ring[max(0, len(m.ring)-keep):]
	m.captures = m.captures[max(0, len(m.captures)-maxCaptures):]
	m.captures = slices.DeleteFunc(m.captures, func(s uint64) bool { return s < m.ring[0] })
	m.sweep()
}

// sweep drops what no ring and no pin holds.
func (m *ringModel) sweep() {
	pinned := func(seq uint64) bool { return seq == m.pins[0] || seq == m.pins[1] }
	m.entries = slices.DeleteFunc(m.entries, func(e modelEntry) bool { return !slices.Contains(m.ring, e.seq) && !pinned(e.seq) })
	for i, e := range m.entries {
		if !slices.Contains(m.captures, e.seq) && !pinned(e.seq) {
			m.entries[i].evidence = ""
		}
	}
}

// The rings do what the lists do, whatever happens in whatever order.
func TestRing_Model(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		keep := rapid.IntRange(1, 90).Draw(r, "keep")
		j := New(t.TempDir(), Options{Keep: keep, Preallocate: -1})
		var m ringModel
		for range rapid.IntRange(1, 12).Draw(r, "transactions") {
			err := j.Append(t.Context(), func(tx *Tx) error {
				for range rapid.IntRange(1, 4).Draw(r, "steps") {
					if err := stepModel(r, tx, &m, keep); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				r.Fatal(err)
			}
			checkModel(r, j, &m)
		}
	})
}

// stepModel does one thing to the journal and to the model.
func stepModel(r *rapid.T, tx *Tx, m *ringModel, keep int) error {
	if m.seq > 0 && rapid.IntRange(0, 3).Draw(r, "what") == 0 {
		pins := m.pins
		choice := rapid.SampledFrom(append([]modelEntry{{}}, m.entries...)).Draw(r, "pin")
		pins[rapid.IntRange(0, 1).Draw(r, "which")] = choice.seq
		m.pins = pins
		m.sweep()
		return tx.SetHead("kube1", func(h *Head) { h.FirstFailure, h.LastSuccess = pins[0], pins[1] })
	}
	for range rapid.SampledFrom([]int{1, 1, 2, 40}).Draw(r, "entries") {
		evidence := ""
		if rapid.Bool().Draw(r, "captured") {
			evidence = strings.Repeat("e", rapid.SampledFrom([]int{1, maxChunk - checksumSize, maxChunk, 3 * maxChunk}).Draw(r, "size"))
		}
		e := anEntry(1)
		e.ID = fmt.Sprint("id-", m.seq+1)
		if _, err := tx.Append("kube1", e, []byte(evidence)); err != nil {
			return err
		}
		m.append(e.ID, evidence, keep)
	}
	return nil
}

func checkModel(r *rapid.T, j *Journal, m *ringModel) {
	err := j.View(r.Context(), func(v *View) error {
		entries, err := v.Entries("kube1", Query{})
		if err != nil {
			return err
		}
		var got []modelEntry
		for _, e := range entries {
			evidence, err := v.Evidence("kube1", e.Seq)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			got = append(got, modelEntry{e.Seq, e.ID, string(evidence)})
		}
		if diff := cmp.Diff(m.entries, got, cmp.AllowUnexported(modelEntry{})); diff != "" {
			r.Errorf("(-model +journal):\n%s", diff)
		}
		return v.Verify()
	})
	if err != nil {
		r.Fatal(err)
	}
}
