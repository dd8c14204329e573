package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/node-lifecycle/node-lifecycle/backend/container"
)

var _ container.Systemd = (*fakeSystemd)(nil)

// fakeSystemd is the systemd of a script. It keeps what it knows in files, so that every
// command of the script, and every process that one starts, sees the same.
type fakeSystemd struct {
	dir     string // its files
	unitDir string // where drop-ins are
	// restart is what a restart does to the unit; nil: it cannot be asked for.
	restart func(ctx context.Context, unit string) error
}

// unitFile is one unit, as the script has described it.
type unitFile struct {
	container.UnitStatus
	// Fault is why the unit does not load; "" if it does.
	Fault string
}

// The ways systemd can be.
const (
	systemdBack = "back" // it answers
	systemdAway = "away" // nobody is there
	systemdHung = "hung" // it takes every call and never answers
)

func (s *fakeSystemd) path(name string) string { return filepath.Join(s.dir, name) }

// set makes a unit known.
func (s *fakeSystemd) set(u unitFile) error {
	data, err := json.Marshal(u)
	if err != nil {
		return err
	}
	return replace(s.path(u.Name+".json"), data)
}

func (s *fakeSystemd) get(unit string) (unitFile, error) {
	u := unitFile{UnitStatus: container.UnitStatus{Name: unit, LoadState: "not-found", ActiveState: "inactive", SubState: "dead"}}
	data, err := os.ReadFile(s.path(unit + ".json"))
	if errors.Is(err, fs.ErrNotExist) {
		return u, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &u)
	}
	return u, err
}

// mode sets how systemd is.
func (s *fakeSystemd) mode(mode string) error {
	if !slices.Contains([]string{systemdBack, systemdAway, systemdHung}, mode) {
		return fmt.Errorf("systemd cannot be %q", mode)
	}
	return replace(s.path("mode"), []byte(mode))
}

// answer keeps a record of the call and lets it fail if systemd does not answer.
func (s *fakeSystemd) answer(ctx context.Context, call string) error {
	log, err := os.OpenFile(s.path("calls"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(log, call)
	if err := errors.Join(err, log.Close()); err != nil {
		return err
	}
	mode, err := os.ReadFile(s.path("mode"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	switch string(mode) {
	case systemdAway:
		return unreachableError{errors.New("nobody answers on the bus")}
	case systemdHung:
		<-ctx.Done()
		return unreachableError{ctx.Err()}
	}
	return nil
}

// unreachableError says of itself what the real one says.
type unreachableError struct{ error }

func (unreachableError) Unreachable() bool { return true }

func (s *fakeSystemd) Unit(ctx context.Context, unit string) (container.UnitStatus, error) {
	if err := s.answer(ctx, "read "+unit); err != nil {
		return container.UnitStatus{}, err
	}
	u, err := s.get(unit)
	return u.UnitStatus, err
}

func (s *fakeSystemd) CheckLoaded(ctx context.Context, unit string) error {
	if err := s.answer(ctx, "check "+unit); err != nil {
		return err
	}
	u, err := s.get(unit)
	switch {
	case err != nil:
		return err
	case u.LoadState != "loaded" || u.Fault != "":
		return &container.UnitLoadError{Unit: unit, LoadState: u.LoadState, Message: u.Fault}
	}
	return nil
}

func (s *fakeSystemd) Restart(ctx context.Context, unit string) error {
	if err := s.answer(ctx, "restart "+unit); err != nil {
		return err
	}
	if s.restart == nil {
		return errors.New("this systemd restarts nothing")
	}
	return s.restart(ctx, unit)
}

func (s *fakeSystemd) ResetFailed(ctx context.Context, unit string) error {
	return s.answer(ctx, "reset-failed "+unit)
}

// Reload makes every unit know its drop-ins.
func (s *fakeSystemd) Reload(ctx context.Context) error {
	if err := s.answer(ctx, "reload"); err != nil {
		return err
	}
	known, err := filepath.Glob(s.path("*.service.json"))
	if err != nil {
		return err
	}
	for _, path := range known {
		name := filepath.Base(path)
		u, err := s.get(name[:len(name)-len(".json")])
		if err == nil {
			u.DropInPaths, err = filepath.Glob(filepath.Join(s.unitDir, u.Name+".d", "*.conf"))
		}
		if err == nil {
			err = s.set(u)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Wake never wakes anybody: what waits must also poll.
func (s *fakeSystemd) Wake(ctx context.Context, _ string) (<-chan struct{}, error) {
	wake := make(chan struct{})
	context.AfterFunc(ctx, func() { close(wake) })
	return wake, nil
}

func (s *fakeSystemd) Close() error { return nil }

// replace writes a file so that nobody ever reads half of it.
func replace(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// defaultUnit is what a script's slots have before it says anything of them.
func defaultUnit(slot string) unitFile {
	return unitFile{UnitStatus: container.UnitStatus{
		Name: unitOf(slot), LoadState: "loaded", ActiveState: "inactive", SubState: "dead", Result: "success",
		StartLimitInterval: 15 * time.Minute, StartLimitBurst: 6,
	}}
}

func unitOf(slot string) string { return "node-stack@" + slot + ".service" }
