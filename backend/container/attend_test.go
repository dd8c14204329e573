package container

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/node-lifecycle/node-lifecycle/backend/container/enginetest"
)

// script is a container whose every step a test decides.
type script struct {
	print chan string // one line each
	exit  chan int
}

func newScript() *script {
	return &script{print: make(chan string), exit: make(chan int, 1)}
}

func (s *script) run(p *enginetest.Process) int {
	for {
		select {
		case line := <-s.print:
			if strings.HasPrefix(line, "!") {
				p.Errorln(line)
			} else {
				p.Println(line)
			}
		case code := <-s.exit:
			return code
		case <-p.Killed():
			return 137
		}
	}
}

// attended is a call of Attend that is under way.
type attended struct {
	*bench
	*script
	id   string
	out  *lockedBuffer
	done chan struct{}
	code int
	err  error
}

// started starts a scripted container that nobody attends to yet.
func started(t *testing.T, flavor enginetest.Flavor, tty bool) *attended {
	t.Helper()
	a := &attended{script: newScript(), out: new(lockedBuffer), done: make(chan struct{})}
	e := enginetest.New(t, flavor)
	e.AddImage(enginetest.Image{Name: testImage, Program: a.run})
	a.bench = newBenchOn(t, e, func(_ *Options, s *Slot) { s.TTY = tty })
	a.id = a.start(t, 1)
	return a
}

// attend starts a scripted container and attends to it.
func attend(t *testing.T, flavor enginetest.Flavor, tty bool) *attended {
	t.Helper()
	a := started(t, flavor, tty)
	a.begin(t, a.out)
	return a
}

// begin lets Attend run in the background.
func (a *attended) begin(t *testing.T, out io.Writer) {
	go func() {
		defer close(a.done)
		a.code, a.err = a.Attend(t.Context(), testSlot, a.id, out)
	}()
}

// say lets the container print, and waits until that has come out.
func (a *attended) say(t *testing.T, lines ...string) {
	t.Helper()
	for _, line := range lines {
		select {
		case a.print <- line:
		case <-time.After(10 * time.Second):
			t.Fatalf("the container does not print %q", line)
		}
	}
}

// heard waits until the text has come out.
func (a *attended) heard(t *testing.T, text string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !strings.Contains(a.out.String(), text); {
		if time.Now().After(deadline) {
			t.Fatalf("%q did not come out: %q", text, a.out.String())
		}
		select {
		case <-a.done:
			t.Fatalf("Attend is over: %d, %v", a.code, a.err)
		case <-time.After(time.Millisecond):
		}
	}
}

func (a *attended) ended(t *testing.T) (int, error) {
	t.Helper()
	select {
	case <-a.done:
	case <-time.After(20 * time.Second):
		t.Fatal("Attend does not end")
	}
	return a.code, a.err
}

