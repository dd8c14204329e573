package container

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/google/go-cmp/cmp"
)

// A peer is down only if its unit is inactive or failed and nothing is queued for it. Every row was seen on a real
// systemd.
func TestUnitStatusDown(t *testing.T) {
	for _, tt := range []struct {
		situation string
		status    UnitStatus
		down      bool
	}{
		{"never started", UnitStatus{ActiveState: "inactive", SubState: "dead"}, true},
		{"no such unit", UnitStatus{LoadState: "not-found", ActiveState: "inactive", SubState: "dead"}, true},
		{"failed", UnitStatus{ActiveState: "failed", SubState: "failed"}, true},
		{"start queued behind another", UnitStatus{ActiveState: "inactive", SubState: "dead", JobID: 7}, false},
		{"condition runs", UnitStatus{ActiveState: "activating", SubState: "condition", JobID: 7}, false},
		{"pre-start runs", UnitStatus{ActiveState: "activating", SubState: "start-pre", JobID: 7}, false},
		{"runs", UnitStatus{ActiveState: "active", SubState: "running"}, false},
		{"reloads", UnitStatus{ActiveState: "reloading", SubState: "reload"}, false},
		{"post-stop after a crash, without a job", UnitStatus{ActiveState: "deactivating", SubState: "stop-post"}, false},
		{"waits for its restart, without a job", UnitStatus{ActiveState: "activating", SubState: "auto-restart"}, false},
		{"nothing is known", UnitStatus{}, false},
	} {
		if got := tt.status.Down(); got != tt.down {
			t.Errorf("%s: Down() = %v", tt.situation, got)
		}
	}
}

func TestBusUnitReadsEverythingAtOnce(t *testing.T) {
	f, b := newFakeBus(t)
	f.set(fakeUnit, busProps{
		"ControlPID": uint32(99), "NRestarts": uint32(2), "ControlGroup": "/system.slice/x.service",
		"StartLimitIntervalUSec": uint64(15 * time.Minute / time.Microsecond), "StartLimitBurst": uint32(5),
		"TimeoutStartUSec": uint64(math.MaxUint64), "TimeoutStopUSec": uint64(90e6),
		"DropInPaths": []string{"/etc/a.conf", "/etc/b.conf"}, "FragmentPath": "/etc/node-stack@.service",
		"NeedDaemonReload": true, "StatusText": "Wired, 8 GPUs",
	})
	got, err := b.Unit(t.Context(), fakeUnit)
	if err != nil {
		t.Fatal(err)
	}
	want := UnitStatus{
		Name: fakeUnit, LoadState: "loaded", ActiveState: "active", SubState: "running", Result: "success",
		Activation: "11111111111111111111111111111111", MainPID: 4711, ControlPID: 99, NRestarts: 2,
		StartLimitInterval: 15 * time.Minute, StartLimitBurst: 5, TimeoutStart: Infinity, TimeoutStop: 90 * time.Second,
		Cgroup: "/system.slice/x.service", DropInPaths: []string{"/etc/a.conf", "/etc/b.conf"},
		FragmentPath: "/etc/node-stack@.service", NeedReload: true, StatusText: "Wired, 8 GPUs",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if n := f.called("GetAll"); n != 1 {
		t.Errorf("%d requests for one status: state and job could belong to different moments", n)
	}
}

func TestBusUnitNotFoundIsNoError(t *testing.T) {
	_, b := newFakeBus(t)
	got, err := b.Unit(t.Context(), "nosuch.service")
	want := UnitStatus{Name: "nosuch.service", LoadState: "not-found", ActiveState: "inactive", SubState: "dead"}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("err %v\n%s", err, diff)
	}
}

