package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Below the cgroup2 mount every host has the cgroup node-lab/ID. It is the root
// of the host's cgroup namespace. What the lab runs in a host beside systemd
// goes to leaves below execCgroup, because no process may stay in a cgroup whose
// controllers systemd hands on.
const (
	labCgroup  = "node-lab"
	execCgroup = "lab.exec"

	cgroupEmptyDeadline = 10 * time.Second
)

// cgroup2Mount finds where the unified hierarchy is mounted. Where both
// versions are in use, it carries no controllers, which systemd, Docker and
// runc put up with.
func cgroup2Mount() (string, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", fmt.Errorf("look for the cgroup2 mount: %w", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		before, after, found := strings.Cut(lines.Text(), " - ")
		fields := strings.Fields(before)
		if found && strings.HasPrefix(after, "cgroup2 ") && len(fields) > 4 {
			return fields[4], nil
		}
	}
	if err := lines.Err(); err != nil {
		return "", fmt.Errorf("look for the cgroup2 mount: %w", err)
	}
	return "", errors.New("no cgroup2 file system is mounted")
}

// cgroupPath is where the cgroup of that name is or will be.
func cgroupPath(name string) (string, error) {
	mount, err := cgroup2Mount()
	if err != nil {
		return "", err
	}
	return filepath.Join(mount, labCgroup, name), nil
}

// createCgroup makes a host's cgroup, with execCgroup in it, and hands on whatever
// controllers there are. It is a new one for every boot: since about Linux 6.15
// the kernel kills at once what is started directly in a cgroup that
// cgroup.kill was ever written to.
func createCgroup(path string) error {
	err := os.MkdirAll(filepath.Join(path, execCgroup), 0o755)
	if errors.Is(err, fs.ErrNotExist) {
		// The last host of another process has just taken the parent with it.
		err = os.MkdirAll(filepath.Join(path, execCgroup), 0o755)
	}
	if err != nil {
		return fmt.Errorf("create cgroup %s: %w", path, err)
	}
	parent := filepath.Dir(path)
	enableControllers(filepath.Dir(parent))
	enableControllers(parent)
	return nil
}

// enableControllers does what it can: where the outer machine withholds a
// controller, or has processes of its own in the way, the host works without.
func enableControllers(path string) {
	available, err := os.ReadFile(filepath.Join(path, "cgroup.controllers"))
	if err != nil {
		return
	}
	for name := range strings.FieldsSeq(string(available)) {
		_ = os.WriteFile(filepath.Join(path, "cgroup.subtree_control"), []byte("+"+name), 0)
	}
}

// removeCgroup waits until no process is left in the cgroup, and removes it
// with everything below. A missing cgroup is no error.
func removeCgroup(ctx context.Context, path string) error {
	if err := waitCgroupEmpty(ctx, path); err != nil {
		return err
	}
	if err := removeCgroupTree(path); err != nil {
		return fmt.Errorf("remove cgroup %s: %w", path, err)
	}
	// The parent goes with its last host; another host's presence keeps it.
	err := unix.Rmdir(filepath.Dir(path))
	if err != nil && !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove cgroup %s: %w", filepath.Dir(path), err)
	}
	return nil
}

func removeCgroupTree(path string) error {
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.IsDir() {
			if err := removeCgroupTree(filepath.Join(path, entry.Name())); err != nil {
				return err
			}
		}
	}
	if err := unix.Rmdir(path); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	return nil
}

func waitCgroupEmpty(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, cgroupEmptyDeadline)
	defer cancel()
	return WaitFor(ctx, "cgroup "+path+" to be empty", func(context.Context) (bool, string) {
		events, err := os.ReadFile(filepath.Join(path, "cgroup.events"))
		if errors.Is(err, fs.ErrNotExist) {
			return true, ""
		}
		if err != nil {
			return false, err.Error()
		}
		return strings.Contains(string(events), "populated 0"), strings.TrimSpace(string(events))
	})
}

// leaf is the cgroup of one command that the lab runs in a host.
type leaf struct{ dir *os.File }

func newLeaf(host string) (*leaf, error) {
	path := filepath.Join(host, execCgroup, randomHex(4))
	if err := os.Mkdir(path, 0o755); err != nil {
		return nil, fmt.Errorf("create a cgroup: %w", err)
	}
	dir, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open a cgroup: %w", err)
	}
	return &leaf{dir: dir}, nil
}

// kill ends the command with everything it started.
func (l *leaf) kill() error {
	return os.WriteFile(filepath.Join(l.dir.Name(), "cgroup.kill"), []byte("1"), 0)
}

// close removes the cgroup, unless the command left something running in the
// background, or the whole host has gone meanwhile.
func (l *leaf) close() {
	_ = unix.Rmdir(l.dir.Name())
	l.dir.Close()
}
