package main

import (
	"cmp"
	"context"
	"slices"

	"github.com/node-lifecycle/node-lifecycle/fsm"
	"github.com/node-lifecycle/node-lifecycle/internal/config"
	"github.com/node-lifecycle/node-lifecycle/journal"
	"github.com/node-lifecycle/node-lifecycle/phases"
)

// books are what the journal says of some slots, by slot.
type books struct {
	cfg      *config.Config // that has all of the slots
	slots    []string
	heads    map[string]journal.Head
	claims   map[string]journal.Claim
	failures map[string]*failure
	missing  bool // there is no journal yet
}

// readBooks reads the heads, the claims and the last failures of the slots; with others
// also of those that are in the journal only and are not at rest. A journal that does not
// exist yet is an empty one.
func (e *environment) readBooks(ctx context.Context, cfg *config.Config, slots []string, others bool) (*books, error) {
	ctx, cancel := context.WithTimeout(ctx, cfg.Timeouts.Lock)
	defer cancel()
	b := &books{
		cfg: cfg, slots: slots,
		heads: map[string]journal.Head{}, claims: map[string]journal.Claim{}, failures: map[string]*failure{},
	}
	err := e.openJournal(cfg, "status").View(ctx, func(v *journal.View) error {
		for _, slot := range slots {
			if err := b.read(v, slot); err != nil {
				return err
			}
		}
		if !others {
			return nil
		}
		for _, slot := range v.Slots() {
			if !hasSlot(cfg, slot) {
				b.addOther(v, e.withSlot(v, b.cfg, slot), slot)
			}
		}
		return nil
	})
	if e.noJournal(err) {
		b.missing, err = true, nil
	}
	return b, err
}

func (b *books) read(v *journal.View, slot string) (err error) {
	if b.heads[slot], err = v.Head(slot); err != nil {
		return err
	}
	if b.claims[slot], err = v.Claim(b.cfg.Pair(slot)); err != nil {
		return err
	}
	if head := b.heads[slot]; hasFailed(head) {
		b.failures[slot] = lastFailure(v, slot, head.LastSuccess)
	}
	return nil
}

// addOther adds a slot that is not configured, unless it is at rest. One that cannot be
// read is left to who asks for it by name.
func (b *books) addOther(v *journal.View, cfg *config.Config, slot string) {
	with := *b
	with.cfg = cfg
	if with.read(v, slot) == nil && (fsm.State(b.heads[slot].State).Live() || b.claims[slot].Holder == slot) {
		b.cfg, b.slots = cfg, append(slices.Clone(b.slots), slot)
	}
}

// hasFailed reports whether the last failure still matters: the slot is down because of
// it, or tries again.
func hasFailed(head journal.Head) bool {
	return head.State == string(fsm.Failed) || head.Attempts > 1 ||
		head.Attempts == 1 && !fsm.State(head.State).Live()
}

// lastFailure is the newest failure, loss or refusal since the last success. Damage of the
// journal is not its business: history tells of it.
func lastFailure(v *journal.View, slot string, success uint64) *failure {
	found, _ := v.Entries(slot, journal.Query{Reverse: true, Limit: 1, After: success, Match: func(e *journal.Entry) bool {
		return e.To == string(fsm.Failed) || e.Kind == string(fsm.NoteRefused) && e.Phase != phases.PhaseReconcile
	}})
	if len(found) == 0 {
		return nil
	}
	e := &found[0]
	kind := e.Kind
	if kind == journal.KindTransition {
		kind = e.Event
	}
	return &failure{Phase: e.Phase, Step: e.Step, Kind: kind, Cause: e.Cause, Error: cmp.Or(e.Error, e.Detail), Time: e.Time}
}
