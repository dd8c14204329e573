package container

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/api/types/events"
	"github.com/moby/moby/client"
)

// eventMemory is how many events are remembered to recognise one that is told
// twice: Podman knows the time of an event only to the second.
const eventMemory = 256

// Events returns a channel that gets a value whenever something may have
// happened to the slot's container or unit. Several happenings may share one
// value, and some may be missed, so a caller must look by itself from time to
// time as well. The channel is closed after ctx has ended; until then broken
// streams are opened again. It is an error only if the slot is not configured.
func (c *Controller) Events(ctx context.Context, slot string) (<-chan struct{}, error) {
	s, err := c.slot(slot)
	if err != nil {
		return nil, err
	}
	wakes := make(chan struct{}, 1)
	wake := func() {
		select {
		case wakes <- struct{}{}:
		default: // one is waiting already
		}
	}
	var sources sync.WaitGroup
	if s.Container != "" {
		sources.Go(func() { c.engineEvents(ctx, s, wake) })
	}
	if s.Unit != "" {
		sources.Go(func() { c.unitEvents(ctx, s, wake) })
	}
	go func() {
		sources.Wait()
		<-ctx.Done()
		close(wakes)
	}()
	return wakes, nil
}

// unitEvents forwards systemd's wakes.
func (c *Controller) unitEvents(ctx context.Context, s Slot, wake func()) {
	for {
		source, err := c.manager().Wake(ctx, s.Unit)
		if err != nil {
			c.log.DebugContext(ctx, "no news from systemd", "slot", s.Name, "because", err)
		} else {
			for range source {
				wake()
			}
		}
		if !pause(ctx, c.opts.PollInterval) {
			return
		}
		wake() // something may have happened while nobody listened
	}
}

// engineEvents forwards the engine's events about the slot.
func (c *Controller) engineEvents(ctx context.Context, s Slot, wake func()) {
	memory := newEventMemory()
	for {
		if err := c.listen(ctx, s, memory, wake); err != nil {
			c.log.DebugContext(ctx, "no news from the engine", "slot", s.Name, "because", err)
		}
		if !pause(ctx, c.opts.PollInterval) {
			return
		}
		wake()
	}
}

// listen forwards events until the stream ends, however that happens.
func (c *Controller) listen(ctx context.Context, s Slot, memory *eventMemoryRing, wake func()) error {
	stream, stop, err := open(ctx, c.engine, "listen to the engine", c.engine.slow(),
		func(ctx context.Context, cli *client.Client) (client.EventsResult, error) {
			return cli.Events(ctx, client.EventsListOptions{
				Since:   memory.since(),
				Filters: make(client.Filters).Add("type", string(events.ContainerEventType)),
			}), nil
		})
	if err != nil {
		return err
	}
	defer stop()
	for {
		select {
		case e := <-stream.Messages:
			if memory.isNew(e) && s.concerns(e) {
				wake()
			}
		case err := <-stream.Err:
			return err
		case <-ctx.Done():
			return nil
		}
	}
}

// concerns reports whether an event may change the answer to any question
// about the slot. Running a command inside a container may not: our own
// probes would wake us for ever.
func (s Slot) concerns(e events.Message) bool {
	if strings.HasPrefix(string(e.Action), "exec_") {
		return false
	}
	name := strings.TrimPrefix(e.Actor.Attributes["name"], "/")
	old := strings.TrimPrefix(e.Actor.Attributes["oldName"], "/")
	return e.Actor.Attributes[LabelSlot] == s.Name ||
		name == s.Container || old == s.Container || name == s.Container+fencedSuffix
}

// eventMemoryRing remembers the last events of a stream that is opened again
// and again from the last event on.
type eventMemoryRing struct {
	last  int64 // time of the newest event, in nanoseconds
	seen  map[string]bool
	order []string
	next  int
}

func newEventMemory() *eventMemoryRing {
	return &eventMemoryRing{seen: make(map[string]bool), order: make([]string, eventMemory)}
}

// isNew reports whether the event was not told before, and remembers it.
func (m *eventMemoryRing) isNew(e events.Message) bool {
	at := e.TimeNano
	if at == 0 {
		at = e.Time * int64(time.Second)
	}
	m.last = max(m.last, at)
	key := fmt.Sprintf("%d %s %s", at, e.Action, e.Actor.ID)
	if m.seen[key] {
		return false
	}
	delete(m.seen, m.order[m.next])
	m.seen[key], m.order[m.next] = true, key
	m.next = (m.next + 1) % len(m.order)
	return true
}

// since is what to open the stream with. A clock that was set back must not
// make us wait for the future.
func (m *eventMemoryRing) since() string {
	if m.last == 0 {
		return ""
	}
	return unixSeconds(min(m.last, time.Now().UnixNano()))
}

// unixSeconds writes nanoseconds since 1970 as engines read them.
func unixSeconds(ns int64) string {
	return fmt.Sprintf("%d.%09d", ns/int64(time.Second), ns%int64(time.Second))
}
