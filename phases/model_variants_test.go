package phases

import (
	"context"
	"fmt"
)

// The product, under every kind of misfortune, each with as many as fit. All states that
// can be come to are searched.
var modelRuns = []variant{
	{name: "two starts and a stop", left: budget{starts: 2, stops: 1}},
	{name: "a crash and a reboot", left: budget{starts: 3, crashes: 1, reboots: 1}},
	{name: "two crashes", left: budget{starts: 2, crashes: 2}},
	{name: "an outlived run and a crash", left: budget{starts: 2, outlives: 1, crashes: 1}},
	{name: "an outlived run of a stack that dies", left: budget{starts: 2, outlives: 1, dies: 1}},
	{name: "resume beside a crash", left: budget{starts: 1, resumes: 2, crashes: 1}},
	{name: "a lost journal and a crash", left: budget{starts: 2, losses: 1, crashes: 1}},
	{name: "an engine that does not answer, and a crash", left: budget{starts: 2, faults: 1, crashes: 1}},
	{name: "a stack that does not become ready", left: budget{starts: 2, timeouts: 1, dies: 1}},
	{name: "a reboot with an engine that starts what ran", left: budget{starts: 3, reboots: 1}, autorun: true},
	{name: "both started at once", left: budget{starts: 2}, oneUp: true},
	{name: "both started at once, the claim unknown", left: budget{starts: 2}, oneUp: true, nothingKnown: true},
	{name: "somebody else's containers, and two crashes", left: budget{starts: 3, crashes: 2}, outside: true},
	{name: "somebody else's containers, a crash and a reboot", left: budget{starts: 3, crashes: 1, reboots: 1}, outside: true},
	{name: "somebody else's containers, a lost journal", left: budget{starts: 3, losses: 1}, outside: true},
	{name: "somebody else's containers, both started at once", left: budget{starts: 2}, outside: true, oneUp: true},
	{name: "somebody else's containers, the claim unknown", left: budget{starts: 2}, outside: true, oneUp: true, nothingKnown: true},
}

// judgement is how a broken variant decides that the peer is down.
type judgement func(ctx context.Context, r *run) verdict

// rules is a precheck put together from the product's parts, some of them left out.
type rules struct {
	judge   judgement
	early   bool // the evidence is read before the lock is taken
	noEpoch bool // nobody looks whether the claim has changed hands meanwhile
	noBooks bool // the peer's books are left as they are
}

func (b rules) precheck(ctx context.Context, r *run) (out outcome, err error) {
	judge := b.judge
	if judge == nil {
		judge = func(ctx context.Context, r *run) verdict { return r.lookAtPeer(ctx) }
	}
	var v verdict
	if b.early {
		if v = judge(ctx, r); v.cause != "" {
			return out, v.error()
		}
	}
	if r.settled, out.release, err = r.settle(ctx); err != nil {
		return out, err
	}
	if !b.early {
		if v = judge(ctx, r); v.cause != "" {
			return out, v.error()
		}
	}
	if _, _, err := r.fencePeer(ctx); err != nil {
		return out, err
	}
	out.books = func(t tx) ([]op, error) {
		if b.noEpoch {
			if r.claim, err = t.Claim(r.pair); err != nil {
				return nil, err
			}
		}
		settled, err := r.takeClaim(t, v)
		if b.noBooks {
			settled = nil
		}
		return settled, err
	}
	return out, nil
}

func refusal(what string) verdict {
	return verdict{cause: CausePeerAlive, err: fmt.Errorf("the peer: %s", what)}
}

