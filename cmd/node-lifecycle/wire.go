package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/node-lifecycle/node-lifecycle/backend/container"
	"github.com/node-lifecycle/node-lifecycle/internal/config"
	"github.com/node-lifecycle/node-lifecycle/journal"
	"github.com/node-lifecycle/node-lifecycle/journal/filelock"
	"github.com/node-lifecycle/node-lifecycle/phases"
)

// The backend must satisfy what phases asks for; neither imports the other.
var (
	_ phases.Controller   = (*container.Controller)(nil)
	_ phases.Aliver       = (*container.Controller)(nil)
	_ phases.Strayer      = (*container.Controller)(nil)
	_ phases.Deceased     = (*container.Controller)(nil)
	_ phases.Fencer       = (*container.Controller)(nil)
	_ phases.Changer      = (*container.Controller)(nil)
	_ phases.Loader       = (*container.Controller)(nil)
	_ phases.Eventer      = (*container.Controller)(nil)
	_ phases.Evidencer    = (*container.Controller)(nil)
	_ phases.Stopper      = (*container.Controller)(nil)
	_ phases.Remover      = (*container.Controller)(nil)
	_ phases.Starter      = (*container.Controller)(nil)
	_ phases.Owner        = (*container.Controller)(nil)
	_ phases.Attender     = (*container.Controller)(nil)
	_ phases.EngineWaiter = (*container.Controller)(nil)
	_ phases.Supervisor   = supervisor{}
	_ phases.Locks        = fileLocks{}
)

// openJournal does no I/O: the journal is opened around each of its transactions.
func (e *environment) openJournal(cfg *config.Config, phase string) *journal.Journal {
	return journal.New(cfg.StateDir, journal.Options{
		Keep:   cfg.Journal.Keep,
		Holder: filelock.Holder{PID: e.self.PID, Phase: phase},
	})
}

// openBackend dials nothing: the engine and systemd are dialled when first needed.
func (e *environment) openBackend(cfg *config.Config, log *slog.Logger) *container.Controller {
	slots := make(map[string]container.Slot, len(cfg.Slots))
	for name, slot := range cfg.Slots {
		slots[name] = backendSlot(cfg, name, slot)
	}
	return container.New(container.Options{
		Socket: cfg.Engine.Socket, EngineUnit: cfg.Engine.Unit,
		RuntimeDir: e.runtimeDir, UnitDir: e.unitDir, PollInterval: cfg.Timeouts.Poll,
		Slots: slots, Log: log, Systemd: e.systemd,
	})
}

func backendSlot(cfg *config.Config, name string, s config.Slot) container.Slot {
	c, b := s.Container, cfg.Budgets(name)
	return container.Slot{
		Name: name, Pair: cfg.Pair(name), Unit: s.Unit,
		Container: c.Name, Image: c.Image, Pull: c.Pull, PullTimeout: cfg.Timeouts.Pull,
		Command: c.Command, TTY: c.TTY, Privileged: c.Privileged, Env: c.Env,
		Network: c.Network, CgroupNS: c.CgroupNS, Tmpfs: c.Tmpfs, SecurityOpt: c.SecurityOpt,
		Capabilities: c.Capabilities, Devices: c.Devices, Volumes: c.Volumes,
		StopSignal: c.Stop.Signal, StopGrace: c.Stop.Grace, DiscardLimit: discardLimit(c.DiscardLimit),
		Ready: probes(s.Ready), AfterStart: s.AfterStart,
		DropIn: container.DropIn{TimeoutStart: b.TimeoutStart, TimeoutStop: b.TimeoutStop, EngineUnit: cfg.Engine.Unit},
	}
}

// discardLimit is the limit as the backend counts it, for which 0 is its own default: one
// byte is as good as none.
func discardLimit(configured config.Size) int64 { return max(int64(configured), 1) }

func probes(configured []config.Probe) []container.Probe {
	probes := make([]container.Probe, 0, len(configured))
	for _, p := range configured {
		probes = append(probes, container.Probe{Units: p.Units, HTTP: p.HTTP, Exec: p.Exec})
	}
	return probes
}

// lifecycle is what the commands drive the slot's phases with.
func (e *environment) lifecycle(cfg *config.Config, slot, phase string) (*phases.Lifecycle, *container.Controller) {
	log := slog.New(newLineHandler(e.stderr, e.journald))
	backend := e.openBackend(cfg, log)
	b := cfg.Budgets(slot)
	return &phases.Lifecycle{
		Log: log, Controller: backend, ReloadSystemd: backend.Reload, AfterStart: backend.AfterStart,
		ReadyTimeout: cfg.Timeouts.Ready, AfterStartTimeout: cfg.Timeouts.AfterStart,
		PollInterval: cfg.Timeouts.Poll, Peer: cfg.Peer,
		Journal: e.openJournal(cfg, phase),
		Locks:   fileLocks{dir: e.runtimeDir, hostPath: e.hostLock, pid: e.self.PID},
		Host:    e.host, Self: e.selfIn(cfg, slot), Supervisor: supervisor{backend},
		Status: e.tellSystemd, Unrecorded: e.tellUnrecorded,
		PreStartBudget: b.PreStart, StopBudget: b.Stop, EngineWait: cfg.Engine.Wait, ReconcileLimit: b.ReconcileLimit,
	}, backend
}

// selfIn is this process as a part of the slot's unit: an activation that is not the
// unit's own, as that of a shell under another service, means nothing here.
func (e *environment) selfIn(cfg *config.Config, slot string) phases.Process {
	self := e.self
	if self.Unit != cfg.Slots[slot].Unit {
		self.Activation = ""
	}
	return self
}

// tellSystemd sets the status text that systemctl status shows. It is a courtesy: that
// systemd does not listen is no error.
func (e *environment) tellSystemd(text string) {
	if e.getenv("NOTIFY_SOCKET") != "" {
		_, _ = daemon.SdNotify(false, "STATUS="+text)
	}
}

// tellUnrecorded writes an entry that the journal could not take to stderr, as one line
// of JSON that can be taken in later.
func (e *environment) tellUnrecorded(entry journal.Entry) {
	line, err := json.Marshal(entry)
	if err != nil {
		line = fmt.Append(nil, err)
	}
	prefix := ""
	if e.journald {
		prefix = "<3>"
	}
	fmt.Fprintf(e.stderr, "%sunrecorded entry: %s\n", prefix, line)
}

// supervisor is systemd as phases sees it.
type supervisor struct{ backend *container.Controller }

func (s supervisor) Unit(ctx context.Context, slot string) (phases.UnitStatus, error) {
	u, err := s.backend.Unit(ctx, slot)
	if err != nil {
		return phases.UnitStatus{}, err
	}
	return phases.UnitStatus{
		Name: u.Name, LoadState: u.LoadState, ActiveState: u.ActiveState, SubState: u.SubState,
		Result: u.Result, Activation: u.Activation, JobID: u.JobID, JobType: u.JobType,
		MainExited: u.MainExited, MainPID: u.MainPID, MainCode: u.MainCode, MainStatus: u.MainStatus,
		StartLimitInterval: u.StartLimitInterval, StartLimitBurst: u.StartLimitBurst,
	}, nil
}

func (s supervisor) ResetFailed(ctx context.Context, slot string) error {
	return s.backend.ResetFailed(ctx, slot)
}
