// Package journal is the flight recorder of the node stacks: a durable, ordered
// list of entries for each slot, where each slot stands, and which slot of a pair
// has the right to run.
//
// It knows neither the states nor what is legal between them; states are strings
// to it. Whoever appends reads the head, decides, and writes, all in one
// transaction under one lock, so that no two processes act on the same head:
//
//	err := j.Append(ctx, func(tx *journal.Tx) error {
//		head, err := tx.Head("kube1")
//		if err != nil {
//			return err
//		}
//		// decide by head, then:
//		_, err = tx.Append("kube1", journal.Entry{…}, nil)
//		return err
//	})
//
// # What it promises
//
//   - What Append answered nil for is on disk, and stays there through a kill, a
//     crash or a power cut. One append costs two flushes of the disk.
//   - A failure says what it means by its Kind. Nothing was written then, except
//     that KindUnknown says that nobody can tell.
//   - A damaged, truncated or foreign file is an error of KindCorrupt: never a
//     crash, never wrong data, never a fresh journal in its place.
//   - Damage to one entry hides no other.
//   - Neither the file nor the memory to read it grows without bound: old entries
//     and old evidence make room, within the transaction that needs it.
//   - The lock is held for one commit at a time, never across an action, and
//     nobody waits for it past the end of the context.
//
// # Files
//
// A journal is a directory (0700) with two files (0600). journal.db is a bbolt
// database. journal.lock is what every process locks before it opens the
// database, exclusively to append and shared to read; it is never deleted, and
// says who appends. bbolt's own lock is only a second fence, because it is
// polled.
//
// The database holds
//
//	meta
//	  format             {"format":1}
//	slots
//	  SLOT
//	    head             Head
//	    entries
//	      SEQ            Entry; the key is 8 bytes, big-endian
//	    evidence
//	      SEQ PIECE      up to 2000 bytes; the key is 8 + 2 bytes, big-endian
//	pairs
//	  PAIR               Claim
//
// Every value is text in one frame: the CRC32C over key and payload as eight hex
// digits, a space, the payload. The payload is JSON, except that evidence is as
// it was captured. JSON members that this version does not know survive.
//
// An entry's prev is the first 16 bytes, in hex, of the SHA-256 over key and
// value of the entry before it; the head has that of the last entry.
package journal
