package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/node-lifecycle/node-lifecycle/internal/lab/guest"
)

const debianKeyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// Check returns nil when this machine can run the lab, and otherwise the first
// thing that is missing with what to do about it.
func Check() error {
	if os.Geteuid() != 0 {
		return errors.New("the lab makes namespaces and mounts and needs root: run it with sudo -E")
	}
	c, err := openCache()
	if err != nil {
		return err
	}
	tools, err := toolsName()
	if err != nil {
		return err
	}
	for _, need := range []struct {
		command, cure string
		unless        string // what was built with it
	}{
		{command: "nsenter", cure: "apt-get install -y util-linux"},
		{command: "cp", cure: "apt-get install -y coreutils"},
		{"mmdebstrap", "apt-get install -y --no-install-recommends mmdebstrap debian-archive-keyring", rootName()},
		{"go", "see https://go.dev/doc/install", tools},
	} {
		if need.unless != "" && c.has(need.unless) {
			continue
		}
		if _, err := exec.LookPath(need.command); err != nil {
			return fmt.Errorf("the lab needs the command %s: %s", need.command, need.cure)
		}
	}
	if _, err := os.Stat(debianKeyring); err != nil && !c.has(rootName()) {
		return errors.New("the lab needs Debian's keys: apt-get install -y debian-archive-keyring")
	}
	if _, err := cgroup2Mount(); err != nil {
		return fmt.Errorf("the lab needs a cgroup2 hierarchy: %w: mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified", err)
	}
	return c.probe()
}

// probe does in small what Boot does, which says more than any list of kernel
// options and capabilities: it mounts an overlay in a namespace of its own.
func (c cache) probe() error {
	dir, err := os.MkdirTemp(string(c), buildingPrefix+"probe-")
	if err != nil {
		return fmt.Errorf("probe the cache directory: %w", err)
	}
	defer os.RemoveAll(dir)
	disk := diskIn(dir, filepath.Join(dir, "lower"))
	target := filepath.Join(dir, "root")
	for _, path := range []string{filepath.Join(disk.Lower, "var"), disk.Upper, disk.Work, disk.Var, target} {
		if err := os.MkdirAll(path, 0o700); err != nil {
			return fmt.Errorf("probe the cache directory: %w", err)
		}
	}
	err = onOwnThread(func() error {
		if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("make a mount namespace: %w", err)
		}
		if err := guest.PrivateMounts(); err != nil {
			return err
		}
		return disk.Mount(target)
	})
	if err != nil {
		return fmt.Errorf("the lab needs mount namespaces and overlayfs on top of %s, which the kernel refuses: %w; set LAB_CACHE to a directory on ext4 or XFS, and grant CAP_SYS_ADMIN", c, err)
	}
	return nil
}

// Require skips the test with a printed reason where the lab cannot run, and in
// short mode. The environment variable LAB overrules it: "required" turns a skip
// into a failure, "off" skips.
func Require(t testing.TB) {
	t.Helper()
	wish := os.Getenv("LAB")
	if wish == "off" {
		t.Skip("lab: switched off by LAB=off")
	}
	if testing.Short() && wish != "required" {
		t.Skip("lab: skipped in short mode")
	}
	err := Check()
	if err != nil && wish == "required" {
		t.Fatalf("lab: required, but %v", err)
	}
	if err != nil {
		t.Skipf("lab: %v", err)
	}
}
