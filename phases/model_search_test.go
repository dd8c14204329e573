package phases

import (
	"context"
	"fmt"
	"hash/maphash"
	"strings"
	"testing"
	"testing/synctest"
)

// variant is the product, or the product with one of its rules broken.
type variant struct {
	name string
	left budget

	nothingKnown bool // the journal has been lost before it all begins
	oneUp        bool // one of two slots that are started has to come up

	outside     bool   // somebody else's command starts the containers
	lateOutside bool   // and the engine may do it when the command is gone
	want        string // what a broken variant must come to

	precheck     func(context.Context, *run) (outcome, error) // nil: the product's
	noFence      bool                                         // the peer is not fenced
	noLock       bool                                         // the host's lock keeps nobody out
	runAnyway    bool                                         // run does not look at the claim
	releaseFirst bool                                         // post-stop gives up the claim before it has proven anything
	byReadiness  bool                                         // a peer that is not ready is taken for down
	autorun      bool                                         // the engine starts after a boot what ran before it
	noRemoval    bool                                         // post-stop leaves the container where it is
	amnesia      bool                                         // a lost journal is taken for one in which nobody claims
}

// The product's first step asks which variant of it is being explored.
func init() {
	product := preStartSteps[0].do
	preStartSteps[0].do = func(ctx context.Context, r *run) (outcome, error) {
		var v *variant
		switch b := r.l.ledger.(type) {
		case modelLedger:
			v = b.v
		case simLedger:
			v = b.h.v
		}
		if v != nil && v.precheck != nil {
			return v.precheck(ctx, r)
		}
		return product(ctx, r)
	}
}

// found is what a search found.
type found struct {
	states, quiet, runs int
	doubleRun, books    int
	blocked             int
	wired               int
	trace               []string // the shortest way to the first thing that is wrong
	wrong               string
}

func (f *found) bad() bool { return f.doubleRun+f.books+f.blocked > 0 }

// search goes through all states that the variant can come to, in the order of how many
// moves it takes, and stops at the first that must not be.
func search(t *testing.T, v *variant) (f found) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		known := newTree(v)
		f = newModel(v, known).search(v)
		f.runs = known.runs
	})
	return f
}

type searched struct {
	parent int32
	text   string
}

func (m *model) search(v *variant) found {
	f := found{}
	seed := maphash.MakeSeed()
	seen := map[uint64]struct{}{}
	startable := map[uint64]string{}
	var tracks []searched
	var frontier, next []modelWorld
	var ids, nextIDs []int32
	visit := func(w modelWorld, parent int32, text string) {
		w.canonical()
		key := maphash.Comparable(seed, w)
		if _, ok := seen[key]; ok {
			return
		}
		seen[key] = struct{}{}
		tracks = append(tracks, searched{parent, text})
		next, nextIDs = append(next, w), append(nextIDs, int32(len(tracks)-1))
	}
	begin := modelWorld{left: v.left, claim: modelClaim{unknown: v.nothingKnown}}
	if v.outside {
		begin.objects = [2]modelObject{{state: objectExited}, {state: objectExited}}
	}
	visit(begin, -1, "")
	for len(next) > 0 {
		frontier, next, ids, nextIDs = next, nil, nextIDs, nil
		for i := range frontier {
			w := &frontier[i]
			f.states++
			moves := m.moves(w)
			if wrong := m.judge(w, moves, &f, seed, startable); wrong != "" {
				f.wrong, f.trace = wrong, trace(tracks, ids[i], w)
				return f
			}
			for _, move := range moves {
				next := *w
				move.do(&next)
				visit(next, ids[i], move.text)
			}
		}
	}
	return f
}

// trace is how a state was come to.
func trace(tracks []searched, id int32, w *modelWorld) []string {
	lines := []string{"=> " + w.String()}
	for ; id >= 0; id = tracks[id].parent {
		if tracks[id].text != "" {
			lines = append([]string{tracks[id].text}, lines...)
		}
	}
	return lines
}

