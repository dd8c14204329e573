package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/node-lifecycle/node-lifecycle/journal/filelock"
)

func TestFileLocks(t *testing.T) {
	dir := t.TempDir()
	mine := fileLocks{dir: filepath.Join(dir, "run"), hostPath: filepath.Join(dir, "host.lock"), pid: os.Getpid()}
	theirs := fileLocks{dir: mine.dir, hostPath: mine.hostPath, pid: os.Getppid()}
	soon := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	for _, tc := range []struct {
		name  string
		take  func(fileLocks, context.Context) (func(), error)
		other func(fileLocks, context.Context) (func(), error) // what it keeps nobody from
	}{
		{
			"slot",
			func(l fileLocks, ctx context.Context) (func(), error) { return l.Slot(ctx, "kube1", "pre-start") },
			func(l fileLocks, ctx context.Context) (func(), error) { return l.Slot(ctx, "kube2", "pre-start") },
		},
		{
			"host",
			func(l fileLocks, ctx context.Context) (func(), error) { return l.Host(ctx, "run") },
			func(l fileLocks, ctx context.Context) (func(), error) { return l.Slot(ctx, "kube1", "pre-start") },
		},
		{
			"reconcile",
			func(l fileLocks, ctx context.Context) (func(), error) { return l.Reconcile(ctx, "kube1") },
			func(l fileLocks, ctx context.Context) (func(), error) { return l.Slot(ctx, "kube1", "pre-start") },
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			release, err := tc.take(mine, t.Context())
			if err != nil {
				t.Fatal(err)
			}
			_, err = tc.take(theirs, soon())
			var locked *filelock.LockedError
			if !errors.As(err, &locked) || locked.Holder.PID != os.Getpid() {
				t.Errorf("the second holder got %v, want an error that names the first", err)
			}
			free, err := tc.other(theirs, soon())
			if err != nil {
				t.Errorf("it keeps somebody out who has another lock: %v", err)
			} else {
				free()
			}
			release()
			again, err := tc.take(theirs, soon())
			if err != nil {
				t.Fatalf("it was given back and is not free: %v", err)
			}
			again()
		})
	}
	info, err := os.Stat(mine.dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory of the locks: %v, %v", info, err)
	}
}

func TestFileLocks_NoDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l := fileLocks{dir: filepath.Join(file, "run")}
	if _, err := l.Slot(t.Context(), "kube1", "pre-start"); err == nil {
		t.Error("a lock below a file")
	}
	if _, err := l.Reconcile(t.Context(), "kube1"); err == nil {
		t.Error("a lock below a file")
	}
}
