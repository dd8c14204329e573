package phases

import (
	"context"
	"fmt"
	"time"

	"github.com/node-lifecycle/node-lifecycle/fsm"
	"github.com/node-lifecycle/node-lifecycle/journal"
)

// preStartSteps is pre-start. Its order is part of its meaning: refuse while the peer
// is alive, then refresh the host-side configuration, then have systemd load it.
var preStartSteps = []step{
	{
		name: "precheck", from: fsm.Stopped, event: fsm.EventPrechecked, cause: CausePeerUnknown,
		repeatable: true, budget: (*Lifecycle).preStartBudget, do: precheck,
	},
	{
		name: "regenerate", from: fsm.PreChecked, cause: CauseRegenerate,
		repeatable: true, budget: (*Lifecycle).preStartBudget, do: regenerate,
	},
	{
		name: "reload", from: fsm.PreChecked, event: fsm.EventRegenerated, cause: CauseReload,
		repeatable: true, budget: (*Lifecycle).preStartBudget, do: reload,
	},
}

// PreStart readies the slot for a start: it settles what an earlier run left open,
// proves the peer down and fences it, takes the claim, refreshes the host-side
// configuration and has systemd load it. It ends in Regenerated.
//
// It blocks for up to PreStartBudget and returns an *Error if the start must not go on.
func (l *Lifecycle) PreStart(ctx context.Context, slot string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, l.preStartBudget(), errBudget)
	defer cancel()
	r, done, err := l.enter(ctx, slot, PhasePreStart)
	if err != nil {
		return err
	}
	defer done()
	return r.execute(ctx, preStartSteps)
}

// enter begins a phase that belongs to the slot's unit: it takes the slot's lock, makes
// sure that the phase is not typed by hand beside a living unit, and reads the head.
func (l *Lifecycle) enter(ctx context.Context, slot, phase string) (*run, func(), error) {
	if err := l.usable(slot); err != nil {
		return nil, nil, err
	}
	r := l.newRun(slot, phase)
	if err := r.guardHand(ctx); err != nil {
		return nil, nil, err
	}
	release, err := l.locks().Slot(ctx, slot, phase)
	if err != nil {
		return nil, nil, r.refuse(ctx, causeOf(lockErr(ctx, err), CauseLocked), err, "wait for it to end, or see what it is doing with: node-lifecycle status "+slot)
	}
	if err := r.load(ctx); err != nil {
		release()
		return nil, nil, r.refuse(ctx, causeOf(err, CauseJournal), err, "")
	}
	r.found = r.head.Open
	return r, release, nil
}

// lockErr tells a lock that stayed taken from a phase that was asked to end.
func lockErr(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && causeOf(cause, "") == CauseInterrupted {
		return cause
	}
	return err
}

// guardHand refuses a hook that was typed by hand while the unit is at work: the hook
// would act on the state of an activation that is not its own.
func (r *run) guardHand(ctx context.Context) error {
	if r.l.Supervisor == nil || r.l.Force {
		return nil
	}
	u, err := r.l.Supervisor.Unit(ctx, r.slot)
	if err != nil {
		return r.unitUnknown(err)
	}
	if r.l.Self.Unit == u.Name && u.Name != "" || u.ActiveState != "active" && u.ActiveState != "activating" {
		return nil
	}
	return &Error{
		Slot: r.slot, Phase: r.phase, Cause: CauseByHand, Refused: true,
		Err:  fmt.Errorf("the unit %s is %s and calls its hooks itself", u.Name, describe(u)),
		Hint: "use systemctl, or --force if you know better",
	}
}

// unitUnknown decides what a hook does when systemd does not answer: one that systemd
// started goes on, since it is its own proof; one typed by hand does not.
func (r *run) unitUnknown(err error) error {
	if r.l.Self.Activation != "" {
		return nil
	}
	return &Error{
		Slot: r.slot, Phase: r.phase, Cause: causeOf(err, CauseEngine), Refused: true,
		Err: fmt.Errorf("systemd cannot say whether the unit is active: %w", err),
	}
}

// precheck settles the slot's own past and decides about the peer, under the host lock
// until the decision is durable.
func precheck(ctx context.Context, r *run) (out outcome, err error) {
	r.l.status("checking that the peer is down")
	if err := r.waitEngine(ctx); err != nil {
		return out, err
	}
	if r.settled, out.release, err = r.settle(ctx); err != nil {
		return out, err
	}
	v := r.lookAtPeer(ctx)
	if v.cause != "" {
		return out, v.error()
	}
	fenced, weak, err := r.fencePeer(ctx)
	if err != nil {
		return out, err
	}
	out.detail = v.detail
	out.attrs = attr("evidence", v.evidence, "fence", fenced, "epoch", fmt.Sprint(r.claim.Epoch+1))
	out.books = func(t tx) ([]op, error) { return r.takeClaim(t, v) }
	if weak {
		out.after = r.stillDown
	}
	return out, nil
}

func regenerate(ctx context.Context, r *run) (outcome, error) {
	r.l.status("regenerating the host-side configuration")
	return outcome{}, r.l.Controller.Regenerate(ctx, r.slot)
}

// reload has systemd read its unit files again, unless the backend can say that none
// has changed, and then makes sure that the unit still loads.
func reload(ctx context.Context, r *run) (out outcome, err error) {
	if r.l.ReloadSystemd == nil {
		return outcome{detail: "no reload is configured"}, nil
	}
	changed := true
	if able, ok := r.l.Controller.(Changer); ok {
		if changed, err = able.Changed(ctx, r.slot); err != nil {
			changed = true
		}
	}
	out.detail = "no unit file changed"
	if changed {
		r.l.status("reloading systemd")
		out.detail = "systemd reloaded"
		if err := r.l.ReloadSystemd(ctx); err != nil {
			return outcome{}, err
		}
	}
	if able, ok := r.l.Controller.(Loader); ok {
		if err := able.CheckLoaded(ctx, r.slot); err != nil {
			return outcome{}, err
		}
	}
	return out, nil
}

