package phases

import (
	"context"
	"errors"
	"io"
	"runtime"
	"testing/synctest"
	"time"
)

// MODEL explores every interleaving of the phases of two slots, with crashes, reboots and
// what else hosts do. It explores the product's own code: a process of the model is a call
// of PreStart, RunStack and so on, whose Controller, Supervisor, Locks and books are asked
// one by one for what they would do. What a process does next depends on nothing but the
// answers so far, so the code is learned as a tree of answers, run once for every branch,
// and the search then moves through that tree.

// asking is what a process waits for.
type asking uint8

const (
	askExit     asking = iota // it has ended
	askSlotLock               // scheduled: others may act before it is answered
	askHostLock
	askBegin
	askAlive
	askUnit
	askFence
	askStop
	askRemove
	askClear
	askCreate
	askStart
	askRunning
	askDied
	askAttend
	askUnfence
	askOutside // somebody else's command starts its container
	askHead    // answered at once: part of what has begun
	askClaim
	askCommit
	askAbort
	askUnlockHost
	askUnlockSlot
	askOwnUnit
)

var askingNames = [...]string{
	"exits", "takes the lock of", "takes the host's lock", "opens the books", "asks whether alive", "asks systemd about",
	"fences", "stops", "removes", "clears the way for", "creates", "starts", "asks whether ready", "asks whether dead", "attends", "gives its name back to", "is told to start",
	"reads head", "reads claim", "commits", "ends its look", "unlocks the host", "unlocks the slot", "asks about its own unit",
}

// request is one thing a process asks; it stays what it is as long as it is not answered.
type request struct {
	kind  asking
	slot  uint8
	ok    bool // askExit: with 0
	write *modelWrites
	ctx   context.Context
}

func (r *request) String() string {
	switch r.kind {
	case askHostLock, askBegin, askExit:
		return askingNames[r.kind]
	}
	return askingNames[r.kind] + " " + modelSlots[r.slot]
}

// answer is what the world says. It is comparable: equal answers lead to equal processes.
type answer struct {
	code  answerCode
	head  modelHead
	claim modelClaim
	unit  modelUnitView
}

type answerCode uint8

const (
	answerNo answerCode = iota
	answerYes
	answerError     // the question could not be answered, or the action failed
	answerCancelled // SIGTERM came instead
	answerTimeout   // the context's deadline came instead
)

var errModelFault = errors.New("the engine does not answer")

// machine is the product's code in one process of the model, stopped at a request.
type machine struct {
	requests  chan request
	replies   chan answer
	attended  chan answer
	dead      chan struct{}
	cancel    context.CancelCauseFunc
	pending   request
	attend    chan request
	attending *request
	asked     bool
	runID     string
	epoch     uint64 // what the claim's epoch is called in here
	pid       int
	blind     bool  // it does not look before it acts
	err       error // what it ended with
}

// program is what a kind of process executes.
type program struct {
	name string
	slot uint8
	main func(ctx context.Context, l *Lifecycle, slot string) error
	// outside is what runs instead of the product's code.
	outside func(ctx context.Context, m *machine, slot uint8) error
}

