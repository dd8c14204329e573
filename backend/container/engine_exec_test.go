package container

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/node-lifecycle/node-lifecycle/backend/container/enginetest"
)

// afterStart is a running container with an AfterStart command.
func afterStart(t *testing.T, flavor enginetest.Flavor, answer func(p *enginetest.Process) int) *bench {
	t.Helper()
	e := enginetest.New(t, flavor)
	inside(answer)(e)
	b := newBenchOn(t, e, func(_ *Options, s *Slot) { s.AfterStart = []string{"/wire", "--now"} })
	b.start(t, 1)
	return b
}

func TestAfterStart(t *testing.T) {
	flavors(t, func(t *testing.T, flavor enginetest.Flavor) {
		t.Run("ends well", func(t *testing.T) {
			ran := ""
			b := afterStart(t, flavor, func(p *enginetest.Process) int {
				ran = strings.Join(p.Args, " ")
				return 0
			})
			if err := b.AfterStart(t.Context(), testSlot); err != nil || ran != "/wire --now" {
				t.Errorf("AfterStart = %v, ran %q", err, ran)
			}
		})
		t.Run("fails", func(t *testing.T) {
			b := afterStart(t, flavor, says(4, "probing\n", "no GPU"))
			err := b.AfterStart(t.Context(), testSlot)
			var exit *ExecError
			if !errors.As(err, &exit) || exit.ExitCode != 4 {
				t.Fatalf("AfterStart = %v", err)
			}
			wantText(t, err.Error(), testContainer, `["/wire" "--now"]`, "exit code 4", "no GPU")
		})
		t.Run("fails in silence", func(t *testing.T) {
			err := afterStart(t, flavor, says(4, "", "")).AfterStart(t.Context(), testSlot)
			if err == nil || strings.HasSuffix(err.Error(), ": ") {
				t.Errorf("AfterStart = %v", err)
			}
		})
		t.Run("prints a lot", func(t *testing.T) {
			b := afterStart(t, flavor, func(p *enginetest.Process) int {
				for i := range 1000 {
					p.Println(fmt.Sprintf("line %d", i))
				}
				return 1
			})
			var exit *ExecError
			if err := b.AfterStart(t.Context(), testSlot); !errors.As(err, &exit) {
				t.Fatalf("AfterStart = %v", err)
			}
			if n := len(exit.Output); n > outputTail || !strings.HasSuffix(exit.Output, "line 999") {
				t.Errorf("%d bytes of output: %q", n, exit.Output)
			}
		})
	})
}

func TestAfterStart_NothingToDo(t *testing.T) {
	t.Parallel()
	b := newBench(t, enginetest.Docker)
	if err := b.AfterStart(t.Context(), testSlot); err != nil {
		t.Errorf("AfterStart = %v", err)
	}
	if n := len(b.engine.Calls()); n > 0 {
		t.Errorf("%d requests for nothing", n)
	}
}

func TestAfterStart_ContainerIsDown(t *testing.T) {
	t.Parallel()
	b := newBench(t, enginetest.Docker, func(_ *Options, s *Slot) { s.AfterStart = []string{"x"} })
	wantError(t, b.AfterStart(t.Context(), testSlot), "", "container node-kube1 does not run")
}

func TestAfterStart_EngineForgetsTheCommand(t *testing.T) {
	t.Parallel()
	b := afterStart(t, enginetest.Docker, says(0, "", ""))
	b.engine.On(enginetest.OpExecInspect, enginetest.Action{Status: 404, Message: "No such exec instance"})
	wantError(t, b.AfterStart(t.Context(), testSlot), "", "forgotten how it ended")
}

func TestAfterStart_EngineIsGone(t *testing.T) {
	t.Parallel()
	b := afterStart(t, enginetest.Docker, says(0, "half way", ""))
	b.engine.On(enginetest.OpExecInspect, enginetest.Action{Status: 500, Message: "who knows"})
	wantError(t, b.AfterStart(t.Context(), testSlot), "", "who knows", "it printed: half way")
}

// A command that could not even be begun must not pass for one that ended
// well: engines tell exit code 0 of it.
func TestAfterStart_CommandNeverBegins(t *testing.T) {
	t.Parallel()
	b := afterStart(t, enginetest.Docker, says(0, "", ""))
	b.engine.On(enginetest.OpExecStart, enginetest.Action{Status: 500, Message: "no such shim"})
	wantError(t, b.AfterStart(t.Context(), testSlot), "", "unable to upgrade")
}

// A command may close its output and go on.
func TestAfterStart_OutputEndsBeforeTheCommand(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	b := afterStart(t, enginetest.Docker, func(p *enginetest.Process) int {
		select {
		case <-release:
		case <-p.Killed():
		}
		return 5
	})
	b.engine.On(enginetest.OpExecInspect, enginetest.Action{Run: func() { close(release) }})
	done := make(chan error, 1)
	go func() { done <- b.AfterStart(t.Context(), testSlot) }()
	b.engine.Wait(within(t, 10*time.Second), func() bool {
		execs := b.engine.Execs()
		return len(execs) == 1 && execs[0].Running
	})
	b.engine.HangUpExecs()
	var exit *ExecError
	if err := <-done; !errors.As(err, &exit) || exit.ExitCode != 5 {
		t.Errorf("AfterStart = %v", err)
	}
}

// TestAfterStart_TimeIsOver kills the command: the engine tells which process
// it is, and the process must be one of the container's.
func TestAfterStart_TimeIsOver(t *testing.T) {
	t.Parallel()
	b := afterStart(t, enginetest.Docker, func(p *enginetest.Process) int {
		p.Println("waiting for godot")
		return enginetest.Deaf(p)
	})
	victim := exec.Command("sleep", "60")
	if err := victim.Start(); err != nil {
		t.Skipf("there is no sleep to run: %v", err)
	}
	defer func() { _ = victim.Process.Kill() }()
	b.host.proc = cgroupOf(t, victim.Process.Pid, "0::/system.slice/docker-"+b.one(t, testContainer).ID+".scope\n")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.AfterStart(ctx, testSlot) }()
	b.engine.Wait(within(t, 10*time.Second), func() bool {
		execs := b.engine.Execs()
		return len(execs) == 1 && execs[0].Running && b.engine.SetExecPID(execs[0].ID, victim.Process.Pid) == nil
	})
	cancel()
	err := <-done
	if !errors.Is(err, context.Canceled) {
		t.Errorf("AfterStart = %v", err)
	}
	if strings.Contains(err.Error(), "may still run") {
		t.Errorf("AfterStart = %v", err)
	}
	if err := victim.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("the process ended with %v", err)
	}
}

// cgroupOf makes a /proc that shows the cgroup of one process.
func cgroupOf(t *testing.T, pid int, text string) string {
	t.Helper()
	proc := t.TempDir()
	dir := filepath.Join(proc, strconv.Itoa(pid))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cgroup"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return proc
}

func TestAfterStart_TimeIsOverAndTheProcessIsNotOurs(t *testing.T) {
	t.Parallel()
	b := afterStart(t, enginetest.Docker, enginetest.Deaf)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.AfterStart(ctx, testSlot) }()
	b.engine.Wait(within(t, 10*time.Second), func() bool {
		execs := b.engine.Execs()
		return len(execs) == 1 && execs[0].Running && b.engine.SetExecPID(execs[0].ID, os.Getpid()) == nil
	})
	cancel()
	err := <-done // and this process still lives
	wantError(t, err, "", "it may still run", "is not in container")
}
