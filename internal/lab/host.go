package lab

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sync"
)

// Options says what is special about a host.
type Options struct {
	// Name is the host name, "lab" when empty: lower-case letters, digits and
	// dashes, at most 32. Several hosts may share one unless they are persistent.
	Name string
	// Binary is the path of the node-lifecycle program to install as BinaryPath;
	// none when empty.
	Binary string
	// Files are written before the first boot. Their keys are absolute paths.
	Files map[string]File
	// LiveRestore lets containers survive a restart of the Docker daemon.
	LiveRestore bool
	// WithoutImages starts with empty engine stores, a little faster.
	WithoutImages bool
	// Persistent lets the host outlive this process. Open finds it again.
	Persistent bool
	// Log receives a line for whatever has to be built first; discarded when nil.
	Log io.Writer
}

// File is a file to write into a host.
type File struct {
	Content string
	Mode    fs.FileMode // permissions; 0 means 0644
}

// BinaryPath is where Options.Binary is installed.
const BinaryPath = "/usr/bin/node-lifecycle"

// ErrNotFound says that there is no persistent host of that name.
var ErrNotFound = errors.New("no such lab host")

var validName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`)

// Host is one lab host. It is made by Boot or Open.
type Host struct {
	dir  string
	lock *os.File // held for as long as this process answers for the host

	power sync.Mutex // held while the host is switched on or off

	mu    sync.Mutex // guards what follows
	state hostState
	boot  *boot // the present boot, if this process started it
}

// Boot makes a host and switches it on. It builds what is missing in the cache,
// removes what hosts of dead processes left, and returns when systemd has
// reached its target with nothing left to do; a failed unit is no error. When it
// fails it leaves nothing behind.
func Boot(ctx context.Context, o Options) (*Host, error) {
	if o.Log == nil {
		o.Log = io.Discard
	}
	made, err := build(ctx, o.Log)
	if err != nil {
		return nil, err
	}
	return bootOn(ctx, made, o)
}

func bootOn(ctx context.Context, made artefacts, o Options) (*Host, error) {
	c, err := openCache()
	if err != nil {
		return nil, err
	}
	if err := c.reap(ctx); err != nil {
		return nil, err
	}
	h, err := newHost(ctx, c, made, o)
	if err != nil {
		return nil, err
	}
	err = h.prepare(ctx, made, o)
	if err == nil {
		err = h.PowerOn(ctx)
	}
	if err == nil {
		err = h.update(func(s *hostState) { s.Made = true })
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("boot host %s: %w", h.ID(), err), h.Close())
	}
	return h, nil
}

// newHost makes the host's directory and takes its lock, both under the lock of
// all hosts, so that reap never meets one without the other.
func newHost(ctx context.Context, c cache, made artefacts, o Options) (*Host, error) {
	if o.Name == "" {
		o.Name = "lab"
	}
	if !validName.MatchString(o.Name) {
		return nil, fmt.Errorf("host name %q: want lower-case letters, digits and dashes, at most 32", o.Name)
	}
	id, suffix := o.Name, randomHex(4)
	if !o.Persistent {
		id += "." + suffix
	}
	guard, err := lockDirectory(ctx, c.hosts())
	if err != nil {
		return nil, err
	}
	defer guard.Close()
	h := &Host{dir: filepath.Join(c.hosts(), id)}
	err = os.Mkdir(h.dir, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make host %s: it exists; remove it with: lab down %s", id, id)
	}
	if err != nil {
		return nil, fmt.Errorf("make host %s: %w", id, err)
	}
	h.state = hostState{ID: id, Hostname: o.Name, Persistent: o.Persistent, Root: made.root, Init: made.init}
	h.lock, err = lockDirectory(ctx, h.dir)
	if err == nil {
		h.state.Cgroup, err = cgroupPath(o.Name + "." + suffix)
	}
	if err == nil {
		err = h.state.write(h.dir)
	}
	if err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

// Open finds a persistent host, waits until no other process works on it, and
// keeps others waiting until Release.
func Open(ctx context.Context, name string) (*Host, error) {
	c, err := openCache()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(c.hosts(), filepath.Base(name))
	lock, err := lockDirectory(ctx, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %q; make one with: lab up %s", ErrNotFound, name, name)
	}
	if err != nil {
		return nil, err
	}
	state, err := readState(dir)
	if err == nil && !state.Persistent {
		err = fmt.Errorf("%w: %q belongs to a running test", ErrNotFound, name)
	}
	if err != nil {
		lock.Close()
		return nil, err
	}
	return &Host{dir: dir, lock: lock, state: state}, nil
}

// Release lets other processes open a persistent host, and switch it. Exec, Run
// and the functions for files still work; those that switch the host must not be
// called any more.
func (h *Host) Release() error {
	return h.lock.Close()
}

// Close ends the host by a power cut if it is on, and removes its disk and its
// cgroup. No process, mount or cgroup of it is left when Close returns nil. A
// test that needs an orderly stop calls Shutdown first. Close may be called
// again.
func (h *Host) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeDeadline)
	defer cancel()
	h.power.Lock()
	defer h.power.Unlock()
	if err := h.snapshot().end(ctx); err != nil {
		return fmt.Errorf("close host %s: %w", h.ID(), err)
	}
	if err := os.RemoveAll(h.dir); err != nil {
		return fmt.Errorf("close host %s: %w", h.ID(), err)
	}
	if h.lock != nil {
		h.lock.Close() // a second Close finds it closed
	}
	return nil
}

// ID names the host among all hosts of the cache directory.
func (h *Host) ID() string { return h.snapshot().ID }

// BootID is the id of the present boot, or of the last one while the host is
// off.
func (h *Host) BootID() string { return h.snapshot().BootID }

// On reports whether the host's PID 1 lives.
func (h *Host) On() bool { return h.snapshot().Process.alive() }

// PID is the host's PID 1 as the outside numbers it, or 0 while it is off.
func (h *Host) PID() int {
	if s := h.snapshot(); s.Process.alive() {
		return s.Process.PID
	}
	return 0
}

// Root is a path of the running host's root directory, as its processes see it
// with all mounts. It is void once the host is off, when it is "".
func (h *Host) Root() string {
	if pid := h.PID(); pid != 0 {
		return fmt.Sprintf("/proc/%d/root", pid)
	}
	return ""
}

// Var is the path of the host's /var, which is valid until Close whether the
// host is on or off.
func (h *Host) Var() string { return filepath.Join(h.dir, "var") }

func (h *Host) snapshot() hostState {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state
}

// update changes the state in memory and on disk.
func (h *Host) update(change func(*hostState)) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	change(&h.state)
	return h.state.write(h.dir)
}

func randomHex(bytes int) string {
	text := make([]byte, bytes)
	rand.Read(text) // never fails
	return hex.EncodeToString(text)
}
