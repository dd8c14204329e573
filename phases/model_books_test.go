package phases

import (
	"context"
	"strconv"
	"strings"
	"sync"

	"github.com/node-lifecycle/node-lifecycle/fsm"
	"github.com/node-lifecycle/node-lifecycle/journal"
)

// The books of the model. What grows without end in real ones (sequence numbers, epochs,
// ids of runs and activations) is only ever compared for being the same, so the model keeps
// who is the same as whom, and nothing else.

var modelSlots = [2]string{"kube1", "kube2"}

const modelPair = "kube1+kube2"

func slotIndex(slot string) uint8 {
	if slot == modelSlots[0] {
		return 0
	}
	return 1
}

// Boots: now, an earlier one, none.
const (
	bootNone uint8 = iota
	bootOld
	bootNow
)

var bootNames = [...]string{"", "boot-before", "boot-now"}

func bootIndex(name string) uint8 {
	for i, n := range bootNames {
		if n == name {
			return uint8(i)
		}
	}
	panic("a boot that the model does not know: " + name)
}

// Runs, as one process sees them.
const (
	runNone uint8 = iota
	runMine
	runAlive // somebody else's
	runDead
)

const (
	pidAlive = 1000 + iota
	pidDead
)

// modelHead and modelClaim are what matters of a head and a claim. Activations are numbers:
// in the world's, those of the world; in a process, the order in which it came to know
// them, its own being 1.
type modelHead struct {
	state, boot, activation, run, stop               uint8
	openRun, openPhase, openStep, openBoot, openActs uint8
}

type modelClaim struct {
	holder, last     uint8 // slot + 1
	boot, activation uint8
	unknown, moved   bool // moved: the epoch is another one than this process saw last
}

// modelWrites is what a transaction leaves behind.
type modelWrites struct {
	heads [2]*modelHead
	claim *modelClaim
	bump  bool // the claim's epoch grew
}

// names gives small numbers to the names of phases and steps.
type names struct {
	mu   sync.Mutex
	list []string
}

func (n *names) index(name string) uint8 {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, have := range n.list {
		if have == name {
			return uint8(i)
		}
	}
	n.list = append(n.list, name)
	return uint8(len(n.list) - 1)
}

func (n *names) name(i uint8) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.list[i]
}

var modelNames = &names{list: []string{""}}

const modelEpochs = 1000 // so far are the epochs apart that a process has seen

func activationName(i uint8) string {
	if i == 0 {
		return ""
	}
	return "activation-" + strconv.Itoa(int(i))
}

func activationIndex(name string) uint8 {
	n, _ := strconv.Atoi(strings.TrimPrefix(name, "activation-"))
	return uint8(n)
}

func slotMark(slot string) uint8 {
	if slot == "" {
		return 0
	}
	return slotIndex(slot) + 1
}

func slotOfMark(mark uint8) string {
	if mark == 0 {
		return ""
	}
	return modelSlots[mark-1]
}

func (m *machine) decodeHead(h modelHead) journal.Head {
	head := journal.Head{
		State: modelNames.name(h.state), Boot: bootNames[h.boot], Activation: activationName(h.activation),
		Run: m.runName(h.run), StopRequested: activationName(h.stop),
	}
	if h.openRun != runNone {
		head.Open = &journal.Open{
			Run: m.runName(h.openRun), Phase: modelNames.name(h.openPhase), Step: modelNames.name(h.openStep),
			PID: pidAlive, Boot: bootNames[h.openBoot], Activation: activationName(h.openActs),
		}
		if h.openRun == runDead {
			head.Open.PID = pidDead
		}
	}
	return head
}

func (m *machine) encodeHead(head *journal.Head) modelHead {
	h := modelHead{
		state: modelNames.index(head.State), boot: bootIndex(head.Boot), activation: activationIndex(head.Activation),
		run: m.runIndex(head.Run), stop: activationIndex(head.StopRequested),
	}
	if o := head.Open; o != nil {
		h.openRun, h.openPhase, h.openStep = m.runIndex(o.Run), modelNames.index(o.Phase), modelNames.index(o.Step)
		h.openBoot, h.openActs = bootIndex(o.Boot), activationIndex(o.Activation)
	}
	return h
}

var otherRuns = [...]string{runNone: "", runAlive: "somebody's", runDead: "somebody dead's"}

func (m *machine) runName(i uint8) string {
	if i == runMine {
		return m.runID
	}
	return otherRuns[i]
}

