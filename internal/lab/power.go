package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const (
	bootDeadline      = 2 * time.Minute
	shutdownDeadline  = 2 * time.Minute
	cutDeadline       = 30 * time.Second
	closeDeadline     = time.Minute
	diagnosisDeadline = 5 * time.Second

	// SIGRTMIN+4 of the C library, at which systemd starts poweroff.target.
	signalPowerOff = unix.Signal(34 + 4)
)

// ErrOff says that the host is not switched on.
var ErrOff = errors.New("the lab host is off")

// PowerOn boots a host that is off: same disk, new boot id, new /run. It returns
// when the boot target is reached and no job is left, within two minutes; a
// failed unit is no error.
func (h *Host) PowerOn(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, bootDeadline)
	defer cancel()
	if err := h.PowerOnEarly(ctx); err != nil {
		return err
	}
	return h.WaitBooted(ctx)
}

// PowerOnEarly is PowerOn that returns as soon as systemd and the system bus
// take requests, while the units of the boot target are still being started.
func (h *Host) PowerOnEarly(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, bootDeadline)
	defer cancel()
	h.power.Lock()
	defer h.power.Unlock()
	if h.On() {
		return fmt.Errorf("switch host %s on: it is on", h.ID())
	}
	s := h.snapshot()
	// What a process left that was killed between starting PID 1 and noting it.
	if err := s.end(ctx); err != nil {
		return fmt.Errorf("switch host %s on: %w", s.ID, err)
	}
	if err := createCgroup(s.Cgroup); err != nil {
		return fmt.Errorf("switch host %s on: %w", s.ID, err)
	}
	err := h.update(func(s *hostState) {
		s.BootID = newBootID()
		s.Boots++
	})
	if err != nil {
		return err
	}
	b, p, err := h.spawn(h.snapshot())
	if err != nil {
		return fmt.Errorf("switch host %s on: %w", s.ID, err)
	}
	h.mu.Lock()
	h.boot = b
	h.mu.Unlock()
	if err := h.update(func(s *hostState) { s.Process = p }); err != nil {
		return errors.Join(err, killHost(ctx, p, s.Cgroup))
	}
	if err := h.waitManager(ctx, b); err != nil {
		return fmt.Errorf("switch host %s on: %w", s.ID, err)
	}
	return nil
}

// PowerCut ends the host as a pulled plug would: nothing in it gets a chance to
// act. When it returns nil, no process of the host is left. What was written is
// in the page cache and will be there at the next boot, synced or not.
func (h *Host) PowerCut(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cutDeadline)
	defer cancel()
	h.power.Lock()
	defer h.power.Unlock()
	s := h.snapshot()
	if !s.Process.alive() {
		return fmt.Errorf("cut the power of host %s: %w", s.ID, ErrOff)
	}
	if err := killHost(ctx, s.Process, s.Cgroup); err != nil {
		return fmt.Errorf("cut the power of host %s: %w", s.ID, err)
	}
	return h.afterPower(ctx)
}

// Shutdown asks systemd to power off, which stops every unit in order, and
// waits for it, at most two minutes. The host stays on when it fails.
func (h *Host) Shutdown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, shutdownDeadline)
	defer cancel()
	h.power.Lock()
	defer h.power.Unlock()
	s := h.snapshot()
	if !s.Process.alive() {
		return fmt.Errorf("shut host %s down: %w", s.ID, ErrOff)
	}
	if err := s.Process.signal(signalPowerOff); err != nil {
		return fmt.Errorf("shut host %s down: %w", s.ID, err)
	}
	if err := s.Process.wait(ctx); err != nil {
		return fmt.Errorf("shut host %s down: %w; jobs: %s", s.ID, err, h.jobs())
	}
	return h.afterPower(ctx)
}

// WaitOff blocks until the host has gone off by itself, as after poweroff or
// reboot in it. A host that rebooted is off too: PowerOn boots it.
func (h *Host) WaitOff(ctx context.Context) error {
	if err := h.snapshot().Process.wait(ctx); err != nil {
		return fmt.Errorf("wait for host %s to go off: %w", h.ID(), err)
	}
	return nil
}

func (h *Host) afterPower(ctx context.Context) error {
	s := h.snapshot()
	if err := waitCgroupEmpty(ctx, s.Cgroup); err != nil {
		return fmt.Errorf("host %s is off, but: %w", s.ID, err)
	}
	if err := removeCgroup(ctx, s.Cgroup); err != nil {
		return fmt.Errorf("host %s is off, but: %w", s.ID, err)
	}
	return h.update(func(s *hostState) { s.Process = process{} })
}

// killHost kills PID 1, with which the kernel ends everything in its PID
// namespace, and then whatever else is in the cgroup: a command on its way into
// the namespace, or a PID 1 that nobody has noted.
func killHost(ctx context.Context, first process, cgroup string) error {
	if err := first.signal(unix.SIGKILL); err != nil {
		return err
	}
	if err := first.wait(ctx); err != nil {
		return err
	}
	err := os.WriteFile(filepath.Join(cgroup, "cgroup.kill"), []byte("1"), 0)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("kill what is left in cgroup %s: %w", cgroup, err)
	}
	return waitCgroupEmpty(ctx, cgroup)
}

func newBootID() string {
	id := []byte(randomHex(16))
	id[12], id[16] = '4', 'a' // a random UUID, as the kernel makes them
	return string(id[:8]) + "-" + string(id[8:12]) + "-" + string(id[12:16]) + "-" + string(id[16:20]) + "-" + string(id[20:])
}
