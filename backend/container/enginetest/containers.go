package enginetest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
)

// entry is one container. Its fields are guarded by the Engine's mu.
type entry struct {
	info     container.InspectResponse
	size     int64
	logs     []record
	process  *Process // nil while it does not run
	starts   int      // tells one start from the next
	removing bool     // a lazy removal is on its way
	exits    int
}

// Container is what the engine knows about one container.
type Container struct {
	ID, Name     string // without the leading slash
	Status       string
	PID          int
	ExitCode     int
	Starts       int // how often it was started
	Labels       map[string]string
	Config       container.Config
	HostConfig   container.HostConfig
	WritableSize int64
}

// Spec describes a container that a test puts into the engine.
type Spec struct {
	Name   string
	Image  string // made up on the spot if there is none of that name
	Labels map[string]string
	// Running starts it.
	Running bool
	// Ended leaves it as one that ran and exited with ExitCode.
	Ended    bool
	ExitCode int
	// WritableSize is how much its writable layer holds, in bytes.
	WritableSize  int64
	RestartPolicy string
	TTY           bool
	StopSignal    string
	LogDriver     string
	Env, Command  []string
}

// Add puts a container into the engine, as somebody else would, and returns
// its id.
func (e *Engine) Add(spec Spec) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, ok := e.images[spec.Image]; !ok {
		e.addImage(Image{Name: spec.Image})
	}
	c := e.newEntry(spec.Name, &container.Config{
		Image: spec.Image, Labels: spec.Labels, Tty: spec.TTY, StopSignal: spec.StopSignal,
		Env: spec.Env, Cmd: spec.Command,
	}, &container.HostConfig{
		RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyMode(spec.RestartPolicy)},
		LogConfig:     container.LogConfig{Type: spec.LogDriver},
	})
	c.size = spec.WritableSize
	if spec.Running {
		e.startEntry(c)
	}
	if spec.Ended {
		now := time.Now()
		st := c.info.State
		st.Status, st.ExitCode = container.StateExited, spec.ExitCode
		st.StartedAt, st.FinishedAt = stamp(now.Add(-time.Second)), stamp(now)
		c.starts = 1
	}
	return c.info.ID
}

