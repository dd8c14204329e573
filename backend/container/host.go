package container

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// host is where this package reads what only the kernel knows. The paths are
// fields so that tests can bring their own.
type host struct {
	proc    string   // /proc
	cgroups []string // mount points of the hierarchies a unit's cgroup may be in
}

func newHost() host {
	return host{
		proc:    "/proc",
		cgroups: []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd"},
	}
}

// process identifies one process for as long as the host runs: a pid is used
// again, a pid with its start time is not.
type process struct {
	pid   int
	start uint64 // clock ticks since boot
}

// process returns the identity of a living process, false if there is none.
// Zombies count as gone: nothing of them runs any more.
func (h host) process(pid int) (process, bool) {
	if pid <= 0 {
		return process{}, false
	}
	stat, err := os.ReadFile(filepath.Join(h.proc, strconv.Itoa(pid), "stat"))
	if err != nil {
		return process{}, false
	}
	// The second field is the command in parentheses and may hold anything.
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return process{}, false
	}
	fields := strings.Fields(string(stat[end+1:]))
	const state, startTime = 0, 19 // fields 3 and 22 of the whole line
	if len(fields) <= startTime || fields[state] == "Z" || fields[state] == "X" {
		return process{}, false
	}
	start, err := strconv.ParseUint(fields[startTime], 10, 64)
	return process{pid: pid, start: start}, err == nil
}

// runs reports whether exactly this process still lives.
func (h host) runs(p process) bool {
	now, ok := h.process(p.pid)
	return ok && now == p
}

// inCgroupOf reports whether a process belongs to the container, whose full id
// every engine makes part of the path of its cgroup.
func (h host) inCgroupOf(pid int, id string) bool {
	lines, err := os.ReadFile(filepath.Join(h.proc, strconv.Itoa(pid), "cgroup"))
	return err == nil && id != "" && bytes.Contains(lines, []byte(id))
}

// kill sends KILL to a process of the container. It opens the process before
// it checks whose it is, so that a pid used again is never hit.
func (h host) kill(pid int, id string) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if !h.inCgroupOf(pid, id) {
		return fmt.Errorf("process %d is not in container %s", pid, short(id))
	}
	return unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
}

// pids lists the processes in a cgroup and below. A cgroup that is gone has
// none; an error means that nobody can tell.
func (h host) pids(cgroup string) ([]int, error) {
	var pids []int
	mounted := false
	for _, root := range h.cgroups {
		if _, err := os.Stat(filepath.Join(root, "cgroup.procs")); err != nil {
			continue // no hierarchy is mounted here
		}
		mounted = true
		err := filepath.WalkDir(filepath.Join(root, cgroup), func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil || d.Name() != "cgroup.procs" {
				return err
			}
			found, err := readPids(path)
			pids = append(pids, found...)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if !mounted {
		return nil, fmt.Errorf("no cgroup hierarchy is mounted at %s", strings.Join(h.cgroups, ", "))
	}
	return pids, nil
}

// readPids reads a cgroup.procs file. One that vanishes is empty; a threaded
// cgroup refuses, and its processes are listed by the one above it.
func readPids(path string) ([]int, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EOPNOTSUPP) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var pids []int
	for word := range strings.FieldsSeq(string(text)) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// ancestors returns this process and its parents up to the first one.
func (h host) ancestors() map[int]bool {
	family := make(map[int]bool)
	for pid := os.Getpid(); pid > 0 && !family[pid]; {
		family[pid] = true
		stat, err := os.ReadFile(filepath.Join(h.proc, strconv.Itoa(pid), "stat"))
		if err != nil {
			break
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) < 2 {
			break
		}
		pid, _ = strconv.Atoi(fields[1]) // 0 ends the loop
	}
	return family
}
