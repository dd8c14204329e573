package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/node-lifecycle/node-lifecycle/backend/container/enginetest"
	"github.com/node-lifecycle/node-lifecycle/internal/config"
	"github.com/node-lifecycle/node-lifecycle/internal/host"
	"github.com/node-lifecycle/node-lifecycle/journal/filelock"
	"github.com/node-lifecycle/node-lifecycle/phases"
)

// patience is how long anything in a test may take that is to happen by itself.
const patience = 30 * time.Second

// The boots of the scripts; TEST_BOOT chooses, the first if it is empty.
const firstBoot = "b0070000000000000000000000000001"

// world is what one script has around it: a directory that stands for the host, an
// engine, a systemd, and the processes it has started.
type world struct {
	work      string
	vars      func(string) string // the script's variables
	engine    *enginetest.Engine  // nil until the script starts one
	asked     int                 // how many requests it had when the script last changed it
	systemd   *fakeSystemd
	inside    hook
	plans     map[string][]string // by unit: what a restart does
	processes map[string]*process
	memory    map[string]string // what snapshot has seen
	locks     []*filelock.Lock
	// streams are the outputs of the script's present command, last those of the one
	// before, by name.
	streams func() (stdout, stderr io.Writer)
	last    func(name string) string
}

// hook is the unit and the activation that a command is called by; empty: by hand.
type hook struct{ unit, activation string }

func newWorld(work string, vars func(string) string) (*world, error) {
	w := &world{
		work: work, vars: vars,
		systemd:   &fakeSystemd{dir: filepath.Join(work, "systemd"), unitDir: filepath.Join(work, "units")},
		plans:     make(map[string][]string),
		processes: make(map[string]*process),
		memory:    make(map[string]string),
	}
	w.systemd.restart = w.restart
	for _, dir := range []string{"systemd", "units", "run"} {
		if err := os.MkdirAll(filepath.Join(work, dir), 0o700); err != nil {
			return nil, err
		}
	}
	for _, slot := range []string{"kube1", "kube2"} {
		if err := w.systemd.set(defaultUnit(slot)); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// close ends what the script has left running.
func (w *world) close() {
	for _, p := range w.processes {
		p.kill()
	}
	for _, l := range w.locks {
		_ = l.Release() // its file is closed in any case
	}
	if w.engine != nil {
		w.engine.Close()
	}
}

// getenv is what a command of the script finds in its environment.
func (w *world) getenv(name string) string {
	switch name {
	case "TEST_UNIT":
		return cmp.Or(w.inside.unit, w.vars(name))
	case "INVOCATION_ID":
		return cmp.Or(w.inside.activation, w.vars(name))
	}
	return w.vars(name)
}

// environ is the same for a process.
func (w *world) environ() []string {
	return environ(w.getenv)
}

func environ(getenv func(string) string) []string {
	names := []string{
		"WORK", "PATH", "HOME", "TMPDIR", "GORACE", "GOCOVERDIR", "LANG", "TERM", "NO_COLOR",
		"INVOCATION_ID", "SERVICE_RESULT", "EXIT_CODE", "EXIT_STATUS", "NODE_LIFECYCLE_CONFIG",
		"NODE_LIFECYCLE_TIMEOUT_READY", "NODE_LIFECYCLE_FORCE", // which nobody knows
		"TEST_UNIT", "TEST_BOOT", "TEST_EUID", "TEST_JOURNALD", "TEST_TTY", "TEST_PANIC",
	}
	for _, v := range config.EnvVars() {
		names = append(names, v.Name)
	}
	environ := make([]string, 0, len(names))
	for _, name := range names {
		if value := getenv(name); value != "" {
			environ = append(environ, name+"="+value)
		}
	}
	return environ
}

// main runs a command line in this process.
func (w *world) main(args []string, stdout, stderr io.Writer) int {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	env := testEnvironment(args, w.getenv, stdout, stderr)
	env.systemd = w.systemd
	return Main(ctx, env)
}

// restart is what the script has planned for a restart of the unit. Whatever fails in
// it fails the restart, as a failed job does.
func (w *world) restart(_ context.Context, unit string) error {
	plan, ok := w.plans[unit]
	if !ok {
		return fmt.Errorf("no restart of %s is planned", unit)
	}
	during := *w
	during.inside = hook{}
	for _, line := range plan {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		var said lockedWriter
		during.streams = func() (io.Writer, io.Writer) { return &said, &said }
		do, ok := commands()[words[0]]
		if !ok {
			return fmt.Errorf("%s: no such command", line)
		}
		if err := do(&during, words[1:]); err != nil {
			return fmt.Errorf("%s: %w: %s", line, err, said.String())
		}
	}
	return nil
}

// testEnvironment is the environment of a command of a script: real files and processes,
// but all of them in the script's own directory.
func testEnvironment(args []string, getenv func(string) string, stdout, stderr io.Writer) *environment {
	work, pid := getenv("WORK"), os.Getpid()
	start, _ := host.Linux{}.StartTime(pid) // 0 names no process: the test will see
	euid, _ := strconv.Atoi(getenv("TEST_EUID"))
	return &environment{
		args: args, stdout: stdout, stderr: stderr,
		getenv: panickingGetenv(getenv), environ: environ(getenv), euid: euid,
		self: phases.Process{
			PID: pid, Start: start, Unit: getenv("TEST_UNIT"),
			Activation: getenv("INVOCATION_ID"), Version: "1.2.3",
		},
		host:       testHost{boot: cmp.Or(getenv("TEST_BOOT"), firstBoot)},
		hostLock:   filepath.Join(work, "host.lock"),
		runtimeDir: filepath.Join(work, "run"),
		unitDir:    filepath.Join(work, "units"),
		binary:     "/usr/bin/node-lifecycle",
		tty:        getenv("TEST_TTY") != "",
		journald:   getenv("TEST_JOURNALD") != "",
		systemd:    &fakeSystemd{dir: filepath.Join(work, "systemd"), unitDir: filepath.Join(work, "units")},
	}
}

// panickingGetenv is where TEST_PANIC breaks a command: in the command's own goroutine
// ("main"), or in one that nothing can recover.
func panickingGetenv(getenv func(string) string) func(string) string {
	return func(name string) string {
		if name != "NODE_LIFECYCLE_CONFIG" {
			return getenv(name)
		}
		switch getenv("TEST_PANIC") {
		case "main":
			panic("asked for")
		case "goroutine":
			go panic("asked for")
			select {}
		}
		return getenv(name)
	}
}

// testHost is the host with a boot of the script's choice.
type testHost struct {
	host.Linux
	boot string
}

func (h testHost) Boot() string { return h.boot }

// lockedWriter keeps what several goroutines write.
type lockedWriter struct {
	mu      sync.Mutex
	text    strings.Builder
	changed chan struct{} // closed at the next write; nil: nobody waits
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
	return l.text.Write(p)
}

func (l *lockedWriter) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// await waits until what was written satisfies found.
func (l *lockedWriter) await(ctx context.Context, found func(string) bool) error {
	for {
		l.mu.Lock()
		if l.changed == nil {
			l.changed = make(chan struct{})
		}
		text, changed := l.text.String(), l.changed
		l.mu.Unlock()
		if found(text) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return errors.New("it never came; there was only:\n" + text)
		}
	}
}
