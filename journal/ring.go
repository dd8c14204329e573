package journal

import (
	"bytes"
	"fmt"

	"go.etcd.io/bbolt"
)

const (
	// maxCaptures is how many captures of evidence a slot keeps.
	maxCaptures = 64
	// maxChunk is the length of one piece of evidence as stored. bbolt puts at
	// least two keys on a page; two of this size just fill one.
	maxChunk = 2000
	// maxTrim bounds how many entries one append drops. A ring that is in order
	// needs far fewer; one that was made smaller shrinks over many appends,
	// because freeing much at once makes every later commit dearer.
	maxTrim = 64
)

// capture stores the evidence of an entry and drops the oldest captures.
func (s *slotState) capture(seq uint64, evidence []byte) error {
	if len(evidence) == 0 {
		return nil
	}
	for n := 0; len(evidence) > 0; n++ {
		piece := evidence[:min(len(evidence), maxChunk-checksumSize)]
		evidence = evidence[len(piece):]
		key := chunkKey(seq, n)
		if err := s.evidence.Put(key, frame(key, piece)); err != nil {
			return err
		}
	}
	ring := &s.head.Ring
	if ring.Captures == 0 {
		ring.OldestEvidence = seq
	}
	ring.Captures++
	for ring.Captures > maxCaptures {
		if err := s.retireEvidence(); err != nil {
			return err
		}
	}
	return nil
}

// trim drops the oldest entries until the rest is within the limits. The newest
// entry always stays.
func (s *slotState) trim(o *Options) error {
	ring := &s.head.Ring
	for range maxTrim {
		count := s.head.Seq - ring.Oldest + 1
		if count == 1 || count <= uint64(o.Keep) && ring.Bytes <= o.KeepBytes {
			return nil
		}
		if err := s.retire(); err != nil {
			return err
		}
	}
	return nil
}

// retire takes the oldest entry out of the ring, and with it its evidence. A
// pinned entry stays in the database.
func (s *slotState) retire() error {
	ring := &s.head.Ring
	seq := ring.Oldest
	key, value := s.entries.Cursor().Seek(entryKey(seq))
	if !bytes.Equal(key, entryKey(seq)) {
		// It is missing: damage, or a gap a salvage left. Go on where entries are.
		ring.Oldest = s.head.Seq
		if next, err := keySeq(key); err == nil && next > seq {
			ring.Oldest = min(next, s.head.Seq)
		}
		return nil
	}
	ring.Bytes = max(ring.Bytes-int64(len(value)), 0)
	ring.Oldest++
	for ring.Captures > 0 && ring.OldestEvidence < ring.Oldest {
		if err := s.retireEvidence(); err != nil {
			return err
		}
	}
	if s.head.pins(seq) {
		return nil
	}
	return s.entries.Delete(entryKey(seq))
}

// retireEvidence takes the oldest capture out of its ring. A pinned entry keeps
// its evidence.
func (s *slotState) retireEvidence() error {
	ring := &s.head.Ring
	seq := ring.OldestEvidence
	if !s.head.pins(seq) {
		if err := deleteChunks(s.evidence, seq); err != nil {
			return err
		}
	}
	ring.Captures--
	ring.OldestEvidence = 0
	if ring.Captures == 0 {
		return nil
	}
	key, _ := s.evidence.Cursor().Seek(entryKey(seq + 1))
	next, _, err := splitChunkKey(key)
	if err != nil {
		return fmt.Errorf("%d captures of evidence are %w", ring.Captures, ErrMissing)
	}
	ring.OldestEvidence = next
	return nil
}

// release drops what only a former pin kept. A pin that still holds, and an
// entry or evidence that is in its ring anyway, stays.
func (s *slotState) release(seq uint64) error {
	if seq == 0 || s.head.pins(seq) {
		return nil
	}
	ring := &s.head.Ring
	if !ring.hasEvidence(seq) {
		if err := deleteChunks(s.evidence, seq); err != nil {
			return err
		}
	}
	if seq < ring.Oldest {
		return s.entries.Delete(entryKey(seq))
	}
	return nil
}

// deleteChunks deletes the evidence of one entry.
func deleteChunks(bucket *bbolt.Bucket, seq uint64) error {
	c := bucket.Cursor()
	prefix := entryKey(seq)
	for key, _ := c.Seek(prefix); bytes.HasPrefix(key, prefix); key, _ = c.Seek(prefix) {
		if err := c.Delete(); err != nil {
			return err
		}
	}
	return nil
}
