// Package contract holds what the rule that two stacks never run needs of the engines and of
// systemd, clause by clause, against the real ones in the lab. The phases are proven to keep
// the rule if the clauses hold; here is the evidence that they do, on the versions that the
// last line names.
//
//	go test -v -count=1 ./test/contract
//
// Where the protocol asks a method of the backend, so do the clauses; where a clause is about
// the engine itself, they use the client that the backend uses. A clause of importance has a
// control: the same race with something that does not keep the contract, which has to be
// noticed.
package contract

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	backend "github.com/node-lifecycle/node-lifecycle/backend/container"
	"github.com/node-lifecycle/node-lifecycle/internal/lab"
)

// patience is how long a clause waits for what must come.
const patience = 30 * time.Second

// workers is how many containers of one engine are worked on at once. The engines wait for
// the kernel most of the time.
const workers = 3

// suite counts what was tried and what did not hold.
var suite struct {
	cases, violations atomic.Int64
	versions          sync.Map // by the engine's name
}

// shared is the host of all clauses.
var shared struct {
	once sync.Once
	host *lab.Host
	err  error
}

func TestMain(m *testing.M) {
	if unit := os.Getenv(askVariable); unit != "" {
		os.Exit(answerInside(unit))
	}
	code := m.Run()
	if shared.host != nil {
		if err := shared.host.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "close the lab host:", err)
			code = 1
		}
		version := func(engine string) any { v, _ := suite.versions.Load(engine); return v }
		fmt.Printf("SUITE CONTRACT cases=%d violations=%d docker=%v podman=%v\n",
			suite.cases.Load(), suite.violations.Load(), version("docker"), version("podman"))
	}
	os.Exit(code)
}

func newHost(t *testing.T) *lab.Host {
	t.Helper()
	lab.Require(t)
	shared.once.Do(func() {
		shared.host, shared.err = lab.Boot(context.Background(), lab.Options{Name: "contract", LiveRestore: true})
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.host
}

// violated says that a clause does not hold.
func violated(t *testing.T, format string, args ...any) {
	t.Helper()
	suite.violations.Add(1)
	t.Errorf(format, args...)
}

// tried counts a case.
func tried() { suite.cases.Add(1) }

// engine is one of the two, as the backend and as its client see it.
type engine struct {
	t      *testing.T
	host   *lab.Host
	name   string
	socket string
	unit   string
	cli    *client.Client
}

// eachEngine runs a clause against both engines at the same time.
func eachEngine(t *testing.T, clause func(t *testing.T, e *engine)) {
	h := newHost(t)
	for _, e := range []engine{
		{name: "docker", socket: "/run/docker.sock", unit: "docker.service"},
		{name: "podman", socket: "/run/podman/podman.sock", unit: "podman.service"},
	} {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			e.t, e.host = t, h
			e.cli = e.dial(e.path())
			v, err := e.cli.ServerVersion(t.Context(), client.ServerVersionOptions{})
			if err != nil {
				t.Fatal(err)
			}
			number, _, _ := strings.Cut(v.Version, "+")
			suite.versions.Store(e.name, number)
			clause(t, &e)
		})
	}
}

// path is where the outside finds the engine's socket.
func (e *engine) path() string { return e.host.Root() + e.socket }

func (e *engine) dial(path string) *client.Client {
	e.t.Helper()
	cli, err := client.New(client.WithHost("unix://"+e.socket), client.WithDialContext(
		func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}))
	if err == nil {
		_, err = cli.Ping(e.t.Context(), client.PingOptions{NegotiateAPIVersion: true})
	}
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { _ = cli.Close() })
	return cli
}

// backend is the product's view of the engine, with one slot whose container has the slot's
// own name.
func (e *engine) backend(slot string, change ...func(*backend.Options)) *backend.Controller {
	e.t.Helper()
	o := backend.Options{
		Socket: e.path(), EngineUnit: e.unit, RuntimeDir: e.t.TempDir(), PollInterval: 50 * time.Millisecond,
		Slots: map[string]backend.Slot{slot: {
			Name: slot, Pair: slot, Container: slot, Image: lab.BusyboxImage, Pull: "never",
			Network: "host", StopSignal: "SIGTERM", StopGrace: time.Second,
		}},
	}
	for _, f := range change {
		f(&o)
	}
	c := backend.New(o)
	e.t.Cleanup(func() { _ = c.Close() })
	return c
}

// Stacks: one that lives until it is told to end, and one that has a child beside it.
const (
	sleeps   = `exec sleep 600`
	hasChild = `trap 'exit 0' TERM; sleep 600 & while :; do sleep 1 & wait $!; done`
	isDeaf   = `trap '' TERM; while :; do sleep 1; done`
)

// create makes a container of this name that is the slot's own, as Start would make it.
func (e *engine) create(name, slot, script string) (id string, err error) {
	return e.createLike(name, script, map[string]string{backend.LabelSlot: slot, backend.LabelEpoch: "1"}, nil)
}

// createForeign makes a container that nothing but its name connects with a slot.
func (e *engine) createForeign(name, script string) (id string, err error) {
	return e.createLike(name, script, nil, nil)
}

