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

// set sets a trap for the next time that the hook comes to the point, in place of the one
// before.
func (g *gate) set(p point) *trap {
	t := &trap{point: p, pid: make(chan int, 1), late: make(chan struct{}), done: make(chan struct{})}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.trap = nil
	if p.request == "" {
		go func() { t.pid <- g.stopInStep(p) }()
	} else {
		g.trap = t
	}
	return t
}

// caught waits until the hook has come to the point, and gives its process; 0 if it has not,
// because it has slipped by between two commits or the job is over without it.
func (t *trap) caught(h *host, over <-chan struct{}) int {
	h.t.Helper()
	select {
	case pid := <-t.pid:
		return pid
	case <-over:
		return 0
	case <-time.After(patience):
		h.t.Fatalf("no %s within %s", t.point, patience)
		return 0
	}
}

// stopInStep stops the hook (SIGSTOP) when the intent of the step is durable and its
// outcome is not; 0 if it slips by. The hook is let from commit to commit: whoever asks for
// the journal's lock while the hook commits has it right after that, and a hook that is
// stopped then can be looked at in peace.
func (g *gate) stopInStep(p point) int {
	books := g.h.Root() + "/var/lib/node-lifecycle/journal"
	lock, err := os.OpenFile(books+".lock", os.O_RDWR, 0)
	if err != nil {
		return 0
	}
	defer lock.Close()
	deadline := time.Now().Add(patience)
	pid := 0
	for pid == 0 && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond) // it has not come yet
		pid = g.process(p.hook)
	}
	for {
		if unix.Kill(pid, unix.SIGSTOP) != nil || hookOf(pid) != p.hook || time.Now().After(deadline) {
			return 0
		}
		if e, ok := g.latest(); ok && e.Kind == string(fsm.NoteIntent) && e.Phase == p.hook && e.Step == p.step {
			return pid
		}
		written := modified(books + ".db")
		_ = unix.Kill(pid, unix.SIGCONT)
		for modified(books+".db") == written && hookOf(pid) == p.hook && time.Now().Before(deadline) {
			time.Sleep(100 * time.Microsecond) // until it commits
		}
		for errors.Is(unix.Flock(int(lock.Fd()), unix.LOCK_EX), unix.EINTR) {
		}
		_ = unix.Kill(pid, unix.SIGSTOP)
		_ = unix.Flock(int(lock.Fd()), unix.LOCK_UN)
	}
}

func modified(path string) time.Time {
	info, err := os.Stat(path)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
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
