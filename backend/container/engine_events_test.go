package container

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/moby/moby/api/types/events"

	"github.com/node-lifecycle/node-lifecycle/backend/container/enginetest"
)

// wakes listens to a bench and returns a function that waits for a wake, and
// one that ends listening.
func wakes(t *testing.T, b *bench) (wait func(why string), stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ch, err := b.Events(ctx, testSlot)
	if err != nil {
		t.Fatal(err)
	}
	wait = func(why string) {
		t.Helper()
		select {
		case _, ok := <-ch:
			if !ok {
				t.Fatal("the channel is closed")
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("no wake for %s", why)
		}
	}
	return wait, func() {
		cancel()
		for deadline := time.After(10 * time.Second); ; {
			select {
			case _, ok := <-ch:
				if !ok {
					return
				}
			case <-deadline:
				t.Fatal("the channel is not closed after its context has ended")
			}
		}
	}
}

// listening waits until the engine has so many listeners in all.
func (b *bench) listening(t *testing.T, n int) {
	t.Helper()
	if !b.engine.Wait(within(t, 10*time.Second), func() bool { return b.engine.Count(enginetest.OpEvents) >= n }) {
		t.Fatal("nobody listens to the engine")
	}
}

// hears waits until the engine's events arrive. A request for them may have
// come in before its answer begins, so one event is told until it is heard.
func (b *bench) hears(t *testing.T, wait func(string)) {
	t.Helper()
	b.listening(t, 1)
	heard := make(chan struct{})
	told := make(chan struct{})
	go func() {
		defer close(told)
		for {
			b.engine.SetHealth(testContainer, "healthy")
			select {
			case <-heard:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	wait("a health event")
	close(heard)
	<-told
}

func TestEvents_Container(t *testing.T) {
	flavors(t, func(t *testing.T, flavor enginetest.Flavor) {
		b := newBench(t, flavor, func(_ *Options, s *Slot) { s.Unit = "" })
		b.start(t, 1)
		wait, stop := wakes(t, b)
		defer stop()
		b.hears(t, wait)
		b.engine.Kill(testContainer)
		wait("the container's death")
	})
}

func TestEvents_Unit(t *testing.T) {
	t.Parallel()
	b := newBench(t, enginetest.Docker, func(_ *Options, s *Slot) { s.Container = "" })
	b.systemd.wakes = make(chan struct{})
	wait, stop := wakes(t, b)
	defer stop()
	for range 3 {
		b.systemd.wakes <- struct{}{}
		wait("a change of the unit")
	}
}

func TestEvents_UnitSourceIsLost(t *testing.T) {
	t.Parallel()
	b := newBench(t, enginetest.Docker, func(_ *Options, s *Slot) { s.Container = "" })
	b.systemd.wakes = make(chan struct{})
	close(b.systemd.wakes) // each source ends at once
	wait, stop := wakes(t, b)
	defer stop()
	wait("what may have happened meanwhile")
	wait("what may have happened meanwhile")
}

func TestEvents_UnitSourceFails(t *testing.T) {
	t.Parallel()
	b := newBench(t, enginetest.Docker, func(_ *Options, s *Slot) { s.Container = "" })
	b.systemd.fail(errors.New("no bus"))
	wait, stop := wakes(t, b)
	defer stop()
	wait("what may have happened meanwhile")
}

// A stream that breaks is opened again from the last event on, and what
// happened in between is told.
func TestEvents_EngineRestarts(t *testing.T) {
	flavors(t, func(t *testing.T, flavor enginetest.Flavor) {
		b := newBench(t, flavor, func(_ *Options, s *Slot) { s.Unit = "" })
		b.start(t, 1)
		wait, stop := wakes(t, b)
		defer stop()
		b.hears(t, wait)
		b.engine.Restart()
		wait("the end of the stream")
		b.listening(t, 2)
		b.engine.Stop()
		b.engine.Kill(testContainer)
		if err := b.engine.Resume(); err != nil {
			t.Fatal(err)
		}
		wait("what happened while the engine was away")
		b.listening(t, 3)
	})
}

func TestSlot_Concerns(t *testing.T) {
	t.Parallel()
	s := Slot{Name: testSlot, Container: testContainer}
	message := func(action string, attributes ...string) events.Message {
		m := events.Message{Action: events.Action(action), Actor: events.Actor{Attributes: map[string]string{}}}
		for i := 0; i < len(attributes); i += 2 {
			m.Actor.Attributes[attributes[i]] = attributes[i+1]
		}
		return m
	}
	for name, test := range map[string]struct {
		message events.Message
		want    bool
	}{
		"by name":            {message("die", "name", testContainer), true},
		"by name, fenced":    {message("start", "name", testContainer+".nl-fenced"), true},
		"by label":           {message("start", "name", "x", LabelSlot, testSlot), true},
		"renamed":            {message("rename", "name", "x", "oldName", "/"+testContainer), true},
		"another container":  {message("die", "name", "other"), false},
		"another slot":       {message("die", "name", "x", LabelSlot, "kube2"), false},
		"our own probe":      {message("exec_start: systemctl show", "name", testContainer), false},
		"the end of a probe": {message("exec_die", "name", testContainer), false},
		"health":             {message("health_status: healthy", "name", testContainer), true},
		"without a name":     {message("prune"), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := s.concerns(test.message); got != test.want {
				t.Errorf("%v, want %v", got, test.want)
			}
		})
	}
}

func TestEventMemory(t *testing.T) {
	t.Parallel()
	m := newEventMemory()
	if got := m.since(); got != "" {
		t.Errorf("since %q before any event", got)
	}
	event := func(i int) events.Message {
		return events.Message{Action: "die", Actor: events.Actor{ID: "c"}, TimeNano: int64(i) * int64(time.Second)}
	}
	if !m.isNew(event(1)) || m.isNew(event(1)) || !m.isNew(event(2)) {
		t.Error("an event told twice is not recognised")
	}
	if m.isNew(events.Message{Action: "die", Actor: events.Actor{ID: "c"}, Time: 2}) {
		t.Error("an event without nanoseconds is not recognised")
	}
	if got, want := m.since(), "2.000000000"; got != want {
		t.Errorf("since %q, want %q", got, want)
	}
	for i := range eventMemory + 2 {
		m.isNew(event(10 + i))
	}
	if n := len(m.seen); n > eventMemory {
		t.Errorf("%d events are remembered", n)
	}
	future := events.Message{TimeNano: time.Now().Add(time.Hour).UnixNano()}
	m.isNew(future)
	if got := m.since(); got >= unixSeconds(future.TimeNano) {
		t.Errorf("since %s lies in the future", got)
	}
}
