package guest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Disk is what a lab host keeps from one boot to the next.
//
// The root is an overlay, so a new host costs no copy of the root file system.
// /var is a plain directory instead: Docker's overlay2 driver cannot sit on an
// overlay, and a database under test deserves the real file system below it.
type Disk struct {
	Lower string // the root file system that all hosts share, never written
	Upper string // what this host changed in it
	Work  string // overlayfs's scratch directory, on Upper's file system
	Var   string // the host's /var
}

// Mount assembles the disk at target, an existing directory. The calling thread
// must be in a mount namespace of its own whose mounts are private.
func (d Disk) Mount(target string) error {
	options := "lowerdir=" + d.Lower + ",upperdir=" + d.Upper + ",workdir=" + d.Work
	if err := unix.Mount("overlay", target, "overlay", 0, options); err != nil {
		return fmt.Errorf("mount overlay on %s (%s): %w", target, options, err)
	}
	return bind(d.Var, filepath.Join(target, "var"))
}

// CheckDiskPath reports why a path cannot be part of a Disk: overlayfs reads
// colons and commas in its mount options as separators.
func CheckDiskPath(path string) error {
	if strings.ContainsAny(path, ":,\\") {
		return fmt.Errorf("path %q holds a colon, a comma or a backslash, which overlayfs cannot mount", path)
	}
	return nil
}

// PrivateMounts stops mount events from travelling between the calling
// process's mount namespace and the one it was copied from.
func PrivateMounts() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	return nil
}

func bind(source, target string) error {
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s on %s: %w", source, target, err)
	}
	return nil
}

// bindFile binds one file over target and creates target when it is missing.
func bindFile(source, target string) error {
	f, err := os.OpenFile(target, os.O_CREATE|os.O_RDONLY, 0o600)
	if err != nil {
		return fmt.Errorf("create mount point: %w", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("create mount point %s: %w", target, err)
	}
	return bind(source, target)
}

// bindReadOnly binds path on itself and makes that mount read-only.
func bindReadOnly(path string) error {
	if err := bind(path, path); err != nil {
		return err
	}
	return remount(path, unix.MS_RDONLY)
}

// bindWritable binds path on itself and makes that mount writable, below a
// mount that is not.
func bindWritable(path string) error {
	if err := bind(path, path); err != nil {
		return err
	}
	return remount(path, 0)
}

// remount changes whether an existing bind mount can be written to. It keeps
// the restrictions that the kernel's own file systems are mounted with.
func remount(path string, readOnly uintptr) error {
	flags := unix.MS_REMOUNT | unix.MS_BIND | unix.MS_NOSUID | unix.MS_NOEXEC | unix.MS_NODEV | readOnly
	if err := unix.Mount("", path, "", flags, ""); err != nil {
		return fmt.Errorf("remount %s: %w", path, err)
	}
	return nil
}
