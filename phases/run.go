package phases

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/oklog/ulid/v2"

	"github.com/node-lifecycle/node-lifecycle/fsm"
	"github.com/node-lifecycle/node-lifecycle/journal"
)

// The phases and the other commands that write to the journal.
const (
	PhasePreStart  = "pre-start"
	PhasePostStart = "post-start"
	PhasePostStop  = "post-stop"
	PhaseReconcile = "reconcile"
	PhaseResume    = "resume"

	phasePeerCheck = "peer-check"
	phaseRun       = "run"
	phaseStop      = "stop"
	phaseReset     = "reset"
)

// journalGrace is what a phase that is out of time may still spend on writing down how
// it ended. It is less than the second within which a phase ends after SIGTERM.
const journalGrace = 900 * time.Millisecond

// booksBudget is what a phase may spend on locks and on the journal beside its actions.
const booksBudget = 30 * time.Second

// run is one execution of a phase by this process.
type run struct {
	l                *Lifecycle
	self             Process
	slot, peer, pair string
	phase, id        string
	count            int
	began            time.Time
	opened           bool          // an intent of this run is in the head
	found            *journal.Open // the run that was open when this one came, dead by now
	settled          []op          // what was put right before the first step's outcome
	head             journal.Head
	step             string
	stepBegan        time.Time
	stepBudget       time.Duration
	claim            journal.Claim
	survived         bool   // the stack was alive when its end was looked into
	requested        uint64 // the sequence number of reconcile's request
	waiting          waiting
}

// op is one entry to be: an event to fire, or a note.
type op struct {
	slot     string // "": the run's own
	event    fsm.Event
	note     fsm.Note
	entry    journal.Entry
	evidence []byte
	head     func(*journal.Head)
}

func (l *Lifecycle) newRun(slot, phase string) *run {
	peer := l.peer(slot)
	return &run{
		l: l, self: l.Self, slot: slot, peer: peer, pair: Pair(slot, peer), phase: phase,
		id: ulid.Make().String(), began: time.Now(), stepBegan: time.Now(),
	}
}

// boot and activation are those of this process.
func (r *run) boot() string {
	if r.l.Host == nil {
		return ""
	}
	return r.l.Host.Boot()
}

func (r *run) activation() string { return r.self.Activation }

func (r *run) state() fsm.State { return stateOf(r.head) }

// load reads the head of the slot.
func (r *run) load(ctx context.Context) error {
	return r.l.read(ctx, func(b reader) (err error) {
		if r.head, err = b.Head(r.slot); err != nil {
			return err
		}
		r.claim, err = b.Claim(r.pair)
		return err
	})
}

// stamp fills in what every entry of this run has.
func (r *run) stamp(e journal.Entry) journal.Entry {
	r.count++
	e.ID = r.id + "-" + strconv.Itoa(r.count)
	e.Run, e.Phase = r.id, r.phase
	if e.Step == "" {
		e.Step = r.step
	}
	e.Time = time.Now()
	e.Boot, e.Activation = r.boot(), r.activation()
	if r.l.Host != nil {
		e.Boottime = r.l.Host.Boottime()
	}
	e.PID, e.Version = r.self.PID, r.self.Version
	return e
}

// books is what else belongs into a commit: it writes to the same transaction and may
// return entries that depend on what it found there.
type books func(tx) ([]op, error)

// record writes the entries in one commit and then, only then, tells of them. more may
// be nil.
func (r *run) record(ctx context.Context, more books, ops ...op) error {
	var written []journal.Entry
	err := r.l.update(ctx, func(t tx) error {
		written = written[:0]
		if err := r.checkOwner(t); err != nil {
			return err
		}
		all := ops
		if more != nil {
			found, err := more(t)
			if err != nil {
				return err
			}
			all = slices.Concat(found, ops)
		}
		for _, o := range all {
			o.entry = r.stamp(o.entry)
			e, err := r.apply(ctx, t, o)
			if err != nil {
				return err
			}
			written = append(written, e)
		}
		var err error
		r.head, err = t.Head(r.slot)
		return err
	})
	if err != nil {
		return err
	}
	for i := range written {
		r.l.tell(&written[i])
	}
	return nil
}

// checkOwner makes sure that no other run has taken the slot over meanwhile.
func (r *run) checkOwner(t tx) error {
	if !r.opened {
		return nil
	}
	head, err := t.Head(r.slot)
	if err != nil {
		return err
	}
	if head.Open == nil || head.Open.Run != r.id {
		by := "another run"
		if head.Open != nil {
			by = fmt.Sprintf("%s (pid %d)", head.Open.Phase, head.Open.PID)
		}
		return &Error{
			Slot: r.slot, Phase: r.phase, Step: r.step, Cause: CauseTakenOver,
			Err: fmt.Errorf("the slot was taken over by %s", by),
		}
	}
	return nil
}