func TestBusUnitRefusesImpossibleNames(t *testing.T) {
	f, b := newFakeBus(t)
	for _, name := range []string{"", "kube1", "a/b.service", "a b.service", strings.Repeat("x", 250) + ".service"} {
		if _, err := b.Unit(t.Context(), name); !isMisconfigured(err) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if len(f.calls) != 0 {
		t.Errorf("systemd was asked: %v", f.calls)
	}
}

func TestBusUnitNamesTheJob(t *testing.T) {
	f, b := newFakeBus(t)
	f.enqueue("other.service", "start")
	id := f.enqueue(fakeUnit, "stop")
	got, err := b.Unit(t.Context(), fakeUnit)
	if err != nil || got.JobID != id || got.JobType != "stop" {
		t.Errorf("job %d %q, %v", got.JobID, got.JobType, err)
	}
}

// The job's type is in another object than the unit. If the job ends between the two reads, the status must not show a
// job that is gone.
func TestBusUnitReadsAgainWhenTheJobEndsMeanwhile(t *testing.T) {
	f, b := newFakeBus(t)
	id := f.enqueue(fakeUnit, "restart")
	f.on("ListJobs", func(*dbus.Message) fakeAnswer {
		f.on("ListJobs", nil)
		f.finish(id, "done", activeUnit("22"))
		return fakeAnswer{body: []any{[]struct {
			ID              uint32
			Unit, Type, S   string
			JobPath, UnitPa dbus.ObjectPath
		}{}}}
	})
	got, err := b.Unit(t.Context(), fakeUnit)
	if err != nil || got.JobID != 0 || got.Activation != strings.Repeat("2", 32) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestBusUnitReportsABrokenJobList(t *testing.T) {
	f, b := newFakeBus(t)
	f.enqueue(fakeUnit, "start")
	f.on("ListJobs", func(*dbus.Message) fakeAnswer {
		return fakeAnswer{err: dbus.NewError("org.freedesktop.DBus.Error.AccessDenied", []any{"no"})}
	})
	if _, err := b.Unit(t.Context(), fakeUnit); !isDenied(err) {
		t.Error(err)
	}
}

// Whether a property is missing or has another type than ever before: unknown is an error, not a unit that is down.
func TestParseUnitDemandsWhatDecides(t *testing.T) {
	good := map[string]any{"LoadState": "loaded", "ActiveState": "inactive", "SubState": "dead",
		"Job": []any{uint32(0), dbus.ObjectPath("/")}}
	if _, err := parseUnit("x.service", good); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]any{
		"LoadState": nil, "ActiveState": nil, "SubState": 5, "Job": []any{uint32(0)}, "MainPID": "1", "InvocationID": "x",
	} {
		bad := maps.Clone(good)
		bad[name] = value
		_, err := parseUnit("x.service", bad)
		var failure *UnitStatusError
		if !errors.As(err, &failure) || failure.Property != name || !strings.Contains(err.Error(), name) {
			t.Errorf("%s = %v: %v", name, value, err)
		}
	}
	delete(good, "Job")
	if _, err := parseUnit("x.service", good); err == nil {
		t.Error("a unit without the property Job was taken for one without a job")
	}
}

// Until the next main process starts, systemd shows the exit of the last one.
func TestParseUnitMainExited(t *testing.T) {
	base := map[string]any{"LoadState": "loaded", "ActiveState": "activating", "SubState": "start-post",
		"Job": []any{uint32(0), dbus.ObjectPath("/")}, "ExecMainCode": int32(1), "ExecMainStatus": int32(7)}
	for _, tt := range []struct {
		situation   string
		begun, exit uint64
		exited      bool
	}{
		{"never started", 0, 0, false},
		{"runs", 100, 0, false},
		{"exited in start-post", 100, 300, true},
		{"start-pre of the next activation", 400, 300, false},
	} {
		unit := maps.Clone(base)
		unit["InactiveExitTimestampMonotonic"] = tt.begun
		unit["ExecMainExitTimestampMonotonic"] = tt.exit
		read, err := parseUnit("x.service", unit)
		got := read.status
		want := UnitStatus{MainExited: tt.exited}
		if tt.exited {
			want.MainCode, want.MainStatus = 1, 7
		}
		if err != nil || got.MainExited != want.MainExited || got.MainCode != want.MainCode || got.MainStatus != want.MainStatus {
			t.Errorf("%s: exited %v, code %d, status %d, %v", tt.situation, got.MainExited, got.MainCode, got.MainStatus, err)
		}
	}
}

func TestParseUnitActivation(t *testing.T) {
	for _, tt := range []struct {
		id   []byte
		want string
	}{
		{nil, ""},
		{make([]byte, 16), ""},
		{[]byte{0, 1, 0xab}, "0001ab"},
	} {
		p := unitProps{props: map[string]any{"InvocationID": tt.id}}
		if got := p.activation(); got != tt.want {
			t.Errorf("%v: %q", tt.id, got)
		}
	}
}

func ExampleUnitStatus_Down() {
	waiting := UnitStatus{ActiveState: "activating", SubState: "auto-restart"}
	queued := UnitStatus{ActiveState: "inactive", SubState: "dead", JobID: 12, JobType: "start"}
	stopped := UnitStatus{ActiveState: "inactive", SubState: "dead"}
	fmt.Println(waiting.Down(), queued.Down(), stopped.Down())
	// Output: false false true
}
