package contract

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	backend "github.com/node-lifecycle/node-lifecycle/backend/container"
	"github.com/node-lifecycle/node-lifecycle/internal/lab"
)

// When systemd is away, or does not answer, the status is unknown, which is an error and
// never down. Without the system bus PID 1 answers root by itself.
func TestUnitWhenSystemdIsAway(t *testing.T) {
	const name = "trivial.service"
	m := newManager(t, map[string]string{name: trivial})
	m.end(m.begin("start", name))
	m.installSelf()
	pid := m.host.PID()
	for _, away := range []struct {
		how        string
		gone, back func()
		ask        func() (answer string, err error)
		answers    bool
	}{
		{
			how:     "the system bus is stopped",
			gone:    func() { m.ok("systemctl", "stop", "--quiet", "dbus.socket", "dbus.service") },
			back:    func() { m.ok("systemctl", "start", "dbus.socket") },
			ask:     func() (string, error) { return m.askInside(name) },
			answers: true,
		},
		{
			how: "neither the system bus nor PID 1's own socket is there",
			gone: func() {
				m.ok("sh", "-c", "systemctl stop --quiet dbus.socket dbus.service && mv /run/systemd/private /run/systemd/aside")
			},
			back: func() { m.ok("sh", "-c", "mv /run/systemd/aside /run/systemd/private && systemctl start dbus.socket") },
			ask:  func() (string, error) { return m.askInside(name) },
		},
		{
			how:  "PID 1 does not answer (SIGSTOP)",
			gone: func() { m.sendInit(pid, unix.SIGSTOP) },
			back: func() { m.sendInit(pid, unix.SIGCONT) },
			ask:  func() (string, error) { return m.ask(name, 300*time.Millisecond) },
		},
	} {
		away.gone()
		for range 10 {
			tried()
			answer, err := away.ask()
			switch {
			case err == nil && !away.answers:
				violated(t, "%s: no error, but: %s", away.how, answer)
			case err == nil && answer != "active up":
				violated(t, "%s: a unit that is up is %s", away.how, answer)
			case err != nil && away.answers:
				t.Errorf("%s: %v", away.how, err)
			}
		}
		away.back()
		waitFor(t, "systemd to be back", func() (bool, string) {
			answer, err := m.ask(name, time.Second)
			return answer == "active up", fmt.Sprint(answer, err)
		})
	}
}

// ask reads the status within a time and says it in two words.
func (m *manager) ask(unit string, within time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(m.t.Context(), within)
	defer cancel()
	u, err := m.read(ctx, unit)
	return inWords(u), err
}

// self is where this program is on the host, to be started there.
const self = "/root/contract.test"

// askVariable names the unit that this program is to ask about in place of running tests.
const askVariable = "CONTRACT_ASK"

func (m *manager) installSelf() {
	m.t.Helper()
	path, err := os.Executable()
	if err != nil {
		m.t.Fatal(err)
	}
	program, err := os.ReadFile(path)
	if err == nil {
		err = m.host.WriteFile(self, program, 0o755)
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

// askInside asks from a process on the host: PID 1's own socket serves no other.
func (m *manager) askInside(unit string) (string, error) {
	var out, said strings.Builder
	code, err := m.host.Run(m.t.Context(), lab.Command{
		Argv: []string{self}, Env: []string{askVariable + "=" + unit}, Stdout: &out, Stderr: &said,
	})
	if err != nil {
		m.t.Fatal(err)
	}
	if code != 0 {
		return "", errors.New(said.String())
	}
	return out.String(), nil
}

// answerInside is this program when askInside has started it.
func answerInside(unit string) (code int) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	u, err := backend.NewSystemd(0).Unit(ctx, unit)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Print(inWords(u))
	return 0
}

func inWords(u backend.UnitStatus) string {
	if u.Down() {
		return u.ActiveState + " down"
	}
	return u.ActiveState + " up"
}

// sendInit sends a signal to the host's PID 1 from outside, where it is an ordinary process.
func (m *manager) sendInit(pid int, signal unix.Signal) {
	m.t.Helper()
	if err := unix.Kill(pid, signal); err != nil {
		m.t.Fatal(err)
	}
}
