package contract

import (
	"io"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	backend "github.com/node-lifecycle/node-lifecycle/backend/container"
)

// quickly makes the backend give an engine less time to answer.
func quickly(o *backend.Options) { o.CallTimeout = 300 * time.Millisecond }

// An engine that is not there, or does not answer, is an error and never no: a stack lives
// on without its engine.
func TestAliveOfAnEngineThatIsAway(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engine) {
		const slot = "away"
		id := e.made(e.create(slot, slot, sleeps))
		e.must("start", e.start(id))
		for _, away := range []struct {
			how       string
			gone      []string
			back      []string
			elsewhere string // the socket to ask, "": the engine's own
		}{
			{how: "its socket is elsewhere", elsewhere: "/run/nobody.sock"},
			{
				how:  "its service is stopped (SIGSTOP)",
				gone: []string{"systemctl", "kill", "--signal=STOP", e.unit}, back: []string{"systemctl", "kill", "--signal=CONT", e.unit},
			},
			{
				how:  "its units are masked and stopped",
				gone: []string{"sh", "-c", "systemctl mask --runtime --now --quiet " + e.units()},
				back: []string{"sh", "-c", "systemctl unmask --runtime --quiet " + e.units() + "; systemctl reset-failed " + e.units() + "; systemctl start " + e.units()},
			},
		} {
			c := e.backend(slot, quickly, func(o *backend.Options) {
				if away.elsewhere != "" {
					o.Socket = e.host.Root() + away.elsewhere
				}
			})
			if away.gone != nil {
				e.wantAlive(c, slot, "before", true)
				e.ok(away.gone...)
			}
			for range 10 {
				tried()
				if alive, detail, err := c.Alive(t.Context(), slot); err == nil {
					violated(t, "%s: Alive is %v without an error: %s", away.how, alive, detail)
				}
			}
			if _, _, err := c.Fence(t.Context(), slot); err == nil {
				violated(t, "%s: Fence succeeds", away.how)
			}
			if len(e.processes(id)) == 0 {
				t.Fatalf("%s: the stack was gone meanwhile: this shows nothing", away.how)
			}
			if away.back != nil {
				e.ok(away.back...)
				waitFor(t, "the engine to be back", func() (bool, string) {
					alive, detail, err := c.Alive(t.Context(), slot)
					if err != nil {
						return false, err.Error()
					}
					return alive, detail
				})
			}
		}
		e.discard(id)
	})
}

// units are what has to be away so that nothing answers.
func (e *engine) units() string { return e.name + ".socket " + e.unit }

// An answer that breaks off is none, wherever it does.
func TestAliveOfAnAnswerThatBreaksOff(t *testing.T) {
	const cuts = 120
	eachEngine(t, func(t *testing.T, e *engine) {
		const slot = "cut"
		id := e.made(e.create(slot, slot, sleeps))
		e.must("start", e.start(id))
		defer e.discard(id)
		s := newScissors(e)
		ask := func(after int64) (alive bool, detail string, err error) {
			s.left.Store(after)
			c := e.backend(slot, quickly, func(o *backend.Options) { o.Socket = s.path })
			defer c.Close()
			return c.Alive(t.Context(), slot)
		}
		const plenty = 1 << 30
		if alive, detail, err := ask(plenty); err != nil || !alive {
			t.Fatalf("uncut, Alive is %v: %s, %v", alive, detail, err)
		}
		whole := plenty - s.left.Load()
		failed := 0
		for i := range int64(cuts) {
			at := whole * i / cuts
			tried()
			alive, detail, err := ask(at)
			switch {
			case err != nil:
				failed++
			case !alive:
				violated(t, "with the answers cut after %d of %d bytes, Alive is no: %s", at, whole, detail)
			}
		}
		if failed < cuts/2 {
			t.Errorf("only %d of %d cuts were noticed: this shows little", failed, cuts)
		}
	})
}

// scissors stand before an engine and let only so many bytes of its answers through.
type scissors struct {
	path string
	left atomic.Int64
}

func newScissors(e *engine) *scissors {
	e.t.Helper()
	s := &scissors{path: filepath.Join(e.t.TempDir(), "cut.sock")}
	listener, err := net.Listen("unix", s.path)
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { listener.Close() })
	engine := e.path()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go s.serve(conn, engine)
		}
	}()
	return s
}

// serve relays one connection until the bytes have run out, and then closes it.
func (s *scissors) serve(conn net.Conn, path string) {
	engine, err := net.Dial("unix", path)
	if err != nil {
		conn.Close()
		return
	}
	var once sync.Once
	end := func() { once.Do(func() { conn.Close(); engine.Close() }) }
	go func() {
		_, _ = io.Copy(engine, conn)
		end()
	}()
	defer end()
	buffer := make([]byte, 512)
	for {
		n, err := engine.Read(buffer)
		if err != nil {
			return
		}
		rest := s.left.Add(int64(-n))
		if _, err := conn.Write(buffer[:max(0, min(int64(n), rest+int64(n)))]); err != nil || rest < 0 {
			return
		}
	}
}
