package reliability

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"net"
	"sync"
	"time"

	"github.com/node-lifecycle/node-lifecycle/backend/container"
)

// systemd is as much of a service manager as the program asks about: it knows units, runs
// their hooks in systemd's order, and answers questions over a socket.
type systemd struct {
	world    *world
	listener net.Listener
	serving  sync.WaitGroup

	mu      sync.Mutex
	units   map[string]*unit // by name
	jobs    uint32
	asked   int           // questions that are being answered, wakes aside
	changed chan struct{} // closed and replaced at every change
}

func newSystemd(w *world, socket string) (*systemd, error) {
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	s := &systemd{world: w, listener: listener, units: make(map[string]*unit), changed: make(chan struct{})}
	for _, slot := range slots {
		u := &unit{systemd: s, slot: slot, name: unitOf(slot)}
		u.status = container.UnitStatus{Name: u.name, LoadState: "loaded", ActiveState: "inactive", SubState: "dead", Result: "success"}
		s.units[u.name] = u
	}
	s.serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // closed
			}
			s.change(func() { s.asked++ })
			s.serving.Go(func() {
				s.serve(conn)
				_ = conn.Close()
			})
		}
	})
	return s, nil
}

func (s *systemd) close() {
	_ = s.listener.Close()
	s.change(func() {})
	s.serving.Wait()
}

// question and answer are the other side of what the program's variant says.
type question struct{ Ask, Unit string }

type answer struct {
	Status container.UnitStatus
	Error  string
}

func (s *systemd) serve(conn net.Conn) {
	var q question
	err := json.NewDecoder(conn).Decode(&q)
	if q.Ask == "wake" {
		s.change(func() { s.asked-- })
		s.wake(conn)
		return
	}
	defer s.change(func() { s.asked-- })
	if err != nil {
		return // the process was killed while it asked
	}
	_ = s.world.direct().request("")
	var a answer
	s.mu.Lock()
	u := s.units[q.Unit]
	s.mu.Unlock()
	switch {
	case q.Ask == "reload":
	case u == nil:
		a.Status = container.UnitStatus{Name: q.Unit, LoadState: "not-found", ActiveState: "inactive", SubState: "dead"}
	case q.Ask == "unit":
		a.Status = u.look()
	case q.Ask == "restart":
		// The job goes on when whoever asked for it is gone.
		if !u.restart() {
			a.Error = "the restart job of " + q.Unit + " ended with failed"
		}
	}
	_ = json.NewEncoder(conn).Encode(a) // a process that is gone needs no answer
}

// wake sends a line for every change until the other side hangs up.
func (s *systemd) wake(conn net.Conn) {
	gone, hangUp := context.WithCancel(context.Background())
	defer hangUp()
	go func() {
		defer hangUp()
		_, _ = conn.Read(make([]byte, 1)) // it only ever ends
	}()
	for out := json.NewEncoder(conn); ; {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-gone.Done():
			return
		case <-s.world.over:
			return
		}
		if out.Encode(answer{}) != nil {
			return
		}
	}
}

// change changes what is known of units, all of it at once.
func (s *systemd) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

// quiet waits until everything that was asked so far has been answered and no job runs.
func (s *systemd) quiet() {
	// The listener answers in order: with this one everything before it is known.
	if conn, err := net.Dial("unix", s.listener.Addr().String()); err == nil {
		_ = json.NewEncoder(conn).Encode(question{Ask: "reload"})
		_ = json.NewDecoder(conn).Decode(new(answer))
		_ = conn.Close()
	}
	s.await(func() bool {
		for _, u := range s.units {
			if u.status.JobID != 0 {
				return false
			}
		}
		return s.asked == 0
	}, hookLimit)
}

// await waits until happened, which is called with everything at rest, says yes, and for
// no longer than limit.
func (s *systemd) await(happened func() bool, limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		s.mu.Lock()
		yes, changed := happened(), s.changed
		s.mu.Unlock()
		if yes {
			return
		}
		select {
		case <-changed:
		case <-timer.C:
			return
		}
	}
}

// newActivation makes an INVOCATION_ID.
func newActivation() string {
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	return hex.EncodeToString(id)
}