func (e *engine) createLike(name, script string, labels map[string]string, change func(*container.HostConfig)) (string, error) {
	// Nothing that costs a start time and has no part in any clause.
	host := &container.HostConfig{
		NetworkMode: "host", IpcMode: "host", LogConfig: container.LogConfig{Type: "none"},
		SecurityOpt: []string{"seccomp=unconfined"},
	}
	if change != nil {
		change(host)
	}
	res, err := e.cli.ContainerCreate(e.t.Context(), client.ContainerCreateOptions{
		Name: name, HostConfig: host,
		Config: &container.Config{Image: lab.BusyboxImage, Cmd: []string{"/bin/sh", "-c", script}, Labels: labels},
	})
	return res.ID, err
}

// made is create for what must succeed.
func (e *engine) made(id string, err error) string {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
	return id
}

func (e *engine) start(ref string) error {
	_, err := e.cli.ContainerStart(e.t.Context(), ref, client.ContainerStartOptions{})
	return err
}

func (e *engine) remove(ref string, force bool) error {
	_, err := e.cli.ContainerRemove(e.t.Context(), ref, client.ContainerRemoveOptions{Force: force})
	return err
}

// discard removes a container whatever its state, so that the next case finds none.
func (e *engine) discard(ref string) {
	e.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := e.remove(ref, true)
		switch {
		case err == nil || isNotFound(err):
			return
		case time.Now().After(deadline):
			e.t.Errorf("clear away %s: %v", ref, err)
			return
		}
	}
}

// state is the engine's word for what the container is in, "gone" if there is none.
func (e *engine) state(ref string) string {
	e.t.Helper()
	res, err := e.cli.ContainerInspect(e.t.Context(), ref, client.ContainerInspectOptions{})
	switch {
	case isNotFound(err):
		return "gone"
	case err != nil:
		e.t.Fatal(err)
	}
	return string(res.Container.State.Status)
}

func isNotFound(err error) bool { return cerrdefs.IsNotFound(err) }

// processes are those that live in the container, by the kernel: no zombies, and not the
// monitor that Podman puts beside it.
func (e *engine) processes(id string) (pids []int) {
	e.t.Helper()
	proc := e.host.Root() + "/proc"
	entries, err := os.ReadDir(proc)
	if err != nil {
		e.t.Fatal(err)
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		cgroup, err := os.ReadFile(fmt.Sprintf("%s/%d/cgroup", proc, pid))
		if err != nil || !strings.Contains(string(cgroup), "-"+id) || strings.Contains(string(cgroup), "conmon") {
			continue
		}
		stat, err := os.ReadFile(fmt.Sprintf("%s/%d/stat", proc, pid))
		if err != nil {
			continue
		}
		after := string(stat[strings.LastIndexByte(string(stat), ')')+1:])
		if state := strings.Fields(after)[0]; state != "Z" && state != "X" {
			pids = append(pids, pid)
		}
	}
	return pids
}

// waitFor waits until the condition holds and fails with what was seen last.
func waitFor(t *testing.T, what string, condition func() (bool, string)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := lab.WaitFor(ctx, what, func(context.Context) (bool, string) { return condition() }); err != nil {
		t.Fatal(err)
	}
}

// spread does n cases on a few workers. Each case gets the name of a slot that no other one
// uses at the same time, and its worker's edge.
func (e *engine) spread(n int, one func(slot string, at *edge)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() {
			at := new(edge)
			for next.Add(1) <= int64(n) && !e.t.Failed() {
				one(fmt.Sprintf("slot%d", worker), at)
				tried()
			}
		})
	}
	wg.Wait()
}

// edge finds the delay between two racers at which the first, which is the costly one, still
// wins once in a while. There a race is closest.
type edge struct {
	lag, step        time.Duration
	firstWon, passed bool
}

// race lets two actions begin so far apart that both have a chance, and returns when both
// have ended.
func (at *edge) race(first, second func() error) (firstErr, secondErr error) {
	const jitter = 4 * time.Millisecond
	lag := at.lag + rand.N(2*jitter) - jitter
	var wg sync.WaitGroup
	wg.Go(func() { time.Sleep(max(0, lag)); firstErr = first() })
	wg.Go(func() { time.Sleep(max(0, -lag)); secondErr = second() })
	wg.Wait()
	return firstErr, secondErr
}

// learn moves the edge after a race that the first has won, or lost: in steps that grow until
// it has been passed, and shrink from then on.
func (at *edge) learn(firstWon bool) {
	const least, first, most, rarely = time.Millisecond / 2, 8 * time.Millisecond, 128 * time.Millisecond, 4
	switch {
	case at.step == 0:
		at.step = first
	case firstWon != at.firstWon:
		at.passed = true
		at.step = max(least, at.step/2)
	case !at.passed:
		at.step = min(most, at.step*2)
	}
	at.firstWon = firstWon
	if firstWon {
		at.lag += rarely * at.step
	} else {
		at.lag -= at.step
	}
}