// What broken variants take for proof that the peer is down.
var (
	stackAlone judgement = func(ctx context.Context, r *run) verdict {
		if alive, _, err := r.l.Controller.(Aliver).Alive(ctx, r.peer); err != nil || alive {
			return refusal("alive")
		}
		return verdict{}
	}
	unitAlone judgement = func(ctx context.Context, r *run) verdict {
		if err := r.load(ctx); err != nil {
			return refusal("no books")
		}
		if v, objects := r.lookAtPeerUnit(ctx); objects {
			return v
		}
		return verdict{}
	}
	hookAlone judgement = func(ctx context.Context, r *run) verdict {
		var open bool
		err := r.l.read(ctx, func(b reader) error {
			head, err := b.Head(r.peer)
			open = r.l.runLives(head.Open)
			return err
		})
		if err != nil || open {
			return refusal("its hook lives")
		}
		return verdict{}
	}
	otherBoot judgement = func(ctx context.Context, r *run) verdict {
		if err := r.load(ctx); err != nil {
			return refusal("no books")
		}
		if r.claim.Boot != r.boot() {
			return verdict{}
		}
		return r.lookAtPeer(ctx)
	}
	nobodyClaims judgement = func(ctx context.Context, r *run) verdict {
		if err := r.load(ctx); err != nil {
			return refusal("no books")
		}
		if r.claim.Holder == "" && !r.claim.Unknown {
			return verdict{}
		}
		return r.lookAtPeer(ctx)
	}
	unitAlways judgement = func(ctx context.Context, r *run) verdict {
		if v := r.lookAtPeer(ctx); v.cause != "" {
			return v
		}
		if u, err := r.l.Supervisor.Unit(ctx, r.peer); err != nil || !u.Down() {
			return refusal("its unit is at work")
		}
		return verdict{}
	}
	unitWhenUnknown judgement = func(ctx context.Context, r *run) verdict {
		if err := r.load(ctx); err != nil {
			return refusal("no books")
		}
		if r.claim.Unknown {
			return unitAlways(ctx, r)
		}
		return r.lookAtPeer(ctx)
	}
)

// lateOutside is where the product is known to end: what somebody else's command has asked of
// an engine cannot be fenced by a name.
var lateOutside = variant{left: budget{starts: 2, crashes: 2}, outside: true, lateOutside: true, want: twoStacks}

// The broken variants. Where the product has two guards against the same thing, both are
// taken away: that either holds alone is the point of having them.
var modelMutants = []variant{
	{
		name: "look at the container, then start", left: budget{starts: 2}, want: twoStacks,
		precheck: rules{judge: stackAlone, early: true, noEpoch: true}.precheck, noLock: true, noFence: true, runAnyway: true,
	},
	{
		name: "a claim ends with the hook that took it", left: budget{starts: 2}, want: twoStacks,
		precheck: rules{judge: hookAlone}.precheck, noFence: true, runAnyway: true,
	},
	{
		name: "a claim ends with its unit", left: budget{starts: 2, crashes: 2}, want: twoStacks,
		precheck: rules{judge: unitAlone}.precheck, noFence: true,
	},
	{
		name: "a claim ends with its container", left: budget{starts: 2}, want: twoStacks,
		precheck: rules{judge: stackAlone}.precheck, runAnyway: true,
	},
	{
		name: "evidence from before the lock", left: budget{starts: 2}, want: twoStacks,
		precheck: rules{early: true, noEpoch: true}.precheck, noFence: true, runAnyway: true,
	},
	{
		name: "evidence from before the lock, with a fence", left: budget{starts: 2}, want: twoStacks,
		precheck: rules{early: true, noEpoch: true}.precheck, runAnyway: true,
	},
	{name: "no fence", left: budget{starts: 2, crashes: 2}, want: twoStacks, noFence: true},
	{name: "the claim given up before the container is gone", left: budget{starts: 2, stops: 1}, want: unclaimed, releaseFirst: true},
	{
		name: "a claim ends with its boot, and the engine starts what ran", left: budget{starts: 3, reboots: 1}, want: twoStacks,
		precheck: rules{judge: otherBoot}.precheck, autorun: true, noFence: true,
	},
	{name: "a lost journal taken for an empty one", left: budget{starts: 2, losses: 1}, want: twoStacks, amnesia: true, runAnyway: true},
	{
		name: "nobody's claim trusted blindly, and the own container left", left: budget{starts: 2, crashes: 2}, want: twoStacks,
		precheck: rules{judge: nobodyClaims}.precheck, noFence: true, noRemoval: true,
	},
	{name: "run does not look at the claim", left: budget{starts: 2, outlives: 1, crashes: 2}, want: twoStacks, runAnyway: true},
	{name: "a peer that is not ready taken for down", left: budget{starts: 2, crashes: 2}, want: twoStacks, byReadiness: true, noFence: true},
	{name: "the peer's books left as they are", left: budget{starts: 2, crashes: 2}, want: bothUp, precheck: rules{noBooks: true}.precheck},
	{
		name: "the peer's unit asked although nobody claims", left: budget{starts: 2}, want: noneUp, oneUp: true,
		precheck: rules{judge: unitAlways}.precheck,
	},
	{
		name: "nobody goes first when the claim is unknown", left: budget{starts: 2}, want: noneUp, oneUp: true, nothingKnown: true,
		precheck: rules{judge: unitWhenUnknown}.precheck,
	},
}
