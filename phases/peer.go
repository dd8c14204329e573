package phases

import (
	"context"
	"errors"
	"fmt"

	"github.com/node-lifecycle/node-lifecycle/fsm"
	"github.com/node-lifecycle/node-lifecycle/journal"
)

// verdict is the answer to whether the peer is down, and on what evidence.
type verdict struct {
	cause    Cause // "": the peer is down
	detail   string
	hint     string
	evidence string // "weak" or "unit" when there was less than a look at the stack
	err      error
}

func peerDown(detail, evidence string) verdict { return verdict{detail: detail, evidence: evidence} }

// lookAtPeer decides whether the peer is proven down. It must be called under the host
// lock, or its answer is only advice. "Unknown" is never "no".
func (r *run) lookAtPeer(ctx context.Context) verdict {
	if err := r.load(ctx); err != nil {
		return verdict{cause: causeOf(err, CauseJournal), err: err}
	}
	v := r.lookAtStacks(ctx)
	if v.cause != "" || r.peer == "" {
		return v
	}
	if _, ok := r.l.Controller.(Aliver); !ok {
		return r.lookWeakly(ctx)
	}
	if v, ok := r.lookAtPeerUnit(ctx); ok {
		return v
	}
	return v
}

// lookAtStacks looks at the stacks that this one must not run beside: the peer's, and what
// was one before the configuration changed.
func (r *run) lookAtStacks(ctx context.Context) verdict {
	if able, ok := r.l.Controller.(Strayer); ok {
		alive, detail, err := able.Stray(ctx, r.slot)
		switch {
		case err != nil:
			return r.unknown(ctx, "cannot prove that no stack of an earlier configuration is up", err)
		case alive:
			return verdict{cause: CausePeerAlive, err: fmt.Errorf("another stack is alive: %s", detail), hint: "stop it first, with node-lifecycle stop or with the engine's own command"}
		}
	}
	if r.peer == "" {
		return peerDown("the slot has no peer", "")
	}
	able, ok := r.l.Controller.(Aliver)
	if !ok {
		return verdict{}
	}
	alive, detail, err := able.Alive(ctx, r.peer)
	switch {
	case err != nil:
		return r.unknown(ctx, "cannot prove that "+r.peer+" is down", err)
	case alive:
		return verdict{cause: CausePeerAlive, err: fmt.Errorf("the peer %s is alive: %s", r.peer, detail), hint: r.howToStopPeer(ctx)}
	}
	return peerDown(r.peer+" is down: "+detail, "")
}

// unknown is the verdict when something could not be found out. A phase that was told to
// end has not found out that the engine is silent.
func (r *run) unknown(ctx context.Context, what string, err error) verdict {
	if ctx.Err() != nil {
		return verdict{cause: causeOf(endOf(ctx), CauseTimeout), err: cutShort(ctx, fmt.Errorf("%s: %w", what, err))}
	}
	v := verdict{cause: CausePeerUnknown, err: fmt.Errorf("%s: %w", what, err)}
	var away unreachable
	if errors.As(err, &away) && away.Unreachable() {
		v.hint = "see that the container engine and systemd answer, then start again"
	}
	return v
}

// howToStopPeer says what ends the peer's stack: systemd has nothing to stop where a stack
// has outlived its unit.
func (r *run) howToStopPeer(ctx context.Context) string {
	if r.l.Supervisor != nil {
		if u, err := r.l.Supervisor.Unit(ctx, r.peer); err == nil && u.Down() {
			return fmt.Sprintf("its unit is down; end it with node-lifecycle resume %s, or by hand", r.peer)
		}
	}
	return fmt.Sprintf("stop %s first", r.peer)
}

// lookAtPeerUnit asks for the unit's evidence where the claim makes it necessary: a
// peer that holds the claim may be between its claim and its start. Nobody's claim
// needs none, for two units that start at once are both activating and one must win.
// ok is false when the unit has nothing to object.
func (r *run) lookAtPeerUnit(ctx context.Context) (v verdict, ok bool) {
	if r.l.Supervisor == nil || r.claim.Holder != r.peer && !r.claim.Unknown {
		return v, false
	}
	u, err := r.l.Supervisor.Unit(ctx, r.peer)
	switch {
	case err != nil:
		return r.unknown(ctx, "cannot prove that "+r.peer+" is down", err), true
	case u.Down():
		return v, false
	case r.claim.Unknown && u.beforeMain() && r.goesFirst():
		return v, false
	}
	return verdict{
		cause: CausePeerAlive, hint: fmt.Sprintf("stop %s first", r.peer),
		err: fmt.Errorf("the peer %s holds the claim and its unit %s is %s", r.peer, u.Name, describe(u)),
	}, true
}

