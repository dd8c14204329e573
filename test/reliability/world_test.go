package reliability

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/node-lifecycle/node-lifecycle/backend/container/enginetest"
	"github.com/node-lifecycle/node-lifecycle/journal"
)

var slots = []string{"kube1", "kube2"}

func unitOf(slot string) string { return "node-stack@" + slot + ".service" }

func peerOf(slot string) string {
	if slot == slots[0] {
		return slots[1]
	}
	return slots[0]
}

const stackImage = "localhost/node:1"

// world is one host: its engine, its systemd, its journal.
type world struct {
	binary, dir string
	engine      *enginetest.Engine
	systemd     *systemd
	counter     *counter
	over        chan struct{} // closed when the world ends
	lost        int           // entries that the last check missed

	mu       sync.Mutex
	director director
	boot     string
	acked    []ack
	faults   []string
	crash    int
	took     map[string]time.Duration // by hook, when it was let be
	talk     []string                 // the latest words of hooks
}

// director decides what goes wrong in a world. Its methods are called from many
// goroutines.
type director interface {
	// spawned is told of every process.
	spawned(p *process, slot string)
	// request is asked about every request to the engine, and to systemd, whose requests
	// have no op and cannot be disturbed.
	request(op enginetest.Op) enginetest.Action
	// answered is told of every entry that a process was answered for.
	answered(a *acks)
	// unitGone says that a kill took the unit of the slot with it.
	unitGone() bool
	// unitGoesOn says that the unit does not mind that its hook was killed.
	unitGoesOn() bool
}

// calm lets everything go right.
type calm struct{}

func (calm) spawned(*process, string)                {}
func (calm) request(enginetest.Op) enginetest.Action { return enginetest.Action{} }
func (calm) answered(*acks)                          {}
func (calm) unitGone() bool                          { return false }
func (calm) unitGoesOn() bool                        { return false }

func (w *world) direct() director {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.director
}

// directed hands the world to a director, nil for none.
func (w *world) directed(by director) {
	if by == nil {
		by = calm{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.director = by
}

const configuration = `version: 1
state_dir: %[1]s/state
engine: {socket: %[2]s, wait: 5s}
timeouts: {poll: 10ms, ready: 20s, after_start: 20s}
slots:
  kube1: {container: {image: "%[3]s", stop: {grace: 5s}}, after_start: [/bin/true]}
  kube2: {container: {image: "%[3]s", stop: {grace: 5s}}, after_start: [/bin/true]}
`

func newWorld(binary string) (w *world, err error) {
	w = &world{binary: binary, over: make(chan struct{}), took: make(map[string]time.Duration), boot: newActivation(), director: calm{}}
	if w.dir, err = os.MkdirTemp(memory(), "host"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(w.dir)
		}
	}()
	if w.engine, err = enginetest.Start(filepath.Join(w.dir, "engine"), enginetest.Docker); err != nil {
		return nil, err
	}
	w.engine.AddImage(enginetest.Image{Name: stackImage, StopSignal: "SIGTERM", Program: enginetest.Forever(0, "SIGTERM")})
	w.engine.Intercept(func(c enginetest.Call) enginetest.Action { return w.direct().request(c.Op) })
	if w.counter, err = newCounter(w.engine); err != nil {
		return nil, err
	}
	if w.systemd, err = newSystemd(w, filepath.Join(w.dir, "systemd")); err != nil {
		return nil, err
	}
	for _, name := range []string{"run", "units"} {
		if err := os.Mkdir(filepath.Join(w.dir, name), 0o700); err != nil {
			return nil, err
		}
	}
	text := fmt.Sprintf(configuration, w.dir, w.engine.Socket(), stackImage)
	return w, os.WriteFile(filepath.Join(w.dir, "config.yaml"), []byte(text), 0o600)
}

// memory is a directory on a file system in memory, "" if there is none to be had. A
// SIGKILL takes nothing from either kind, and a disk that others flush would only make
// everything slower.
func memory() string {
	const shm = "/dev/shm"
	var fs unix.Statfs_t
	if err := unix.Statfs(shm, &fs); err != nil || fs.Bavail*uint64(fs.Bsize) < 2<<30 {
		return ""
	}
	return shm
}

func (w *world) isOver() bool {
	select {
	case <-w.over:
		return true
	default:
		return false
	}
}

// close ends the world and everything in it.
func (w *world) close() {
	for _, slot := range slots {
		w.unit(slot).stop()
	}
	close(w.over)
	w.systemd.close()
	w.counter.close()
	w.engine.Close()
	_ = os.RemoveAll(w.dir)
}

func (w *world) unit(slot string) *unit { return w.systemd.units[unitOf(slot)] }

// spawn starts a hook as the unit would; u is nil for what people call.
func (w *world) spawn(u *unit, hook string, env []string, args ...string) (*process, error) {
	w.mu.Lock()
	boot := w.boot
	w.mu.Unlock()
	env = append([]string{"PATH=/usr/bin:/bin", "SUITE_DIR=" + w.dir, "SUITE_BOOT=" + boot}, env...)
	if u != nil {
		env = append(env, "SUITE_UNIT="+u.name, "INVOCATION_ID="+u.look().Activation)
		args = []string{u.slot}
	}
	args = append([]string{"--config", filepath.Join(w.dir, "config.yaml"), hook}, args...)
	p, err := spawn(w.binary, hook, args, env, func(a *acks) { w.direct().answered(a) })
	if err == nil {
		w.direct().spawned(p, args[len(args)-1])
	}
	return p, err
}

// call runs what people call, and waits for its end.
func (w *world) call(command, slot string) end {
	p, err := w.spawn(nil, command, nil, slot)
	if err != nil {
		w.fault("start %s of %s: %v", command, slot, err)
		return end{code: 255}
	}
	began := time.Now()
	e := p.wait()
	w.keep(p)
	w.measure(command, time.Since(began), e)
	return e
}

// keep takes over what a process said, when it has ended.
func (w *world) keep(p *process) {
	e := p.wait()
	p.kept.Do(func() { w.listen(p, e) })
}

func (w *world) listen(p *process, e end) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acked = append(w.acked, p.acks.take()...)
	text := strings.TrimSpace(p.acks.text())
	w.talk = append(w.talk, fmt.Sprintf("[%s: %d %v] %s", p.hook, e.code, e.signal, text))
	if over := len(w.talk) - 30; over > 0 {
		w.talk = slices.Delete(w.talk, 0, over)
	}
	if e.crashed {
		w.crash++
		w.faults = append(w.faults, fmt.Sprintf("%s crashed: exit code %d, %v: %s", p.hook, e.code, e.signal, text))
	}
}

