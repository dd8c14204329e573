package enginetest

import (
	"strings"
	"sync"
	"time"
)

// Program is what a container does, or a command inside one, from start to
// exit. It returns the exit code, and must return soon after Killed is closed.
type Program func(p *Process) int

// Process is a Program's view of the container it is.
type Process struct {
	// Args is what was started: the container's command, or that of an exec.
	Args []string
	// Container is the id of the container.
	Container string

	engine  *Engine
	out     func(stream byte, text string)
	signals chan string
	killed  chan struct{}
	once    sync.Once
}

func newProcess(e *Engine, container string, args []string, out func(byte, string)) *Process {
	return &Process{
		Args: args, Container: container, engine: e, out: out,
		signals: make(chan string, 16), killed: make(chan struct{}),
	}
}

// Print writes to the standard output; a text may hold several lines, or a
// part of one.
func (p *Process) Print(text string) { p.out(1, text) }

// Println writes a line to the standard output.
func (p *Process) Println(line string) { p.out(1, line+"\n") }

// Errorln writes a line to the standard error.
func (p *Process) Errorln(line string) { p.out(2, line+"\n") }

// Signals gets the names of signals as they are sent, with SIG in front. KILL
// is not among them.
func (p *Process) Signals() <-chan string { return p.signals }

// Killed is closed when the process is killed. Whatever the Program returns
// after that, its exit code is 137.
func (p *Process) Killed() <-chan struct{} { return p.killed }

// Sleep waits for d and reports true, or false at once when it is killed.
func (p *Process) Sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-p.killed:
		return false
	}
}

// Forever runs until it gets one of the given signals, or any if none is
// given, and returns code. It is the Program of a well-behaved service.
func Forever(code int, signals ...string) Program {
	return func(p *Process) int {
		for {
			select {
			case got := <-p.Signals():
				if len(signals) == 0 {
					return code
				}
				for _, want := range signals {
					if got == want {
						return code
					}
				}
			case <-p.Killed():
				return 137
			}
		}
	}
}

// Deaf runs until it is killed.
func Deaf(p *Process) int {
	<-p.Killed()
	return 137
}

// send delivers a signal; one too many is lost, as signals are.
func (p *Process) send(signal string) {
	select {
	case p.signals <- signal:
	default:
	}
}

func (p *Process) kill() { p.once.Do(func() { close(p.killed) }) }

// signalName writes a signal as Signals tells it.
func signalName(text string) string {
	switch text = strings.ToUpper(text); {
	case text == "", text == "9", text == "KILL":
		return "SIGKILL"
	case text == "15":
		return "SIGTERM"
	case strings.HasPrefix(text, "SIG"):
		return text
	default:
		return "SIG" + text
	}
}
