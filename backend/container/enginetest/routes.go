package enginetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// route is one kind of request.
type route struct {
	op     Op
	method string
	path   *regexp.Regexp // its group, if any, is what the request is about
	serve  func(e *Engine, ref string) http.HandlerFunc
}

var versioned = regexp.MustCompile(`^/v([0-9.]+)(/.*)$`)

// routes returns the table of what is served.
func routes() []route {
	r := func(op Op, method, path string, serve func(*Engine, string) http.HandlerFunc) route {
		return route{op, method, regexp.MustCompile("^" + path + "$"), serve}
	}
	return []route{
		r(OpVersion, "GET", "/version", (*Engine).serveVersion),
		r(OpList, "GET", "/containers/json", (*Engine).serveList),
		r(OpCreate, "POST", "/containers/create", (*Engine).serveCreate),
		r(OpInspect, "GET", "/containers/([^/]+)/json", (*Engine).serveInspect),
		r(OpStart, "POST", "/containers/([^/]+)/start", (*Engine).serveStart),
		r(OpStop, "POST", "/containers/([^/]+)/stop", (*Engine).serveStop),
		r(OpRestart, "POST", "/containers/([^/]+)/restart", (*Engine).serveRestart),
		r(OpKill, "POST", "/containers/([^/]+)/kill", (*Engine).serveKill),
		r(OpPause, "POST", "/containers/([^/]+)/pause", (*Engine).servePause),
		r(OpUnpause, "POST", "/containers/([^/]+)/unpause", (*Engine).serveUnpause),
		r(OpRename, "POST", "/containers/([^/]+)/rename", (*Engine).serveRename),
		r(OpUpdate, "POST", "/containers/([^/]+)/update", (*Engine).serveUpdate),
		r(OpRemove, "DELETE", "/containers/([^/]+)", (*Engine).serveRemove),
		r(OpWait, "POST", "/containers/([^/]+)/wait", (*Engine).serveWait),
		r(OpLogs, "GET", "/containers/([^/]+)/logs", (*Engine).serveLogs),
		r(OpExecCreate, "POST", "/containers/([^/]+)/exec", (*Engine).serveExecCreate),
		r(OpExecStart, "POST", "/exec/([^/]+)/start", (*Engine).serveExecStart),
		r(OpExecInspect, "GET", "/exec/([^/]+)/json", (*Engine).serveExecInspect),
		r(OpEvents, "GET", "/events", (*Engine).serveEvents),
		r(OpImage, "GET", "/images/(.+)/json", (*Engine).serveImage),
		r(OpPull, "POST", "/images/create", (*Engine).servePull),
	}
}

// serve is the engine's HTTP handler.
func (e *Engine) serve(w http.ResponseWriter, r *http.Request) {
	// Only with its body read does the server notice that a client went away,
	// and a request that is served later needs it.
	body, err := io.ReadAll(r.Body)
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	path := r.URL.Path
	if path == "/_ping" {
		e.act(w, r, e.decide(Call{Op: OpPing}), e.servePing)
		return
	}
	if m := versioned.FindStringSubmatch(path); m != nil {
		if !e.speaks(w, m[1]) {
			return
		}
		path = m[2]
	}
	for _, route := range routes() {
		m := route.path.FindStringSubmatch(path)
		if m == nil || r.Method != route.method {
			continue
		}
		ref := ""
		if len(m) > 1 {
			ref = m[1]
		}
		e.act(w, r, e.decide(Call{Op: route.op, Ref: ref, Query: r.URL.Query()}), route.serve(e, ref))
		return
	}
	fail(w, http.StatusNotFound, "page not found: "+r.Method+" "+path)
}

// speaks refuses API versions outside the engine's range.
func (e *Engine) speaks(w http.ResponseWriter, version string) bool {
	e.mu.Lock()
	api := e.api
	e.mu.Unlock()
	switch {
	case minor(version) > minor(api.highest):
		fail(w, http.StatusBadRequest, fmt.Sprintf(
			"client version %s is too new. Maximum supported API version is %s", version, api.highest))
	case minor(version) < minor(api.lowest):
		fail(w, http.StatusBadRequest, fmt.Sprintf(
			"client version %s is too old. Minimum supported API version is %s", version, api.lowest))
	default:
		return true
	}
	return false
}

// minor is the second number of an API version; the first is always 1.
func minor(version string) int {
	_, text, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(text)
	if err != nil {
		return -1
	}
	return n
}

func (e *Engine) servePing(w http.ResponseWriter, _ *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	w.Header().Set("Api-Version", e.api.highest)
	if e.flavor == Podman {
		w.Header().Set("Libpod-Api-Version", "4.3.1")
		w.Header().Set("Docker-Experimental", "true")
	} else {
		w.Header().Set("Ostype", "linux")
	}
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write([]byte("OK")) // a client that is gone does not mind
}

func (e *Engine) serveVersion(string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		e.mu.Lock()
		api := e.api
		e.mu.Unlock()
		name, version := "Engine", "20.10.24"
		if e.flavor == Podman {
			name, version = "Podman Engine", "4.3.1"
		}
		reply(w, http.StatusOK, map[string]any{
			"Version": version, "ApiVersion": api.highest, "MinAPIVersion": api.lowest, "Os": "linux",
			"Components": []map[string]any{{"Name": name, "Version": version}},
		})
	}
}

// reply answers with JSON.
func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // a client that is gone does not mind
}

// fail answers with an error in the API's form.
func fail(w http.ResponseWriter, status int, message string) {
	reply(w, status, map[string]string{"message": message})
}

// flush sends what was written so far.
func flush(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }
