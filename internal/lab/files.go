package lab

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/node-lifecycle/node-lifecycle/internal/lab/guest"
)

// InRoot calls f on a thread whose root directory is the host's, so that every
// function that takes a path acts within it. It works while the host is on, where
// f sees all mounts, and while it is off, where f sees the disk alone. f must
// start no goroutine, and must not keep a file open when the host is switched.
func (h *Host) InRoot(f func() error) error {
	s := h.snapshot()
	enter := func() error { return h.enterDisk(s) }
	if s.Process.alive() {
		enter = func() error { return chroot(fmt.Sprintf("/proc/%d/root", s.Process.PID)) }
	}
	return onOwnThread(func() error {
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return fmt.Errorf("separate the root directory: %w", err)
		}
		if err := enter(); err != nil {
			return fmt.Errorf("enter the root of host %s: %w", s.ID, err)
		}
		return f()
	})
}

// enterDisk assembles the disk of a host that is off, in a mount namespace that
// ends with the calling thread.
func (h *Host) enterDisk(s hostState) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("make a mount namespace: %w", err)
	}
	if err := guest.PrivateMounts(); err != nil {
		return err
	}
	target := filepath.Join(h.dir, "root")
	if err := diskIn(h.dir, s.Root).Mount(target); err != nil {
		return err
	}
	return chroot(target)
}

func chroot(path string) error {
	if err := unix.Chroot(path); err != nil {
		return fmt.Errorf("change root to %s: %w", path, err)
	}
	return os.Chdir("/")
}

// WriteFile writes a file of the host, which may be on or off, and makes the
// directories above it. The file gets exactly this mode.
func (h *Host) WriteFile(path string, content []byte, mode fs.FileMode) error {
	return h.InRoot(func() error { return writeFile(path, content, mode) })
}

func writeFile(path string, content []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path, content, mode); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}

// ReadFile reads a file of the host, which may be on or off.
func (h *Host) ReadFile(path string) ([]byte, error) {
	var content []byte
	err := h.InRoot(func() (err error) {
		content, err = os.ReadFile(path)
		return err
	})
	return content, err
}
