package phases

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"sync"

	"github.com/node-lifecycle/node-lifecycle/fsm"
	"github.com/node-lifecycle/node-lifecycle/journal"
)

// reader is what a phase reads of the books; tx is what it may also write, all or
// nothing. journal.View and journal.Tx satisfy them, and so does the memory of a
// Lifecycle without a journal.
type reader interface {
	Head(slot string) (journal.Head, error)
	Claim(pair string) (journal.Claim, error)
	Entries(slot string, q journal.Query) ([]journal.Entry, error)
}

type tx interface {
	reader
	Append(slot string, e journal.Entry, evidence []byte) (journal.Entry, error)
	SetHead(slot string, f func(*journal.Head)) error
	SetClaim(pair string, c journal.Claim) error
}

// ledger is where a Lifecycle keeps its books: a journal, or its own memory.
type ledger interface {
	// update runs f in one transaction: all that it wrote is kept, or nothing is.
	update(ctx context.Context, f func(tx) error) error
	// read runs f on the books as they are. Books that do not exist yet are empty.
	read(ctx context.Context, f func(reader) error) error
}

func (l *Lifecycle) books() ledger {
	switch {
	case l.ledger != nil:
		return l.ledger
	case l.Journal != nil:
		return journalLedger{l.Journal}
	}
	return &l.memory
}

// durable reports whether what is written outlives the process.
func (l *Lifecycle) durable() bool { return l.books() != ledger(&l.memory) }

func (l *Lifecycle) update(ctx context.Context, f func(tx) error) error {
	return l.books().update(ctx, f)
}

func (l *Lifecycle) read(ctx context.Context, f func(reader) error) error {
	return l.books().read(ctx, f)
}

type journalLedger struct{ *journal.Journal }

func (j journalLedger) update(ctx context.Context, f func(tx) error) error {
	return j.Append(ctx, func(t *journal.Tx) error { return f(t) })
}

func (j journalLedger) read(ctx context.Context, f func(reader) error) error {
	err := j.View(ctx, func(v *journal.View) error { return f(v) })
	if errors.Is(err, fs.ErrNotExist) && journal.KindOf(err) == journal.KindNotExist {
		return f(&memoryTx{})
	}
	return err
}

// stateOf is the state that a head stands for: a slot that never ran is Stopped.
func stateOf(h journal.Head) fsm.State {
	if h.State == "" {
		return fsm.Stopped
	}
	return fsm.State(h.State)
}

// memory keeps the books of a Lifecycle without a journal: heads and claims, and the
// latest entries of this process.
type memory struct {
	mu    sync.Mutex
	state memoryTx
}

func (m *memory) read(ctx context.Context, f func(reader) error) error {
	return m.update(ctx, func(t tx) error { return f(t) })
}

func (m *memory) update(_ context.Context, f func(tx) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := m.state.clone()
	if err := f(&next); err != nil {
		return err
	}
	m.state = next
	return nil
}

const memoryKeep = 256

type memoryTx struct {
	heads   map[string]journal.Head
	claims  map[string]journal.Claim
	entries map[string][]journal.Entry
}

func (m *memoryTx) clone() memoryTx {
	c := memoryTx{
		heads:   make(map[string]journal.Head, len(m.heads)),
		claims:  make(map[string]journal.Claim, len(m.claims)),
		entries: make(map[string][]journal.Entry, len(m.entries)),
	}
	for slot, head := range m.heads {
		c.heads[slot] = head
	}
	for pair, claim := range m.claims {
		c.claims[pair] = claim
	}
	for slot, entries := range m.entries {
		c.entries[slot] = slices.Clip(entries)
	}
	return c
}

func (m *memoryTx) Head(slot string) (journal.Head, error)   { return m.heads[slot], nil }
func (m *memoryTx) Claim(pair string) (journal.Claim, error) { return m.claims[pair], nil }

func (m *memoryTx) Entries(slot string, q journal.Query) ([]journal.Entry, error) {
	entries := slices.Clone(m.entries[slot])
	if q.Reverse {
		slices.Reverse(entries)
	}
	var out []journal.Entry
	for i := range entries {
		e := &entries[i]
		if q.Before != 0 && e.Seq >= q.Before || e.Seq <= q.After || q.Match != nil && !q.Match(e) {
			continue
		}
		if out = append(out, *e); len(out) == q.Limit {
			break
		}
	}
	return out, nil
}

func (m *memoryTx) Append(slot string, e journal.Entry, _ []byte) (journal.Entry, error) {
	head := m.heads[slot]
	head.Seq++
	e.Slot, e.Seq = slot, head.Seq
	if e.To != "" {
		head.State, head.Since, head.Boot, head.Activation, head.Run = e.To, e.Time, e.Boot, e.Activation, e.Run
	}
	m.heads[slot] = head
	entries := append(m.entries[slot], e)
	m.entries[slot] = entries[max(0, len(entries)-memoryKeep):]
	return e, nil
}

func (m *memoryTx) SetHead(slot string, f func(*journal.Head)) error {
	head := m.heads[slot]
	f(&head)
	m.heads[slot] = head
	return nil
}

func (m *memoryTx) SetClaim(pair string, c journal.Claim) error {
	m.claims[pair] = c
	return nil
}
