package journal

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestView_Ended(t *testing.T) {
	j := open(t, Options{})
	fillRing(t, j, 1)
	var v *View
	mustView(t, j, func(view *View) error { v = view; return nil })
	var tx *Tx
	mustAppend(t, j, func(t *Tx) error { tx = t; return nil })
	_, entryErr := v.Entry("kube1", 1)
	_, entriesErr := v.Entries("kube1", Query{})
	_, appendErr := tx.Append("kube1", anEntry(1), nil)
	for _, err := range []error{
		entryErr, entriesErr, appendErr, v.Verify(),
		tx.SetHead("kube1", func(*Head) { t.Error("it ran") }), tx.SetClaim("pair", Claim{}),
	} {
		wantKind(t, err, KindInvalid, "used after its function returned")
	}
	if v.Slots() != nil {
		t.Error("it lists slots")
	}
}

func TestView_NoJournal(t *testing.T) {
	j := New(t.TempDir()+"/none", Options{})
	err := j.View(t.Context(), func(*View) error { t.Error("it ran"); return nil })
	wantKind(t, err, KindNotExist, j.Path(), "nothing was recorded there yet")
	if !errors.Is(err, fs.ErrNotExist) || strings.Count(err.Error(), j.Path()) != 1 {
		t.Errorf("got %v", err)
	}
}

func TestView_NotThere(t *testing.T) {
	j := open(t, Options{})
	fillRing(t, j, 2)
	mustView(t, j, func(v *View) error {
		for _, slot := range []string{"kube2", ""} {
			head, err := v.Head(slot)
			entries, err2 := v.Entries(slot, Query{})
			claim, err3 := v.Claim(slot)
			if diff := cmp.Diff(Head{}, head); diff != "" || len(entries) != 0 || claim.V != 0 || errors.Join(err, err2, err3) != nil {
				t.Errorf("%q: %+v %v %+v %v", slot, head, entries, claim, errors.Join(err, err2, err3))
			}
		}
		for _, get := range []func() error{
			func() error { _, err := v.Entry("kube2", 1); return err },
			func() error { _, err := v.Entry("kube1", 3); return err },
			func() error { _, err := v.Evidence("kube2", 1); return err },
			func() error { _, err := v.Evidence("kube1", 1); return err },
		} {
			err := get()
			wantKind(t, err, KindNotExist)
			if !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("got %v", err)
			}
		}
		return nil
	})
}

func TestEntries_Query(t *testing.T) {
	j := open(t, Options{Keep: 6})
	appendN(t, j, 1, nil)
	setHead(t, j, func(h *Head) { h.FirstFailure = 1 })
	appendN(t, j, 9, nil) // now 1 is pinned and 5 to 10 are recent
	odd := func(e *Entry) bool { return e.Seq%2 == 1 }
	for _, test := range []struct {
		name string
		q    Query
		want []uint64
	}{
		{"all", Query{}, []uint64{1, 5, 6, 7, 8, 9, 10}},
		{"limit", Query{Limit: 3}, []uint64{1, 5, 6}},
		{"newest first", Query{Reverse: true}, []uint64{10, 9, 8, 7, 6, 5, 1}},
		{"the newest", Query{Reverse: true, Limit: 2}, []uint64{10, 9}},
		{"after", Query{After: 7}, []uint64{8, 9, 10}},
		{"after the last", Query{After: 10}, nil},
		{"after everything", Query{After: ^uint64(0)}, nil},
		{"before", Query{Before: 7}, []uint64{1, 5, 6}},
		{"before, newest first", Query{Before: 7, Reverse: true}, []uint64{6, 5, 1}},
		{"before what is not there yet", Query{Before: 99, Reverse: true, Limit: 1}, []uint64{10}},
		{"between", Query{After: 5, Before: 8}, []uint64{6, 7}},
		{"between, newest first", Query{After: 5, Before: 8, Reverse: true}, []uint64{7, 6}},
		{"nothing between", Query{After: 5, Before: 6}, nil},
		{"the pinned one", Query{Before: 5, Reverse: true}, []uint64{1}},
		{"match", Query{Match: odd}, []uint64{1, 5, 7, 9}},
		{"match counts for the limit", Query{Match: odd, Limit: 2, Reverse: true}, []uint64{9, 7}},
	} {
		t.Run(test.name, func(t *testing.T) {
			wantSeqs(t, "entries", seqs(mustEntries(t, j, "kube1", test.q)), test.want)
		})
	}
}
