package e2e

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"sync"
	"testing"
	"time"
)

// relaySocket is where node-lifecycle finds the engine in scenarios with a relay.
const relaySocket = "/run/relay.sock"

// relay stands between node-lifecycle and the engine. It lets every request through but
// those that the scenario holds, so that a hook can be met in the middle of its work.
// The docker command goes past it.
type relay struct {
	t      *testing.T
	engine *httputil.ReverseProxy
	mu     sync.Mutex
	holds  []*hold
}

// hold is one request that does not get through, the first that fits.
type hold struct {
	t        *testing.T
	what     *regexp.Regexp
	late     bool
	taken    bool
	reached  chan struct{}
	released chan struct{}
	passed   chan struct{} // closed when the engine has answered, or never will
}

// newRelay puts a relay in front of the host's engine. It stays there when the scenario
// is over, holding nothing: what the next one clears away may still need it.
func newRelay(h *host) *relay {
	h.t.Helper()
	r := &relay{t: h.t, engine: &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: "docker"}) },
		FlushInterval: -1,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}}
	root := h.Root()
	r.engine.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", root+"/run/docker.sock")
	}}
	_ = os.Remove(root + relaySocket)
	listener, err := net.Listen("unix", root+relaySocket)
	if err != nil {
		h.t.Fatal(err)
	}
	go func() { _ = http.Serve(listener, r) }()
	h.t.Cleanup(r.open)
	return r
}

// hold keeps the next request back whose method, path and query match.
func (r *relay) hold(what string) *hold { return r.add(&hold{what: regexp.MustCompile(what)}) }

// holdLate is hold for a request that the engine executes once it is released even if
// nobody waits for the answer any more.
func (r *relay) holdLate(what string) *hold {
	return r.add(&hold{what: regexp.MustCompile(what), late: true})
}

func (r *relay) add(one *hold) *hold {
	one.t = r.t
	one.reached, one.released, one.passed = make(chan struct{}), make(chan struct{}), make(chan struct{})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.holds = append(r.holds, one)
	return one
}

// open lets go of whatever is held.
func (r *relay) open() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.holds {
		one.taken = true
		one.release()
	}
}

// release must not be called by two goroutines at once.
func (one *hold) release() {
	select {
	case <-one.released:
	default:
		close(one.released)
	}
}

// wait waits until the request has come.
func (one *hold) wait() { one.t.Helper(); one.await(one.reached, "no request that is to be held") }

// waitPassed waits until the engine has dealt with the request after its release.
func (one *hold) waitPassed() { one.t.Helper(); one.await(one.passed, "no answer to the held request") }

func (one *hold) await(event <-chan struct{}, missing string) {
	one.t.Helper()
	select {
	case <-event:
	case <-one.t.Context().Done():
		one.t.Fatal(one.t.Context().Err())
	case <-time.After(patience):
		one.t.Fatalf("%s within %s: %s", missing, patience, one.what)
	}
}

var apiVersion = regexp.MustCompile(`^/v1\.[0-9]+`)

func (r *relay) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	query, _ := url.QueryUnescape(request.URL.RawQuery) // what cannot be read matches nothing
	one := r.take(request.Method + " " + apiVersion.ReplaceAllString(request.URL.Path, "") + "?" + query)
	if one == nil {
		r.engine.ServeHTTP(w, request)
		return
	}
	defer close(one.passed)
	// Only with the body read does the server notice that the client hangs up.
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return
	}
	request.Body = io.NopCloser(bytes.NewReader(body))
	close(one.reached)
	ctx := request.Context()
	if one.late {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
	}
	select {
	case <-one.released:
		r.engine.ServeHTTP(w, request.WithContext(ctx))
	case <-ctx.Done():
	}
}

// take finds the hold that a request is for.
func (r *relay) take(request string) *hold {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.holds {
		if !one.taken && one.what.MatchString(request) {
			one.taken = true
			return one
		}
	}
	return nil
}