func TestAttend_OutputAndExitCode(t *testing.T) {
	for _, tty := range []bool{false, true} {
		t.Run(fmt.Sprintf("tty %v", tty), func(t *testing.T) {
			flavors(t, func(t *testing.T, flavor enginetest.Flavor) {
				a := attend(t, flavor, tty)
				a.say(t, "one", "two")
				a.heard(t, "two\n")
				a.say(t, "!three", "four")
				a.exit <- 7
				if code, err := a.ended(t); code != 7 || err != nil {
					t.Errorf("Attend = %d, %v", code, err)
				}
				if diff := cmp.Diff("one\ntwo\n!three\nfour\n", a.out.String()); diff != "" {
					t.Errorf("output (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestAttend_EngineRestarts restarts the engine, with live-restore, while the
// container prints: no line may be lost or come twice.
func TestAttend_EngineRestarts(t *testing.T) {
	for _, tty := range []bool{false, true} {
		t.Run(fmt.Sprintf("tty %v", tty), func(t *testing.T) {
			flavors(t, func(t *testing.T, flavor enginetest.Flavor) {
				a := attend(t, flavor, tty)
				var want strings.Builder
				for i := range 60 {
					line := fmt.Sprintf("line %d", i/2) // each twice, so that equal lines count
					a.say(t, line)
					want.WriteString(line + "\n")
					switch {
					case i%20 == 7:
						a.heard(t, line)
						a.engine.Restart()
					case i%20 == 14:
						a.engine.Restart()
					}
				}
				a.exit <- 3
				if code, err := a.ended(t); code != 3 || err != nil {
					t.Errorf("Attend = %d, %v", code, err)
				}
				if diff := cmp.Diff(want.String(), a.out.String()); diff != "" {
					t.Errorf("output (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// The stream breaks in the middle of a line.
func TestAttend_StreamIsCut(t *testing.T) {
	for _, tty := range []bool{false, true} {
		t.Run(fmt.Sprintf("tty %v", tty), func(t *testing.T) {
			t.Parallel()
			a := started(t, enginetest.Docker, tty)
			for _, cut := range []int{1, 9, 40, 50, 90} {
				a.engine.On(enginetest.OpLogs, enginetest.Action{CutAfter: cut})
			}
			a.begin(t, a.out)
			a.say(t, "first", "second", "third")
			a.exit <- 0
			if code, err := a.ended(t); code != 0 || err != nil {
				t.Errorf("Attend = %d, %v", code, err)
			}
			if got := a.out.String(); got != "first\nsecond\nthird\n" {
				t.Errorf("output %q", got)
			}
		})
	}
}

func TestAttend_LongLines(t *testing.T) {
	for _, tty := range []bool{false, true} {
		t.Run(fmt.Sprintf("tty %v", tty), func(t *testing.T) {
			t.Parallel()
			a := attend(t, enginetest.Docker, tty)
			long := strings.Repeat("0123456789", 5000)
			a.say(t, long, "short")
			a.exit <- 0
			if code, err := a.ended(t); code != 0 || err != nil {
				t.Errorf("Attend = %d, %v", code, err)
			}
			if got := a.out.String(); got != long+"\nshort\n" {
				t.Errorf("%d bytes, want %d", len(got), len(long)+7)
			}
		})
	}
}

// Podman's journald driver ends a stream that follows from a time on.
func TestAttend_StreamsThatEndByThemselves(t *testing.T) {
	t.Parallel()
	s := newScript()
	e := enginetest.New(t, enginetest.Podman)
	e.AddImage(enginetest.Image{Name: testImage, Program: s.run})
	b := newBenchOn(t, e)
	a := &attended{bench: b, script: s, out: new(lockedBuffer), done: make(chan struct{})}
	a.id = e.Add(enginetest.Spec{Name: testContainer, Image: testImage, LogDriver: "journald", Running: true})
	a.begin(t, a.out)
	a.say(t, "one")
	a.heard(t, "one")
	e.Restart()
	a.say(t, "two")
	a.heard(t, "two")
	a.say(t, "three")
	a.exit <- 0
	if code, err := a.ended(t); code != 0 || err != nil {
		t.Errorf("Attend = %d, %v", code, err)
	}
	if got := a.out.String(); got != "one\ntwo\nthree\n" {
		t.Errorf("output %q", got)
	}
}

func TestAttend_ExitedBefore(t *testing.T) {
	flavors(t, func(t *testing.T, flavor enginetest.Flavor) {
		b := newBench(t, flavor)
		id := b.engine.Add(enginetest.Spec{Name: testContainer, Labels: ourLabels(1), Ended: true, ExitCode: 9})
		b.engine.Log(id, time.Now(), 1, "last words")
		out := new(lockedBuffer)
		if code, err := b.Attend(t.Context(), testSlot, id, out); code != 9 || err != nil {
			t.Errorf("Attend = %d, %v", code, err)
		}
		if got := out.String(); got != "last words\n" {
			t.Errorf("output %q", got)
		}
	})
}

func TestAttend_NothingToAttendTo(t *testing.T) {
	t.Parallel()
	b := newBench(t, enginetest.Docker)
	created := b.engine.Add(enginetest.Spec{Name: testContainer, Labels: ourLabels(1)})
	for id, text := range map[string]string{created: "was never started", strings.Repeat("0", 64): "no such container"} {
		code, err := b.Attend(t.Context(), testSlot, id, new(lockedBuffer))
		wantError(t, err, "", "attend to container "+short(id), text)
		if code != -1 {
			t.Errorf("code %d", code)
		}
	}
}

func TestAttend_CallerLeaves(t *testing.T) {
	t.Parallel()
	b := newBench(t, enginetest.Docker)
	id := b.start(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	b.engine.Intercept(func(c enginetest.Call) enginetest.Action {
		if c.Op == enginetest.OpWait {
			cancel()
		}
		return enginetest.Action{}
	})
	if code, err := b.Attend(ctx, testSlot, id, new(lockedBuffer)); code != -1 || !errors.Is(err, context.Canceled) {
		t.Errorf("Attend = %d, %v", code, err)
	}
	if got := b.one(t, id).Status; got != "running" {
		t.Errorf("the container is %s: Attend never stops it", got)
	}
}

func TestAttend_StoppedByOurselves(t *testing.T) {
	flavors(t, func(t *testing.T, flavor enginetest.Flavor) {
		e := enginetest.New(t, flavor)
		e.AddImage(enginetest.Image{Name: testImage, StopSignal: "SIGRTMIN+3", Program: func(p *enginetest.Process) int {
			code := enginetest.Forever(130, "SIGRTMIN+3")(p)
			p.Println("powering off")
			return code
		}})
		b := newBenchOn(t, e)
		a := &attended{bench: b, out: new(lockedBuffer), done: make(chan struct{})}
		a.id = b.start(t, 1)
		a.begin(t, a.out)
		if _, err := b.Stop(t.Context(), testSlot); err != nil {
			t.Fatal(err)
		}
		if code, err := a.ended(t); code != 130 || err != nil {
			t.Errorf("Attend = %d, %v", code, err)
		}
		if got := a.out.String(); got != "powering off\n" {
			t.Errorf("output %q", got)
		}
	})
}

func TestAttend_SomebodyElseStartsItAgain(t *testing.T) {
	t.Parallel()
	t.Run("the engine has told the end", func(t *testing.T) {
		a := attend(t, enginetest.Docker, false)
		a.say(t, "up")
		a.heard(t, "up")
		a.engine.On(enginetest.OpInspect, enginetest.Action{Run: func() {
			a.engine.Change(a.id, running)
		}})
		a.exit <- 5
		if code, err := a.ended(t); code != 5 || err != nil {
			t.Errorf("Attend = %d, %v", code, err)
		}
	})
	t.Run("nobody saw the end", func(t *testing.T) {
		a := attend(t, enginetest.Docker, false)
		a.say(t, "up")
		a.heard(t, "up")
		a.engine.Change(a.id, running)
		a.engine.Restart()
		code, err := a.ended(t)
		wantError(t, err, "", "somebody else started it again")
		if code != -1 {
			t.Errorf("code %d", code)
		}
	})
}

func TestAttend_RemovedMeanwhile(t *testing.T) {
	t.Parallel()
	t.Run("the engine has told the end", func(t *testing.T) {
		a := attend(t, enginetest.Docker, false)
		a.say(t, "up")
		a.heard(t, "up")
		a.engine.On(enginetest.OpInspect, enginetest.Action{Status: 404, Message: "No such container"})
		a.exit <- 5
		if code, err := a.ended(t); code != 5 || err != nil {
			t.Errorf("Attend = %d, %v", code, err)
		}
	})
	t.Run("nobody saw the end", func(t *testing.T) {
		a := attend(t, enginetest.Docker, false)
		a.say(t, "up")
		a.heard(t, "up")
		gone := enginetest.Action{Status: 404, Message: "No such container"}
		a.engine.On(enginetest.OpInspect, gone)
		a.engine.Restart()
		code, err := a.ended(t)
		wantError(t, err, "", "removed before its exit code could be read")
		if code != -1 {
			t.Errorf("code %d", code)
		}
	})
}
