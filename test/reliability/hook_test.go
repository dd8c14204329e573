package reliability

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// hookLimit is how long any hook may take. Nothing here takes more than seconds.
const hookLimit = time.Minute

// goBuild builds the command of the module at root, changed by an overlay.
func goBuild(ctx context.Context, root, binary, overlay string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", "build", "-overlay", overlay, "-tags", "urfave_cli_no_docs", "-o", binary, "./cmd/node-lifecycle")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	return cmd.CombinedOutput()
}

// process is one hook, running or ended.
type process struct {
	cmd  *exec.Cmd
	hook string
	acks *acks
	done chan struct{} // closed when it has ended
	kept sync.Once     // its words are taken over once

	mu                 sync.Mutex
	killed, terminated bool // by us
}

// spawn starts a hook. Whatever it says is in acks once done is closed.
func spawn(binary, hook string, args, env []string, onAck func(*acks)) (*process, error) {
	p := &process{cmd: exec.Command(binary, args...), hook: hook, done: make(chan struct{})}
	p.acks = &acks{onAck: onAck}
	p.cmd.Env = env
	p.cmd.Stderr = p.acks
	// A suite that is killed itself leaves nothing running.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	if hook != "run" { // which has no end of its own
		p.limit()
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // ProcessState has the answer
	}()
	return p, nil
}

// limit makes the process say where it hangs if it has not ended in time, and end.
func (p *process) limit() {
	timer := time.AfterFunc(hookLimit, func() { _ = p.cmd.Process.Signal(syscall.SIGQUIT) })
	go func() {
		<-p.done
		timer.Stop()
	}()
}

// kill ends the process as nothing can be ended more abruptly.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killed = true
	_ = p.cmd.Process.Kill() // it may have ended meanwhile
}

// terminate asks the process to end.
func (p *process) terminate() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.terminated {
		p.limit()
	}
	p.terminated = true
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// end is how a process ended.
type end struct {
	code    int // -1 by a signal
	signal  syscall.Signal
	victim  bool // it died of our kill
	crashed bool // a bug, or nothing that a hook may end with
}

// wait waits until the process has ended.
func (p *process) wait() end {
	<-p.done
	p.mu.Lock()
	defer p.mu.Unlock()
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	e := end{code: p.cmd.ProcessState.ExitCode()}
	if ok && status.Signaled() {
		e.signal = status.Signal()
	}
	e.victim = p.killed && e.signal == syscall.SIGKILL
	// A process that has not come to its first line yet dies of SIGTERM. 70 is a bug, and
	// 2 is what the Go runtime exits with; no phase does.
	asked := e.victim || p.terminated && e.signal == syscall.SIGTERM
	e.crashed = e.signal != 0 && !asked || e.code == 70 || e.code == 2
	return e
}

// text is how systemd tells it to ExecStopPost=.
func (e end) text() (code, status string) {
	if e.signal != 0 {
		return "killed", strings.TrimPrefix(unix.SignalName(e.signal), "SIG")
	}
	return "exited", strconv.Itoa(e.code)
}

// acks is what a process writes to its standard error: the ids of the entries that the
// journal answered for, and the rest.
type acks struct {
	onAck func(*acks)

	mu   sync.Mutex
	part []byte
	ids  []ack
	rest bytes.Buffer
}

// ack is an entry that was answered for.
type ack struct{ slot, id string }

func (a *acks) Write(data []byte) (int, error) {
	found := 0
	a.mu.Lock()
	a.part = append(a.part, data...)
	for {
		line, rest, whole := bytes.Cut(a.part, []byte("\n"))
		if !whole {
			break
		}
		if acked, ok := parseAck(string(line)); ok {
			a.ids = append(a.ids, acked)
			found++
		} else {
			a.rest.Write(line)
			a.rest.WriteByte('\n')
		}
		a.part = bytes.Clone(rest)
	}
	a.mu.Unlock()
	for range found {
		a.onAck(a)
	}
	return len(data), nil
}

func parseAck(line string) (ack, bool) {
	fields := strings.Fields(line)
	if len(fields) != 3 || fields[0] != "ack" {
		return ack{}, false
	}
	return ack{slot: fields[1], id: fields[2]}, true
}

// take returns the acks so far, each once.
func (a *acks) take() []ack {
	a.mu.Lock()
	defer a.mu.Unlock()
	ids := a.ids
	a.ids = nil
	return ids
}

func (a *acks) text() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.rest.String()
}