func (m *machine) runIndex(id string) uint8 {
	for i, name := range otherRuns {
		if name == id && i != int(runMine) {
			return uint8(i)
		}
	}
	m.runID = id // what is not read can only be written by its owner
	return runMine
}

func (m *machine) decodeClaim(c modelClaim) journal.Claim {
	if c.moved {
		m.epoch += modelEpochs
	}
	return journal.Claim{
		Holder: slotOfMark(c.holder), Last: slotOfMark(c.last), Epoch: m.epoch,
		Boot: bootNames[c.boot], Activation: activationName(c.activation), Unknown: c.unknown,
	}
}

func (m *machine) encodeClaim(c journal.Claim) modelClaim {
	return modelClaim{
		holder: slotMark(c.Holder), last: slotMark(c.Last),
		boot: bootIndex(c.Boot), activation: activationIndex(c.Activation), unknown: c.Unknown,
	}
}

// modelLedger keeps the books of a process: in the world, one transaction at a time.
type modelLedger struct {
	m *machine
	v *variant
	p *program
}

func (b modelLedger) read(ctx context.Context, f func(reader) error) error {
	if err := b.m.ask(ctx, request{kind: askBegin}).failure(ctx); err != nil {
		return err
	}
	defer b.m.ask(context.Background(), request{kind: askAbort})
	return f(b.transaction())
}

func (b modelLedger) update(ctx context.Context, f func(tx) error) error {
	if err := b.m.ask(ctx, request{kind: askBegin}).failure(ctx); err != nil {
		return err
	}
	t := b.transaction()
	if err := f(t); err != nil {
		b.m.ask(context.Background(), request{kind: askAbort})
		return err
	}
	b.m.ask(context.Background(), request{kind: askCommit, write: t.writes()})
	return nil
}

func (b modelLedger) transaction() *modelTx {
	t := &modelTx{modelLedger: b, memoryTx: (&memoryTx{}).clone(), loaded: map[string]bool{}}
	return t
}

// modelTx reads from the world what the memory's transaction does not have yet.
type modelTx struct {
	modelLedger
	memoryTx
	loaded    map[string]bool
	claimRead *journal.Claim
}

func (t *modelTx) Head(slot string) (journal.Head, error) {
	if !t.loaded[slot] {
		t.loaded[slot] = true
		a := t.m.ask(context.Background(), request{kind: askHead, slot: slotIndex(slot)})
		t.heads[slot] = t.m.decodeHead(a.head)
	}
	return t.memoryTx.Head(slot)
}

func (t *modelTx) Claim(pair string) (journal.Claim, error) {
	if t.claimRead == nil {
		c := t.m.decodeClaim(t.m.ask(context.Background(), request{kind: askClaim}).claim)
		if t.v.runAnyway && t.p.name == phaseRun {
			c.Holder, c.Unknown, c.Boot, c.Activation = modelSlots[t.p.slot], false, bootNames[bootNow], activationName(1)
		}
		t.claimRead, t.claims[pair] = &c, c
	}
	return t.memoryTx.Claim(pair)
}

func (t *modelTx) Append(slot string, e journal.Entry, evidence []byte) (journal.Entry, error) {
	t.m.runID = e.Run
	if _, err := t.Head(slot); err != nil {
		return e, err
	}
	if t.v.releaseFirst && e.Phase == PhasePostStop && e.Kind == string(fsm.NoteIntent) {
		c, err := t.Claim(modelPair)
		if err == nil && c.Holder == slot {
			c.Holder = ""
			err = t.SetClaim(modelPair, c)
		}
		if err != nil {
			return e, err
		}
	}
	return t.memoryTx.Append(slot, e, evidence)
}

func (t *modelTx) SetHead(slot string, f func(*journal.Head)) error {
	if _, err := t.Head(slot); err != nil {
		return err
	}
	return t.memoryTx.SetHead(slot, f)
}

// writes compares what is there now with what was read.
func (t *modelTx) writes() *modelWrites {
	w := &modelWrites{}
	for slot, head := range t.heads {
		h := t.m.encodeHead(&head)
		w.heads[slotIndex(slot)] = &h
	}
	if now := t.claims[modelPair]; t.claimRead != nil {
		c := t.m.encodeClaim(now)
		w.claim, w.bump = &c, now.Epoch != t.claimRead.Epoch
		t.m.epoch = now.Epoch
	}
	return w
}

func (*modelTx) Entries(string, journal.Query) ([]journal.Entry, error) { return nil, nil }
