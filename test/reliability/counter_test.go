package reliability

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"sync"

	"github.com/moby/moby/api/types/events"

	"github.com/node-lifecycle/node-lifecycle/backend/container/enginetest"
)

// background is for what nothing but its own end ends.
var background = context.Background()

// counter follows the engine's own account of what starts and dies, which misses nothing
// however short it was, and knows how many containers ran at the same time at most.
type counter struct {
	engine *enginetest.Engine
	hangUp context.CancelFunc
	ended  chan struct{}

	mu      sync.Mutex
	marks   int
	seen    map[string]bool // names of marks that came by
	running map[string]string
	most    int
	which   string // what ran at that time
	changed chan struct{}
}

func newCounter(e *enginetest.Engine) (*counter, error) {
	ctx, cancel := context.WithCancel(background)
	c := &counter{
		engine: e, hangUp: cancel, ended: make(chan struct{}),
		seen: make(map[string]bool), running: make(map[string]string), changed: make(chan struct{}, 1),
	}
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", e.Socket())
	}}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://engine/v1.41/events", nil)
	if err != nil {
		cancel()
		return nil, err
	}
	res, err := client.Do(req)
	if err != nil {
		cancel()
		return nil, err
	}
	go func() {
		defer close(c.ended)
		defer res.Body.Close()
		for d := json.NewDecoder(res.Body); ; {
			var m events.Message
			if d.Decode(&m) != nil {
				return
			}
			c.take(m)
		}
	}()
	return c, nil
}

func (c *counter) take(m events.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := m.Actor.Attributes["name"]
	switch m.Action {
	case events.ActionCreate:
		c.seen[name] = true
	case events.ActionStart:
		c.running[m.Actor.ID] = name
		if len(c.running) > c.most {
			c.most, c.which = len(c.running), fmt.Sprint(c.running)
		}
	case events.ActionDie:
		delete(c.running, m.Actor.ID)
	}
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// peak waits until everything that has happened so far is counted, and returns how many
// containers ran at the same time at most, and which.
func (c *counter) peak() (int, string) {
	c.mu.Lock()
	c.marks++
	mark := fmt.Sprintf("mark-%d", c.marks)
	c.mu.Unlock()
	c.engine.Add(enginetest.Spec{Name: mark, Image: "localhost/mark:1"})
	for {
		c.mu.Lock()
		seen := c.seen[mark]
		c.mu.Unlock()
		if seen {
			return c.soFar()
		}
		select {
		case <-c.changed:
		case <-c.ended:
			return c.soFar()
		}
	}
}

// soFar is peak without the wait.
func (c *counter) soFar() (int, string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.most, c.which
}

func (c *counter) close() {
	c.hangUp()
	<-c.ended
}
