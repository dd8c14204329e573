package journal

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"go.etcd.io/bbolt"
)

// claimVersion is the version of a claim's JSON that this package writes.
const claimVersion = 1

// Tx writes to the journal, and reads what it wrote. Like a View it is good
// until the function it was given to returns, and belongs to one goroutine.
type Tx struct {
	*View
	opts *Options
	// claims are the values put for pairs. Heads are put at the end, once each.
	claims map[string][]byte
	// written is everything put that tells this transaction from the one before.
	written []write
}

// write is a value that was put: the claim of a pair or the head of a slot.
type write struct {
	pair, slot string
	value      []byte
}

// isIn reports whether w is what v sees.
func (w *write) isIn(v *View) bool {
	if w.slot == "" {
		return bytes.Equal(v.pairs.Get([]byte(w.pair)), w.value)
	}
	bucket := v.slots.Bucket([]byte(w.slot))
	return bucket != nil && bytes.Equal(bucket.Get(headKey), w.value)
}

// Append adds an entry to a slot, which comes into being with its first one, and
// returns the entry as readers will get it. It needs an ID and a Kind; V, Seq,
// Slot, EvidenceSize and Prev are filled in. Texts that are too long are cut,
// visibly; identifiers that are too long give KindInvalid.
//
// Evidence, if any, is captured with it; what exceeds 64 KiB is cut. The slot's
// head follows: Seq and Hash always, and for an entry with a To also State,
// Since, Boot, Activation and Run. What is then too old for the rings is dropped
// in the same transaction.
func (t *Tx) Append(slot string, e Entry, evidence []byte) (Entry, error) {
	err := t.guard(func() error {
		s, err := t.slotForWriting(slot)
		if err != nil {
			return err
		}
		return t.append(s, &e, cutEvidence(evidence))
	})
	if err != nil {
		return Entry{}, err
	}
	return e, nil
}

func (t *Tx) append(s *slotState, e *Entry, evidence []byte) error {
	e.V, e.Seq, e.Slot, e.Prev, e.EvidenceSize = EntryVersion, s.head.Seq+1, s.name, s.head.Hash, len(evidence)
	value, err := encodeEntry(e)
	if err != nil {
		return invalid(opAppend, t.h.path, "", "entry %q of %s: %w", e.ID, s.name, err)
	}
	key := entryKey(e.Seq)
	if err := s.entries.Put(key, value); err != nil {
		return t.broken(err)
	}
	s.changed = true
	s.head.Seq, s.head.Hash = e.Seq, entryHash(key, value)
	if e.To != "" {
		s.head.State, s.head.Since = e.To, e.Time
		s.head.Boot, s.head.Activation, s.head.Run = e.Boot, e.Activation, e.Run
	}
	if err := s.capture(e.Seq, evidence); err != nil {
		return t.broken(err)
	}
	s.head.Ring.Bytes += int64(len(value))
	if s.head.Ring.Oldest == 0 {
		s.head.Ring.Oldest = e.Seq
	}
	if err := s.trim(t.opts); err != nil {
		return t.broken(err)
	}
	return nil
}

// broken ends the transaction for good: something was put and something that
// belongs to it was not, and the caller must not be able to commit that.
func (t *Tx) broken(err error) error {
	t.h.fault = corrupt(opAppend, t.h.path, err)
	return t.h.fault
}

// SetHead lets change alter the head of a slot, which comes into being if need
// be. Seq, Hash and Ring are the journal's own: changes to them are undone. A pin
// must name an entry that exists; the entry a pin leaves is dropped if only the
// pin kept it. If change breaks that rule the head stays as it was, and the error
// is KindInvalid.
func (t *Tx) SetHead(slot string, change func(*Head)) error {
	var s *slotState
	err := t.guard(func() (err error) {
		s, err = t.slotForWriting(slot)
		return err
	})
	if err != nil {
		return err
	}
	head := s.head.clone()
	change(&head)
	head.Seq, head.Hash, head.Ring = s.head.Seq, s.head.Hash, s.head.Ring
	return t.guard(func() error {
		for _, pin := range []uint64{head.FirstFailure, head.LastSuccess} {
			if pin != 0 && !s.head.pins(pin) && s.entries.Get(entryKey(pin)) == nil {
				return invalid(opAppend, t.h.path, "", "head of %s: pinned entry %d does not exist", slot, pin)
			}
		}
		old := []uint64{s.head.FirstFailure, s.head.LastSuccess}
		// A copy: change may have kept the pointer.
		s.head, s.changed = head.clone(), true
		for _, seq := range old {
			if err := s.release(seq); err != nil {
				return t.broken(err)
			}
		}
		return nil
	})
}

// SetClaim replaces the claim of a pair.
func (t *Tx) SetClaim(pair string, c Claim) error {
	return t.guard(func() error {
		if err := checkName("pair", pair); err != nil {
			return invalid(opAppend, t.h.path, "", "claim: %w", err)
		}
		c.V, c.Time = claimVersion, c.Time.Round(0)
		payload, err := c.MarshalJSON()
		if err != nil {
			return invalid(opAppend, t.h.path, "", "claim of %s: %w", pair, err)
		}
		value := frame([]byte(pair), payload)
		if err := t.pairs.Put([]byte(pair), value); err != nil {
			return t.broken(err)
		}
		if t.claims == nil {
			t.claims = make(map[string][]byte)
		}
		t.claims[pair] = value
		return nil
	})
}

// slotForWriting returns the slot's buckets, having made them if need be.
func (t *Tx) slotForWriting(name string) (*slotState, error) {
	if err := checkName("slot", name); err != nil {
		return nil, invalid(opAppend, t.h.path, "", "%w", err)
	}
	s, err := t.slot(name)
	if err == nil && s == nil {
		if s, err = makeSlot(t.slots, name); err != nil {
			return nil, t.broken(err)
		}
		t.remember(s)
	}
	if err != nil {
		return nil, err
	}
	// Keys only ever grow: full pages are never touched again. bbolt forgets
	// this with every transaction.
	s.entries.FillPercent, s.evidence.FillPercent = 1, 1
	return s, nil
}

// makeSlot makes the buckets of a slot. Its head is put with the others.
func makeSlot(slots *bbolt.Bucket, name string) (s *slotState, err error) {
	s = &slotState{name: name}
	if s.bucket, err = slots.CreateBucket([]byte(name)); err != nil {
		return nil, err
	}
	if s.entries, err = s.bucket.CreateBucket(entriesBucket); err != nil {
		return nil, err
	}
	s.evidence, err = s.bucket.CreateBucket(evidenceBucket)
	return s, err
}

// wrote reports whether there is anything to commit.
func (t *Tx) wrote() bool {
	if len(t.claims) > 0 {
		return true
	}
	for _, s := range t.open {
		if s.changed {
			return true
		}
	}
	return false
}

// flush puts the heads that changed.
func (t *Tx) flush() error {
	return t.guard(func() error {
		for _, name := range slices.Sorted(maps.Keys(t.open)) {
			s := t.open[name]
			if !s.changed {
				continue
			}
			payload, err := s.head.MarshalJSON()
			if err != nil {
				return invalid(opAppend, t.h.path, "", "head of %s: %w", name, err)
			}
			value := frame(headKey, payload)
			if err := s.bucket.Put(headKey, value); err != nil {
				return t.broken(fmt.Errorf("head of %s: %w", name, err))
			}
			t.written = append(t.written, write{slot: name, value: value})
		}
		for pair, value := range t.claims {
			t.written = append(t.written, write{pair: pair, value: value})
		}
		return nil
	})
}
