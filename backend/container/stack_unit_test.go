package container

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/node-lifecycle/node-lifecycle/backend/container/enginetest"
)

// processBench is a slot whose stack is a plain process of its unit. The
// engine is away: nothing may need it.
func processBench(t *testing.T, u UnitStatus, change ...func(*Slot)) *bench {
	t.Helper()
	b := newBench(t, enginetest.Docker, func(_ *Options, s *Slot) {
		s.Container, s.Image = "", ""
		for _, f := range change {
			f(s)
		}
	})
	b.engine.Stop()
	b.systemd.set(func(status *UnitStatus) { *status = u })
	return b
}

// cgroup puts processes into the cgroup of the bench's unit, each group of
// them in a cgroup of its own below the one before.
func (b *bench) cgroup(t *testing.T, groups ...string) {
	t.Helper()
	root := t.TempDir()
	dir := filepath.Join(root, "unit")
	for _, pids := range append([]string{""}, groups...) {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(pids), 0o600); err != nil {
			t.Fatal(err)
		}
		dir = filepath.Join(dir, "below")
	}
	if err := os.WriteFile(filepath.Join(root, "cgroup.procs"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b.host.cgroups = []string{filepath.Join(root, "absent"), root}
	b.systemd.set(func(u *UnitStatus) { u.Cgroup = "/unit" })
}

func TestPlainProcess_Alive(t *testing.T) {
	t.Parallel()
	me := os.Getpid()
	hook := UnitStatus{ActiveState: "activating", SubState: "start-pre", ControlPID: me}
	for name, test := range map[string]struct {
		unit   UnitStatus
		groups []string
		alive  bool
	}{
		"inactive":                   {UnitStatus{ActiveState: "inactive"}, nil, false},
		"failed":                     {UnitStatus{ActiveState: "failed"}, nil, false},
		"queued":                     {UnitStatus{ActiveState: "inactive", JobID: 7}, nil, true},
		"active":                     {UnitStatus{ActiveState: "active", MainPID: 9}, []string{"9\n"}, true},
		"failed, with leftovers":     {UnitStatus{ActiveState: "failed"}, []string{"", "9\n"}, true},
		"asked by its own hook":      {hook, []string{fmt.Sprintln(me)}, false},
		"own hook, with a leftover":  {hook, []string{fmt.Sprintf("%d\n9\n", me)}, true},
		"another unit's hook asking": {UnitStatus{ActiveState: "activating", ControlPID: 9}, []string{"9\n"}, true},
		"hook that is our parent":    {UnitStatus{ActiveState: "activating"}, []string{fmt.Sprintf("%d\n%d\n", me, os.Getppid())}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := processBench(t, test.unit)
			if test.groups != nil {
				b.cgroup(t, test.groups...)
			}
			alive, detail, err := b.Alive(t.Context(), testSlot)
			if err != nil || alive != test.alive {
				t.Errorf("Alive = %v, %v; want %v", alive, err, test.alive)
			}
			wantText(t, detail, testUnit, test.unit.ActiveState)
			// Stop has nothing to do but to tell.
			if _, err := b.Stop(t.Context(), testSlot); (err != nil) != test.alive {
				t.Errorf("Stop = %v", err)
			}
		})
	}
}

func TestPlainProcess_Unknown(t *testing.T) {
	t.Parallel()
	t.Run("no bus", func(t *testing.T) {
		b := processBench(t, UnitStatus{})
		b.systemd.fail(errors.New("no bus"))
		for _, ask := range []func() error{
			func() error { _, _, err := b.Alive(t.Context(), testSlot); return err },
			func() error { _, _, err := b.Died(t.Context(), testSlot); return err },
			func() error { _, _, err := b.Running(t.Context(), testSlot); return err },
			func() error { _, err := b.Stop(t.Context(), testSlot); return err },
		} {
			wantError(t, ask(), "", "no bus")
		}
	})
	t.Run("no cgroups", func(t *testing.T) {
		b := processBench(t, UnitStatus{ActiveState: "active", Cgroup: "/unit"})
		b.host.cgroups = []string{filepath.Join(t.TempDir(), "absent")}
		_, _, err := b.Alive(t.Context(), testSlot)
		wantError(t, err, "", "no cgroup hierarchy is mounted")
	})
	t.Run("odd cgroups", func(t *testing.T) {
		b := processBench(t, UnitStatus{ActiveState: "active"})
		b.cgroup(t, "not a pid")
		_, _, err := b.Alive(t.Context(), testSlot)
		wantError(t, err, "", "not")
	})
}

