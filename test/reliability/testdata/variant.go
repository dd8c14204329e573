package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/node-lifecycle/node-lifecycle/backend/container"
	"github.com/node-lifecycle/node-lifecycle/phases"
)

// suiteEnvironment is the host's environment with everything that a host has only once
// replaced by what the suite has made: paths, the boot, the unit, systemd.
func suiteEnvironment() *environment {
	e := hostEnvironment()
	dir := os.Getenv("SUITE_DIR")
	e.euid = 0
	e.hostLock = filepath.Join(dir, "host.lock")
	e.runtimeDir = filepath.Join(dir, "run")
	e.unitDir = filepath.Join(dir, "units")
	e.self.Unit = os.Getenv("SUITE_UNIT")
	e.host = suiteHost{e.host, os.Getenv("SUITE_BOOT")}
	e.systemd = suiteSystemd{filepath.Join(dir, "systemd")}
	return e
}

// suiteHost is the real host in a boot that the suite has named.
type suiteHost struct {
	phases.Host
	boot string
}

func (h suiteHost) Boot() string { return h.boot }

// suiteSystemd asks the suite, which plays systemd, over a socket: one question a
// connection, each a line of JSON.
type suiteSystemd struct{ socket string }

type suiteQuestion struct{ Ask, Unit string }

type suiteAnswer struct {
	Status container.UnitStatus
	Error  string
}

// dial connects for as long as ctx lasts.
func (s suiteSystemd) dial(ctx context.Context, q suiteQuestion) (net.Conn, func(), error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", s.socket)
	if err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	if err := json.NewEncoder(conn).Encode(q); err != nil {
		stop()
		return nil, nil, errors.Join(err, ctx.Err(), conn.Close())
	}
	return conn, func() { stop(); _ = conn.Close() }, nil
}

func (s suiteSystemd) ask(ctx context.Context, ask, unit string) (container.UnitStatus, error) {
	conn, hangUp, err := s.dial(ctx, suiteQuestion{ask, unit})
	if err != nil {
		return container.UnitStatus{}, err
	}
	defer hangUp()
	var a suiteAnswer
	if err := json.NewDecoder(conn).Decode(&a); err != nil {
		return a.Status, errors.Join(err, ctx.Err())
	}
	if a.Error != "" {
		return a.Status, errors.New(a.Error)
	}
	return a.Status, nil
}

func (s suiteSystemd) Unit(ctx context.Context, unit string) (container.UnitStatus, error) {
	return s.ask(ctx, "unit", unit)
}

func (s suiteSystemd) Restart(ctx context.Context, unit string) error {
	_, err := s.ask(ctx, "restart", unit)
	return err
}

func (s suiteSystemd) ResetFailed(ctx context.Context, unit string) error {
	_, err := s.ask(ctx, "reset-failed", unit)
	return err
}

func (s suiteSystemd) Reload(ctx context.Context) error {
	_, err := s.ask(ctx, "reload", "")
	return err
}

func (s suiteSystemd) CheckLoaded(ctx context.Context, unit string) error {
	_, err := s.ask(ctx, "check-loaded", unit)
	return err
}

// Wake passes every further line of the answer on as a wake.
func (s suiteSystemd) Wake(ctx context.Context, unit string) (<-chan struct{}, error) {
	conn, hangUp, err := s.dial(ctx, suiteQuestion{"wake", unit})
	if err != nil {
		return nil, err
	}
	wake := make(chan struct{}, 1)
	go func() {
		defer close(wake)
		defer hangUp()
		var a suiteAnswer
		for d := json.NewDecoder(conn); d.Decode(&a) == nil; {
			select {
			case wake <- struct{}{}:
			default:
			}
		}
	}()
	return wake, nil
}

func (suiteSystemd) Close() error { return nil }
