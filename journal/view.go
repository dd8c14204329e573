package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"go.etcd.io/bbolt"
)

// View reads one state of the journal. It is good until the function it was
// given to returns, and belongs to one goroutine. Everything it returns is a
// copy. Its errors are *Error: KindCorrupt for damage, KindNotExist for what is
// not there.
type View struct {
	h            *handle
	slots, pairs *bbolt.Bucket
	open         map[string]*slotState
	ended        bool
}

// slotState is a slot's part of the database with its decoded head.
type slotState struct {
	name                      string
	bucket, entries, evidence *bbolt.Bucket
	head                      Head
	changed                   bool
}

// guard is handle.guard for the methods of a View.
func (v *View) guard(fn func() error) error {
	if v.ended {
		return invalid(opRead, v.h.path, "", "view: %w", errEnded)
	}
	return v.h.guard(fn)
}

// end makes the methods of v fail from now on.
func (v *View) end() { v.ended = true }

// Slots returns the names of the slots that have a head, sorted.
func (v *View) Slots() []string {
	var names []string
	// An error here is a fault, and a fault is what Append or View returns.
	_ = v.guard(func() error {
		return v.slots.ForEachBucket(func(name []byte) error {
			names = append(names, string(name))
			return nil
		})
	})
	return names
}

// Head returns where the slot stands, and the zero Head if the journal does not
// know the slot.
func (v *View) Head(slot string) (Head, error) {
	var head Head
	err := v.guard(func() error {
		s, err := v.slot(slot)
		if s != nil && err == nil {
			head = s.head.clone()
		}
		return err
	})
	return head, err
}

// Claim returns the claim of the pair, and the zero Claim if there was none yet.
func (v *View) Claim(pair string) (Claim, error) {
	var c Claim
	err := v.guard(func() (err error) {
		value := v.pairs.Get([]byte(pair))
		if value == nil {
			return nil
		}
		if c, err = decodeFramed[Claim]([]byte(pair), value); err != nil {
			return corrupt(opRead, v.h.path, fmt.Errorf("claim of %s: %w", pair, err))
		}
		return nil
	})
	return c, err
}

// Entry returns one entry: KindNotExist if the slot has none of that number (any
// more), KindCorrupt with an *EntryError if it cannot be read, KindNewer if only
// a newer version can.
func (v *View) Entry(slot string, seq uint64) (Entry, error) {
	var e Entry
	err := v.guard(func() (err error) {
		bucket := v.bucket(slot, entriesBucket)
		if bucket == nil {
			return v.notFound("%s has no entries", slot)
		}
		key := entryKey(seq)
		value := bucket.Get(key)
		if value == nil {
			return v.notFound("%s has no entry %d", slot, seq)
		}
		if e, err = decodeEntry(slot, key, value); err != nil {
			return v.damaged(&EntryError{Slot: slot, First: seq, Last: seq, Err: err})
		}
		return nil
	})
	return e, err
}

// Evidence returns what was captured with an entry: KindNotExist if that was
// nothing, or is not kept any more. If some of it is damaged, the rest comes with
// an error of KindCorrupt.
func (v *View) Evidence(slot string, seq uint64) ([]byte, error) {
	var data []byte
	err := v.guard(func() error {
		bucket := v.bucket(slot, evidenceBucket)
		if bucket == nil {
			return v.notFound("%s has no evidence", slot)
		}
		var damage error
		if data, damage = readChunks(bucket, seq); data == nil && damage == nil {
			return v.notFound("no evidence is kept for entry %d of %s", seq, slot)
		}
		e, err := v.sized(slot, seq)
		switch {
		case err != nil:
			damage = errors.Join(damage, err)
		case damage == nil && e.EvidenceSize != len(data):
			damage = fmt.Errorf("evidence: %d bytes of %d", len(data), e.EvidenceSize)
		}
		if damage != nil {
			return v.damaged(&EntryError{Slot: slot, First: seq, Last: seq, Err: damage})
		}
		return nil
	})
	return data, err
}

// sized returns the entry whose evidence is being read.
func (v *View) sized(slot string, seq uint64) (Entry, error) {
	key := entryKey(seq)
	bucket := v.bucket(slot, entriesBucket)
	if bucket == nil || bucket.Get(key) == nil {
		return Entry{}, ErrMissing
	}
	return decodeEntry(slot, key, bucket.Get(key))
}

// readChunks joins the pieces of evidence of one entry. Pieces that are damaged
// or missing are left out and named in the error.
func readChunks(bucket *bbolt.Bucket, seq uint64) (data []byte, damage error) {
	next := 0
	c := bucket.Cursor()
	prefix := entryKey(seq)
	for k, value := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, value = c.Next() {
		_, n, err := splitChunkKey(k)
		if err == nil && n != next {
			err = fmt.Errorf("evidence: piece %d is %w", next, ErrMissing)
		}
		piece, frameErr := unframe(k, value)
		if frameErr != nil {
			err = errors.Join(err, fmt.Errorf("evidence: piece %d: %w", n, frameErr))
		}
		data = append(data, piece...)
		damage = errors.Join(damage, err)
		next = n + 1
	}
	return data, damage
}

// slot returns the decoded head and the buckets of a slot, and nil if the
// journal does not know it.
func (v *View) slot(name string) (*slotState, error) {
	if s := v.open[name]; s != nil {
		return s, nil
	}
	bucket := v.slots.Bucket([]byte(name))
	if bucket == nil {
		return nil, nil
	}
	s := &slotState{name: name, bucket: bucket, entries: bucket.Bucket(entriesBucket), evidence: bucket.Bucket(evidenceBucket)}
	if s.entries == nil || s.evidence == nil {
		return nil, corrupt(opRead, v.h.path, fmt.Errorf("slot %s lacks its buckets", name))
	}
	var err error
	if s.head, err = decodeFramed[Head](headKey, bucket.Get(headKey)); err != nil {
		return nil, corrupt(opRead, v.h.path, fmt.Errorf("head of %s: %w", name, err))
	}
	v.remember(s)
	return s, nil
}

func (v *View) remember(s *slotState) {
	if v.open == nil {
		v.open = make(map[string]*slotState)
	}
	v.open[s.name] = s
}

// bucket returns a bucket of a slot, and nil if there is none. It needs no head,
// so that a damaged one does not hide the entries.
func (v *View) bucket(slot string, name []byte) *bbolt.Bucket {
	if b := v.slots.Bucket([]byte(slot)); b != nil {
		return b.Bucket(name)
	}
	return nil
}

func (v *View) notFound(format string, args ...any) error {
	return &Error{Kind: KindNotExist, Op: opRead, Path: v.h.path, Err: &notFoundError{fmt.Sprintf(format, args...)}}
}

// notFoundError is fs.ErrNotExist in better words.
type notFoundError struct{ text string }

func (e *notFoundError) Error() string { return e.text }

func (e *notFoundError) Is(target error) bool { return target == fs.ErrNotExist }

// damaged wraps what is wrong with single entries. Damage it is not, if a newer
// version can read all of them.
func (v *View) damaged(damage ...error) error {
	err := damage[0]
	if len(damage) > 1 {
		err = errors.Join(damage...)
	}
	if slices.ContainsFunc(damage, func(d error) bool { return !errors.Is(d, errNewer) }) {
		return corrupt(opRead, v.h.path, err)
	}
	return &Error{Kind: KindNewer, Op: opRead, Path: v.h.path, Err: err, Hint: hintNewer}
}
