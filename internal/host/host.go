// Package host reads what tells one boot, one process and one unit from another on a
// Linux host: the boot id, the time since boot, start times and control groups.
package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Linux reads the host that the process runs on. The zero value is ready and safe for
// concurrent use; nothing blocks.
type Linux struct {
	// Proc is where procfs is mounted; "": /proc.
	Proc string
}

func (l Linux) proc(parts ...string) string {
	root := l.Proc
	if root == "" {
		root = "/proc"
	}
	return filepath.Join(append([]string{root}, parts...)...)
}

// Boot is the kernel's boot id, without dashes as systemd prints it; "" if it cannot be
// read.
func (l Linux) Boot() string {
	id, err := os.ReadFile(l.proc("sys/kernel/random/boot_id"))
	if err != nil {
		return ""
	}
	return strings.ReplaceAll(strings.TrimSpace(string(id)), "-", "")
}

// Boottime is CLOCK_BOOTTIME: the time since boot, suspend included.
func (Linux) Boottime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// ProcessAlive reports whether the process with this number and start time is there and
// is no zombie.
func (l Linux) ProcessAlive(pid int, start uint64) bool {
	state, began, err := l.stat(pid)
	return err == nil && began == start && state != "Z" && state != "X"
}

// StartTime is when the process began, in clock ticks since boot: with its number it
// names one process of a boot.
func (l Linux) StartTime(pid int) (uint64, error) {
	_, start, err := l.stat(pid)
	return start, err
}

// stat reads the state and the start time from /proc/PID/stat, whose second field may
// hold any byte and is therefore skipped from its end (proc_pid_stat(5)).
func (l Linux) stat(pid int) (state string, start uint64, err error) {
	path := l.proc(strconv.Itoa(pid), "stat")
	data, err := os.ReadFile(path)
	if err != nil {
		return "", 0, err
	}
	const startField = 22 - 3 // counted from the state, which is field 3
	_, rest, found := strings.Cut(string(data[strings.LastIndexByte(string(data), ')')+1:]), " ")
	fields := strings.Fields(rest)
	if !found || len(fields) <= startField {
		return "", 0, fmt.Errorf("%s: not a stat line", path)
	}
	start, err = strconv.ParseUint(fields[startField], 10, 64)
	if err != nil {
		return "", 0, fmt.Errorf("%s: start time: %w", path, err)
	}
	return fields[0], start, nil
}

// Unit is the systemd service that the process runs in, from its control group; "" if
// it is in none.
func (l Linux) Unit(pid int) string {
	data, err := os.ReadFile(l.proc(strconv.Itoa(pid), "cgroup"))
	if err != nil {
		return ""
	}
	return unitOf(string(data))
}

// unitOf finds the innermost service in the lines of /proc/PID/cgroup. Unified hierarchy
// and systemd's own come first; they agree where both are there (cgroups(7)).
func unitOf(cgroups string) string {
	for _, prefix := range []string{"0::", "name=systemd:"} {
		for line := range strings.Lines(cgroups) {
			_, path, found := strings.Cut(strings.TrimSpace(line), prefix)
			if !found {
				continue
			}
			parts := strings.Split(path, "/")
			for i := len(parts) - 1; i >= 0; i-- {
				if strings.HasSuffix(parts[i], ".service") {
					return parts[i]
				}
			}
		}
	}
	return ""
}
