package enginetest

import (
	"encoding/json"
	"maps"
	"net/http"
	"time"

	"github.com/moby/moby/api/types/events"
)

// event is one event, with the time it really happened at.
type event struct {
	events.Message
	at time.Time
}

// emit records an event of a container. The caller holds mu.
func (e *Engine) emit(c *entry, action string, attributes map[string]string) {
	all := map[string]string{"name": c.name(), "image": c.info.Config.Image}
	maps.Copy(all, c.info.Config.Labels)
	maps.Copy(all, attributes)
	now := time.Now()
	told := now
	if e.flavor == Podman {
		told = now.Truncate(time.Second)
	}
	e.events = append(e.events, event{at: now, Message: events.Message{
		Type: events.ContainerEventType, Action: events.Action(action),
		Actor: events.Actor{ID: c.info.ID, Attributes: all},
		Scope: "local", Time: told.Unix(), TimeNano: told.UnixNano(),
	}})
	e.notify()
}

// serveEvents streams events from now on, or from a time on.
func (e *Engine) serveEvents(string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		filters, err := parseFilters(r)
		if err != nil {
			fail(w, http.StatusBadRequest, err.Error())
			return
		}
		e.mu.Lock()
		next := len(e.events)
		e.mu.Unlock()
		if text := r.URL.Query().Get("since"); text != "" {
			since, err := parseSeconds(text)
			if err != nil {
				fail(w, http.StatusBadRequest, err.Error())
				return
			}
			next = e.firstEvent(since)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusOK)
		flush(w)
		e.copyEvents(w, r, next, filters)
	}
}

// firstEvent is the index of the first event told to be at since or later.
func (e *Engine) firstEvent(since time.Time) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, ev := range e.events {
		if ev.TimeNano >= since.UnixNano() {
			return i
		}
	}
	return len(e.events)
}

func (e *Engine) copyEvents(w http.ResponseWriter, r *http.Request, next int, filters map[string]map[string]bool) {
	out := json.NewEncoder(w)
	for {
		e.mu.Lock()
		fresh := append([]event(nil), e.events[next:]...)
		next = len(e.events)
		changed := e.changed
		e.mu.Unlock()
		for _, ev := range fresh {
			if kinds := filters["type"]; len(kinds) > 0 && !kinds[string(ev.Type)] {
				continue
			}
			if err := out.Encode(ev.Message); err != nil {
				return
			}
		}
		flush(w)
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		case <-e.ctx.Done():
			return
		}
	}
}