// What must not be.
const (
	twoStacks = "two stacks run"
	bothUp    = "the books say that both slots are up"
	unclaimed = "a stack runs and nobody holds the claim"
	noneUp    = "both were started and neither is up"
)

// judge says what of a state must not be; "" if nothing.
func (m *model) judge(w *modelWorld, moves []move, f *found, seed maphash.Seed, startable map[uint64]string) string {
	live := func(s int) bool { return w.objects[s].state == objectRunning }
	up := func(s int) bool { return w.heads[s].stateName().Live() }
	is := func(what string, so bool) bool { return so && (m.v.want == "" || m.v.want == what) }
	switch {
	case is(twoStacks, live(0) && live(1)):
		f.doubleRun++
		return twoStacks
	case is(bothUp, up(0) && up(1)):
		f.books++
		return bothUp
	case is(unclaimed, w.claim.holder == 0 && !w.claim.unknown && (live(0) || live(1)) && !m.v.autorun):
		f.books++
		return unclaimed
	}
	ups := 0
	for s := range w.units {
		if w.units[s].state == unitActive && w.heads[s].stateName() == "Wired" {
			ups++
		}
	}
	if ups > 0 {
		f.wired++
	} else if is(noneUp, m.v.oneUp && len(moves) == 0) {
		f.blocked++
		return noneUp
	}
	if !w.quiet() {
		if m.v.want == "" && len(moves) == 0 && !m.idle(w) {
			f.blocked++
			return "nobody can go on"
		}
		return ""
	}
	f.quiet++
	if m.v.want != "" {
		return ""
	}
	for s := range modelSlots {
		if why := m.startable(w, s, seed, startable); why != "" {
			f.blocked++
			return why
		}
	}
	return ""
}

// quiet reports whether nothing is at work.
func (w *modelWorld) quiet() bool {
	for s := range w.procs {
		if !w.units[s].down() || w.objects[s].pending {
			return false
		}
		for r := range w.procs[s] {
			if w.procs[s][r].node != 0 {
				return false
			}
		}
	}
	return true
}

// idle reports whether all that is at work is stacks that are up.
func (m *model) idle(w *modelWorld) bool {
	for s := range w.procs {
		for r, p := range w.procs[s] {
			if p.node != 0 && m.driver.request(&p, s, r).kind != askAttend {
				return false
			}
		}
	}
	return true
}

// startable says why a slot cannot be started although nothing goes wrong any more; "" if
// it can, at the second try at the latest, and with a resume of the peer before it if the
// peer's stack has outlived its unit.
func (m *model) startable(from *modelWorld, s int, seed maphash.Seed, known map[uint64]string) string {
	w := *from
	w.left = budget{}
	w.left.dies = uint8(s) // of no use but to tell the slots apart in the key
	key := maphash.Comparable(seed, w)
	w.left = budget{}
	if why, ok := known[key]; ok {
		return why
	}
	why := ""
	if w.objects[1-s].state == objectRunning {
		m.spawn(&w, 1-s, roleResume)
		m.rest(&w)
	}
	for range 2 {
		m.start(&w, s, roleCheck)
		last := m.rest(&w)
		why = ""
		if w.units[s].state == unitActive && w.heads[s].stateName() == "Wired" && w.objects[s].state == objectRunning {
			break
		}
		why = fmt.Sprintf("%s cannot be started although its peer is dead: %s (%s)", modelSlots[s], &w, strings.Join(last, ", "))
	}
	known[key] = why
	return why
}

// rest lets everything go on, in one order, until nothing does any more.
func (m *model) rest(w *modelWorld) (did []string) {
	for {
		w.canonical()
		moves := m.moves(w)
		if len(moves) == 0 {
			return did
		}
		did = append(did, moves[0].text)
		moves[0].do(w)
	}
}
