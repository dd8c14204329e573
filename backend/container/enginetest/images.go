package enginetest

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
)

// Image is what containers are made of, and what they do.
type Image struct {
	Name       string // with its tag, as a request names it
	StopSignal string
	Command    []string // nil: /init; empty: none
	Labels     map[string]string
	// Program is what a container of this image does; nil: it runs until it
	// gets a signal, and exits with 0.
	Program Program
	// Exec is what a command inside such a container does; nil: it exits with
	// 0 at once.
	Exec Program
	// StartError, if not empty, is why no container of this image starts.
	StartError string
	// PullError, if not empty, is why a pull of this image fails at its end.
	PullError string
}

func (i Image) id() string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(i.Name))) }

func (i Image) command() []string {
	if i.Command == nil {
		return []string{"/init"}
	}
	return i.Command
}

// AddImage puts an image on the engine's host.
func (e *Engine) AddImage(i Image) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.addImage(i)
}

func (e *Engine) addImage(i Image) { e.images[i.Name] = i }

// Publish makes an image available to pulls.
func (e *Engine) Publish(i Image) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.registry[i.Name] = i
}

func (e *Engine) serveImage(ref string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		e.mu.Lock()
		defer e.mu.Unlock()
		i, ok := e.findImage(ref)
		if !ok {
			fail(w, http.StatusNotFound, "No such image: "+ref)
			return
		}
		reply(w, http.StatusOK, map[string]any{
			"Id": i.id(), "RepoTags": []string{i.Name}, "Os": "linux",
			"Config": map[string]any{"Cmd": i.command(), "StopSignal": i.StopSignal, "Labels": i.Labels},
		})
	}
}

// findImage finds an image by its name or id.
func (e *Engine) findImage(ref string) (Image, bool) {
	if i, ok := e.images[ref]; ok {
		return i, true
	}
	for _, i := range e.images {
		if i.id() == ref {
			return i, true
		}
	}
	return Image{}, false
}

func (e *Engine) servePull(string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		name := strings.TrimPrefix(strings.TrimPrefix(q.Get("fromImage"), "docker.io/"), "library/") + ":" + q.Get("tag")
		e.mu.Lock()
		defer e.mu.Unlock()
		i, ok := e.registry[name]
		if !ok {
			fail(w, http.StatusNotFound, "manifest for "+name+" not found: manifest unknown")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusOK)
		if i.PullError != "" {
			// A client that is gone does not mind.
			_, _ = fmt.Fprintf(w, `{"status":"Pulling from %s"}`+"\n"+`{"errorDetail":{"message":%q},"error":%q}`+"\n", name, i.PullError, i.PullError)
			return
		}
		_, _ = fmt.Fprintf(w, `{"status":"Pulling from %s"}`+"\n", name)
		e.addImage(i)
	}
}
