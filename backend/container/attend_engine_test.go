package container

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/node-lifecycle/node-lifecycle/backend/container/enginetest"
)

// fakeProcess makes the host show a process, and returns how it dies.
func fakeProcess(t *testing.T, b *bench, pid int) (die func()) {
	t.Helper()
	proc := t.TempDir()
	dir := filepath.Join(proc, strconv.Itoa(pid))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	stat := fmt.Sprintf("%d (sys (temd)) S 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 4242 0\n", pid)
	if err := os.WriteFile(filepath.Join(dir, "stat"), []byte(stat), 0o600); err != nil {
		t.Fatal(err)
	}
	b.host.proc = proc
	return func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	}
}

// attendProcess is attend with a first process that the host shows.
func attendProcess(t *testing.T, change ...func(*attended)) (a *attended, die func()) {
	t.Helper()
	a = started(t, enginetest.Docker, false)
	for _, f := range change {
		f(a)
	}
	die = fakeProcess(t, a.bench, a.one(t, a.id).PID)
	a.begin(t, a.out)
	a.say(t, "up")
	a.heard(t, "up")
	return a, die
}

// While the container's process lives, no absence of the engine is too long.
func TestAttend_EngineIsAwayForLong(t *testing.T) {
	t.Parallel()
	const away = 200 * time.Millisecond
	a, die := attendProcess(t, func(a *attended) { a.away = away })
	a.engine.Stop()
	select {
	case <-a.done:
		t.Fatalf("Attend has given up: %v", a.err)
	case <-time.After(4 * away):
	}
	a.exit <- 4
	if err := a.engine.Resume(); err != nil {
		t.Fatal(err)
	}
	die()
	if code, err := a.ended(t); code != 4 || err != nil {
		t.Errorf("Attend = %d, %v", code, err)
	}
}

func TestAttend_EngineIsGoneForGood(t *testing.T) {
	t.Parallel()
	t.Run("and the process too", func(t *testing.T) {
		a, die := attendProcess(t, func(a *attended) { a.away = 50 * time.Millisecond })
		a.engine.Stop()
		die()
		code, err := a.ended(t)
		wantError(t, err, "unreachable", "nobody listens")
		if code != -1 {
			t.Errorf("code %d", code)
		}
	})
	t.Run("and nobody sees the process", func(t *testing.T) {
		a := started(t, enginetest.Docker, false)
		a.away = 50 * time.Millisecond
		a.begin(t, a.out)
		a.say(t, "up")
		a.heard(t, "up")
		a.engine.Stop()
		_, err := a.ended(t)
		wantError(t, err, "unreachable")
	})
}

// An engine that hangs does not tell that the container has exited; its
// process does.
func TestAttend_EngineHangs(t *testing.T) {
	t.Parallel()
	a, die := attendProcess(t, func(a *attended) {
		a.hurry(t, 300*time.Millisecond)
		a.away = 50 * time.Millisecond
	})
	a.engine.Intercept(func(enginetest.Call) enginetest.Action { return enginetest.Action{Hang: true} })
	die()
	code, err := a.ended(t)
	wantError(t, err, "unreachable", "no answer of the engine within")
	if code != -1 {
		t.Errorf("code %d", code)
	}
}

// A wait that stays silent does not hide the exit from another look.
func TestAttend_WaitIsDeaf(t *testing.T) {
	t.Parallel()
	a := started(t, enginetest.Docker, false)
	a.hurry(t, 200*time.Millisecond)
	a.away = time.Minute
	a.engine.Intercept(func(c enginetest.Call) enginetest.Action {
		if c.Op == enginetest.OpWait {
			return enginetest.Action{Hang: true}
		}
		return enginetest.Action{}
	})
	a.begin(t, a.out)
	a.say(t, "up")
	a.exit <- 6
	if code, err := a.ended(t); code != 6 || err != nil {
		t.Errorf("Attend = %d, %v", code, err)
	}
}

func TestAttend_OutputFails(t *testing.T) {
	t.Parallel()
	a := started(t, enginetest.Docker, false)
	a.begin(t, failingWriter{})
	a.say(t, "one", "two")
	a.exit <- 2
	if code, err := a.ended(t); code != 2 || err != nil {
		t.Errorf("Attend = %d, %v", code, err)
	}
	wantText(t, a.logged.String(), "cannot be written any more")
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, os.ErrClosed }

// The exit code does not wait for an output that blocks.
func TestAttend_OutputBlocks(t *testing.T) {
	t.Parallel()
	a := started(t, enginetest.Docker, false)
	a.hurry(t, 200*time.Millisecond)
	release := make(chan struct{})
	defer close(release)
	a.begin(t, blockingWriter{release})
	a.say(t, "one")
	a.exit <- 2
	if code, err := a.ended(t); code != 2 || err != nil {
		t.Errorf("Attend = %d, %v", code, err)
	}
}

type blockingWriter struct{ release chan struct{} }

func (w blockingWriter) Write(p []byte) (int, error) {
	<-w.release
	return len(p), nil
}

func TestAttend_LogCannotBeRead(t *testing.T) {
	t.Parallel()
	a := started(t, enginetest.Docker, false)
	a.engine.Intercept(func(c enginetest.Call) enginetest.Action {
		if c.Op == enginetest.OpLogs {
			return enginetest.Action{Status: 501, Message: "configured logging driver does not support reading"}
		}
		return enginetest.Action{}
	})
	a.begin(t, a.out)
	a.say(t, "unheard")
	a.exit <- 0
	if code, err := a.ended(t); code != 0 || err != nil {
		t.Errorf("Attend = %d, %v", code, err)
	}
	wantText(t, a.logged.String(), "may be missing", "does not support reading")
}
