package enginetest

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"sync"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
)

// execution is a command inside a container.
type execution struct {
	id, container string
	command       []string
	running       bool
	code          *int // nil until it has ended
	pid           int
	process       *Process
	conn          net.Conn // the output's
}

// Exec is a command inside a container, as the engine knows it.
type Exec struct {
	ID, Container string
	Command       []string
	Running       bool
}

// Execs returns the commands that were created inside containers.
func (e *Engine) Execs() []Exec {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := make([]Exec, 0, len(e.execs))
	for _, x := range e.execs {
		all = append(all, Exec{ID: x.id, Container: x.container, Command: x.command, Running: x.running})
	}
	return all
}

func (e *Engine) serveExecCreate(ref string) http.HandlerFunc {
	return e.onContainer(ref, func(w http.ResponseWriter, r *http.Request, c *entry) {
		var request container.ExecCreateRequest
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil || len(request.Cmd) == 0 {
			fail(w, http.StatusBadRequest, "No exec command specified")
			return
		}
		switch {
		case c.info.State.Paused:
			e.conflict(w, "Container "+ref+" is paused, unpause the container before exec", "container state improper")
			return
		case !c.info.State.Running:
			e.conflict(w, "Container "+c.info.ID+" is not running",
				"can only create exec sessions on running containers: container state improper")
			return
		}
		x := &execution{id: e.id(), container: c.info.ID, command: request.Cmd}
		e.execs[x.id] = x
		e.emit(c, "exec_create: "+request.Cmd[0], nil)
		reply(w, http.StatusCreated, container.ExecCreateResponse{ID: x.id})
	})
}

// serveExecStart takes the connection over and copies the command's output to
// it until the command ends.
func (e *Engine) serveExecStart(ref string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		e.mu.Lock()
		x := e.execs[ref]
		if x == nil || x.running {
			e.mu.Unlock()
			fail(w, http.StatusNotFound, "No such exec instance: "+ref)
			return
		}
		program := e.programFor(x)
		e.mu.Unlock()
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			fail(w, http.StatusInternalServerError, err.Error())
			return
		}
		defer e.hangUp(conn)
		e.mu.Lock()
		x.conn = conn
		e.mu.Unlock()
		// A client that is gone does not mind what cannot be written any more.
		_, _ = buffered.WriteString("HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.multiplexed-stream\r\n" +
			"Connection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
		_ = buffered.Flush()
		var writing sync.Mutex
		e.runExec(x, program, func(stream byte, text string) {
			writing.Lock()
			defer writing.Unlock()
			_, _ = conn.Write(muxed(stdcopy.StdType(stream), text))
		})
	}
}

// programFor is what a command inside a container does. The caller holds mu.
func (e *Engine) programFor(x *execution) Program {
	if c := e.containers[x.container]; c != nil {
		if program := e.images[c.info.Config.Image].Exec; program != nil {
			return program
		}
	}
	return func(*Process) int { return 0 }
}

// runExec runs the command to its end.
func (e *Engine) runExec(x *execution, program Program, out func(byte, string)) {
	p := newProcess(e, x.container, x.command, out)
	e.mu.Lock()
	e.nextPID++
	x.running, x.pid, x.process = true, e.nextPID, p
	if c := e.containers[x.container]; c != nil {
		e.emit(c, "exec_start: "+x.command[0], nil)
	}
	e.mu.Unlock()
	done := make(chan int, 1)
	e.programs.Go(func() { done <- program(p) })
	var code int
	select {
	case code = <-done:
	case <-e.ctx.Done():
		p.kill()
		code = <-done
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	x.running, x.code = false, &code
	if c := e.containers[x.container]; c != nil {
		e.emit(c, "exec_die", nil)
	}
	e.notify()
}

func (e *Engine) serveExecInspect(ref string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		e.mu.Lock()
		defer e.mu.Unlock()
		x := e.execs[ref]
		if x == nil {
			fail(w, http.StatusNotFound, "No such exec instance: "+ref)
			return
		}
		reply(w, http.StatusOK, container.ExecInspectResponse{
			ID: x.id, ContainerID: x.container, Running: x.running, ExitCode: x.code, Pid: x.pid,
		})
	}
}

// HangUpExecs ends the output of every running command, as a command does that
// closes its streams and goes on.
func (e *Engine) HangUpExecs() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, x := range e.execs {
		if x.conn != nil {
			_ = x.conn.Close()
		}
	}
}

// SetExecPID makes the engine tell another process id for a running command.
func (e *Engine) SetExecPID(id string, pid int) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.execs[id]
	if x == nil {
		return errors.New("no such exec instance: " + id)
	}
	x.pid = pid
	return nil
}

// muxed frames a text as one of several streams on one connection.
func muxed(stream stdcopy.StdType, text string) []byte {
	n := len(text)
	return append([]byte{byte(stream), 0, 0, 0, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}, text...)
}
