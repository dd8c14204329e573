package contract

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	backend "github.com/node-lifecycle/node-lifecycle/backend/container"
)

// wantAlive checks the answer about the slot, and the answer against the kernel.
func (e *engine) wantAlive(c *backend.Controller, slot, when string, want bool) {
	e.t.Helper()
	tried()
	alive, detail, err := c.Alive(e.t.Context(), slot)
	if err != nil || alive != want {
		violated(e.t, "%s: Alive is %v, want %v: %s, %v", when, alive, want, detail, err)
	}
}

// Whatever may hold a process is alive, whoever made it.
func TestAliveInEveryState(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engine) {
		for _, owner := range []string{"ours", "foreign"} {
			slot := "state-" + owner
			c := e.backend(slot)
			e.wantAlive(c, slot, "nothing is there", false)
			var id string
			if owner == "ours" {
				id = e.made(e.create(slot+"-renamed", slot, hasChild)) // known by its label
			} else {
				id = e.made(e.createForeign(slot, hasChild)) // known by its name
			}
			e.wantAlive(c, slot, owner+", created", false)
			e.must("start", e.start(id))
			e.wantAlive(c, slot, owner+", running", true)
			_, err := e.cli.ContainerPause(t.Context(), id, client.ContainerPauseOptions{})
			e.must("pause", err)
			e.wantAlive(c, slot, owner+", paused", true)
			_, err = e.cli.ContainerUnpause(t.Context(), id, client.ContainerUnpauseOptions{})
			e.must("unpause", err)
			e.must("kill", e.kill(id))
			waitFor(t, "the container to end", func() (bool, string) { s := e.state(id); return s == "exited", s })
			e.wantAlive(c, slot, owner+", exited", false)
			e.discard(id)
			e.wantAlive(c, slot, owner+", removed", false)
		}
	})
}

// A container that its engine is about to start again is alive although no process is left.
// Podman has no such state; the protocol starts no container with a restart policy, and
// refuses the pair while a foreign one has one.
func TestAliveWhileTheEngineIsAboutToRestart(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engine) {
		const slot = "restarts"
		c := e.backend(slot)
		id := e.made(e.createLike(slot, "sleep 0.2; exit 1", nil, func(h *container.HostConfig) {
			h.RestartPolicy = container.RestartPolicy{Name: container.RestartPolicyAlways}
		}))
		defer e.discard(id)
		e.must("start", e.start(id))
		restarting, answers := 0, map[bool]int{}
		waitFor(t, "the container to be restarted a few times", func() (bool, string) {
			before := e.state(id)
			alive, detail, err := c.Alive(t.Context(), slot)
			tried()
			switch {
			case err != nil:
				t.Fatal(err)
			case !alive && e.name == "docker":
				violated(t, "between two starts Alive is no: %s", detail)
			}
			answers[alive]++
			if before == "restarting" && alive {
				restarting++
			}
			return restarting >= 5 || answers[true] >= 20, before
		})
		t.Logf("yes %d times, %d of them while the engine said restarting; no %d times", answers[true], restarting, answers[false])
		if _, _, err := c.Fence(t.Context(), slot); err == nil {
			violated(t, "a container that its engine restarts was fenced")
		}
		if e.name == "docker" && restarting == 0 {
			t.Error("the container was never met between two starts: this shows nothing")
		}
	})
}

// Alive is never no while a process of the container lives, in the middle of a removal too.
// The processes are counted after the answer: what has ended does not come back.
func TestAliveIsNeverNoWhileAProcessLives(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engine) {
		const slot = "ending"
		c := e.backend(slot)
		for name, end := range map[string]func(id string) error{
			"removed with force": func(id string) error { return e.remove(id, true) },
			"killed":             e.kill,
			"stopped":            func(id string) error { return e.stop(id, 1) },
		} {
			id := e.made(e.create(slot, slot, isDeaf))
			e.must("start", e.start(id))
			before := e.processes(id)
			if len(before) == 0 {
				t.Fatalf("%s: no process is found in a running container: this shows nothing", name)
			}
			ended := make(chan error, 1)
			go func() { ended <- end(id) }()
			deadline := time.Now().Add(patience)
			for no := 0; no < 3; {
				alive, detail, err := c.Alive(t.Context(), slot)
				tried()
				switch {
				case time.Now().After(deadline):
					t.Fatalf("%s: after %s Alive is %v: %s, %v", name, patience, alive, detail, err)
				case err == nil && !alive:
					no++
					if living := e.processes(id); len(living) > 0 {
						violated(t, "%s: Alive is no (%s) while the processes %v live", name, detail, living)
					}
				}
			}
			e.must(name, <-ended)
			e.discard(id)
		}
	})
}

// The engine's own words for a removal that does not come to its end: the process that would
// have to see to it is stopped, and the stack lives.
func TestAliveInTheMiddleOfARemoval(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engine) {
		if e.name != "docker" {
			t.Skip("Podman ends the process of a container by itself, so that its removal cannot be held up from outside")
		}
		const slot = "removing"
		c := e.backend(slot)
		id := e.made(e.create(slot, slot, sleeps))
		e.must("start", e.start(id))
		shim := e.parent(e.processes(id)[0])
		e.signal("STOP", shim)
		removed := make(chan error, 1)
		go func() { removed <- e.remove(id, true) }()
		answers := map[string]int{}
		for range 5 {
			ctx, cancel := context.WithTimeout(t.Context(), patience/60)
			alive, detail, err := c.Alive(ctx, slot)
			cancel()
			tried()
			switch {
			case err != nil:
				answers["error"]++
			case alive:
				answers["yes"]++
			default:
				violated(t, "Alive is no (%s) while %v live", detail, e.processes(id))
			}
		}
		if living := e.processes(id); len(living) == 0 {
			t.Error("the stack was gone meanwhile: this shows nothing")
		}
		e.signal("CONT", shim)
		e.must("remove", <-removed)
		e.wantAlive(c, slot, "removed in the end", false)
		t.Logf("while the removal was held up: %v", answers)
	})
}

func (e *engine) must(what string, err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatalf("%s: %v", what, err)
	}
}

func (e *engine) kill(id string) error {
	_, err := e.cli.ContainerKill(e.t.Context(), id, client.ContainerKillOptions{Signal: "KILL"})
	return err
}

func (e *engine) stop(id string, grace int) error {
	_, err := e.cli.ContainerStop(e.t.Context(), id, client.ContainerStopOptions{Timeout: &grace})
	return err
}

// signal sends a signal to a process of the host.
func (e *engine) signal(name string, pid int) {
	e.t.Helper()
	e.ok("kill", "-"+name, strconv.Itoa(pid))
}

// parent is the process that has started this one.
func (e *engine) parent(pid int) int {
	e.t.Helper()
	stat, err := os.ReadFile(e.host.Root() + "/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		e.t.Fatal(err)
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		e.t.Fatal(err)
	}
	return parent
}

// ok runs a command on the host that must succeed.
func (e *engine) ok(argv ...string) string {
	e.t.Helper()
	out, err := e.host.Output(e.t.Context(), argv...)
	if err != nil {
		e.t.Fatal(err)
	}
	return out
}