// goesFirst breaks the tie of two slots that start at once while nobody knows whose
// claim it is. Beside a peer of ours this slot goes on, since the peer's start finds the
// higher epoch and refuses itself; beside one whose start looks at no claim, only the slot
// goes on whose name sorts first.
func (r *run) goesFirst() bool { return r.owns(r.peer) || r.slot < r.peer }

func (r *run) owns(slot string) bool {
	if able, ok := r.l.Controller.(Owner); ok {
		return able.Owns(slot)
	}
	_, starts := r.l.Controller.(Starter)
	return starts
}

// lookWeakly is all that can be asked of a Controller with three methods only.
func (r *run) lookWeakly(ctx context.Context) verdict {
	var open *journal.Open
	err := r.l.read(ctx, func(b reader) error {
		head, err := b.Head(r.peer)
		open = head.Open
		return err
	})
	if err != nil {
		return verdict{cause: causeOf(err, CauseJournal), err: err}
	}
	if r.l.runLives(open) {
		return verdict{cause: CausePeerAlive, err: fmt.Errorf("%s of the peer %s is running (pid %d)", open.Phase, r.peer, open.PID), hint: "wait for it to end"}
	}
	running, detail, err := r.l.Controller.Running(ctx, r.peer)
	switch {
	case err != nil:
		return r.unknown(ctx, "cannot prove that "+r.peer+" is down", err)
	case running:
		return verdict{cause: CausePeerAlive, err: fmt.Errorf("the peer %s is running", r.peer), hint: fmt.Sprintf("stop %s first", r.peer)}
	}
	return peerDown(r.peer+" is not running: "+detail, "weak")
}

func (v verdict) error() *Error { return &Error{Cause: v.cause, Err: v.err, Hint: v.hint} }

// fencePeer makes a late start of the peer fail. weak says that it only made it
// unlikely, so that the peer has to be looked at again.
func (r *run) fencePeer(ctx context.Context) (detail string, weak bool, err error) {
	able, ok := r.l.Controller.(Fencer)
	if !ok || r.peer == "" {
		return "", false, nil
	}
	detail, weak, err = able.Fence(ctx, r.peer)
	if err == nil {
		return detail, weak, nil
	}
	v := r.unknown(ctx, "cannot fence "+r.peer, err)
	if again, ok := r.l.Controller.(Aliver); ok {
		if alive, seen, lookErr := again.Alive(ctx, r.peer); lookErr == nil && alive {
			v = verdict{cause: CausePeerAlive, err: fmt.Errorf("the peer %s came alive while it was being fenced: %s", r.peer, seen), hint: r.howToStopPeer(ctx)}
		}
	}
	return "", false, v.error()
}

// stillDown looks at the peer once more, where the fence could not be a real one.
func (r *run) stillDown(ctx context.Context) error {
	able, ok := r.l.Controller.(Aliver)
	if !ok || r.peer == "" {
		return nil
	}
	alive, detail, err := able.Alive(ctx, r.peer)
	if err != nil {
		return r.unknown(ctx, "cannot prove that "+r.peer+" is still down", err).error()
	}
	if alive {
		if err := r.diverged(ctx, r.slot+" holds the claim, "+r.peer+" is down", "both stacks are alive: "+detail); err != nil {
			return err
		}
		return &Error{
			Cause: CausePeerAlive,
			Err:   fmt.Errorf("two stacks: the peer %s came alive after %s had claimed the pair: %s", r.peer, r.slot, detail),
			Hint:  fmt.Sprintf("%s, the later one, stops itself; find out who started %s", r.slot, r.peer),
		}
	}
	return nil
}

// diverged notes that the books and the world say different things, and what.
func (r *run) diverged(ctx context.Context, books, world string) error {
	return r.record(ctx, nil, divergence(books, world))
}

func divergence(books, world string) op {
	return op{note: fsm.NoteDiverged, entry: journal.Entry{
		Detail: "the books say: " + books + "; the world says: " + world,
		Attrs:  attr("books", books, "world", world),
	}}
}

