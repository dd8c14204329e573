package contract

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	sd "github.com/coreos/go-systemd/v22/dbus"

	backend "github.com/node-lifecycle/node-lifecycle/backend/container"
	"github.com/node-lifecycle/node-lifecycle/internal/lab"
)

// manager is the host's systemd as the product reads it, and as somebody else drives it.
type manager struct {
	t    *testing.T
	host *lab.Host
	bus  *backend.Bus
	jobs *sd.Conn
}

// newManager installs units of a test's own and connects to systemd.
func newManager(t *testing.T, units map[string]string) *manager {
	t.Helper()
	m := &manager{t: t, host: newHost(t), bus: backend.NewSystemd(50 * time.Millisecond)}
	t.Cleanup(func() { _ = m.bus.Close() })
	m.ok("sh", "-c", "rm -rf /run/gate; mkdir -p /run/gate")
	for name, text := range units {
		if err := m.host.WriteFile("/run/systemd/system/"+name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m.ok("systemctl", "daemon-reload")
	err := m.host.InRoot(func() (err error) {
		m.jobs, err = sd.NewSystemConnectionContext(context.WithoutCancel(t.Context()))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		m.jobs.Close()
		for name := range units { // whatever it is in the middle of
			_, _ = m.host.Exec(context.Background(), "sh", "-c", "touch /run/gate/open; systemctl kill --signal=KILL "+name+"; systemctl stop "+name+"; systemctl reset-failed "+name)
		}
	})
	return m
}

func (m *manager) ok(argv ...string) {
	m.t.Helper()
	if _, err := m.host.Output(m.t.Context(), argv...); err != nil {
		m.t.Fatal(err)
	}
}

// read asks as a process on the host would, which finds systemd's sockets there.
func (m *manager) read(ctx context.Context, unit string) (u backend.UnitStatus, err error) {
	inRoot := m.host.InRoot(func() error { u, err = m.bus.Unit(ctx, unit); return nil })
	return u, errors.Join(inRoot, err)
}

// unit is read where systemd must answer.
func (m *manager) unit(unit string) backend.UnitStatus {
	m.t.Helper()
	tried()
	u, err := m.read(m.t.Context(), unit)
	if err != nil {
		m.t.Fatal(err)
	}
	return u
}

// begin queues a job, as systemctl --no-block does, and returns what tells of its end.
func (m *manager) begin(job string, unit string) <-chan string {
	m.t.Helper()
	over := make(chan string, 1)
	do := map[string]func(context.Context, string, string, chan<- string) (int, error){
		"start": m.jobs.StartUnitContext, "stop": m.jobs.StopUnitContext, "restart": m.jobs.RestartUnitContext,
	}[job]
	if _, err := do(m.t.Context(), unit, "replace", over); err != nil {
		m.t.Fatal(err)
	}
	return over
}

// end waits for a job.
func (m *manager) end(over <-chan string) string {
	m.t.Helper()
	select {
	case result := <-over:
		return result
	case <-time.After(patience):
		m.t.Fatalf("a job is not over after %s", patience)
		return ""
	}
}

// during polls a unit until a job is over and gives each status to check. It counts what the
// unit was in.
func (m *manager) during(unit string, over <-chan string, seen map[string]int, check func(backend.UnitStatus)) {
	m.t.Helper()
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		u := m.unit(unit)
		job := ""
		if u.JobID != 0 {
			job = " with a " + u.JobType + " job"
		}
		seen[u.ActiveState+"/"+u.SubState+job]++
		check(u)
		select {
		case <-over:
			return
		default:
		}
	}
	m.t.Fatalf("a job of %s is not over after %s", unit, patience)
}

// exists looks for a file on the host.
func (m *manager) exists(path string) bool {
	_, err := os.Stat(m.host.Root() + path)
	return !errors.Is(err, fs.ErrNotExist)
}

// A unit that takes a moment for everything, and leaves a mark when its last hook has ended.
const trivial = `[Service]
ExecCondition=/bin/sleep 0.01
ExecStartPre=/bin/rm -f /run/gate/down
ExecStartPre=/bin/sleep 0.01
ExecStart=/bin/sleep infinity
ExecStartPost=/bin/sleep 0.01
ExecStop=/bin/sleep 0.01
ExecStopPost=/bin/sleep 0.02
ExecStopPost=/bin/touch /run/gate/down
`

// From the answer to a start on, the unit is not down until it has been stopped to its very
// end: no moment between two states, and none between two jobs, looks like one.
func TestUnitIsNotDownBeforeItsJobIsOver(t *testing.T) {
	const unit, rounds = "trivial.service", 10
	m := newManager(t, map[string]string{unit: trivial})
	notDown := func(what string) func(backend.UnitStatus) {
		return func(u backend.UnitStatus) {
			if u.Down() {
				violated(t, "%s: down, %s (%s)", what, u.ActiveState, u.SubState)
			}
		}
	}
	seen, downs := map[string]int{}, 0
	for range rounds {
		m.during(unit, m.begin("start", unit), seen, notDown("while it is started"))
		m.during(unit, m.begin("restart", unit), seen, notDown("while it is restarted"))
		m.ok("rm", "-f", "/run/gate/down") // which the restart has left, and would be taken for the stop's
		over := m.begin("stop", unit)
		m.during(unit, over, seen, func(u backend.UnitStatus) {
			if !u.Down() {
				return
			}
			downs++
			if !m.exists("/run/gate/down") {
				violated(t, "while it is stopped: down (%s) before its last hook had ended", u.ActiveState)
			}
		})
		if u := m.unit(unit); !u.Down() || u.LoadState != "loaded" {
			violated(t, "stopped, and not down: %+v", u)
		}
	}
	t.Logf("seen: %v; down while the stop job was not yet known to be over: %d times", seen, downs)
	for _, state := range []string{"activating/condition", "activating/start-pre", "activating/start-post", "deactivating/stop", "deactivating/stop-post", "inactive/dead with"} {
		if !anyKey(seen, state) {
			t.Errorf("the unit was never met while it was %s: this shows little", state)
		}
	}
}

// ActiveState alone would be down in the middle of a restart, and between the answer to a
// start and its beginning.
func TestActiveStateAloneIsNotEnough_Control(t *testing.T) {
	const unit, first = "queued.service", "slow.service"
	m := newManager(t, waitingUnits)
	over := m.begin("start", first)
	m.begin("start", unit)
	wrong := 0
	for range 50 {
		if u := m.unit(unit); u.ActiveState == "inactive" {
			wrong++
		}
	}
	if wrong == 0 {
		t.Error("a queued unit was never inactive: the clause about jobs shows nothing")
	}
	m.ok("touch", "/run/gate/open")
	m.end(over)
}

// waitingUnits are one that takes until the gate is open, and one that waits for it.
var waitingUnits = map[string]string{
	"slow.service":   "[Service]\nType=oneshot\nExecStart=/bin/sh -c 'until [ -e /run/gate/open ]; do sleep 0.02; done'\n",
	"queued.service": "[Unit]\nAfter=slow.service\n[Service]\nExecStart=/bin/sleep infinity\n",
}

// A unit whose start waits behind another one looks like one at rest, but for its job.
func TestQueuedUnitIsNotDown(t *testing.T) {
	const unit, first = "queued.service", "slow.service"
	m := newManager(t, waitingUnits)
	if u := m.unit(unit); !u.Down() {
		t.Fatalf("not down before anything has begun: %+v", u)
	}
	m.begin("start", first)
	over := m.begin("start", unit)
	for range 300 {
		if u := m.unit(unit); u.Down() || u.JobID == 0 || u.JobType != "start" {
			violated(t, "queued behind another unit: %s, job %d %q", u.ActiveState, u.JobID, u.JobType)
		}
	}
	m.ok("touch", "/run/gate/open")
	if result := m.end(over); result != "done" {
		t.Errorf("the queued job ended: %s", result)
	}
	if u := m.unit(unit); u.Down() || u.JobID != 0 || u.ActiveState != "active" {
		violated(t, "started at last: %s, job %d", u.ActiveState, u.JobID)
	}
}

// Between two automatic restarts there is no job, and the unit is not down. systemd still
// shows the end of the main process then, which is none of the activation to come.
func TestUnitThatIsAboutToBeRestartedIsNotDown(t *testing.T) {
	const unit = "again.service"
	m := newManager(t, map[string]string{unit: "[Unit]\nStartLimitIntervalSec=0\n[Service]\nRestart=on-failure\nRestartSec=0.1\nExecStart=/bin/sh -c 'sleep 0.02; exit 3'\n"})
	m.end(m.begin("start", unit))
	waits := 0
	for range 300 {
		u := m.unit(unit)
		if u.Down() {
			violated(t, "about to be restarted: down, %s (%s)", u.ActiveState, u.SubState)
		}
		if u.SubState != "auto-restart" || u.JobID != 0 {
			continue
		}
		waits++
		if u.MainExited {
			violated(t, "about to be restarted: the main process of the activation to come has exited already")
		}
	}
	if waits == 0 {
		t.Error("the unit was never met between two starts: this shows nothing")
	}
}

// A unit that does not exist reads like one that is down, but for its LoadState.
func TestUnitThatDoesNotExist(t *testing.T) {
	m := newManager(t, nil)
	for range 20 {
		if u := m.unit("nosuch.service"); !u.Down() || u.LoadState != "not-found" || u.Activation != "" {
			violated(t, "a unit that does not exist: %+v", u)
		}
	}
}

// The end of the main process of an activation is none of the next one's.
func TestMainExitedIsOfThePresentActivation(t *testing.T) {
	const unit = "main.service"
	m := newManager(t, map[string]string{unit: `[Service]
ExecStartPre=/bin/sh -c 'until [ -e /run/gate/pre ]; do sleep 0.01; done'
ExecStart=/bin/sh -c 'until [ -e /run/gate/main ]; do sleep 0.01; done; exit 3'
ExecStartPost=/bin/sh -c 'until [ -e /run/gate/post ]; do sleep 0.01; done'
`})
	last := ""
	for round := range 3 {
		m.ok("sh", "-c", "rm -f /run/gate/*")
		over := m.begin("start", unit)
		m.poll(unit, 30, func(u backend.UnitStatus) bool { return u.SubState == "start-pre" }, func(u backend.UnitStatus) string {
			if u.MainExited || u.MainCode != 0 {
				return "the main process has not come yet"
			}
			return ""
		})
		activation := m.unit(unit).Activation
		if activation == "" || activation == last {
			violated(t, "round %d has the activation %q, the one before had %q", round, activation, last)
		}
		m.ok("touch", "/run/gate/pre")
		m.poll(unit, 30, func(u backend.UnitStatus) bool { return u.SubState == "start-post" }, func(u backend.UnitStatus) string {
			if u.MainExited || u.MainPID == 0 {
				return "the main process runs"
			}
			return ""
		})
		m.ok("touch", "/run/gate/main")
		m.poll(unit, 30, func(u backend.UnitStatus) bool { return u.MainPID == 0 }, func(u backend.UnitStatus) string {
			if !u.MainExited || u.MainCode != 1 || u.MainStatus != 3 || u.Activation != activation || u.Down() {
				return "the main process has ended with 3, under its hook"
			}
			return ""
		})
		m.ok("touch", "/run/gate/post")
		m.end(over)
		last = activation
	}
}

// poll waits until the unit is there and then looks at it n times.
func (m *manager) poll(unit string, n int, there func(backend.UnitStatus) bool, wrong func(backend.UnitStatus) string) {
	m.t.Helper()
	var u backend.UnitStatus
	waitFor(m.t, unit+" to get there", func() (bool, string) {
		u = m.unit(unit)
		return there(u), u.ActiveState + "/" + u.SubState
	})
	for range n {
		if u = m.unit(unit); wrong(u) != "" {
			violated(m.t, "%s: %+v", wrong(u), u)
		}
	}
}

func anyKey(counts map[string]int, prefix string) bool {
	for key := range counts {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}
