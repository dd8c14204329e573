package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/node-lifecycle/node-lifecycle/internal/lab/guest"
)

const stateFile = "host.json"

// hostState is what another process must know of a host.
type hostState struct {
	ID         string  `json:"id"` // the name of its directory
	Hostname   string  `json:"hostname"`
	Persistent bool    `json:"persistent"` // outlives the process that made it
	Made       bool    `json:"made"`       // its first boot was a success
	Root       string  `json:"root"`       // the shared root file system
	Init       string  `json:"init"`       // the program that becomes PID 1
	Cgroup     string  `json:"cgroup"`     // the root of its cgroup namespace
	BootID     string  `json:"boot_id"`    // of the present or the last boot
	Boots      int     `json:"boots"`      // how often it was switched on
	Process    process `json:"process"`    // its PID 1; zero while it is off
}

func diskIn(dir, lower string) guest.Disk {
	return guest.Disk{
		Lower: lower,
		Upper: filepath.Join(dir, "upper"),
		Work:  filepath.Join(dir, "work"),
		Var:   filepath.Join(dir, "var"),
	}
}

func readState(dir string) (hostState, error) {
	var s hostState
	text, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil {
		return s, fmt.Errorf("read the state of a lab host: %w", err)
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, fmt.Errorf("read the state of a lab host: %s: %w", dir, err)
	}
	return s, nil
}

func (s hostState) write(dir string) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("write the state of host %s: %w", s.ID, err)
	}
	temporary := filepath.Join(dir, stateFile+".new")
	if err := os.WriteFile(temporary, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("write the state of host %s: %w", s.ID, err)
	}
	if err := os.Rename(temporary, filepath.Join(dir, stateFile)); err != nil {
		return fmt.Errorf("write the state of host %s: %w", s.ID, err)
	}
	return nil
}

// hostStates reads the states of all hosts; one that is just being made or
// removed is left out.
func (c cache) hostStates() ([]hostState, error) {
	entries, err := os.ReadDir(c.hosts())
	if err != nil {
		return nil, fmt.Errorf("read the lab's hosts: %w", err)
	}
	var states []hostState
	for _, entry := range entries {
		s, err := readState(filepath.Join(c.hosts(), entry.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		states = append(states, s)
	}
	return states, nil
}

// reap removes what hosts left whose process died without closing them: such a
// host holds the lock of its directory for as long as its process lives.
func (c cache) reap(ctx context.Context) error {
	guard, err := lockDirectory(ctx, c.hosts())
	if err != nil {
		return err
	}
	defer guard.Close()
	entries, err := os.ReadDir(c.hosts())
	if err != nil {
		return fmt.Errorf("read the lab's hosts: %w", err)
	}
	for _, entry := range entries {
		if err := reapHost(ctx, filepath.Join(c.hosts(), entry.Name())); err != nil {
			return fmt.Errorf("remove the dead host %s: %w", entry.Name(), err)
		}
	}
	return nil
}

func reapHost(ctx context.Context, dir string) error {
	lock, err := tryLockDirectory(dir)
	if err != nil || lock == nil {
		return err
	}
	defer lock.Close()
	s, err := readState(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return os.RemoveAll(dir) // its maker died before it wrote the state
	}
	if err != nil {
		return err
	}
	if s.Persistent && s.Made {
		return nil
	}
	if err := s.end(ctx); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// end makes sure that no process and no cgroup of the host is left.
func (s hostState) end(ctx context.Context) error {
	if s.Cgroup == "" {
		return nil
	}
	if err := killHost(ctx, s.Process, s.Cgroup); err != nil {
		return err
	}
	return removeCgroup(ctx, s.Cgroup)
}
