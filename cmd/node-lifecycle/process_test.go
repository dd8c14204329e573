package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// process is a command that the script has started and goes on without.
type process struct {
	cmd            *exec.Cmd
	stdout, stderr lockedWriter
	done           chan struct{} // closed when it has ended
}

// processMain is what the binary of the tests does when it is called node-lifecycle.
func processMain() {
	time.Local = localZone
	prepareProcess()
	os.Exit(Main(context.Background(), testEnvironment(os.Args[1:], os.Getenv, os.Stdout, os.Stderr)))
}

// startProcess runs a command line in a process of its own.
func (w *world) startProcess(name string, args []string) error {
	if _, taken := w.processes[name]; taken {
		return fmt.Errorf("there is a process %s already", name)
	}
	path, err := exec.LookPath("node-lifecycle")
	if err != nil {
		return err
	}
	p := &process{cmd: exec.Command(path, args...), done: make(chan struct{})}
	p.cmd.Dir, p.cmd.Env = w.work, w.environ()
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	if err := p.cmd.Start(); err != nil {
		return err
	}
	go func() {
		_ = p.cmd.Wait() // the state of the process says it better
		close(p.done)
	}()
	w.processes[name] = p
	return nil
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may be over
	<-p.done
}

// end waits for the end of the process and says how it came: an exit code, or the name
// of a signal.
func (p *process) end() (string, error) {
	select {
	case <-p.done:
	case <-time.After(patience):
		return "", errors.New("it does not end")
	}
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok {
		return "", errors.New("it cannot be known how it ended")
	}
	for name, s := range signals {
		if status.Signaled() && status.Signal() == s {
			return "SIG" + name, nil
		}
	}
	return strconv.Itoa(status.ExitStatus()), nil
}

// signals are those that a script may name.
var signals = map[string]syscall.Signal{
	"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "HUP": syscall.SIGHUP,
	"KILL": syscall.SIGKILL, "ABRT": syscall.SIGABRT,
}

func (w *world) process(name string) (*process, error) {
	p, ok := w.processes[name]
	if !ok {
		return nil, fmt.Errorf("there is no process %s", name)
	}
	return p, nil
}
