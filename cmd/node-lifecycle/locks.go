package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/node-lifecycle/node-lifecycle/journal/filelock"
)

// fileLocks are the locks between the processes of a host, as files that are never
// deleted. The kernel gives a lock back when its holder dies, however it dies.
type fileLocks struct {
	dir      string // of the slots' locks, on a file system that a boot clears
	hostPath string
	pid      int
}

func (l fileLocks) Slot(ctx context.Context, slot, phase string) (func(), error) {
	path, err := l.path(slot + ".lock")
	if err != nil {
		return nil, err
	}
	return held(filelock.Acquire(ctx, path, l.holder(phase)))
}

func (l fileLocks) Host(ctx context.Context, phase string) (func(), error) {
	return held(filelock.Acquire(ctx, l.hostPath, l.holder(phase)))
}

func (l fileLocks) Reconcile(_ context.Context, slot string) (func(), error) {
	path, err := l.path(slot + ".reconcile.lock")
	if err != nil {
		return nil, err
	}
	return held(filelock.TryAcquire(path, l.holder("reconcile")))
}

func (l fileLocks) path(name string) (string, error) {
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return "", fmt.Errorf("directory of the locks: %w", err)
	}
	return filepath.Join(l.dir, name), nil
}

func (l fileLocks) holder(phase string) filelock.Holder {
	return filelock.Holder{PID: l.pid, Phase: phase, Since: time.Now()}
}

func held(lock *filelock.Lock, err error) (func(), error) {
	if err != nil {
		return nil, err
	}
	// An error of the release changes nothing: closing the file gives the lock back.
	return func() { _ = lock.Release() }, nil
}
