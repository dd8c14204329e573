package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/node-lifecycle/node-lifecycle/backend/container"
	"github.com/node-lifecycle/node-lifecycle/internal/config"
	"github.com/node-lifecycle/node-lifecycle/journal"
	"github.com/node-lifecycle/node-lifecycle/phases"
)

func load(t *testing.T, text string) *config.Config {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(config.Options{Path: path, Required: true})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// Every line that a unit file has for systemd to run is one that we understand.
func TestUnitLinesAreUnderstood(t *testing.T) {
	code, units, stderr := try(t, t.Context(), map[string]string{"NODE_LIFECYCLE_STATE_DIR": ""}, "units")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	lines := 0
	for line := range strings.Lines(units) {
		_, command, found := strings.Cut(line, "/usr/bin/node-lifecycle ")
		if !found || !strings.HasPrefix(line, "Exec") {
			continue
		}
		lines++
		args := strings.Fields(strings.ReplaceAll(command, "%i", "kube1"))
		vars := map[string]string{"TEST_EUID": "1000", "NODE_LIFECYCLE_CONFIG": os.DevNull}
		env := testEnvironment(args, func(name string) string { return vars[name] }, new(bytes.Buffer), new(bytes.Buffer))
		// Nobody but root may do what it says; so much of it was understood.
		var denied *exitError
		if err := run(t.Context(), env); !errors.As(err, &denied) || denied.code != phases.ExitDenied {
			t.Errorf("%s is answered with: %v", strings.TrimSpace(line), err)
		}
	}
	if lines < 8 {
		t.Errorf("only %d lines were found", lines)
	}
}

// What the journal could not take is said as one line that can be read again.
func TestTellUnrecorded(t *testing.T) {
	for journald, prefix := range map[bool]string{false: "", true: "<3>"} {
		var stderr bytes.Buffer
		want := journal.Entry{ID: "A-1", Slot: "kube1", Kind: "cleaned", Error: "no space\nleft", Time: time.Unix(1, 0).UTC()}
		(&environment{stderr: &stderr, journald: journald}).tellUnrecorded(want)
		line, found := strings.CutPrefix(stderr.String(), prefix+"unrecorded entry: ")
		var got journal.Entry
		if err := json.Unmarshal([]byte(line), &got); err != nil || !found || strings.Count(stderr.String(), "\n") != 1 {
			t.Fatalf("%q: %v", stderr.String(), err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestTellSystemd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	(&environment{getenv: os.Getenv}).tellSystemd("waiting for the stack")
	if err := socket.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 100)
	n, err := socket.Read(got)
	if err != nil || string(got[:n]) != "STATUS=waiting for the stack" {
		t.Errorf("systemd was told %q, %v", got[:n], err)
	}
}

// A slot's configuration reaches the backend whole: a key that is lost on the way would
// be ignored in silence.
func TestBackendSlot(t *testing.T) {
	cfg := load(t, `
engine: {unit: podman.service}
timeouts: {pull: 7m}
slots:
  kube1:
    unit: node.service
    container:
      name: stack
      image: localhost/node:2
      pull: never
      command: [/sbin/init, -v]
      tty: false
      env: {A: "1"}
      network: bridge
      cgroupns: host
      tmpfs: [/run]
      security_opt: [seccomp=unconfined]
      capabilities: [NET_ADMIN]
      devices: [/dev/fuse]
      volumes: ["/srv:/srv"]
      stop: {signal: SIGRTMIN+3, grace: 45s}
      discard_limit: 1MiB
    ready:
      - units: [kubelet.service]
      - http: http://127.0.0.1:10248/healthz
      - exec: [/bin/true]
    after_start: [/bin/wire]
  kube2: {container: {privileged: true}}
`)
	b := cfg.Budgets("kube1")
	want := container.Slot{
		Name: "kube1", Pair: "kube1+kube2", Unit: "node.service", Container: "stack", Image: "localhost/node:2",
		Pull: "never", PullTimeout: 7 * time.Minute, Command: []string{"/sbin/init", "-v"},
		Env: map[string]string{"A": "1", "container": "docker"}, Network: "bridge", CgroupNS: "host",
		Tmpfs: []string{"/run"}, SecurityOpt: []string{"seccomp=unconfined"}, Capabilities: []string{"NET_ADMIN"},
		Devices: []string{"/dev/fuse"}, Volumes: []string{"/srv:/srv"},
		StopSignal: "SIGRTMIN+3", StopGrace: 45 * time.Second, DiscardLimit: 1 << 20,
		Ready: []container.Probe{
			{Units: []string{"kubelet.service"}}, {HTTP: "http://127.0.0.1:10248/healthz"}, {Exec: []string{"/bin/true"}},
		},
		AfterStart: []string{"/bin/wire"},
		DropIn:     container.DropIn{TimeoutStart: b.TimeoutStart, TimeoutStop: b.TimeoutStop, EngineUnit: "podman.service"},
	}
	s, _ := cfg.Slot("kube1")
	if diff := cmp.Diff(want, backendSlot(cfg, "kube1", s)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	s, _ = cfg.Slot("kube2")
	if got := backendSlot(cfg, "kube2", s); !got.Privileged || !got.TTY || len(got.Capabilities) > 0 {
		t.Errorf("%+v", got)
	}
}

// A zero in the configuration means what it says there, and not the backend's default.
func TestBackendSlot_DiscardLimitOfNothing(t *testing.T) {
	cfg := load(t, "slots: {kube1: {container: {discard_limit: 0}}}")
	s, _ := cfg.Slot("kube1")
	if got := backendSlot(cfg, "kube1", s); got.DiscardLimit != 1 {
		t.Errorf("discard_limit: 0 keeps every container that wrote anything, but the backend is told %d", got.DiscardLimit)
	}
}

// An activation is this process's own only in the unit of the slot it acts for.
func TestSelfIn(t *testing.T) {
	cfg := load(t, "")
	for unit, want := range map[string]string{
		"node-stack@kube1.service": "a1", "node-stack@kube2.service": "", "sshd.service": "", "": "",
	} {
		e := &environment{self: phases.Process{PID: 1, Unit: unit, Activation: "a1"}}
		if got := e.selfIn(cfg, "kube1"); got.Activation != want || got.PID != 1 {
			t.Errorf("in %q: %+v", unit, got)
		}
	}
}

// What phases asks of systemd goes through the backend unharmed.
func TestSupervisor(t *testing.T) {
	s := &fakeSystemd{dir: t.TempDir()}
	full := unitFile{UnitStatus: container.UnitStatus{
		Name: unitOf("kube1"), LoadState: "loaded", ActiveState: "activating", SubState: "start-post", Result: "success",
		Activation: "a1", JobID: 7, JobType: "start", MainExited: true, MainPID: 8, MainCode: 1, MainStatus: 9,
		StartLimitInterval: time.Minute, StartLimitBurst: 5,
	}}
	if err := s.set(full); err != nil {
		t.Fatal(err)
	}
	e := &environment{systemd: s}
	backend := e.openBackend(load(t, ""), nil)
	defer backend.Close()
	want := phases.UnitStatus{
		Name: unitOf("kube1"), LoadState: "loaded", ActiveState: "activating", SubState: "start-post", Result: "success",
		Activation: "a1", JobID: 7, JobType: "start", MainExited: true, MainPID: 8, MainCode: 1, MainStatus: 9,
		StartLimitInterval: time.Minute, StartLimitBurst: 5,
	}
	got, err := supervisor{backend}.Unit(t.Context(), "kube1")
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v, (-want +got):\n%s", err, diff)
	}
	if err := s.mode(systemdAway); err != nil {
		t.Fatal(err)
	}
	var away interface{ Unreachable() bool }
	if _, err := (supervisor{backend}).Unit(t.Context(), "kube1"); !errors.As(err, &away) || !away.Unreachable() {
		t.Errorf("systemd is away: %v", err)
	}
	if err := (supervisor{backend}).ResetFailed(context.Background(), "kube1"); err == nil {
		t.Error("systemd is away, and was reset all the same")
	}
}
