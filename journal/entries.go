package journal

import (
	"go.etcd.io/bbolt"
)

// Query selects entries of one slot; the zero Query selects all.
type Query struct {
	// Limit is how many entries to return at most; zero: all.
	Limit int
	// Reverse asks for the newest first. With a Limit that reads the newest
	// only, however many there are.
	Reverse bool
	// Before and After bound the sequence numbers, both exclusive; zero bounds
	// nothing.
	Before, After uint64
	// Match keeps an entry if it returns true; nil keeps all. It must only look:
	// neither keep the pointer nor write to the journal.
	Match func(*Entry) bool
}

// Entries returns the entries of a slot that q selects, by sequence number. A
// slot the journal does not know has none.
//
// Damage hides nothing that can be read: with an error of KindCorrupt come all
// good entries, and the error holds an *EntryError for every entry that is
// damaged or missing in the range that was read.
func (v *View) Entries(slot string, q Query) ([]Entry, error) {
	s := scan{v: v, slot: slot, q: q}
	if err := s.start(); err != nil {
		return nil, err
	}
	var found []Entry
	for s.cursor != nil && (q.Limit <= 0 || len(found) < q.Limit) {
		e, ok, err := s.next()
		if err != nil {
			return found, err
		}
		if !ok {
			break
		}
		if q.Match == nil || q.Match(&e) {
			found = append(found, e)
		}
	}
	if len(s.damage) > 0 {
		return found, v.damaged(s.damage...)
	}
	return found, nil
}

// scan is one walk over the entries of a slot. Each step is guarded by itself,
// so that Query.Match runs outside.
type scan struct {
	v      *View
	slot   string
	q      Query
	cursor *bbolt.Cursor // nil if there is nothing to walk over
	begun  bool
	// Every number from low to high must be there; due is the next one. Both
	// are zero if the head cannot say.
	low, high, due uint64
	damage         []error
}

// start finds the entries and what must be among them.
func (s *scan) start() error {
	return s.v.guard(func() error {
		bucket := s.v.bucket(s.slot, entriesBucket)
		if bucket == nil || s.q.After == ^uint64(0) {
			return nil
		}
		s.cursor = bucket.Cursor()
		state, err := s.v.slot(s.slot)
		if err != nil {
			s.damage = append(s.damage, cause(err))
			return nil
		}
		if state.head.Seq == 0 {
			return nil
		}
		s.low, s.high = max(state.head.Ring.Oldest, s.q.After+1), state.head.Seq
		if s.q.Before > 0 {
			s.high = min(s.high, s.q.Before-1)
		}
		if s.due = s.low; s.q.Reverse {
			s.due = s.high
		}
		return nil
	})
}

// next returns the next entry that can be read; false if there is none.
func (s *scan) next() (e Entry, ok bool, err error) {
	err = s.v.guard(func() error {
		for {
			key, value := s.step()
			if key == nil {
				s.endOfRange()
				return nil
			}
			seq, err := keySeq(key)
			if err != nil {
				s.damage = append(s.damage, err)
				continue
			}
			if !s.inRange(seq) {
				s.endOfRange()
				return nil
			}
			s.account(seq)
			if e, err = decodeEntry(s.slot, key, value); err != nil {
				s.note(seq, seq, err)
				continue
			}
			ok = true
			return nil
		}
	})
	return e, ok, err
}

// step moves the cursor.
func (s *scan) step() (key, value []byte) {
	if s.begun {
		if s.q.Reverse {
			return s.cursor.Prev()
		}
		return s.cursor.Next()
	}
	s.begun = true
	switch {
	case !s.q.Reverse:
		return s.cursor.Seek(entryKey(s.q.After + 1))
	case s.q.Before == 0:
		return s.cursor.Last()
	}
	if key, _ := s.cursor.Seek(entryKey(s.q.Before)); key == nil {
		return s.cursor.Last()
	}
	return s.cursor.Prev()
}

func (s *scan) inRange(seq uint64) bool {
	if s.q.Reverse {
		return seq > s.q.After
	}
	return s.q.Before == 0 || seq < s.q.Before
}

// account notes the numbers that should have come before seq. Numbers below low
// are pinned entries, and only some of those exist.
func (s *scan) account(seq uint64) {
	switch {
	case seq < s.low || seq > s.high:
	case s.q.Reverse:
		if seq < s.due {
			s.note(seq+1, s.due, ErrMissing)
		}
		s.due = seq - 1
	default:
		if seq > s.due {
			s.note(s.due, seq-1, ErrMissing)
		}
		s.due = seq + 1
	}
}

// endOfRange notes the numbers that should have come yet.
func (s *scan) endOfRange() {
	first, last := s.due, s.high
	if s.q.Reverse {
		first, last = s.low, s.due
	}
	if s.high > 0 && first <= last {
		s.note(first, last, ErrMissing)
	}
}

func (s *scan) note(first, last uint64, err error) {
	s.damage = append(s.damage, &EntryError{Slot: s.slot, First: first, Last: last, Err: err})
}
