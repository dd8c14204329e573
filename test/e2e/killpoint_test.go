package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/node-lifecycle/node-lifecycle/fsm"
	"github.com/node-lifecycle/node-lifecycle/journal"
)

// point is a moment in the work of a hook of kube1 at which it can be met.
type point struct {
	hook string
	// request is what the hook asks the engine, with ids left out; "" if the point is an
	// intent.
	request string
	// when says how far the request has come: before the engine has seen it, after the
	// engine has done it and before the hook knows, or late, when the engine does it only
	// after the hook's end.
	when string
	// step is the step whose intent is durable and whose outcome is not.
	step string
}

func (p point) String() string {
	if p.request == "" {
		return p.hook + " in " + p.step
	}
	return p.hook + " " + p.when + " " + p.request
}

// gate stands between node-lifecycle and the engine as a relay does, and knows which hook
// asks: the kernel tells it the process at the other end.
type gate struct {
	h      *host
	engine *httputil.ReverseProxy
	mu     sync.Mutex
	seen   []point
	trap   *trap
}

// trap waits for a hook to come to a point.
type trap struct {
	point
	pid  chan int      // of the hook, as the outside numbers it
	late chan struct{} // closed to let the engine do what was held
	done chan struct{} // closed when the request has gone
}

type callerKey struct{}

func newGate(h *host) *gate {
	g := &gate{h: h, engine: &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: "docker"}) },
		FlushInterval: -1,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}}
	g.engine.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", h.Root()+"/run/docker.sock")
	}}
	g.listen()
	return g
}

// listen makes the socket that node-lifecycle finds, which a power cut takes away.
func (g *gate) listen() {
	g.h.t.Helper()
	path := g.h.Root() + relaySocket
	_ = os.Remove(path)
	listener, err := net.Listen("unix", path)
	if err != nil {
		g.h.t.Fatal(err)
	}
	server := &http.Server{Handler: g, ConnContext: func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, callerKey{}, peerPID(c))
	}}
	go func() { _ = server.Serve(listener) }()
}

func peerPID(c net.Conn) (pid int) {
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if who, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(who.Pid)
		}
	})
	return pid
}

// hookOf is the hook of kube1 that a process executes, "" if it executes none.
func hookOf(pid int) string {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return ""
	}
	argv := strings.Split(strings.TrimRight(string(line), "\x00"), "\x00")
	if len(argv) != 3 || argv[2] != "kube1" || !strings.HasSuffix(argv[0], "node-lifecycle") {
		return ""
	}
	return argv[1]
}

var (
	containerID = regexp.MustCompile(`/(containers|exec)/[0-9a-f]{64}`)
	queryTail   = regexp.MustCompile(`\?.*`)
	slotFilter  = regexp.MustCompile(`slot=(kube[12])`)
)

// requestName says in short what is asked for, the same in every run.
func requestName(r *http.Request) string {
	path := containerID.ReplaceAllString(apiVersion.ReplaceAllString(r.URL.Path, ""), "/$1/ID")
	name := r.Method + " " + queryTail.ReplaceAllString(path, "")
	if query, err := url.QueryUnescape(r.URL.RawQuery); err == nil {
		if slot := slotFilter.FindStringSubmatch(query); slot != nil {
			name += " of " + slot[1]
		}
	}
	return name
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	pid, _ := r.Context().Value(callerKey{}).(int)
	at := point{hook: hookOf(pid), request: requestName(r)}
	t := g.enter(at)
	if t == nil {
		g.engine.ServeHTTP(w, r)
		return
	}
	defer close(t.done)
	body, err := io.ReadAll(r.Body) // with it read the server notices that the hook is gone
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	detached := r.WithContext(context.WithoutCancel(r.Context()))
	if t.when == "after" {
		g.engine.ServeHTTP(nowhere{http.Header{}}, detached)
	}
	t.pid <- pid
	if t.when == "late" {
		select {
		case <-t.late:
			g.engine.ServeHTTP(nowhere{http.Header{}}, detached)
		case <-time.After(patience):
		}
		return
	}
	<-r.Context().Done()
}

// nowhere takes an answer that nobody will read.
type nowhere struct{ header http.Header }

func (n nowhere) Header() http.Header         { return n.header }
func (n nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (n nowhere) WriteHeader(int)             {}

// enter notes a request and gives the trap that is set for it.
func (g *gate) enter(at point) *trap {
	g.mu.Lock()
	defer g.mu.Unlock()
	if at.hook != "" {
		g.seen = append(g.seen, at)
	}
	t := g.trap
	if t == nil || t.hook != at.hook || t.request != at.request {
		return nil
	}
	g.trap = nil
	return t
}

// set sets a trap for the next time that the hook comes to the point.
func (g *gate) set(p point) *trap {
	t := &trap{point: p, pid: make(chan int, 1), late: make(chan struct{}), done: make(chan struct{})}
	if p.request == "" {
		go func() { t.pid <- g.stopInStep(p) }()
		return t
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.trap = t
	return t
}

// caught waits until the hook has come to the point, and gives its process; 0 if it never
// comes, because it was missed between two commits.
func (t *trap) caught(h *host) int {
	h.t.Helper()
	select {
	case pid := <-t.pid:
		return pid
	case <-time.After(patience):
		h.t.Fatalf("no %s within %s", t.point, patience)
		return 0
	}
}

// stopInStep stops the hook (SIGSTOP) when the intent of the step is durable and its
// outcome is not. Whoever holds the journal's lock meets a hook between two commits, and a
// hook that is stopped there can be looked at in peace.
func (g *gate) stopInStep(p point) int {
	lock, err := os.OpenFile(g.h.Root()+"/var/lib/node-lifecycle/journal.lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return 0
	}
	defer lock.Close()
	for began, met := time.Now(), false; time.Since(began) < patience; {
		if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil && !errors.Is(err, unix.EINTR) {
			return 0
		}
		pid := g.process(p.hook)
		if pid == 0 && met {
			return 0 // it has gone past
		}
		if pid != 0 {
			met = true
			_ = unix.Kill(pid, unix.SIGSTOP)
		}
		_ = unix.Flock(int(lock.Fd()), unix.LOCK_UN)
		if pid == 0 {
			time.Sleep(200 * time.Microsecond) // it has not come yet
			continue
		}
		if entry, ok := g.latest(); ok && entry.Kind == string(fsm.NoteIntent) && entry.Phase == p.hook && entry.Step == p.step {
			return pid
		}
		_ = unix.Kill(pid, unix.SIGCONT)
	}
	return 0
}

// latest is the newest entry of kube1.
func (g *gate) latest() (e journal.Entry, ok bool) {
	result, err := g.h.Exec(g.h.t.Context(), "node-lifecycle", "history", "kube1", "-n", "1", "-o", "json")
	if err != nil || result.Code != 0 {
		return e, false
	}
	return e, unmarshal(result.Stdout, &e) == nil
}

// process finds the process of a hook of kube1 on this host, as the outside numbers it.
func (g *gate) process(hook string) int {
	host, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", g.h.PID()))
	if err != nil {
		return 0
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	for i := len(entries) - 1; i >= 0; i-- {
		pid, err := strconv.Atoi(entries[i].Name())
		if err != nil || hookOf(pid) != hook {
			continue
		}
		if space, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid)); err == nil && space == host {
			return pid
		}
	}
	return 0
}
