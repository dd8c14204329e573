package enginetest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
)

// onContainer serves a request about a container with mu held.
func (e *Engine) onContainer(ref string, serve func(http.ResponseWriter, *http.Request, *entry)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		e.mu.Lock()
		defer e.mu.Unlock()
		c := e.find(ref)
		if c == nil {
			fail(w, http.StatusNotFound, "No such container: "+ref)
			return
		}
		serve(w, r, c)
	}
}

// conflict answers what Docker calls a conflict and Podman an internal error.
func (e *Engine) conflict(w http.ResponseWriter, docker, podman string) {
	if e.flavor == Podman {
		fail(w, http.StatusInternalServerError, podman)
		return
	}
	fail(w, http.StatusConflict, docker)
}

func (e *Engine) serveList(string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		filters, err := parseFilters(r)
		if err != nil {
			fail(w, http.StatusBadRequest, err.Error())
			return
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		list := []container.Summary{}
		for _, c := range e.containers {
			st := c.info.State
			if r.URL.Query().Get("all") == "" && !st.Running || !matchLabels(filters["label"], c.info.Config.Labels) {
				continue
			}
			list = append(list, container.Summary{
				ID: c.info.ID, Names: []string{c.info.Name}, Image: c.info.Config.Image,
				Labels: c.info.Config.Labels, State: st.Status,
			})
		}
		reply(w, http.StatusOK, list)
	}
}

// parseFilters reads the filters parameter: a set of values for each key.
func parseFilters(r *http.Request) (map[string]map[string]bool, error) {
	filters := make(map[string]map[string]bool)
	text := r.URL.Query().Get("filters")
	if text == "" {
		return filters, nil
	}
	if err := json.Unmarshal([]byte(text), &filters); err != nil {
		return nil, fmt.Errorf("invalid filter: %w", err)
	}
	return filters, nil
}

// matchLabels reports whether labels have all that is wanted, each as NAME or
// NAME=VALUE.
func matchLabels(want map[string]bool, labels map[string]string) bool {
	for text := range want {
		name, value, exact := strings.Cut(text, "=")
		have, ok := labels[name]
		if !ok || exact && have != value {
			return false
		}
	}
	return true
}

func (e *Engine) serveCreate(string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var request container.CreateRequest
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil || request.Config == nil {
			fail(w, http.StatusBadRequest, "invalid JSON")
			return
		}
		if request.HostConfig == nil {
			request.HostConfig = new(container.HostConfig)
		}
		name := r.URL.Query().Get("name")
		e.mu.Lock()
		defer e.mu.Unlock()
		if _, ok := e.images[request.Image]; !ok {
			fail(w, http.StatusNotFound, "No such image: "+request.Image)
			return
		}
		if other := e.named(name); other != nil {
			e.conflict(w,
				fmt.Sprintf("Conflict. The container name %q is already in use by container %q. "+
					"You have to remove (or rename) that container to be able to reuse that name.", "/"+name, other.info.ID),
				fmt.Sprintf("container create: creating container storage: the container name %q is already in use by %s. "+
					"You have to remove that container to be able to reuse that name: that name is already in use", name, other.info.ID))
			return
		}
		c := e.newEntry(name, request.Config, request.HostConfig)
		reply(w, http.StatusCreated, container.CreateResponse{ID: c.info.ID, Warnings: []string{}})
	}
}

func (e *Engine) serveInspect(ref string) http.HandlerFunc {
	return e.onContainer(ref, func(w http.ResponseWriter, r *http.Request, c *entry) {
		info := c.info
		if r.URL.Query().Get("size") == "1" {
			info.SizeRw = &c.size
		}
		reply(w, http.StatusOK, info)
	})
}

func (e *Engine) serveStart(ref string) http.HandlerFunc {
	return e.onContainer(ref, func(w http.ResponseWriter, _ *http.Request, c *entry) {
		switch {
		case c.info.State.Running:
			w.WriteHeader(http.StatusNotModified)
			return
		case c.removing || c.info.State.Status == container.StateDead:
			e.conflict(w, "container is marked for removal and cannot be started",
				fmt.Sprintf("container %s does not exist in database: no such container", c.info.ID))
			return
		}
		if why := e.images[c.info.Config.Image].StartError; why != "" {
			c.info.State.ExitCode, c.info.State.Error = 128, why
			fail(w, http.StatusInternalServerError, why)
			return
		}
		e.startEntry(c)
		w.WriteHeader(http.StatusNoContent)
	})
}

func (e *Engine) serveKill(ref string) http.HandlerFunc {
	return e.onContainer(ref, func(w http.ResponseWriter, r *http.Request, c *entry) {
		if c.process == nil {
			e.conflict(w, fmt.Sprintf("Cannot kill container: %s: Container %s is not running", ref, c.info.ID),
				"can only kill running containers. "+c.info.ID+" is in state "+string(c.info.State.Status)+": container state improper")
			return
		}
		signal := signalName(r.URL.Query().Get("signal"))
		e.emit(c, "kill", map[string]string{"signal": signal})
		if signal == "SIGKILL" {
			e.killEntry(c)
		} else {
			c.process.send(signal)
		}
		w.WriteHeader(http.StatusNoContent)
	})
}

func (e *Engine) serveStop(ref string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if status, message := e.stopContainer(ref, r); message != "" {
			fail(w, status, message)
		} else {
			w.WriteHeader(status)
		}
	}
}

