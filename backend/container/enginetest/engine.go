package enginetest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// Flavor is the engine whose answers are given.
type Flavor string

// The two engines that speak this API.
const (
	Docker Flavor = "docker"
	Podman Flavor = "podman"
)

// Engine is a container engine that only pretends. Use New or Start.
type Engine struct {
	socket string
	flavor Flavor

	mu         sync.Mutex
	server     *http.Server
	conns      map[net.Conn]bool
	containers map[string]*entry // by id
	images     map[string]Image  // by name
	registry   map[string]Image  // what can be pulled
	execs      map[string]*execution
	events     []event
	changed    chan struct{} // closed and replaced at every change
	plans      map[Op][]Action
	intercept  func(Call) Action
	calls      []Call
	api        apiRange
	lazyRemove time.Duration
	nextPID    int
	serial     int
	late       int // requests that will be done after their connection was broken

	programs sync.WaitGroup
	ctx      context.Context // ends with the engine
	end      context.CancelFunc
}

// apiRange is what the engine says about the API versions it speaks.
type apiRange struct{ lowest, highest string }

// New starts an engine for one test and closes it at the test's end. The
// socket is in a directory of its own with a short name, because paths of
// sockets must be short.
func New(tb testing.TB, flavor Flavor) *Engine {
	tb.Helper()
	dir, err := os.MkdirTemp("", "engine")
	if err != nil {
		tb.Fatal(err)
	}
	e, err := Start(filepath.Join(dir, "s"), flavor)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		e.Close()
		_ = os.RemoveAll(dir)
	})
	return e
}

// Start starts an engine that listens on socket. The caller must Close it.
func Start(socket string, flavor Flavor) (*Engine, error) {
	ctx, end := context.WithCancel(context.Background())
	e := &Engine{
		socket: socket, flavor: flavor,
		conns:      make(map[net.Conn]bool),
		containers: make(map[string]*entry),
		images:     make(map[string]Image),
		registry:   make(map[string]Image),
		execs:      make(map[string]*execution),
		changed:    make(chan struct{}),
		plans:      make(map[Op][]Action),
		api:        apiRange{"1.24", "1.41"},
		nextPID:    5_000_000, // above what a kernel gives to anybody
		ctx:        ctx, end: end,
	}
	if err := e.Resume(); err != nil {
		end()
		return nil, err
	}
	return e, nil
}

// Socket is the path the engine listens on.
func (e *Engine) Socket() string { return e.socket }

// Flavor is the engine whose answers are given.
func (e *Engine) Flavor() Flavor { return e.flavor }

// Close kills every container, breaks every connection and waits until all
// programs have returned.
func (e *Engine) Close() {
	e.Stop()
	e.end()
	e.mu.Lock()
	for _, c := range e.containers {
		if c.process != nil {
			c.process.kill()
		}
	}
	e.mu.Unlock()
	e.programs.Wait()
	_ = os.Remove(e.socket)
}

// Stop takes the engine away: every connection breaks and new ones are
// refused. Containers live on, as they do with live-restore.
func (e *Engine) Stop() {
	e.mu.Lock()
	server := e.server
	e.server = nil
	e.mu.Unlock()
	if server == nil {
		return
	}
	_ = server.Close()
	e.Restart() // server.Close leaves hijacked connections open
}

// Resume brings the engine back after Stop.
func (e *Engine) Resume() error {
	if err := os.Remove(e.socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	listener, err := net.Listen("unix", e.socket)
	if err != nil {
		return fmt.Errorf("listen as an engine: %w", err)
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false) // so that a stopped engine refuses, as systemd's socket does not vanish
	server := &http.Server{
		Handler:   http.HandlerFunc(e.serve),
		ConnState: e.track,
	}
	e.mu.Lock()
	e.server = server
	e.mu.Unlock()
	go func() { _ = server.Serve(listener) }() // ends with Close, and always with an error
	return nil
}

// Restart breaks every connection, as an engine does that restarts with
// live-restore: containers live on and the next request is answered. What was
// being run inside containers is forgotten.
func (e *Engine) Restart() {
	e.mu.Lock()
	conns := make([]net.Conn, 0, len(e.conns))
	for conn := range e.conns {
		conns = append(conns, conn)
	}
	clear(e.conns)
	clear(e.execs)
	e.mu.Unlock()
	for _, conn := range conns {
		_ = conn.Close()
	}
}

// SetAPI sets the range of API versions that the engine speaks, as an upgrade
// does. Requests outside it are refused.
func (e *Engine) SetAPI(lowest, highest string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.api = apiRange{lowest, highest}
}

// RemoveLazily makes a removal be answered at once, while the container stays
// there for d, in state "removing" and with its name taken.
func (e *Engine) RemoveLazily(d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lazyRemove = d
}

// track knows the open connections, hijacked ones included.
func (e *Engine) track(conn net.Conn, state http.ConnState) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if state == http.StateClosed {
		delete(e.conns, conn)
		return
	}
	e.conns[conn] = true
}

// hangUp closes a connection that was taken over from the server.
func (e *Engine) hangUp(conn net.Conn) {
	_ = conn.Close()
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.conns, conn)
}

// notify wakes everybody who follows something. The caller holds mu.
func (e *Engine) notify() {
	close(e.changed)
	e.changed = make(chan struct{})
}

// Wait blocks until happened says yes, looking again at every change of the
// engine, or ctx ends; it reports which. happened must not call the Engine's
// own methods while it holds locks of its own.
func (e *Engine) Wait(ctx context.Context, happened func() bool) bool {
	for {
		e.mu.Lock()
		changed := e.changed
		e.mu.Unlock()
		if happened() {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// id makes an id that looks like an engine's. The caller holds mu.
func (e *Engine) id() string {
	e.serial++
	return fmt.Sprintf("%08x%056x", 0xc0ffee00+e.serial, e.serial)
}