// measure remembers how long a hook takes when it is let be.
func (w *world) measure(hook string, took time.Duration, e end) {
	if e.code != 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.took[hook] = took
}

func (w *world) fault(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

// reboot ends every process of the host and every container, and begins another boot.
func (w *world) reboot() error {
	for _, slot := range slots {
		u := w.unit(slot)
		u.job.Lock()
		u.vanish()
		u.settle("inactive", "dead", "success")
		u.job.Unlock()
	}
	for _, c := range w.engine.Containers() {
		w.engine.Kill(c.ID)
	}
	w.mu.Lock()
	w.boot = newActivation()
	w.mu.Unlock()
	// /run is empty after a boot.
	run := filepath.Join(w.dir, "run")
	return errors.Join(os.RemoveAll(run), os.Mkdir(run, 0o700), os.RemoveAll(filepath.Join(w.dir, "host.lock")))
}

// books compares the journal with what was answered for: it returns how many entries
// are lost, and what is damaged.
func (w *world) books() (lost int, err error) {
	w.mu.Lock()
	acked := slices.Clone(w.acked)
	w.mu.Unlock()
	present := make(map[ack]bool)
	err = journal.New(filepath.Join(w.dir, "state"), journal.Options{}).View(background, func(v *journal.View) error {
		for _, slot := range slots {
			entries, err := v.Entries(slot, journal.Query{})
			if err != nil {
				return err
			}
			for i := range entries {
				present[ack{slot, entries[i].ID}] = true
			}
		}
		return v.Verify()
	})
	for _, a := range acked {
		if !present[a] {
			lost++
		}
	}
	return lost, err
}

// state is where a slot stands in the journal.
func (w *world) state(slot string) string {
	var head journal.Head
	err := journal.New(filepath.Join(w.dir, "state"), journal.Options{}).View(background, func(v *journal.View) (err error) {
		head, err = v.Head(slot)
		return err
	})
	if err != nil {
		return err.Error()
	}
	return head.State
}