// takeClaim makes the claim this slot's, one epoch on, and puts the peer's books
// right: a peer that was up in the journal and is proven down was lost, or its host
// was rebooted.
func (r *run) takeClaim(t tx, v verdict) ([]op, error) {
	claim, err := t.Claim(r.pair)
	if err != nil {
		return nil, err
	}
	if claim.Epoch != r.claim.Epoch {
		return nil, &Error{Cause: CauseClaim, Err: fmt.Errorf("the claim changed hands while it was being decided (epoch %d, then %d)", r.claim.Epoch, claim.Epoch), Hint: "start again"}
	}
	claim.Holder, claim.Last, claim.Unknown = r.slot, r.slot, false
	claim.Epoch++
	claim.Boot, claim.Activation, claim.Time = r.boot(), r.activation(), r.stepBegan
	if err := t.SetClaim(r.pair, claim); err != nil {
		return nil, err
	}
	r.claim = claim
	if r.peer == "" {
		return nil, nil
	}
	return r.settlePeer(t, v)
}

func (r *run) settlePeer(t tx, v verdict) ([]op, error) {
	head, err := t.Head(r.peer)
	if err != nil || !stateOf(head).Live() {
		return nil, err
	}
	o := op{
		slot: r.peer, event: fsm.EventLost,
		entry: journal.Entry{Detail: "found down by " + r.slot + ": " + v.detail},
		head:  func(h *journal.Head) { h.Open = nil },
	}
	if head.Boot != r.boot() {
		o.event, o.entry.Cause = fsm.EventRebooted, string(CauseReboot)
	}
	return []op{o}, nil
}

// release gives up the slot's own claim, and nobody else's.
func (r *run) release(t tx) error {
	claim, err := t.Claim(r.pair)
	if err != nil || claim.Holder != r.slot {
		return err
	}
	claim.Holder = ""
	return t.SetClaim(r.pair, claim)
}

// describe says in what state a unit is, for people.
func describe(u UnitStatus) string {
	s := u.ActiveState
	if u.SubState != "" && u.SubState != u.ActiveState {
		s += " (" + u.SubState + ")"
	}
	if u.JobID != 0 {
		s += " with a " + u.JobType + " job"
	}
	if u.LoadState == "not-found" {
		s = "not there (no such unit)"
	}
	return s
}

// PeerCheck answers, without a lock and therefore only as advice, whether a start of
// the slot may be tried: nil if so, otherwise an *Error whose cause is peer-alive,
// peer-unknown or what else kept it from knowing. It waits up to EngineWait for an
// engine that is away. Within a unit the refusal is noted in the journal.
func (l *Lifecycle) PeerCheck(ctx context.Context, slot string) error {
	if err := l.usable(slot); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, l.engineWait()+booksBudget, errBudget)
	defer cancel()
	r := l.newRun(slot, phasePeerCheck)
	err := r.waitEngine(ctx)
	if err == nil {
		v := r.lookAtPeer(ctx)
		if v.cause == "" {
			v = r.lookAtLastHolder(ctx)
		}
		if v.cause == "" {
			return nil
		}
		err = v.error()
	}
	f := &Error{Cause: causeOf(err, CausePeerUnknown), Err: err}
	if inner, ok := err.(*Error); ok {
		f = inner
	}
	if l.Self.Activation == "" {
		f.Slot, f.Phase, f.Refused = slot, phasePeerCheck, true
		return f
	}
	return r.refuse(ctx, f.Cause, f.Err, f.Hint)
}

// lookAtLastHolder lets the slot that had the pair last go first when both are being
// started, as at a boot with both units enabled.
func (r *run) lookAtLastHolder(ctx context.Context) verdict {
	last := r.claim.Last
	if r.claim.Holder != "" {
		last = r.claim.Holder
	}
	if r.peer == "" || last != r.peer || r.l.Supervisor == nil {
		return verdict{}
	}
	u, err := r.l.Supervisor.Unit(ctx, r.peer)
	if err != nil {
		return r.unknown(ctx, "cannot know whether "+r.peer+" is being started", err)
	}
	if !u.Starting() {
		return verdict{}
	}
	return verdict{cause: CausePeerAlive, err: fmt.Errorf("the peer %s had the pair last and is being started: its unit %s is %s", r.peer, u.Name, describe(u))}
}

// waitEngine waits for an engine that is away, if the Controller knows of one.
func (r *run) waitEngine(ctx context.Context) error {
	able, ok := r.l.Controller.(EngineWaiter)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.l.engineWait())
	defer cancel()
	if err := able.WaitEngine(ctx); err != nil {
		return &Error{Cause: causeOf(err, CauseEngine), Err: fmt.Errorf("the engine did not answer within %s: %w", r.l.engineWait(), err), Hint: "see that the container engine is up"}
	}
	return nil
}
