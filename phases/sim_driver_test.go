package phases

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/node-lifecycle/node-lifecycle/fsm"
	"github.com/node-lifecycle/node-lifecycle/journal"
)

// SIM runs the same processes in the same world as MODEL does, one schedule at a time, but
// lets them live: with the real journal, with transitions that the real state machine has
// allowed, and with time that passes. A process can be killed wherever it asks something.

// simHost is one host of the simulation, from its first boot to its last.
type simHost struct {
	*model
	world    modelWorld
	journal  *journal.Journal
	boot     int
	machines [2][roles]*machine
	told     [2][roles]bool // SIGTERM has come
	pids     int
	living   map[int]bool

	mu    sync.Mutex
	acked map[string]string // id of an entry that the journal has answered for: its slot
	trace []string
	bugs  []string // errors that say of nothing what it means
}

func newSimHost(dir string, v *variant) *simHost {
	h := &simHost{
		journal: journal.New(dir, journal.Options{Preallocate: -1}),
		boot:    1, living: map[int]bool{}, acked: map[string]string{},
	}
	h.model = newModel(v, h)
	h.world.started = 1
	return h
}

// Processes that live.

func (h *simHost) begin(p *program, slot, role int) int32 {
	h.pids++
	pid := h.pids
	activation := activationName(h.world.units[slot].activation)
	m := p.boot(func(m *machine) *Lifecycle {
		l := h.v.lifecycle(m, p)
		l.Host = simBoot{h, fmt.Sprint("boot-", h.boot)}
		l.Self.PID, l.Self.Start = pid, 1
		if l.Self.Activation != "" {
			l.Self.Activation = activation
		}
		l.ledger = simLedger{h, m}
		return l
	})
	h.machines[slot][role], h.told[slot][role], h.living[pid] = m, false, true
	m.pid = pid
	return 1
}

func (h *simHost) request(_ *modelProc, slot, role int) *request {
	return &h.machines[slot][role].pending
}

func (h *simHost) advance(_ *modelProc, slot, role int, a answer) {
	h.told[slot][role] = h.told[slot][role] || a.code == answerCancelled
	h.machines[slot][role].step(a)
}

func (h *simHost) end(slot, role int) {
	m := h.machines[slot][role]
	if m == nil {
		return
	}
	h.machines[slot][role] = nil
	delete(h.living, m.pid)
	if m.pending.kind == askExit && ExitCode(m.err) == ExitBug && !errors.Is(m.err, errModelFault) {
		h.bugs = append(h.bugs, who(slot, role)+": "+m.err.Error())
	}
	m.kill()
}

func (h *simHost) outlive(slot int) {
	h.machines[slot][roleGhost], h.machines[slot][roleRun] = h.machines[slot][roleRun], nil
}

func (h *simHost) heard(_ *modelProc, slot, role int) bool { return h.told[slot][role] }

// simBoot is the host as a process of one boot sees it.
type simBoot struct {
	h    *simHost
	boot string
}

func (b simBoot) Boot() string { return b.boot }

func (b simBoot) Boottime() time.Duration { return time.Hour }

func (b simBoot) ProcessAlive(pid int, _ uint64) bool { return b.h.living[pid] }

// simLedger is the real journal. What it has answered for must never be lost.
type simLedger struct {
	h *simHost
	m *machine
}

func (b simLedger) read(ctx context.Context, f func(reader) error) error {
	if err := b.ask(ctx); err != nil {
		return err
	}
	return journalLedger{b.h.journal}.read(ctx, f)
}

func (b simLedger) update(ctx context.Context, f func(tx) error) error {
	if err := b.ask(ctx); err != nil {
		return err
	}
	var written []journal.Entry
	err := journalLedger{b.h.journal}.update(ctx, func(t tx) error {
		written = written[:0]
		return f(&notingTx{t, &written})
	})
	if err != nil {
		return err
	}
	b.h.mu.Lock()
	defer b.h.mu.Unlock()
	for i := range written {
		b.h.acked[written[i].ID] = written[i].Slot
	}
	return nil
}

func (b simLedger) ask(ctx context.Context) error {
	a := b.m.ask(ctx, request{kind: askBegin})
	if a.code == answerError {
		return &journal.Error{Op: "append to the journal", Path: "journal.db", Kind: journal.KindIO, Err: errModelFault}
	}
	return a.failure(ctx)
}

// notingTx remembers what was appended.
type notingTx struct {
	tx
	written *[]journal.Entry
}

func (t *notingTx) Append(slot string, e journal.Entry, evidence []byte) (journal.Entry, error) {
	e, err := t.tx.Append(slot, e, evidence)
	if err == nil {
		*t.written = append(*t.written, e)
	}
	return e, err
}

// books are what the journal says now.
func (h *simHost) books(ctx context.Context) (heads [2]journal.Head, claim journal.Claim, err error) {
	err = journalLedger{h.journal}.read(ctx, func(b reader) error {
		for s, slot := range modelSlots {
			var err error
			if heads[s], err = b.Head(slot); err != nil {
				return err
			}
		}
		var err error
		claim, err = b.Claim(modelPair)
		return err
	})
	return heads, claim, err
}

// wrong says what must not be; "" if nothing.
func (h *simHost) wrong(ctx context.Context) string {
	w := &h.world
	if w.objects[0].state == objectRunning && w.objects[1].state == objectRunning {
		return twoStacks
	}
	heads, claim, err := h.books(ctx)
	switch {
	case len(h.bugs) > 0:
		return "an error that nobody has thought of: " + strings.Join(h.bugs, "; ")
	case err != nil:
		return "the books cannot be read: " + err.Error()
	case stateOf(heads[0]).Live() && stateOf(heads[1]).Live():
		return bothUp
	}
	for s := range modelSlots {
		if w.objects[s].state == objectRunning && claim.Holder == "" {
			return unclaimed
		}
	}
	return ""
}

// lost says which entries are not in the journal although it has answered for them, and
// what is damaged in it; "" if nothing.
func (h *simHost) lost(ctx context.Context) string {
	missing := ""
	err := h.journal.View(ctx, func(v *journal.View) error {
		have := map[string]bool{}
		for _, slot := range modelSlots {
			entries, err := v.Entries(slot, journal.Query{})
			if err != nil {
				return err
			}
			for i := range entries {
				have[entries[i].ID] = true
			}
		}
		for id, slot := range h.acked {
			if !have[id] {
				missing += " " + slot + " " + id
			}
		}
		return v.Verify()
	})
	switch {
	case err != nil:
		return err.Error()
	case missing != "":
		return "lost:" + missing
	}
	return ""
}

// up reports whether the slot is up in every respect.
func (h *simHost) up(ctx context.Context, s int) bool {
	heads, claim, err := h.books(ctx)
	return err == nil && heads[s].State == string(fsm.Wired) && claim.Holder == modelSlots[s] &&
		h.world.units[s].state == unitActive && h.world.objects[s].state == objectRunning
}
