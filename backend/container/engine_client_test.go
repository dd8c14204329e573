package container

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/node-lifecycle/node-lifecycle/backend/container/enginetest"
)

func TestPing_Answers(t *testing.T) {
	flavors(t, func(t *testing.T, flavor enginetest.Flavor) {
		if err := newBench(t, flavor).Ping(t.Context()); err != nil {
			t.Errorf("Ping: %v", err)
		}
	})
}

func TestPing_IgnoresDockerHost(t *testing.T) {
	t.Setenv("DOCKER_HOST", "unix:///nowhere")
	t.Setenv("DOCKER_API_VERSION", "1.30")
	if err := newBench(t, enginetest.Docker).Ping(t.Context()); err != nil {
		t.Errorf("Ping: %v", err)
	}
}

func TestPing_NoEngine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	refusing := filepath.Join(dir, "refusing")
	l, err := net.Listen("unix", refusing)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	for name, test := range map[string]struct {
		socket, class string
		want          []string
	}{
		"no socket": {filepath.Join(dir, "absent"), "unreachable", []string{"absent does not exist", "is docker.service running?"}},
		"no engine": {refusing, "unreachable", []string{"refusing: nobody listens", "is docker.service running?"}},
		"too long":  {filepath.Join(dir, strings.Repeat("x", 200)), "misconfigured", []string{"too long", "correct engine.socket"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := New(Options{Socket: test.socket, EngineUnit: "docker.service"})
			defer c.Close()
			wantError(t, c.Ping(t.Context()), test.class, test.want...)
		})
	}
}

func TestDialError_Denied(t *testing.T) {
	t.Parallel()
	cause := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EACCES)}
	e := newEngine("/run/docker.sock", "", time.Second)
	err := e.explain(t.Context(), t.Context(), "ping", time.Second, &dialError{socket: e.socket, cause: cause})
	wantError(t, err, "denied", "ping: engine socket /run/docker.sock: permission denied; run as root")
	unknown := &dialError{socket: "s", cause: errors.New("odd")}
	wantText(t, unknown.Error(), "cannot be connected to")
	wantText(t, unknown.hint(), "is the engine running?")
}

func TestCall_HungEngineCostsOneCallTimeout(t *testing.T) {
	flavors(t, func(t *testing.T, flavor enginetest.Flavor) {
		b := newBench(t, flavor)
		b.hurry(t, 50*time.Millisecond)
		b.engine.Intercept(func(enginetest.Call) enginetest.Action { return enginetest.Action{Hang: true} })
		began := time.Now()
		_, _, err := b.Alive(t.Context(), testSlot)
		wantError(t, err, "unreachable", "no answer of the engine within 50ms")
		if errors.Is(err, context.DeadlineExceeded) {
			t.Error("the caller's time is not over, but the error says so")
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("took %s", took)
		}
	})
}

func TestCall_CallersTimeIsOver(t *testing.T) {
	t.Parallel()
	b := newBench(t, enginetest.Docker)
	b.engine.Intercept(func(enginetest.Call) enginetest.Action { return enginetest.Action{Hang: true} })
	err := b.Ping(within(t, 20*time.Millisecond))
	wantError(t, err, "unreachable")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v does not tell that the caller's time is over", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("terminated")
	cancel(why)
	err = b.Ping(ctx)
	wantError(t, err, "", "terminated")
	if !errors.Is(err, context.Canceled) || !errors.Is(err, why) {
		t.Errorf("%v hides the cancellation or its cause", err)
	}
}

func TestCall_Answers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		action enginetest.Action
		class  string
		text   string
	}{
		"500":    {enginetest.Action{Status: 500, Message: "no"}, "", "the engine answers: no"},
		"403":    {enginetest.Action{Status: http.StatusForbidden, Message: "not you"}, "denied", "not you"},
		"broken": {enginetest.Action{Break: true}, "unreachable", "the connection to the engine broke"},
		"cut":    {enginetest.Action{CutAfter: 1}, "unreachable", "the connection to the engine broke"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, enginetest.Docker)
			// The transport repeats a GET whose connection broke without an answer.
			b.engine.On(enginetest.OpList, test.action, test.action, test.action, test.action)
			_, _, err := b.Alive(t.Context(), testSlot)
			wantError(t, err, test.class, test.text)
		})
	}
}

func TestCall_EngineIsReplacedByANewerOne(t *testing.T) {
	t.Parallel()
	b := newBench(t, enginetest.Docker)
	if _, _, err := b.Alive(t.Context(), testSlot); err != nil {
		t.Fatal(err)
	}
	b.engine.SetAPI("1.44", "1.50")
	b.engine.Restart()
	if _, _, err := b.Alive(t.Context(), testSlot); err != nil {
		t.Errorf("Alive after the upgrade: %v", err)
	}
	b.engine.SetAPI("1.55", "1.57") // without any connection breaking
	if _, _, err := b.Alive(t.Context(), testSlot); err != nil {
		t.Errorf("Alive after the second upgrade: %v", err)
	}
}

func TestCall_AfterClose(t *testing.T) {
	t.Parallel()
	b := newBench(t, enginetest.Docker)
	if err := b.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.Controller.Close(); err != nil {
		t.Fatal(err)
	}
	wantError(t, b.Ping(t.Context()), "unreachable", "closed")
}

func TestWaitEngine(t *testing.T) {
	t.Parallel()
	t.Run("comes", func(t *testing.T) {
		b := newBench(t, enginetest.Docker)
		b.engine.Stop()
		done := make(chan error, 1)
		go func() { done <- b.WaitEngine(t.Context()) }()
		if err := b.engine.Resume(); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Errorf("WaitEngine: %v", err)
		}
	})
	t.Run("stays away", func(t *testing.T) {
		b := newBench(t, enginetest.Docker)
		b.engine.Stop()
		err := b.WaitEngine(within(t, 50*time.Millisecond))
		wantError(t, err, "unreachable", "wait for the engine", "nobody listens")
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v does not tell that the time is over", err)
		}
	})
	t.Run("denied", func(t *testing.T) {
		b := newBench(t, enginetest.Docker)
		b.engine.Intercept(func(enginetest.Call) enginetest.Action {
			return enginetest.Action{Status: http.StatusForbidden, Message: "no access"}
		})
		wantError(t, b.WaitEngine(t.Context()), "denied", "no access")
	})
}

func TestOpen_LateStreamIsNotUsed(t *testing.T) {
	t.Parallel()
	b := newBench(t, enginetest.Docker)
	id := b.engine.Add(enginetest.Spec{Name: testContainer, Running: true})
	b.engine.On(enginetest.OpLogs, enginetest.Action{Hang: true})
	o, _, err := b.inspect(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	b.hurry(t, 30*time.Millisecond)
	_, _, err = b.lastOutput(t.Context(), o)
	wantError(t, err, "unreachable", "no answer")
}