// apply writes one entry: a transition if fsm allows it, or a note.
func (r *run) apply(ctx context.Context, t tx, o op) (e journal.Entry, err error) {
	slot := o.slot
	if slot == "" {
		slot = r.slot
	}
	if o.event == "" {
		o.entry.Kind = string(o.note)
		e, err = t.Append(slot, o.entry, o.evidence)
	} else {
		var head journal.Head
		if head, err = t.Head(slot); err != nil {
			return e, err
		}
		before := stateOf(head)
		_, err = fsm.Fire(ctx, before, o.event, func(tr fsm.Transition) error {
			o.entry.Kind = journal.KindTransition
			o.entry.Event, o.entry.From, o.entry.To = string(tr.Event), string(tr.From), string(tr.To)
			var appendErr error
			e, appendErr = t.Append(slot, o.entry, o.evidence)
			return appendErr
		})
	}
	if err != nil {
		return e, err
	}
	return e, t.SetHead(slot, func(h *journal.Head) {
		count(h, &e)
		if o.head != nil {
			o.head(h)
		}
	})
}

// count keeps the number of attempts in a row that have not reached Wired, and what
// retention must keep: the first failure of the streak and the last success.
func count(h *journal.Head, e *journal.Entry) {
	switch {
	case e.Event == string(fsm.EventPrechecked):
		h.Attempts++
	case e.Event == string(fsm.EventWired):
		h.Attempts, h.LastSuccess = 0, e.Seq
	case e.Event == string(fsm.EventStopped) && e.From != string(fsm.Wired):
		h.Attempts = max(0, h.Attempts-1)
	case e.Kind == string(fsm.NoteRefused) && countsAsAttempt(Cause(e.Cause)) && startedBy(e):
		h.Attempts++
		pinFailure(h, e.Seq)
	case e.Event == string(fsm.EventFailed), e.Event == string(fsm.EventLost):
		pinFailure(h, e.Seq)
	}
}

// countsAsAttempt reports whether a start that was refused so was one in vain: not beside a
// living peer, and not when somebody asked for its end.
func countsAsAttempt(c Cause) bool { return c != CausePeerAlive && c != CauseInterrupted }

func pinFailure(h *journal.Head, seq uint64) {
	if h.FirstFailure <= h.LastSuccess {
		h.FirstFailure = seq
	}
}

// open is the mark in the head that says which run is at which step until when.
func (r *run) open(deadline time.Time) *journal.Open {
	return &journal.Open{
		Run: r.id, Phase: r.phase, Step: r.step,
		PID: r.self.PID, Start: r.self.Start,
		Boot: r.boot(), Activation: r.activation(),
		Since: time.Now(), Deadline: deadline,
	}
}

// runLives reports whether the run that a head names is still being executed. Who
// holds the slot's lock knows that it is not; everybody else asks the host.
func (l *Lifecycle) runLives(o *journal.Open) bool {
	if o == nil || o.Run == "" {
		return false
	}
	if l.Host == nil {
		return o.PID == l.Self.PID
	}
	return o.Boot == l.Host.Boot() && l.Host.ProcessAlive(o.PID, o.Start)
}

// attr makes the attributes of an entry from pairs of key and value; empty values are
// left out.
func attr(pairs ...string) map[string]string {
	m := make(map[string]string)
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			m[pairs[i]] = pairs[i+1]
		}
	}
	if len(m) == 0 {
		return nil
	}
	return m
}

// late gives a context that outlives ctx by as much as the last words may take.
func late(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), journalGrace)
}

// endOf explains why a context ended: a signal, or a time that ran out.
func endOf(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return ctx.Err()
}

var errNoController = errors.New("phases: a Lifecycle needs a Controller")

// usable makes sure that there is something to drive, and a slot to drive it for: its
// name becomes a part of paths and keys.
func (l *Lifecycle) usable(slot string) error {
	bad := func(r rune) bool { return r == '/' || !unicode.IsPrint(r) }
	switch {
	case l.Controller == nil:
		return errNoController
	case slot == "", slot == ".", slot == "..", strings.ContainsFunc(slot, bad):
		return &Error{
			Slot: strconv.Quote(slot), Phase: "slot", Cause: CauseConfig, Refused: true,
			Err: errors.New("this is no name for a slot: it must be something other than . and .., without / and control characters"),
		}
	}
	return nil
}