// boot starts the program and lets it come to its first request.
func (p *program) boot(lifecycle func(*machine) *Lifecycle) *machine {
	m := &machine{
		requests: make(chan request), replies: make(chan answer), attended: make(chan answer, 1), attend: make(chan request, 1),
		dead: make(chan struct{}), epoch: modelEpochs,
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	m.cancel = cancel
	l := lifecycle(m)
	go func() {
		var err error
		if p.outside != nil {
			err = p.outside(ctx, m, p.slot)
		} else {
			err = p.main(ctx, l, modelSlots[p.slot])
		}
		m.err = err
		m.post(request{kind: askExit, ok: err == nil})
	}()
	m.await()
	return m
}

// await lets the process run until it asks something. Attending to a stack goes on beside
// everything else, and is what the process waits for when it asks nothing else.
func (m *machine) await() {
	synctest.Wait()
	select {
	case m.pending = <-m.requests:
		return
	default:
	}
	select {
	case r := <-m.attend:
		m.attending = &r
	default:
	}
	if m.attending != nil {
		m.pending = *m.attending
		return
	}
	m.pending = <-m.requests // when the time has come
}

// step answers the pending request and lets the process come to its next one.
func (m *machine) step(a answer) {
	was := m.pending
	switch a.code {
	case answerCancelled:
		m.cancel(&Error{Cause: CauseInterrupted, Err: errors.New("SIGTERM")})
		if was.kind == askAttend || was.ctx != nil && was.ctx.Err() != nil {
			m.await()
		}
		return
	case answerTimeout:
		deadline, _ := was.ctx.Deadline()
		time.Sleep(time.Until(deadline))
		m.await()
		return
	}
	if was.kind == askAttend {
		m.attended <- a
	} else {
		m.replies <- a
		if was.kind == askStop && a.code == answerYes {
			select {
			case m.attended <- answer{}:
			default:
			} // whoever attends to it sees its end
		}
	}
	m.await()
}

// kill ends the process wherever it is.
func (m *machine) kill() {
	close(m.dead)
	m.cancel(nil)
}

func (m *machine) post(r request) {
	select {
	case m.requests <- r:
	case <-m.dead:
	}
}

// ask is how the code in a process reaches the world.
func (m *machine) ask(ctx context.Context, r request) answer {
	if ctx.Err() != nil {
		return answer{code: answerCancelled}
	}
	r.ctx, m.asked = ctx, true
	m.post(r)
	select {
	case a := <-m.replies:
		return a
	case <-ctx.Done():
		return answer{code: answerCancelled}
	case <-m.dead:
		runtime.Goexit()
		return answer{}
	}
}

// failure turns an answer that is none into the error that the real thing would give.
func (a answer) failure(ctx context.Context) error {
	switch a.code {
	case answerCancelled, answerTimeout:
		return ctx.Err()
	case answerError:
		return errModelFault
	}
	return nil
}

// What a process can ask, in the shape that the product asks in.

// modelBase is what every Controller of the model can do.
type modelBase struct{ m *machine }

func (c modelBase) Regenerate(context.Context, string) error { return nil }
func (c modelBase) Restart(context.Context, string) error    { return nil }

func (c modelBase) Running(ctx context.Context, slot string) (bool, string, error) {
	a := c.m.ask(ctx, request{kind: askRunning, slot: slotIndex(slot)})
	return a.code == answerYes, "", a.failure(ctx)
}

func (c modelBase) Alive(ctx context.Context, slot string) (bool, string, error) {
	if c.m.blind {
		return false, "", nil
	}
	a := c.m.ask(ctx, request{kind: askAlive, slot: slotIndex(slot)})
	return a.code == answerYes, "", a.failure(ctx)
}

func (c modelBase) Died(ctx context.Context, slot string) (bool, string, error) {
	a := c.m.ask(ctx, request{kind: askDied, slot: slotIndex(slot)})
	return a.code == answerYes, "", a.failure(ctx)
}

func (c modelBase) Stop(ctx context.Context, slot string) (string, error) {
	return "", c.m.ask(ctx, request{kind: askStop, slot: slotIndex(slot)}).failure(ctx)
}

// modelController is that of slots whose containers run starts.
type modelController struct{ modelBase }

func (c modelController) Remove(ctx context.Context, slot string, _ uint64) (string, error) {
	return "", c.m.ask(ctx, request{kind: askRemove, slot: slotIndex(slot)}).failure(ctx)
}

// Start is made of the steps that the engine sees: nothing in the way, create, start by
// id, and remove what could not be started.
func (c modelController) Start(ctx context.Context, slot string, _ uint64, _, _ string) (string, string, error) {
	s := slotIndex(slot)
	for _, kind := range []asking{askClear, askCreate, askStart} {
		err := c.m.ask(ctx, request{kind: kind, slot: s}).failure(ctx)
		if err == nil {
			continue
		}
		if kind == askStart {
			late := context.WithoutCancel(ctx)
			err = errors.Join(err, c.m.ask(late, request{kind: askRemove, slot: s}).failure(late))
		}
		return "", "", err
	}
	return "id of " + slot, "", nil
}

func (c modelController) Attend(ctx context.Context, slot, _ string, _ io.Writer) (int, error) {
	c.m.attend <- request{kind: askAttend, slot: slotIndex(slot), ctx: ctx}
	select {
	case a := <-c.m.attended:
		return 1, a.failure(ctx)
	case <-c.m.dead:
		return 1, nil
	}
}

// fencingController can also fence.
type fencingController struct{ modelController }

func (c fencingController) Fence(ctx context.Context, slot string) (string, bool, error) {
	return "", false, c.m.ask(ctx, request{kind: askFence, slot: slotIndex(slot)}).failure(ctx)
}

// outsideController is that of slots whose containers somebody else's command starts: they
// stay where they are, and can be fenced by their names only.
type outsideController struct{ modelBase }

func (c outsideController) Regenerate(ctx context.Context, slot string) error {
	return c.m.ask(ctx, request{kind: askUnfence, slot: slotIndex(slot)}).failure(ctx)
}

func (c outsideController) Fence(ctx context.Context, slot string) (string, bool, error) {
	return "", true, c.m.ask(ctx, request{kind: askFence, slot: slotIndex(slot)}).failure(ctx)
}

// startOutside is that command: it starts the container and goes on for as long as that.
func startOutside(ctx context.Context, m *machine, slot uint8) error {
	if err := m.ask(ctx, request{kind: askOutside, slot: slot}).failure(ctx); err != nil {
		return err
	}
	_, err := modelController{modelBase{m}}.Attend(ctx, modelSlots[slot], "", nil)
	return errors.Join(err, errModelFault)
}

type modelLocks struct{ m *machine }

func (k modelLocks) take(ctx context.Context, lock, unlock asking, slot string) (func(), error) {
	s := slotIndex(slot)
	if err := k.m.ask(ctx, request{kind: lock, slot: s}).failure(ctx); err != nil {
		return nil, err
	}
	return func() { k.m.ask(context.Background(), request{kind: unlock, slot: s}) }, nil
}

func (k modelLocks) Slot(ctx context.Context, slot, _ string) (func(), error) {
	return k.take(ctx, askSlotLock, askUnlockSlot, slot)
}

func (k modelLocks) Host(ctx context.Context, _ string) (func(), error) {
	return k.take(ctx, askHostLock, askUnlockHost, modelSlots[0])
}

func (k modelLocks) Reconcile(context.Context, string) (func(), error) { return func() {}, nil }

type modelSupervisor struct {
	m *machine
	p *program
}

func (s modelSupervisor) Unit(ctx context.Context, slot string) (UnitStatus, error) {
	kind := askUnit
	if !s.m.asked && s.p.name != PhaseResume { // the guard: a hook of the unit is always let through
		kind = askOwnUnit
	}
	a := s.m.ask(ctx, request{kind: kind, slot: slotIndex(slot)})
	return a.unit.status(slot), a.failure(ctx)
}

func (modelSupervisor) ResetFailed(context.Context, string) error { return nil }

type modelHost struct{}

func (modelHost) Boot() string                        { return bootNames[bootNow] }
func (modelHost) Boottime() time.Duration             { return 0 }
func (modelHost) ProcessAlive(pid int, _ uint64) bool { return pid == pidAlive }
