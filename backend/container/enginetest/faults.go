package enginetest

import (
	"net/http"
	"net/url"
	"time"
)

// Op names a request of the API.
type Op string

// The requests that the engine knows.
const (
	OpPing        Op = "ping"
	OpVersion     Op = "version"
	OpList        Op = "list"
	OpCreate      Op = "create"
	OpInspect     Op = "inspect"
	OpStart       Op = "start"
	OpStop        Op = "stop"
	OpRestart     Op = "restart"
	OpKill        Op = "kill"
	OpPause       Op = "pause"
	OpUnpause     Op = "unpause"
	OpRename      Op = "rename"
	OpUpdate      Op = "update"
	OpRemove      Op = "remove"
	OpWait        Op = "wait"
	OpLogs        Op = "logs"
	OpEvents      Op = "events"
	OpExecCreate  Op = "exec-create"
	OpExecStart   Op = "exec-start"
	OpExecInspect Op = "exec-inspect"
	OpImage       Op = "image"
	OpPull        Op = "pull"
)

// Call is one request that reached the engine.
type Call struct {
	Op    Op
	Ref   string // the container, image or exec it is about, as the request named it
	Query url.Values
}

// Action says what becomes of a request. The zero value serves it.
type Action struct {
	// Status, if not 0, is answered with Message, and nothing is done.
	Status  int
	Message string
	// Hang keeps the request without an answer until the client goes away.
	Hang bool
	// Break closes the connection without an answer, and nothing is done
	// unless one of the next two says so.
	Break bool
	// Do does what was asked before the connection is broken.
	Do bool
	// Later, if not 0, does what was asked that long after the connection was
	// broken.
	Later time.Duration
	// Delay waits before anything else.
	Delay time.Duration
	// CutAfter, if not 0, breaks the connection after that many bytes of the
	// answer's body.
	CutAfter int
	// Run is called before anything else, in the request's goroutine.
	Run func()
}

// On plans what becomes of the next requests of a kind, one Action for each.
// Requests beyond that are served.
func (e *Engine) On(op Op, actions ...Action) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.plans[op] = append(e.plans[op], actions...)
}

// Intercept sets a function that decides about every request for which On has
// planned nothing; nil takes it away. It may call the Engine.
func (e *Engine) Intercept(decide func(Call) Action) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.intercept = decide
}

// Calls returns all requests so far, in the order they came in.
func (e *Engine) Calls() []Call {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]Call(nil), e.calls...)
}

// Count returns how many requests of a kind have come in so far.
func (e *Engine) Count(op Op) int {
	n := 0
	for _, call := range e.Calls() {
		if call.Op == op {
			n++
		}
	}
	return n
}

// Late returns how many requests whose connection was broken are still going
// to be done, because of Action.Later.
func (e *Engine) Late() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.late
}

// decide records a request and returns what becomes of it.
func (e *Engine) decide(call Call) Action {
	e.mu.Lock()
	e.calls = append(e.calls, call)
	e.notify()
	if plan := e.plans[call.Op]; len(plan) > 0 {
		e.plans[call.Op] = plan[1:]
		e.mu.Unlock()
		return plan[0]
	}
	intercept := e.intercept
	e.mu.Unlock()
	if intercept == nil {
		return Action{}
	}
	return intercept(call)
}

// act does to a request what was decided; serve is what it asks for.
func (e *Engine) act(w http.ResponseWriter, r *http.Request, a Action, serve http.HandlerFunc) {
	if a.Run != nil {
		a.Run()
	}
	if a.Delay > 0 && !e.sleep(r, a.Delay) {
		return
	}
	switch {
	case a.Hang:
		select {
		case <-r.Context().Done():
		case <-e.ctx.Done():
		}
		panic(http.ErrAbortHandler)
	case a.Status != 0:
		fail(w, a.Status, a.Message)
	case a.Break && a.Later > 0:
		detached := r.Clone(e.ctx) // its body is in memory
		e.mu.Lock()
		e.late++
		e.mu.Unlock()
		time.AfterFunc(a.Later, func() {
			serve(discard{}, detached)
			e.mu.Lock()
			defer e.mu.Unlock()
			e.late--
			e.notify()
		})
		panic(http.ErrAbortHandler)
	case a.Break:
		if a.Do {
			serve(discard{}, r)
		}
		panic(http.ErrAbortHandler)
	case a.CutAfter > 0:
		serve(&cutter{ResponseWriter: w, left: a.CutAfter}, r)
	default:
		serve(w, r)
	}
}

// sleep waits, unless the client or the engine goes away first.
func (e *Engine) sleep(r *http.Request, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.Context().Done():
	case <-e.ctx.Done():
	}
	return false
}

// discard is where the answer goes that nobody gets.
type discard struct{}

func (discard) Header() http.Header         { return make(http.Header) }
func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) WriteHeader(int)             {}
func (discard) Flush()                      {}

// cutter breaks the connection in the middle of an answer.
type cutter struct {
	http.ResponseWriter
	left int
}

func (c *cutter) Write(p []byte) (int, error) {
	if len(p) < c.left {
		c.left -= len(p)
		return c.ResponseWriter.Write(p)
	}
	_, _ = c.ResponseWriter.Write(p[:c.left]) // the break comes in any case
	c.Flush()
	panic(http.ErrAbortHandler)
}

func (c *cutter) Flush() { _ = http.NewResponseController(c.ResponseWriter).Flush() }