func TestPlainProcess_NothingElseToDo(t *testing.T) {
	t.Parallel()
	b := processBench(t, UnitStatus{ActiveState: "inactive"}, func(s *Slot) { s.AfterStart = []string{"x"} })
	ctx := t.Context()
	if detail, weak, err := b.Fence(ctx, testSlot); weak || err != nil {
		t.Errorf("Fence = %s, %v, %v", detail, weak, err)
	}
	if _, err := b.Remove(ctx, testSlot, 1); err != nil {
		t.Errorf("Remove = %v", err)
	}
	if err := b.Regenerate(ctx, testSlot); err != nil {
		t.Errorf("Regenerate = %v", err)
	}
	_, _, err := b.Start(ctx, testSlot, 1, "b", "a")
	wantError(t, err, "misconfigured", "slot kube1 has no container")
	wantError(t, b.AfterStart(ctx, testSlot), "misconfigured", "slot kube1 has no container")
}

func TestPlainProcess_Running(t *testing.T) {
	t.Parallel()
	active := UnitStatus{LoadState: "loaded", ActiveState: "active", SubState: "running", MainPID: 9}
	for name, test := range map[string]struct {
		unit    UnitStatus
		ready   []Probe
		running bool
		detail  string
		class   string
	}{
		"main process":    {active, nil, true, "runs, pid 9", ""},
		"no main process": {UnitStatus{ActiveState: "activating", SubState: "auto-restart"}, nil, false, "has no main process: activating (auto-restart)", ""},
		"units":           {active, []Probe{{Units: []string{"kubelet.service"}}}, true, "runs", ""},
		"unit down": {
			UnitStatus{LoadState: "loaded", ActiveState: "failed", SubState: "failed", MainPID: 9},
			[]Probe{{Units: []string{"kubelet.service"}}}, false, "kubelet.service: failed", "",
		},
		"http": {active, []Probe{{HTTP: "http://127.0.0.1:1/healthz"}}, false, "connection refused", ""},
		"exec": {active, []Probe{{Exec: []string{"x"}}}, false, "it has no container", "misconfigured"},
	} {
		t.Run(name, func(t *testing.T) {
			b := processBench(t, test.unit, func(s *Slot) { s.Ready = test.ready })
			running, detail, err := b.Running(t.Context(), testSlot)
			if test.class != "" {
				wantError(t, err, test.class, test.detail)
				return
			}
			if err != nil || running != test.running {
				t.Errorf("Running = %v, %v; want %v", running, err, test.running)
			}
			wantText(t, detail, test.detail)
		})
	}
}

func TestPlainProcess_Died(t *testing.T) {
	t.Parallel()
	b := processBench(t, UnitStatus{ActiveState: "activating", SubState: "start-post", MainPID: 9})
	if died, _, err := b.Died(t.Context(), testSlot); died || err != nil {
		t.Errorf("Died = %v, %v", died, err)
	}
	b.systemd.set(func(u *UnitStatus) { u.MainPID, u.MainExited, u.MainStatus = 0, true, 3 })
	died, detail, err := b.Died(t.Context(), testSlot)
	if !died || err != nil {
		t.Errorf("Died = %v, %v", died, err)
	}
	wantText(t, detail, "exited with status 3")
}

func TestHost_Process(t *testing.T) {
	t.Parallel()
	h := newHost()
	me, ok := h.process(os.Getpid())
	if !ok || me.start == 0 || !h.runs(me) {
		t.Errorf("this process is %+v, %v", me, ok)
	}
	other := me
	other.start++
	if h.runs(other) {
		t.Error("a process of another start passes for this one")
	}
	if _, ok := h.process(0); ok {
		t.Error("there is a process 0")
	}
	proc := t.TempDir()
	for pid, stat := range map[string]string{
		"1": "1 (x) Z 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 5 0", "2": "garbage", "3": "3 (x) S 0", "4": "4 (x) S 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 x 0",
	} {
		if err := os.MkdirAll(filepath.Join(proc, pid), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(proc, pid, "stat"), []byte(stat), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h.proc = proc
	for pid := 1; pid <= 5; pid++ {
		if p, ok := h.process(pid); ok {
			t.Errorf("process %d passes for alive: %+v", pid, p)
		}
	}
	if family := h.ancestors(); len(family) != 1 {
		t.Errorf("ancestors without /proc: %v", family)
	}
}
