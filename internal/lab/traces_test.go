package lab

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// traces are what would show that something of a host is still there.
type traces struct {
	dir        string
	cgroup     string
	namespaces map[string]bool
}

// tracesOf looks at a running host.
func tracesOf(t *testing.T, h *Host) traces {
	t.Helper()
	found := traces{dir: h.dir, cgroup: filepath.Base(h.snapshot().Cgroup), namespaces: map[string]bool{}}
	links, err := filepath.Glob(filepath.Join(filepath.Dir(h.Root()), "ns", "*"))
	if err != nil || len(links) == 0 {
		t.Fatalf("the namespaces of host %s: %v, %v", h.ID(), links, err)
	}
	for _, link := range links {
		host, err := os.Readlink(link)
		if err != nil {
			t.Fatal(err)
		}
		own, err := os.Readlink(filepath.Join("/proc/self/ns", filepath.Base(link)))
		if err != nil {
			t.Fatal(err)
		}
		if host != own { // user and time namespaces are shared
			found.namespaces[host] = true
		}
	}
	if len(found.namespaces) < 6 {
		t.Fatalf("host %s has only these namespaces of its own: %v", h.ID(), found.namespaces)
	}
	return found
}

// expectGone fails the test for every process in one of the host's namespaces,
// every cgroup of its name in any hierarchy, every mount and every loop device
// that has to do with its directory.
func (tr traces) expectGone(t *testing.T) {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/ns/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		// A process may end between the looks, and a dead one that its parent has
		// not yet taken note of is gone too.
		pid, _ := strconv.Atoi(strings.Split(link, "/")[2])
		namespace, err := os.Readlink(link)
		if _, gone := findProcess(pid); err == nil && gone == nil && tr.namespaces[namespace] {
			t.Errorf("left behind: a process in the host's namespaces, %s", link)
		}
	}
	err = filepath.WalkDir("/sys/fs/cgroup", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Name() == tr.cgroup {
			t.Errorf("left behind: cgroup %s", path)
		}
		return nil // other cgroups come and go during the walk
	})
	if err != nil {
		t.Fatal(err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, tr.dir) || strings.Contains(line, tr.cgroup) {
			t.Errorf("left behind: mount %s", line)
		}
	}
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if backing, err := os.ReadFile(file); err == nil && strings.Contains(string(backing), tr.dir) {
			t.Errorf("left behind: loop device %s of %s", file, backing)
		}
	}
}
