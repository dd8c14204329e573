package container

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/node-lifecycle/node-lifecycle/backend/container/enginetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	testSlot      = "kube1"
	testContainer = "node-kube1"
	testImage     = "localhost/node:1"
	testUnit      = "node-stack@kube1.service"
)

// bench is a Controller for one slot, with an engine and a service manager
// that a test can do anything to.
type bench struct {
	*Controller
	engine  *enginetest.Engine
	systemd *stubSystemd
	logged  *lockedBuffer
}

// flavors runs a test against both engines.
func flavors(t *testing.T, test func(t *testing.T, flavor enginetest.Flavor)) {
	t.Helper()
	for _, flavor := range []enginetest.Flavor{enginetest.Docker, enginetest.Podman} {
		t.Run(string(flavor), func(t *testing.T) {
			t.Parallel()
			test(t, flavor)
		})
	}
}

// newBench makes a bench whose slot is changed by the given functions.
func newBench(t *testing.T, flavor enginetest.Flavor, change ...func(*Options, *Slot)) *bench {
	t.Helper()
	e := enginetest.New(t, flavor)
	e.AddImage(enginetest.Image{Name: testImage, StopSignal: "SIGRTMIN+3", Program: enginetest.Forever(0, "SIGRTMIN+3")})
	return newBenchOn(t, e, change...)
}

func newBenchOn(t *testing.T, e *enginetest.Engine, change ...func(*Options, *Slot)) *bench {
	t.Helper()
	s := Slot{
		Pair: "kube1+kube2", Unit: testUnit, Container: testContainer, Image: testImage,
		StopGrace: 5 * time.Second, PullTimeout: 10 * time.Second,
	}
	logged := new(lockedBuffer)
	stub := &stubSystemd{unit: UnitStatus{
		Name: testUnit, LoadState: "loaded", ActiveState: "active", SubState: "running", Activation: "act-1",
	}}
	o := Options{
		Socket: e.Socket(), EngineUnit: "docker.service", RuntimeDir: filepath.Join(t.TempDir(), "run"),
		CallTimeout: 2 * time.Second, PollInterval: 10 * time.Millisecond, Systemd: stub,
		Log: slog.New(slog.NewTextHandler(logged, nil)),
	}
	for _, f := range change {
		f(&o, &s)
	}
	o.Slots = map[string]Slot{testSlot: s}
	c := New(o)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return &bench{Controller: c, engine: e, systemd: stub, logged: logged}
}

// hurry replaces the Controller by one that waits for an answer no longer than
// timeout. Up to here there was time to set everything up.
func (b *bench) hurry(t *testing.T, timeout time.Duration) {
	t.Helper()
	o, host := b.opts, b.host
	o.CallTimeout = timeout
	b.Controller = New(o)
	b.host = host
	t.Cleanup(func() { _ = b.Close() })
}

// start starts the slot's container and returns its id.
func (b *bench) start(t *testing.T, epoch uint64) string {
	t.Helper()
	id, _, err := b.Start(t.Context(), testSlot, epoch, "boot-1", "act-1")
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	return id
}

// one returns the container of a name or id.
func (b *bench) one(t *testing.T, ref string) enginetest.Container {
	t.Helper()
	c, ok := b.engine.Container(ref)
	if !ok {
		t.Fatalf("the engine has no container %s", ref)
	}
	return c
}

func (b *bench) absent(t *testing.T, ref string) {
	t.Helper()
	if c, ok := b.engine.Container(ref); ok {
		t.Errorf("container %s is still there: %+v", ref, c)
	}
}

// ourLabels are the labels of a container that Start made in an epoch.
func ourLabels(epoch uint64) map[string]string {
	return labelsFor(Slot{Name: testSlot, Pair: "kube1+kube2"}, epoch, "digest", "boot-1", "act-1")
}

// within returns a context that ends after d.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// wantText checks that a text has all the parts.
func wantText(t *testing.T, got string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(got, part) {
			t.Errorf("got %q, which lacks %q", got, part)
		}
	}
}

// wantError checks an error's text and its behaviours: "unreachable",
// "denied", "misconfigured" or "" for none of them.
func wantError(t *testing.T, err error, class string, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", parts)
	}
	got := ""
	switch {
	case isUnreachable(err):
		got = "unreachable"
	case isDenied(err):
		got = "denied"
	case isMisconfigured(err):
		got = "misconfigured"
	}
	if got != class {
		t.Errorf("class of %v is %q, want %q", err, got, class)
	}
	wantText(t, err.Error(), parts...)
}

// stubSystemd is a service manager of one unit.
type stubSystemd struct {
	mu    sync.Mutex
	unit  UnitStatus
	err   error // of everything
	calls []string
	wakes chan struct{}
	// onReload runs inside Reload.
	onReload func()
}

func (s *stubSystemd) call(what string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, what)
	return s.err
}

func (s *stubSystemd) set(change func(*UnitStatus)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.unit)
}

