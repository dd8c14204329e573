package journal

import (
	"fmt"

	"go.etcd.io/bbolt"
)

// Verify reads everything this version stored and checks it: every checksum,
// the numbering and the chain of the entries, every head against its entries,
// every claim, and that what the rings say they keep is there. It returns nil, or
// an error of KindCorrupt that names all it found. It takes time in proportion to
// the size of the journal.
func (v *View) Verify() error {
	var damage []error
	err := v.guard(func() error {
		if err := v.slots.ForEachBucket(func(name []byte) error {
			damage = append(damage, v.verifySlot(string(name))...)
			return nil
		}); err != nil {
			return err
		}
		return v.pairs.ForEach(func(pair, value []byte) error {
			if _, err := decodeFramed[Claim](pair, value); err != nil {
				damage = append(damage, fmt.Errorf("claim of %s: %w", pair, err))
			}
			return nil
		})
	})
	if err != nil {
		return failure(opRead, v.h.path, err)
	}
	if len(damage) > 0 {
		return v.damaged(damage...)
	}
	return nil
}

// audit checks one slot.
type audit struct {
	s      *slotState
	damage []error
	// What the entries read so far add up to.
	last  uint64 // the last number; zero before the first
	hash  string // of that entry
	bytes int64  // from Ring.Oldest on
	sizes map[uint64]int
}

func (v *View) verifySlot(name string) []error {
	s, err := v.slot(name)
	if err != nil {
		return []error{cause(err)}
	}
	a := audit{s: s, sizes: make(map[uint64]int)}
	c := s.entries.Cursor()
	for key, value := c.First(); key != nil; key, value = c.Next() {
		a.entry(key, value)
	}
	a.end()
	a.pieces(s.evidence)
	return a.damage
}

// entry checks one entry and its place behind the entry before.
func (a *audit) entry(key, value []byte) {
	seq, err := keySeq(key)
	if err != nil {
		a.damage = append(a.damage, err)
		return
	}
	head := &a.s.head
	if head.Ring.Oldest <= seq {
		a.bytes += int64(len(value))
		if due := max(a.last+1, head.Ring.Oldest); seq > due {
			a.note(due, seq-1, ErrMissing)
		}
	} else if !head.pins(seq) {
		a.note(seq, seq, fmt.Errorf("it is older than the ring, which begins with %d, and not pinned", head.Ring.Oldest))
	}
	e, err := decodeEntry(a.s.name, key, value)
	switch {
	case err != nil:
		a.note(seq, seq, err)
	case seq == 1 && e.Prev != "", seq == a.last+1 && a.hash != "" && e.Prev != a.hash:
		a.note(seq, seq, ErrChain)
	}
	// The chain goes over the stored bytes, whether they can be read or not.
	a.last, a.hash = seq, entryHash(key, value)
	if a.sizes[seq] = e.EvidenceSize; err != nil {
		a.sizes[seq] = -1 // nobody knows
	}
}

// end compares the head with the entries.
func (a *audit) end() {
	head := &a.s.head
	switch {
	case a.last < head.Seq:
		a.note(max(a.last+1, head.Ring.Oldest), head.Seq, ErrMissing)
	case a.last > head.Seq:
		a.note(head.Seq+1, a.last, fmt.Errorf("the head ends with entry %d", head.Seq))
	case a.hash != head.Hash:
		a.note(a.last, a.last, fmt.Errorf("it is not the entry the head ends with: %w", ErrChain))
	}
	if a.bytes != head.Ring.Bytes {
		a.damage = append(a.damage, fmt.Errorf("head of %s: its entries have %d bytes, it says %d", a.s.name, a.bytes, head.Ring.Bytes))
	}
	for _, pin := range []uint64{head.FirstFailure, head.LastSuccess} {
		if _, ok := a.sizes[pin]; pin != 0 && !ok {
			a.note(pin, pin, fmt.Errorf("pinned, but %w", ErrMissing))
		}
	}
}

// pieces checks the evidence.
func (a *audit) pieces(bucket *bbolt.Bucket) {
	head := &a.s.head
	captures := 0
	c := bucket.Cursor()
	for key, _ := c.First(); key != nil; {
		seq, _, err := splitChunkKey(key)
		if err != nil {
			a.damage = append(a.damage, err)
			key, _ = c.Next()
			continue
		}
		data, err := readChunks(bucket, seq)
		size, ok := a.sizes[seq]
		switch {
		case err != nil:
			a.note(seq, seq, err)
		case !ok:
			a.note(seq, seq, fmt.Errorf("it has evidence, but is %w", ErrMissing))
		case size >= 0 && size != len(data):
			a.note(seq, seq, fmt.Errorf("evidence: %d bytes of %d", len(data), size))
		case !head.Ring.hasEvidence(seq) && !head.pins(seq):
			a.note(seq, seq, fmt.Errorf("its evidence is older than the ring, which begins with %d, and not pinned", head.Ring.OldestEvidence))
		}
		if head.Ring.hasEvidence(seq) {
			captures++
		}
		key, _ = c.Seek(entryKey(seq + 1))
	}
	if captures != head.Ring.Captures {
		a.damage = append(a.damage, fmt.Errorf("head of %s: %d captures of evidence are kept, it says %d", a.s.name, captures, head.Ring.Captures))
	}
}

func (a *audit) note(first, last uint64, err error) {
	a.damage = append(a.damage, &EntryError{Slot: a.s.name, First: first, Last: last, Err: err})
}
