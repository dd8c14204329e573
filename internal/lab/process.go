package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// process names one process for good: a pid alone may be given out again.
type process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // ticks since boot, field 22 of /proc/PID/stat
}

// errGone says that a process exists no more.
var errGone = errors.New("process is gone")

// findProcess reads the identity of a living pid. A zombie is gone.
func findProcess(pid int) (process, error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, errGone
	}
	// The command's name comes second, in brackets, and may hold anything.
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return process{}, fmt.Errorf("read process %d: malformed stat line", pid)
	}
	fields := strings.Fields(string(stat[end+1:]))
	if len(fields) < 20 {
		return process{}, fmt.Errorf("read process %d: short stat line", pid)
	}
	if fields[0] == "Z" || fields[0] == "X" {
		return process{}, errGone
	}
	start, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return process{}, fmt.Errorf("read process %d: start time: %w", pid, err)
	}
	return process{PID: pid, Start: start}, nil
}

func (p process) alive() bool {
	found, err := findProcess(p.PID)
	return p.PID > 0 && err == nil && found == p
}

// open returns a pidfd of exactly this process, or errGone.
func (p process) open() (int, error) {
	if p.PID <= 0 {
		return -1, errGone
	}
	fd, err := unix.PidfdOpen(p.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return -1, errGone
	}
	if err != nil {
		return -1, fmt.Errorf("open process %d: %w", p.PID, err)
	}
	if !p.alive() {
		unix.Close(fd)
		return -1, errGone
	}
	return fd, nil
}

// signal sends sig to exactly this process; one that is gone is no error.
func (p process) signal(sig unix.Signal) error {
	fd, err := p.open()
	if errors.Is(err, errGone) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("send %v to process %d: %w", sig, p.PID, err)
	}
	return nil
}

// wait blocks until the process has exited. For the first process of a PID
// namespace that means that every process in it is gone: the kernel kills and
// reaps the others before it reports the first one.
func (p process) wait(ctx context.Context) error {
	fd, err := p.open()
	if errors.Is(err, errGone) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	began := time.Now()
	for {
		exited, err := pollExit(fd, 100*time.Millisecond)
		if err != nil {
			return fmt.Errorf("wait for process %d: %w", p.PID, err)
		}
		if exited {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("waited %v for process %d to exit: %w", time.Since(began).Round(time.Millisecond), p.PID, context.Cause(ctx))
		}
	}
}

// pollExit waits at most limit, so that its caller can look at a context.
func pollExit(fd int, limit time.Duration) (bool, error) {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, int(limit.Milliseconds()))
	if err != nil && !errors.Is(err, unix.EINTR) {
		return false, err
	}
	return n > 0, nil
}
