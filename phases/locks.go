package phases

import (
	"context"
	"fmt"
	"sync"
)

// Locks keeps the processes of one host apart. Each call blocks until it has the lock
// or ctx ends; the error then names the holder. release gives the lock back and may be
// called once. The locks are taken in this order: slot, host, and then the journal's own.
type Locks interface {
	// Slot is held for a whole phase of the slot.
	Slot(ctx context.Context, slot, phase string) (release func(), err error)
	// Host is held for one decision about a pair, or for one start of a stack. All
	// pairs and all configurations of the host share it.
	Host(ctx context.Context, phase string) (release func(), err error)
	// Reconcile is held by reconcile alone. It does not wait: somebody else's reconcile
	// is an error at once.
	Reconcile(ctx context.Context, slot string) (release func(), err error)
}

// localLocks keeps the calls on one Lifecycle apart, when there is nothing else.
type localLocks struct {
	mu    sync.Mutex
	taken map[string]chan struct{}
}

func (l *localLocks) acquire(ctx context.Context, name string) (func(), error) {
	for {
		l.mu.Lock()
		busy, taken := l.taken[name]
		if !taken {
			if l.taken == nil {
				l.taken = make(map[string]chan struct{})
			}
			free := make(chan struct{})
			l.taken[name] = free
			l.mu.Unlock()
			return func() {
				l.mu.Lock()
				defer l.mu.Unlock()
				delete(l.taken, name)
				close(free)
			}, nil
		}
		l.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, fmt.Errorf("lock of %s is held by another call: %w", name, ctx.Err())
		}
	}
}

func (l *localLocks) Slot(ctx context.Context, slot, _ string) (func(), error) {
	return l.acquire(ctx, "slot "+slot)
}

func (l *localLocks) Host(ctx context.Context, _ string) (func(), error) {
	return l.acquire(ctx, "the host")
}

func (l *localLocks) Reconcile(_ context.Context, slot string) (func(), error) {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	return l.acquire(now, "reconcile of "+slot)
}

func (l *Lifecycle) locks() Locks {
	if l.Locks == nil {
		return &l.local
	}
	return l.Locks
}