// stopContainer sends the stop signal, waits, and kills. Like the engines it
// goes on when the client goes away.
func (e *Engine) stopContainer(ref string, r *http.Request) (status int, message string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.find(ref)
	switch {
	case c == nil:
		return http.StatusNotFound, "No such container: " + ref
	case c.process == nil && !c.info.State.Restarting:
		return http.StatusNotModified, ""
	case c.info.State.Paused && e.flavor == Podman:
		return http.StatusInternalServerError, "cannot stop a paused container: container state improper"
	}
	c.info.State.Paused = false
	if c.process == nil {
		e.exitEntry(c, c.info.State.ExitCode)
		c.info.State.Restarting = false
		return http.StatusNoContent, ""
	}
	grace := 10 * time.Second
	if text := r.URL.Query().Get("t"); text != "" {
		if seconds, err := strconv.Atoi(text); err == nil {
			grace = time.Duration(seconds) * time.Second
		}
	}
	exits := c.exits
	signal := c.info.Config.StopSignal
	if signal == "" {
		signal = "SIGTERM"
	}
	if grace > 0 {
		c.process.send(signalName(signal))
	}
	late := time.NewTimer(grace)
	defer late.Stop()
	for c.exits == exits {
		changed := e.changed
		e.mu.Unlock()
		select {
		case <-changed:
			e.mu.Lock()
		case <-late.C:
			e.mu.Lock()
			e.killEntry(c)
		case <-e.ctx.Done():
			e.mu.Lock()
			return http.StatusInternalServerError, "the engine is going down"
		}
	}
	e.emit(c, "stop", nil)
	return http.StatusNoContent, ""
}

func (e *Engine) serveRestart(ref string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if status, message := e.stopContainer(ref, r); message != "" {
			fail(w, status, message)
			return
		}
		e.serveStart(ref)(w, r)
	}
}

func (e *Engine) servePause(ref string) http.HandlerFunc {
	return e.onContainer(ref, func(w http.ResponseWriter, _ *http.Request, c *entry) {
		if !c.info.State.Running {
			e.conflict(w, "Container "+ref+" is not running", "container state improper")
			return
		}
		c.info.State.Paused, c.info.State.Status = true, container.StatePaused
		e.emit(c, "pause", nil)
		w.WriteHeader(http.StatusNoContent)
	})
}

func (e *Engine) serveUnpause(ref string) http.HandlerFunc {
	return e.onContainer(ref, func(w http.ResponseWriter, _ *http.Request, c *entry) {
		if !c.info.State.Paused {
			e.conflict(w, "Container "+ref+" is not paused", "container state improper")
			return
		}
		c.info.State.Paused, c.info.State.Status = false, container.StateRunning
		e.emit(c, "unpause", nil)
		w.WriteHeader(http.StatusNoContent)
	})
}

func (e *Engine) serveRename(ref string) http.HandlerFunc {
	return e.onContainer(ref, func(w http.ResponseWriter, r *http.Request, c *entry) {
		name := r.URL.Query().Get("name")
		if err := e.checkName(name); err != nil {
			e.conflict(w, fmt.Sprintf("Conflict. The container name %q is already in use.", "/"+name),
				fmt.Sprintf("name %q is in use: container already exists", name))
			return
		}
		old := c.info.Name
		c.info.Name = "/" + name
		e.emit(c, "rename", map[string]string{"oldName": old})
		w.WriteHeader(http.StatusNoContent)
	})
}

func (e *Engine) serveUpdate(ref string) http.HandlerFunc {
	return e.onContainer(ref, func(w http.ResponseWriter, r *http.Request, c *entry) {
		var request container.UpdateConfig
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			fail(w, http.StatusBadRequest, err.Error())
			return
		}
		c.info.HostConfig.RestartPolicy = request.RestartPolicy
		reply(w, http.StatusOK, container.UpdateResponse{})
	})
}

func (e *Engine) serveRemove(ref string) http.HandlerFunc {
	return e.onContainer(ref, func(w http.ResponseWriter, r *http.Request, c *entry) {
		st := c.info.State
		force := r.URL.Query().Get("force") == "1"
		switch {
		case c.removing:
			e.conflict(w, "removal of container "+ref+" is already in progress", "container is being removed: container state improper")
			return
		case (st.Running || st.Restarting) && !force:
			e.conflict(w, fmt.Sprintf("You cannot remove a %s container %s. Stop the container before attempting removal or force remove",
				st.Status, c.info.ID), "cannot remove container "+c.info.ID+" as it is running - running or paused containers cannot be removed without force: container state improper")
			return
		}
		e.killEntry(c)
		if e.lazyRemove <= 0 {
			e.removeEntry(c)
		} else {
			c.removing = true
			st.Status = container.StateRemoving
			time.AfterFunc(e.lazyRemove, func() {
				e.mu.Lock()
				defer e.mu.Unlock()
				e.removeEntry(c)
			})
		}
		w.WriteHeader(http.StatusNoContent)
	})
}

func (e *Engine) serveWait(ref string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		e.mu.Lock()
		c := e.find(ref)
		if c == nil {
			e.mu.Unlock()
			fail(w, http.StatusNotFound, "No such container: "+ref)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusOK)
		flush(w)
		exits := c.exits
		next := r.URL.Query().Get("condition") == "next-exit"
		for c.exits == exits && (next || c.process != nil) {
			changed := e.changed
			e.mu.Unlock()
			select {
			case <-changed:
			case <-r.Context().Done():
				return
			case <-e.ctx.Done():
				return
			}
			e.mu.Lock()
		}
		code := c.info.State.ExitCode
		e.mu.Unlock()
		_ = json.NewEncoder(w).Encode(container.WaitResponse{StatusCode: int64(code)}) // a client that is gone does not mind
	}
}
