package host

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestUnitOf(t *testing.T) {
	for _, tc := range []struct{ name, cgroups, want string }{
		{"unified", "0::/system.slice/node-stack@kube1.service\n", "node-stack@kube1.service"},
		{"template in its own slice", "0::/system.slice/system-node\\x2dstack.slice/node-stack@kube2.service\n", "node-stack@kube2.service"},
		{"below a service that delegates", "0::/system.slice/agent.service/payload/0\n", "agent.service"},
		{"hybrid", "12:pids:/system.slice/x.service\n1:name=systemd:/system.slice/y.service\n0::/\n", "y.service"},
		{"login session", "0::/user.slice/user-0.slice/session-3.scope\n", ""},
		{"user's own manager", "0::/user.slice/user-0.slice/user@0.service/app.slice/run.scope\n", "user@0.service"},
		{"root", "0::/\n", ""},
		{"empty", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := unitOf(tc.cgroups); got != tc.want {
				t.Errorf("unitOf(%q) = %q, want %q", tc.cgroups, got, tc.want)
			}
		})
	}
}

func TestLinux_ProcessAlive(t *testing.T) {
	var l Linux
	cmd := exec.Command("cat")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	start, err := l.StartTime(pid)
	if err != nil {
		t.Fatal(err)
	}
	if !l.ProcessAlive(pid, start) {
		t.Error("a running process is not alive")
	}
	if l.ProcessAlive(pid, start+1) {
		t.Error("a process with another start time is alive: a number used again would be taken for the old one")
	}
	stdin.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if l.ProcessAlive(pid, start) {
		t.Error("a process that has ended is alive")
	}
}

func TestLinux_Stat(t *testing.T) {
	fields := strings.Repeat(" 0", 18)
	for _, tc := range []struct {
		name, line string
		alive      bool
	}{
		{"plain", "7 (cat) S" + fields + " 4242 0 0", true},
		{"a name with spaces and brackets", "7 (a ) Z (b) S" + fields + " 4242 0 0", true},
		{"zombie", "7 (cat) Z" + fields + " 4242 0 0", false},
		{"cut off", "7 (cat) S 0 0", false},
		{"no bracket", "garbage", false},
		{"not a number", "7 (cat) S" + fields + " x 0 0", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.Mkdir(filepath.Join(dir, "7"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "7/stat"), []byte(tc.line), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := (Linux{Proc: dir}).ProcessAlive(7, 4242); got != tc.alive {
				t.Errorf("ProcessAlive = %v, want %v", got, tc.alive)
			}
		})
	}
}

func TestLinux_Boot(t *testing.T) {
	if boot := (Linux{}).Boot(); len(boot) != 32 || strings.Contains(boot, "-") {
		t.Errorf("Boot() = %q, want 32 hexadecimal digits", boot)
	}
	if boot := (Linux{Proc: t.TempDir()}).Boot(); boot != "" {
		t.Errorf("Boot() without procfs = %q, want none", boot)
	}
	if (Linux{}).Boottime() <= 0 {
		t.Error("Boottime() is not positive")
	}
}
