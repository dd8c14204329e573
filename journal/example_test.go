package journal_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"time"

	"github.com/node-lifecycle/node-lifecycle/journal"
)

// One transition, judged by where the slot stands and recorded in the same
// transaction.
func ExampleJournal_Append() {
	dir, err := os.MkdirTemp("", "journal")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	j := journal.New(dir, journal.Options{Preallocate: -1})
	start := func() error {
		return j.Append(ctx, func(tx *journal.Tx) error {
			head, err := tx.Head("kube1")
			if err != nil {
				return err
			}
			if head.State == "PreChecked" {
				return errors.New("kube1 is PreChecked already")
			}
			e, err := tx.Append("kube1", journal.Entry{
				ID: "01JDW0000000000000000000-1", Kind: journal.KindTransition,
				Event: "prechecked", From: "Stopped", To: "PreChecked",
				Time: time.Date(2026, 12, 1, 2, 5, 49, 0, time.UTC),
			}, nil)
			if err != nil {
				return err
			}
			fmt.Println("entry", e.Seq, "leads to", e.To)
			return tx.SetClaim("kube1+kube2", journal.Claim{Holder: "kube1", Epoch: 1})
		})
	}
	fmt.Println(start())
	fmt.Println(start())
	// Output:
	// entry 1 leads to PreChecked
	// <nil>
	// kube1 is PreChecked already
}

// The newest two entries, newest first.
func ExampleJournal_View() {
	dir, err := os.MkdirTemp("", "journal")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	j := journal.New(dir, journal.Options{Preallocate: -1})

	newest := func() ([]journal.Entry, error) {
		var entries []journal.Entry
		err := j.View(ctx, func(v *journal.View) (err error) {
			entries, err = v.Entries("kube1", journal.Query{Limit: 2, Reverse: true})
			return err
		})
		return entries, err
	}
	if _, err := newest(); errors.Is(err, fs.ErrNotExist) {
		fmt.Println("nothing yet")
	}
	err = j.Append(ctx, func(tx *journal.Tx) error {
		for i, kind := range []string{"intent", "done", "ended"} {
			if _, err := tx.Append("kube1", journal.Entry{ID: fmt.Sprint("run-", i), Kind: kind}, nil); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	entries, err := newest()
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range entries {
		fmt.Println(e.Seq, e.Kind)
	}
	// Output:
	// nothing yet
	// 3 ended
	// 2 done
}