// Containers returns all containers, sorted by name.
func (e *Engine) Containers() []Container {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := make([]Container, 0, len(e.containers))
	for _, c := range e.containers {
		all = append(all, c.public())
	}
	slices.SortFunc(all, func(a, b Container) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Container returns one container by its name or id.
func (e *Engine) Container(ref string) (Container, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c := e.find(ref); c != nil {
		return c.public(), true
	}
	return Container{}, false
}

// Change puts a container into any state: change gets the very answer to the
// next inspection.
func (e *Engine) Change(ref string, change func(*container.InspectResponse)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.find(ref)
	if c == nil {
		panic(fmt.Sprintf("enginetest: there is no container %s to change", ref))
	}
	change(&c.info)
	e.notify()
}

// SetHealth sets the state of the engine's own health check of a container.
func (e *Engine) SetHealth(ref string, status container.HealthStatus, results ...*container.HealthcheckResult) {
	e.Change(ref, func(info *container.InspectResponse) {
		info.State.Health = &container.Health{Status: status, Log: results}
		action := "health_status: " + string(status)
		if e.flavor == Podman {
			action = "health_status"
		}
		e.emit(e.containers[info.ID], action, nil)
	})
}

// Kill ends a container's process, as a crash does.
func (e *Engine) Kill(ref string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c := e.find(ref); c != nil {
		e.killEntry(c)
	}
}

// Log puts a line into a container's log with a time stamp of the caller's
// choice. Stream 1 is the standard output, 2 the standard error.
func (e *Engine) Log(ref string, at time.Time, stream byte, line string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c := e.find(ref); c != nil {
		c.logs = append(c.logs, record{at: at, stream: stream, text: line})
		e.notify()
	}
}

func (c *entry) public() Container {
	return Container{
		ID: c.info.ID, Name: c.name(), Status: string(c.info.State.Status), PID: c.info.State.Pid,
		ExitCode: c.info.State.ExitCode, Starts: c.starts, Labels: maps.Clone(c.info.Config.Labels),
		Config: *c.info.Config, HostConfig: *c.info.HostConfig, WritableSize: c.size,
	}
}

func (c *entry) name() string { return strings.TrimPrefix(c.info.Name, "/") }

// find looks a container up as engines do: id, name, beginning of an id. The
// caller holds mu, as for everything below.
func (e *Engine) find(ref string) *entry {
	if c, ok := e.containers[ref]; ok {
		return c
	}
	if c := e.named(ref); c != nil {
		return c
	}
	for id, c := range e.containers {
		if ref != "" && strings.HasPrefix(id, ref) {
			return c
		}
	}
	return nil
}

func (e *Engine) named(name string) *entry {
	for _, c := range e.containers {
		if c.name() == strings.TrimPrefix(name, "/") {
			return c
		}
	}
	return nil
}

// newEntry creates a container, which is not started.
func (e *Engine) newEntry(name string, config *container.Config, host *container.HostConfig) *entry {
	image := e.images[config.Image]
	if config.StopSignal == "" {
		config.StopSignal = image.StopSignal
	}
	if len(config.Cmd) == 0 {
		config.Cmd = image.Command
	}
	labels := maps.Clone(image.Labels)
	if labels == nil {
		labels = make(map[string]string)
	}
	maps.Copy(labels, config.Labels)
	config.Labels = labels
	c := &entry{info: container.InspectResponse{
		ID: e.id(), Name: "/" + name, Created: stamp(time.Now()), Image: image.id(),
		Config: config, HostConfig: host,
		State: &container.State{Status: container.StateCreated, StartedAt: noTime, FinishedAt: noTime},
	}}
	if len(config.Cmd) > 0 {
		c.info.Path, c.info.Args = config.Cmd[0], config.Cmd[1:]
	}
	if e.flavor == Podman {
		c.info.State.Health = &container.Health{}
	}
	e.containers[c.info.ID] = c
	e.emit(c, "create", nil)
	return c
}

const noTime = "0001-01-01T00:00:00Z"

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// startEntry runs the container's program.
func (e *Engine) startEntry(c *entry) {
	e.nextPID++
	c.starts++
	st := c.info.State
	st.Status, st.Running, st.Paused, st.Restarting = container.StateRunning, true, false, false
	st.Pid, st.ExitCode, st.OOMKilled, st.Error = e.nextPID, 0, false, ""
	st.StartedAt, st.FinishedAt = stamp(time.Now()), noTime
	program := e.images[c.info.Config.Image].Program
	if program == nil {
		program = Forever(0)
	}
	p := newProcess(e, c.info.ID, slices.Clone(c.info.Config.Cmd), func(stream byte, text string) {
		e.mu.Lock()
		defer e.mu.Unlock()
		c.print(stream, text)
		e.notify()
	})
	c.process = p
	e.emit(c, "start", nil)
	e.programs.Go(func() {
		code := program(p)
		e.mu.Lock()
		defer e.mu.Unlock()
		if c.process == p {
			e.exitEntry(c, code)
		}
	})
}

// killEntry ends the container at once, whatever its program does.
func (e *Engine) killEntry(c *entry) {
	if c.process == nil {
		return
	}
	c.process.kill()
	e.exitEntry(c, 137)
}

func (e *Engine) exitEntry(c *entry, code int) {
	c.process = nil
	c.exits++
	st := c.info.State
	st.Status, st.Running, st.Paused, st.Pid = container.StateExited, false, false, 0
	st.ExitCode, st.FinishedAt = code, stamp(time.Now())
	e.emit(c, "die", map[string]string{"exitCode": fmt.Sprint(code)})
}

// removeEntry forgets a container.
func (e *Engine) removeEntry(c *entry) {
	delete(e.containers, c.info.ID)
	action := "destroy"
	if e.flavor == Podman {
		action = "remove"
	}
	e.emit(c, action, nil)
}

var errNameTaken = errors.New("name taken")

// checkName refuses a name that another container has.
func (e *Engine) checkName(name string) error {
	if name != "" && e.named(name) != nil {
		return errNameTaken
	}
	return nil
}