func (s *stubSystemd) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *stubSystemd) Unit(_ context.Context, unit string) (UnitStatus, error) {
	if err := s.call("unit " + unit); err != nil {
		return UnitStatus{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unit, nil
}

func (s *stubSystemd) Restart(_ context.Context, unit string) error { return s.call("restart " + unit) }

func (s *stubSystemd) ResetFailed(_ context.Context, unit string) error {
	return s.call("reset-failed " + unit)
}

func (s *stubSystemd) Reload(context.Context) error {
	if s.onReload != nil {
		s.onReload()
	}
	return s.call("reload")
}

func (s *stubSystemd) CheckLoaded(_ context.Context, unit string) error {
	return s.call("check " + unit)
}

func (s *stubSystemd) Wake(ctx context.Context, unit string) (<-chan struct{}, error) {
	if err := s.call("wake " + unit); err != nil {
		return nil, err
	}
	out := make(chan struct{})
	go func() {
		defer close(out)
		for {
			select {
			case _, ok := <-s.wakes:
				if !ok {
					return
				}
				select {
				case out <- struct{}{}:
				case <-ctx.Done():
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, nil
}

func (s *stubSystemd) Close() error { return s.call("close") }

// lockedBuffer is a writer that several goroutines may use.
type lockedBuffer struct {
	mu  sync.Mutex
	buf strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

var _ io.Writer = (*lockedBuffer)(nil)

func TestController_UnknownSlot(t *testing.T) {
	t.Parallel()
	c := New(Options{Slots: map[string]Slot{}})
	defer c.Close()
	ctx := t.Context()
	calls := map[string]func() error{
		"Alive":       func() error { _, _, err := c.Alive(ctx, "kube9"); return err },
		"Died":        func() error { _, _, err := c.Died(ctx, "kube9"); return err },
		"Running":     func() error { _, _, err := c.Running(ctx, "kube9"); return err },
		"Fence":       func() error { _, _, err := c.Fence(ctx, "kube9"); return err },
		"Regenerate":  func() error { return c.Regenerate(ctx, "kube9") },
		"Changed":     func() error { _, err := c.Changed(ctx, "kube9"); return err },
		"Start":       func() error { _, _, err := c.Start(ctx, "kube9", 1, "b", "a"); return err },
		"Attend":      func() error { _, err := c.Attend(ctx, "kube9", "id", io.Discard); return err },
		"Stop":        func() error { _, err := c.Stop(ctx, "kube9"); return err },
		"Remove":      func() error { _, err := c.Remove(ctx, "kube9", 1); return err },
		"AfterStart":  func() error { return c.AfterStart(ctx, "kube9") },
		"Events":      func() error { _, err := c.Events(ctx, "kube9"); return err },
		"Evidence":    func() error { _, err := c.Evidence(ctx, "kube9"); return err },
		"Unit":        func() error { _, err := c.Unit(ctx, "kube9"); return err },
		"Restart":     func() error { return c.Restart(ctx, "kube9") },
		"ResetFailed": func() error { return c.ResetFailed(ctx, "kube9") },
		"CheckLoaded": func() error { return c.CheckLoaded(ctx, "kube9") },
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			wantError(t, call(), "misconfigured", "slot kube9 is not configured")
		})
	}
}

func TestController_UnitMethods(t *testing.T) {
	t.Parallel()
	b := newBench(t, enginetest.Docker)
	u, err := b.Unit(t.Context(), testSlot)
	if err != nil || u.Name != testUnit {
		t.Fatalf("Unit = %+v, %v", u, err)
	}
	for _, call := range []func() error{
		func() error { return b.Restart(t.Context(), testSlot) },
		func() error { return b.ResetFailed(t.Context(), testSlot) },
		func() error { return b.CheckLoaded(t.Context(), testSlot) },
		func() error { return b.Reload(t.Context()) },
	} {
		if err := call(); err != nil {
			t.Error(err)
		}
	}
	want := "unit X,restart X,reset-failed X,check X,reload"
	if got := strings.ReplaceAll(strings.Join(b.systemd.calls, ","), testUnit, "X"); got != want {
		t.Errorf("calls %s, want %s", got, want)
	}
}

func TestController_SlotWithoutUnit(t *testing.T) {
	t.Parallel()
	b := newBench(t, enginetest.Docker, func(_ *Options, s *Slot) { s.Unit = "" })
	wantError(t, b.Restart(t.Context(), testSlot), "misconfigured", "has no unit")
	wantError(t, b.ResetFailed(t.Context(), testSlot), "misconfigured", "has no unit")
	if err := b.CheckLoaded(t.Context(), testSlot); err != nil {
		t.Errorf("CheckLoaded: %v", err)
	}
	if changed, err := b.Changed(t.Context(), testSlot); changed || err != nil {
		t.Errorf("Changed = %v, %v", changed, err)
	}
}

func TestController_CloseLeavesForeignSystemdOpen(t *testing.T) {
	t.Parallel()
	stub := new(stubSystemd)
	c := New(Options{Systemd: stub})
	if err := c.Close(); err != nil || len(stub.calls) > 0 {
		t.Errorf("Close = %v, calls %v", err, stub.calls)
	}
	own := New(Options{})
	if own.manager() != own.manager() {
		t.Error("systemd is dialled twice")
	}
	if err := own.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func TestError_Behaviours(t *testing.T) {
	t.Parallel()
	inner := &Error{Op: "dial", Err: errors.New("refused"), kind: kindUnreachable}
	outer := failed("look", errors.Join(errors.New("first"), inner))
	if !isUnreachable(outer) || isDenied(outer) || isMisconfigured(outer) {
		t.Error("the behaviour of a cause is lost")
	}
	if isUnreachable(os.ErrNotExist) || isUnreachable(nil) {
		t.Error("a behaviour comes from nowhere")
	}
	full := &Error{Op: "start x", Err: errors.New("no image"), Hint: "load it", kind: kindMisconfigured}
	if got, want := full.Error(), "start x: no image; load it"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if !full.Misconfigured() || full.Denied() || full.Unreachable() {
		t.Error("wrong class")
	}
}
