package journal

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.etcd.io/bbolt"
)

// BenchmarkAppend compares one Append with one commit of the same bytes on a
// database that is open already, in turn on the same file system, and reports the
// median of the ratios. Only that ratio travels from one disk to another.
func BenchmarkAppend(b *testing.B) {
	for _, keep := range []int{100, DefaultKeep} {
		b.Run(map[bool]string{true: "full", false: "ring100"}[keep == DefaultKeep], func(b *testing.B) {
			benchmarkAppend(b, keep)
		})
	}
}

func benchmarkAppend(b *testing.B, keep int) {
	j := New(b.TempDir(), Options{Keep: keep})
	fillRing(b, j, keep)
	db, err := bbolt.Open(filepath.Join(b.TempDir(), "warm.db"), 0o600, &bbolt.Options{NoStatistics: true})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	if err := preallocate(db.Path(), DefaultPreallocate); err != nil {
		b.Fatal(err)
	}
	var seq uint64
	warm := func() error {
		return db.Update(func(tx *bbolt.Tx) error {
			bucket, err := tx.CreateBucketIfNotExists([]byte("entries"))
			if err != nil {
				return err
			}
			bucket.FillPercent = 1
			seq++
			if err := bucket.Put(entryKey(seq), make([]byte, 300)); err != nil || seq <= uint64(keep) {
				return err
			}
			return bucket.Delete(entryKey(seq - uint64(keep)))
		})
	}
	for range keep {
		if err := warm(); err != nil {
			b.Fatal(err)
		}
	}
	var ratios []float64
	for b.Loop() {
		start := time.Now()
		if err := appendOne(b.Context(), j, "kube1"); err != nil {
			b.Fatal(err)
		}
		ours := time.Since(start)
		start = time.Now()
		if err := warm(); err != nil {
			b.Fatal(err)
		}
		ratios = append(ratios, float64(ours)/float64(time.Since(start)))
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "x-warm-commit")
}

// BenchmarkEntries reads the newest 20 of a full ring.
func BenchmarkEntries(b *testing.B) {
	j := New(b.TempDir(), Options{})
	fillRing(b, j, DefaultKeep)
	for b.Loop() {
		var found []Entry
		err := j.View(b.Context(), func(v *View) (err error) {
			found, err = v.Entries("kube1", Query{Limit: 20, Reverse: true})
			return err
		})
		if err != nil || len(found) != 20 {
			b.Fatal(len(found), err)
		}
	}
}
