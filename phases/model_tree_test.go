package phases

import (
	"context"
	"io"
	"slices"
)

// tree is what is known of how the processes of a variant of the product answer.
type tree struct {
	v     *variant
	nodes []*treeNode
	roots map[string]int32
	runs  int // how often the product's code was executed
}

type treeNode struct {
	program *program
	path    []answer
	request request
	next    map[answer]int32
}

func newTree(v *variant) *tree {
	return &tree{v: v, nodes: []*treeNode{nil}, roots: map[string]int32{}}
}

// root is where a process of the program begins.
func (t *tree) root(p *program) int32 {
	key := p.name + " " + modelSlots[p.slot]
	id, ok := t.roots[key]
	if !ok {
		m := t.boot(p)
		id = t.add(&treeNode{program: p, request: m.pending})
		t.roots[key] = id
		m.kill()
		t.runs++
	}
	return id
}

func (t *tree) boot(p *program) *machine {
	return p.boot(func(m *machine) *Lifecycle { return t.v.lifecycle(m, p) })
}

func (t *tree) add(n *treeNode) int32 {
	n.next = make(map[answer]int32, 2)
	n.request.ctx = nil
	t.nodes = append(t.nodes, n)
	return int32(len(t.nodes) - 1)
}

// child is where a process comes to with an answer. An answer that was never given
// before makes the code run again, up to the request after it.
func (t *tree) child(id int32, a answer) int32 {
	n := t.nodes[id]
	if to, ok := n.next[a]; ok {
		return to
	}
	m := t.boot(n.program)
	for _, earlier := range n.path {
		m.step(earlier)
	}
	m.step(a)
	path := make([]answer, len(n.path), len(n.path)+1)
	copy(path, n.path)
	to := t.add(&treeNode{program: n.program, path: append(path, a), request: m.pending})
	m.kill()
	t.runs++
	n.next[a] = to
	return to
}

// The tree drives processes through what it knows of them.

func (t *tree) begin(p *program, _, _ int) int32 { return t.root(p) }

func (t *tree) request(p *modelProc, _, _ int) *request { return &t.nodes[p.node].request }

func (t *tree) advance(p *modelProc, _, _ int, a answer) { p.node = t.child(p.node, a) }

func (t *tree) end(int, int) {}

func (t *tree) outlive(int) {}

func (t *tree) heard(p *modelProc, _, _ int) bool {
	return slices.ContainsFunc(t.nodes[p.node].path, func(a answer) bool { return a.code == answerCancelled })
}

// The programs: what systemd and people call, and the product's code behind it.
func modelPrograms(slot uint8, outside bool) [roles]*program {
	phase := func(name string, main func(context.Context, *Lifecycle, string) error) *program {
		return &program{name: name, slot: slot, main: main}
	}
	run := phase(phaseRun, func(ctx context.Context, l *Lifecycle, slot string) error {
		code, err := l.RunStack(ctx, slot, io.Discard)
		if err == nil && code != 0 {
			err = errModelFault
		}
		return err
	})
	if outside {
		run.outside = startOutside
	}
	return [roles]*program{
		roleCheck: phase(phasePeerCheck, func(ctx context.Context, l *Lifecycle, slot string) error { return l.PeerCheck(ctx, slot) }),
		rolePre:   phase(PhasePreStart, func(ctx context.Context, l *Lifecycle, slot string) error { return l.PreStart(ctx, slot) }),
		roleRun:   run,
		roleGhost: run,
		rolePost:  phase(PhasePostStart, func(ctx context.Context, l *Lifecycle, slot string) error { return l.PostStart(ctx, slot) }),
		roleStop:  phase(phaseStop, func(ctx context.Context, l *Lifecycle, slot string) error { return l.Stop(ctx, slot) }),
		rolePostStop: phase(PhasePostStop, func(ctx context.Context, l *Lifecycle, slot string) error {
			return l.PostStop(ctx, slot, StopInfo{})
		}),
		roleResume: phase(PhaseResume, func(ctx context.Context, l *Lifecycle, slot string) error {
			_, err := l.Resume(ctx, slot)
			return err
		}),
	}
}

// lifecycle is a process's own, with the world behind it.
func (v *variant) lifecycle(m *machine, p *program) *Lifecycle {
	slot := modelSlots[p.slot]
	m.blind = v.runAnyway && p.name == phaseRun
	l := &Lifecycle{
		Controller: v.controller(m),
		Peer:       func(s string) string { return modelSlots[1-slotIndex(s)] },
		Host:       modelHost{},
		Locks:      modelLocks{m},
		Supervisor: modelSupervisor{m, p},
		Self:       Process{PID: pidAlive, Unit: "node-stack@" + slot + ".service", Activation: activationName(1)},
		ledger:     modelLedger{m: m, v: v, p: p},
	}
	if p.name == PhaseResume {
		l.Self.Unit, l.Self.Activation = "", ""
	}
	return l
}

func (v *variant) controller(m *machine) Controller {
	base := modelBase{m}
	switch {
	case v.outside:
		return outsideController{base}
	case v.noFence:
		return modelController{base}
	}
	return fencingController{modelController{base}}
}
