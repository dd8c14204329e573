package journal

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"
)

func TestAppend_FillsAndChains(t *testing.T) {
	j := open(t, Options{})
	var written []Entry
	for n := range 3 {
		mustAppend(t, j, func(tx *Tx) error {
			for _, slot := range []string{"kube1", "kube2"} {
				e, err := tx.Append(slot, anEntry(n), []byte(slot))
				if err != nil {
					return err
				}
				written = append(written, e)
			}
			return nil
		})
	}
	for i, slot := range []string{"kube1", "kube2"} {
		read := mustEntries(t, j, slot, Query{})
		if diff := cmp.Diff([]Entry{written[i], written[2+i], written[4+i]}, read); diff != "" {
			t.Errorf("%s (-told +read):\n%s", slot, diff)
		}
		for n, e := range read {
			if e.V != 1 || e.Seq != uint64(n)+1 || e.Slot != slot || e.EvidenceSize != 5 {
				t.Errorf("entry %d of %s: %+v", n, slot, e)
			}
			if (e.Prev == "") != (n == 0) || n > 0 && len(e.Prev) != 2*hashSize {
				t.Errorf("entry %d of %s continues %q", n, slot, e.Prev)
			}
		}
	}
}

func TestAppend_MovesTheHead(t *testing.T) {
	j := open(t, Options{})
	transition := anEntry(1)
	transition.Kind, transition.Event, transition.From, transition.To = KindTransition, "wired", "Running", "Wired"
	mustAppend(t, j, func(tx *Tx) error {
		if head, err := tx.Head("kube1"); err != nil || head.Seq != 0 {
			t.Errorf("the head of a slot nobody knows: %+v (%v)", head, err)
		}
		if err := tx.SetHead("kube1", func(h *Head) {
			h.Attempts, h.Seq, h.Hash, h.Ring = 3, 99, "forged", Ring{Oldest: 98}
			h.Extra = Extra{"later": json.RawMessage(`1`)}
		}); err != nil {
			return err
		}
		_, err := tx.Append("kube1", transition, nil)
		return err
	})
	note := anEntry(2)
	note.Boot, note.Activation, note.Run, note.Time = "other", "other", "other", aTime.AddDate(1, 0, 0)
	mustAppend(t, j, func(tx *Tx) error { _, err := tx.Append("kube1", note, nil); return err })

	got := mustHead(t, j, "kube1")
	if len(got.Hash) != 2*hashSize || got.Ring.Bytes == 0 {
		t.Errorf("got %+v", got)
	}
	want := Head{
		State: "Wired", Since: aTime, Boot: transition.Boot, Activation: transition.Activation, Run: transition.Run,
		Attempts: 3, Seq: 2, Hash: got.Hash, Ring: Ring{Oldest: 1, Bytes: got.Ring.Bytes}, Extra: Extra{"later": json.RawMessage(`1`)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What a Tx hands out and takes in is copied: nobody changes a head from outside.
func TestTx_Copies(t *testing.T) {
	j := open(t, Options{})
	mustAppend(t, j, func(tx *Tx) error {
		var kept *Head
		if err := tx.SetHead("kube1", func(h *Head) {
			h.Open, h.Extra, kept = &Open{Run: "r"}, Extra{"a": json.RawMessage(`1`)}, h
		}); err != nil {
			return err
		}
		kept.Open.Run, kept.Extra["a"] = "changed", json.RawMessage(`2`)
		head, err := tx.Head("kube1")
		head.Open.Run, head.Extra["b"] = "changed", json.RawMessage(`3`)
		return err
	})
	head := mustHead(t, j, "kube1")
	if head.Open.Run != "r" || len(head.Extra) != 1 || string(head.Extra["a"]) != "1" {
		t.Errorf("got %+v, open %+v", head, head.Open)
	}
}

// Within its transaction, whoever writes reads what was written.
func TestTx_ReadsItsWrites(t *testing.T) {
	j := open(t, Options{})
	mustAppend(t, j, func(tx *Tx) error {
		if _, err := tx.Append("kube1", anEntry(1), []byte("seen")); err != nil {
			return err
		}
		if err := tx.SetClaim("pair", Claim{Epoch: 1}); err != nil {
			return err
		}
		head, err1 := tx.Head("kube1")
		e, err2 := tx.Entry("kube1", 1)
		entries, err3 := tx.Entries("kube1", Query{})
		evidence, err4 := tx.Evidence("kube1", 1)
		claim, err5 := tx.Claim("pair")
		if head.Seq != 1 || e.Seq != 1 || len(entries) != 1 || string(evidence) != "seen" || claim.Epoch != 1 || len(tx.Slots()) != 1 {
			t.Errorf("head %d, entry %d, %d entries, evidence %q, claim %d, slots %v", head.Seq, e.Seq, len(entries), evidence, claim.Epoch, tx.Slots())
		}
		return errors.Join(err1, err2, err3, err4, err5)
	})
}

// The error of the caller's function comes back as it is, and takes everything
// with it.
func TestAppend_Rollback(t *testing.T) {
	j := open(t, Options{})
	fillRing(t, j, 1)
	own := errors.New("not legal")
	err := j.Append(t.Context(), func(tx *Tx) error {
		if _, err := tx.Append("kube1", anEntry(1), nil); err != nil {
			return err
		}
		if err := tx.SetClaim("pair", Claim{Epoch: 1}); err != nil {
			return err
		}
		return own
	})
	if err != own {
		t.Errorf("got %v, want the very error", err)
	}
	mustView(t, j, func(v *View) error {
		head, err := v.Head("kube1")
		claim, claimErr := v.Claim("pair")
		if head.Seq != 1 || claim.Epoch != 0 {
			t.Errorf("head %+v, claim %+v", head, claim)
		}
		return errors.Join(err, claimErr)
	})
	if err := j.View(t.Context(), func(*View) error { return own }); err != own {
		t.Errorf("got %v, want the very error", err)
	}
}

// A panic or a Goexit of the caller's function is the caller's: it passes
// through, undoes the transaction and leaves the journal free.
func TestAppend_PanicPassesThrough(t *testing.T) {
	j := open(t, Options{})
	fillRing(t, j, 1)
	for name, run := range map[string]func(fn func() error){
		"append": func(fn func() error) {
			_ = j.Append(t.Context(), func(tx *Tx) error {
				if _, err := tx.Append("kube1", anEntry(1), nil); err != nil {
					return err
				}
				return fn()
			})
		},
		"view": func(fn func() error) { _ = j.View(t.Context(), func(*View) error { return fn() }) },
		"match": func(fn func() error) {
			_ = j.View(t.Context(), func(v *View) error {
				_, err := v.Entries("kube1", Query{Match: func(*Entry) bool { return fn() == nil }})
				return err
			})
		},
		"set head": func(fn func() error) {
			_ = j.Append(t.Context(), func(tx *Tx) error {
				return tx.SetHead("kube1", func(*Head) { _ = fn() })
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			func() {
				defer func() {
					if p := recover(); p != "mine" {
						t.Errorf("recovered %v", p)
					}
				}()
				run(func() error { panic("mine") })
			}()
			done := make(chan struct{})
			go func() {
				defer close(done)
				run(func() error { runtime.Goexit(); return nil })
				t.Error("Goexit did not pass through")
			}()
			<-done
			if head := mustHead(t, j, "kube1"); head.Seq != 1 {
				t.Errorf("the last entry is %d, want 1", head.Seq)
			}
		})
	}
}

// What writes nothing commits nothing.
func TestAppend_NothingToWrite(t *testing.T) {
	j := open(t, Options{})
	fillRing(t, j, 1)
	j.commit = func(*bbolt.Tx) error { t.Error("it committed"); return nil }
	mustAppend(t, j, func(tx *Tx) error { _, err := tx.Head("kube1"); return err })
}

func TestTx_Refused(t *testing.T) {
	j := open(t, Options{})
	long := strings.Repeat("x", maxIdent+1)
	for name, write := range map[string]func(*Tx) error{
		"no slot":        func(tx *Tx) error { _, err := tx.Append("", anEntry(1), nil); return err },
		"a long slot":    func(tx *Tx) error { return tx.SetHead(long, func(*Head) { t.Error("it ran") }) },
		"no pair":        func(tx *Tx) error { return tx.SetClaim("", Claim{}) },
		"a claim's time": func(tx *Tx) error { return tx.SetClaim("pair", Claim{Time: aTime.AddDate(20000, 0, 0)}) },
		"a head's time": func(tx *Tx) error {
			return tx.SetHead("kube1", func(h *Head) { h.Since = aTime.AddDate(20000, 0, 0) })
		},
	} {
		t.Run(name, func(t *testing.T) { wantKind(t, j.Append(t.Context(), write), KindInvalid) })
	}
	mustView(t, j, func(v *View) error {
		if slots := v.Slots(); len(slots) != 0 {
			t.Errorf("left behind: %v", slots)
		}
		return nil
	})
}

// Goroutines of one process exclude each other as processes do.
func TestAppend_Goroutines(t *testing.T) {
	const goroutines, each = 6, 10
	j := open(t, Options{})
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range each {
				if err := appendOne(t.Context(), j, "kube1"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if head := mustHead(t, j, "kube1"); head.Seq != goroutines*each {
		t.Errorf("the last entry is %d, want %d", head.Seq, goroutines*each)
	}
}

// A commit that returns an error is looked up before it is answered for.
func TestAppend_CommitFails(t *testing.T) {
	landed := func(cause error) func(*bbolt.Tx) error {
		return func(tx *bbolt.Tx) error {
			if err := tx.Commit(); err != nil {
				return err
			}
			return cause
		}
	}
	lost := func(cause error) func(*bbolt.Tx) error {
		return func(tx *bbolt.Tx) error { return errors.Join(tx.Rollback(), cause) }
	}
	io := &fs.PathError{Op: "write", Path: "journal.db", Err: syscall.EIO}
	for _, test := range []struct {
		name   string
		commit []func(*bbolt.Tx) error // the last one stays
		kind   Kind
		seq    uint64
	}{
		{"lost for want of space", []func(*bbolt.Tx) error{lost(syscall.ENOSPC)}, KindNoSpace, 1},
		{"lost by an I/O error", []func(*bbolt.Tx) error{lost(io)}, KindIO, 1},
		{"there, and confirmed", []func(*bbolt.Tx) error{landed(io), (*bbolt.Tx).Commit}, "", 2},
		{"there, but not to be confirmed", []func(*bbolt.Tx) error{landed(io), lost(io)}, KindUnknown, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			j := open(t, Options{})
			fillRing(t, j, 1)
			calls := 0
			j.commit = func(tx *bbolt.Tx) error {
				commit := test.commit[min(calls, len(test.commit)-1)]
				calls++
				return commit(tx)
			}
			err := j.Append(t.Context(), func(tx *Tx) error {
				_, err := tx.Append("kube1", anEntry(2), nil)
				return errors.Join(err, tx.SetClaim("pair", Claim{Epoch: 1}))
			})
			if KindOf(err) != test.kind || (err == nil) != (test.kind == "") {
				t.Errorf("got %v, want kind %q", err, test.kind)
			}
			if head := mustHead(t, j, "kube1"); head.Seq != test.seq {
				t.Errorf("the last entry is %d, want %d", head.Seq, test.seq)
			}
		})
	}
}

// If the database cannot even be opened after a failed commit, nobody can tell.
func TestAppend_CommitFailsAndFileIsGone(t *testing.T) {
	for name, gone := range map[string]func(*Journal) error{
		"unreadable":    func(j *Journal) error { return syscall.Truncate(j.Path(), 100) },
		"not a journal": func(j *Journal) error { return syscall.Unlink(j.Path()) },
	} {
		t.Run(name, func(t *testing.T) {
			j := New(t.TempDir(), Options{Preallocate: -1})
			fillRing(t, j, 1)
			j.commit = func(tx *bbolt.Tx) error { return errors.Join(tx.Rollback(), gone(j), syscall.EIO) }
			wantKind(t, appendOne(t.Context(), j, "kube1"), KindUnknown, "input/output error", "it is unknown whether")
		})
	}
}

// The caller's deadline does not turn an answer into a riddle.
func TestAppend_DeadlineDuringCommit(t *testing.T) {
	j := open(t, Options{})
	fillRing(t, j, 1)
	ctx, cancel := context.WithCancel(t.Context())
	j.commit = func(tx *bbolt.Tx) error {
		cancel()
		j.commit = (*bbolt.Tx).Commit
		return errors.Join(tx.Commit(), syscall.EIO)
	}
	if err := appendOne(ctx, j, "kube1"); err != nil {
		t.Errorf("got %v", err)
	}
}