// settle puts right what an earlier run or activation left open: it ends a survivor of
// the slot's own stack (it never adopts one), removes what is left of it, and says what
// the state had become. It leaves the host's lock to the caller, with what gives it back.
func (r *run) settle(ctx context.Context) ([]op, func(), error) {
	survivor, discarded, release, err := r.clearOwn(ctx, r.endSurvivor)
	if err != nil {
		return nil, nil, err
	}
	var ops []op
	if discarded != "" {
		ops = append(ops, op{note: fsm.NoteDiscarded, entry: journal.Entry{Step: r.step, Detail: discarded}})
	}
	if survivor != "" && !r.state().Live() {
		ops = append(ops, divergence(r.slot+" is "+string(r.state()), survivor))
	}
	return append(ops, r.settleOwn(survivor)...), release, nil
}

// maxRevivals is how often a stack may come to life again while it is being cleared
// away.
const maxRevivals = 3

// clearOwn ends the slot's own stack by means of end and removes what is left of it under
// the host's lock. A run that has outlived its unit may start the stack after it was seen
// to be down, but not under that lock: what is gone there stays gone until it is given
// back.
func (r *run) clearOwn(ctx context.Context, end func(context.Context) (string, error)) (how, removed string, release func(), err error) {
	for range maxRevivals {
		if how, err = end(ctx); err != nil {
			return "", "", nil, err
		}
		if release, err = r.l.locks().Host(ctx, r.phase); err != nil {
			return "", "", nil, err
		}
		if removed, err = r.removeStale(ctx); err == nil {
			return how, removed, release, nil
		}
		release()
		if alive, lookErr := r.ownStackAlive(ctx); lookErr != nil || !alive {
			return "", "", nil, err
		}
	}
	return "", "", nil, r.unproven(fmt.Errorf("it was started again each time: %w", err))
}

// endSurvivor stops the slot's own stack if it still lives.
func (r *run) endSurvivor(ctx context.Context) (detail string, err error) {
	able, ok := r.l.Controller.(Aliver)
	if !ok {
		return "", nil
	}
	alive, seen, err := able.Alive(ctx, r.slot)
	if err != nil {
		return "", &Error{Cause: causeOf(err, CauseEngine), Err: fmt.Errorf("cannot know whether %s still has a stack: %w", r.slot, err)}
	}
	if !alive {
		return "", nil
	}
	stopper, ok := r.l.Controller.(Stopper)
	if !ok {
		return "", &Error{Cause: CauseConfig, Err: fmt.Errorf("a stack of an earlier start is left (%s) and cannot be stopped from here", seen), Hint: "stop it by hand"}
	}
	r.l.status("ending a stack that outlived its unit")
	how, err := stopper.Stop(ctx, r.slot)
	if err != nil {
		return "", &Error{Cause: causeOf(err, CauseUnproven), Err: fmt.Errorf("a stack of an earlier start is left: %w", err)}
	}
	return "survivor ended: " + seen + "; " + how, nil
}

func (r *run) removeStale(ctx context.Context) (string, error) {
	able, ok := r.l.Controller.(Remover)
	if !ok {
		return "", nil
	}
	detail, err := able.Remove(ctx, r.slot, r.claim.Epoch)
	if err != nil {
		return "", &Error{Cause: causeOf(err, CauseEngine), Err: fmt.Errorf("cannot remove the stale container: %w", err)}
	}
	return detail, nil
}

// settleOwn is what the books must say of the slot now that it is proven to have no
// stack.
func (r *run) settleOwn(survivor string) []op {
	open := r.found
	what := ""
	if open != nil {
		what = fmt.Sprintf("%s died in step %s (pid %d, since %s)", open.Phase, open.Step, open.PID, open.Since.Format(time.RFC3339))
	}
	entry := journal.Entry{Step: r.step, Detail: joinDetails(what, survivor)}
	switch {
	case !r.state().Live() && survivor == "" && what == "":
		return nil
	case !r.state().Live() && what != "":
		entry.Cause = string(CauseInterrupted)
		return []op{{note: fsm.NoteUndone, entry: entry}}
	case !r.state().Live():
		return []op{{note: fsm.NoteCleaned, entry: entry}}
	case r.head.Boot != r.boot():
		entry.Cause = string(CauseReboot)
		return []op{{event: fsm.EventRebooted, entry: entry}}
	case what != "" && r.state() != fsm.Wired:
		entry.Cause = string(CauseInterrupted)
		return []op{{event: fsm.EventFailed, entry: entry}}
	case r.head.StopRequested != "" && r.head.StopRequested == r.head.Activation:
		entry.Cause = string(CauseInterrupted)
		entry.Detail = joinDetails("a stop was asked for, and nobody recorded its end", entry.Detail)
		return []op{{event: fsm.EventLost, entry: entry}}
	default:
		entry.Cause = string(CauseStackDied)
		if survivor != "" {
			entry.Cause = string(CauseRunDied)
		}
		entry.Detail = joinDetails("nobody recorded a stop", entry.Detail)
		return []op{{event: fsm.EventLost, entry: entry}}
	}
}

func joinDetails(parts ...string) string {
	s := ""
	for _, p := range parts {
		if p == "" {
			continue
		}
		if s != "" {
			s += "; "
		}
		s += p
	}
	return s
}
