package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestLabHost(t *testing.T) {
	h := New(t, Options{
		Name:        "whole",
		LiveRestore: true,
		Files: map[string]File{
			"/etc/motd":              {Content: "hello\n"},
			"/usr/local/bin/greet":   {Content: "#!/bin/sh\necho greetings from $(hostname)\n", Mode: 0o755},
			"/var/lib/new/dir/plain": {Content: "deep", Mode: 0o600},
		},
	})
	t.Run("is in order", func(t *testing.T) {
		if got := output(t, h, "systemctl", "is-system-running"); got != "running" {
			t.Errorf("the system is %s, want running", got)
		}
		if got := output(t, h, "systemctl", "list-units", "--failed", "--plain", "--no-legend"); got != "" {
			t.Errorf("failed units: %s", got)
		}
		if got := output(t, h, "cat", "/proc/sys/kernel/random/boot_id"); got != h.BootID() {
			t.Errorf("boot id inside %s, outside %s", got, h.BootID())
		}
		if got := output(t, h, "cat", "/proc/1/comm"); got != "systemd" {
			t.Errorf("PID 1 is %s", got)
		}
		if got := output(t, h, "greet"); got != "greetings from whole" {
			t.Errorf("the installed script says %q", got)
		}
		if got := output(t, h, "stat", "-c", "%a %U", "/var/lib/new/dir/plain"); got != "600 root" {
			t.Errorf("mode and owner of an installed file are %s", got)
		}
	})
	t.Run("cannot reach the machine outside", func(t *testing.T) {
		result, err := h.Exec(t.Context(), "sh", "-c", "echo 1 >/proc/sys/kernel/panic")
		if err != nil || result.Code == 0 || !strings.Contains(result.Stderr, "Read-only file system") {
			t.Errorf("writing a kernel setting: %+v, %v", result, err)
		}
		if got := output(t, h, "ls", "/sys/class/net"); !strings.Contains(got, "lo") || strings.Contains(got, "eth") {
			t.Errorf("network interfaces of a host: %s", got)
		}
	})
	t.Run("runs commands", func(t *testing.T) { testExec(t, h) })
	t.Run("runs containers", func(t *testing.T) {
		for _, engine := range []string{"docker", "podman"} {
			// With a network of its own only Docker works everywhere.
			got := output(t, h, engine, "run", "--rm", "--network", "none", BusyboxImage, "echo", "from "+engine)
			if got != "from "+engine {
				t.Errorf("%s run busybox says %q", engine, got)
			}
		}
		if got := output(t, h, "docker", "run", "--rm", BusyboxImage, "ip", "addr"); !strings.Contains(got, "172.17.") {
			t.Errorf("no address on Docker's bridge: %s", got)
		}
	})
	t.Run("restarts its engine", func(t *testing.T) {
		output(t, h, "docker", "run", "--detach", "--name", "survivor", BusyboxImage, "sleep", "600")
		started := output(t, h, "docker", "inspect", "--format", "{{.State.StartedAt}}", "survivor")
		for range 4 { // one more than docker.service's start limit
			if err := h.RestartEngine(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if got := output(t, h, "docker", "inspect", "--format", "{{.State.Running}} {{.State.StartedAt}}", "survivor"); got != "true "+started {
			t.Errorf("with live-restore, after restarts of the engine: %s, want true %s", got, started)
		}
	})
	t.Run("keeps a journal", func(t *testing.T) {
		text, err := h.Journal(t.Context(), "docker.service")
		if err != nil || !strings.Contains(text, "systemd[1]: Started docker.service") {
			t.Errorf("no message of PID 1 in the journal of docker.service: %v\n%s", err, text)
		}
	})
	t.Run("serves the outside", func(t *testing.T) {
		socket := filepath.Join(h.Root(), "run/docker.sock")
		if info, err := os.Stat(socket); err != nil || info.Mode().Type() != fs.ModeSocket {
			t.Errorf("Docker's socket as the outside sees it: %v, %v", info, err)
		}
	})
}

func testExec(t *testing.T, h *Host) {
	for _, test := range []struct {
		script         string
		stdout, stderr string
		code           int
	}{
		{script: "echo out; echo err >&2; exit 7", stdout: "out\n", stderr: "err\n", code: 7},
		{script: "cat /proc/self/cgroup | sed -n 's/^0::.*lab.exec.*/own cgroup/p'; pwd", stdout: "own cgroup\n/\n"},
		{script: "kill -KILL $$", code: 137},
	} {
		got, err := h.Exec(t.Context(), "sh", "-c", test.script)
		want := Result{Stdout: test.stdout, Stderr: test.stderr, Code: test.code}
		if err != nil || got != want {
			t.Errorf("sh -c %q: %+v, %v, want %+v", test.script, got, err, want)
		}
	}
	var out strings.Builder
	code, err := h.Run(t.Context(), Command{
		Argv:   []string{"sh", "-c", "tr a-z A-Z; echo $COLOUR"},
		Env:    []string{"COLOUR=blue"},
		Stdin:  strings.NewReader("shout "),
		Stdout: &out,
	})
	if code != 0 || err != nil || out.String() != "SHOUT blue\n" {
		t.Errorf("a command with streams: %q, status %d, %v", out.String(), code, err)
	}
	if _, err := h.Output(t.Context(), "ls", "/nowhere"); err == nil || !strings.Contains(err.Error(), "ls /nowhere in host whole") {
		t.Errorf("the error of a failed command: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = h.Exec(ctx, "sh", "-c", "sleep 4711 & exec sleep 4712")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a command that outlives its context: %v", err)
	}
	err = WaitFor(t.Context(), "the killed command and its child to be gone", func(ctx context.Context) (bool, string) {
		result, err := h.Exec(ctx, "pgrep", "--full", "sleep 471")
		return err == nil && result.Code == 1, fmt.Sprint(result, err)
	})
	if err != nil {
		t.Error(err)
	}
}

func TestLabPowerCut(t *testing.T) {
	h := New(t, Options{Name: "cut"})
	before := h.BootID()
	output(t, h, "sh", "-c", "echo kept >/var/lib/fact; echo kept >/etc/fact; echo lost >/run/fact")
	output(t, h, "docker", "run", "--detach", "--name", "stack", BusyboxImage, "sleep", "600")
	traces := tracesOf(t, h)

	if err := h.PowerCut(t.Context()); err != nil {
		t.Fatal(err)
	}
	traces.expectGone(t)
	if h.On() || h.PID() != 0 || h.Root() != "" {
		t.Errorf("after a power cut: on %v, pid %d, root %q", h.On(), h.PID(), h.Root())
	}
	if _, err := h.Exec(t.Context(), "true"); !errors.Is(err, ErrOff) {
		t.Errorf("Exec while off: %v, want ErrOff", err)
	}
	if err := h.PowerCut(t.Context()); !errors.Is(err, ErrOff) {
		t.Errorf("a second power cut: %v, want ErrOff", err)
	}
	// The disk can be looked at and tampered with while the host is off.
	for _, path := range []string{"/var/lib/fact", "/etc/fact"} {
		if content, err := h.ReadFile(path); err != nil || string(content) != "kept\n" {
			t.Errorf("%s while off: %q, %v", path, content, err)
		}
	}
	if _, err := h.ReadFile("/run/fact"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("/run/fact while off: %v, want ErrNotExist", err)
	}
	if err := h.WriteFile("/etc/planted", []byte("while off"), 0o640); err != nil {
		t.Error(err)
	}

	if err := h.PowerOn(t.Context()); err != nil {
		t.Fatal(err)
	}
	after := h.BootID()
	if after == before {
		t.Errorf("the boot id is still %s", before)
	}
	if got := output(t, h, "cat", "/proc/sys/kernel/random/boot_id", "/var/lib/fact", "/etc/planted"); got != after+"\nkept\nwhile off" {
		t.Errorf("boot id, kept and planted file: %q", got)
	}
	if _, err := h.ReadFile("/run/fact"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("/run/fact after the boot: %v, want ErrNotExist", err)
	}
	if got := output(t, h, "docker", "inspect", "--format", "{{.State.Status}}", "stack"); got != "exited" {
		t.Errorf("the container is %s after a power cut, want exited", got)
	}
	if got := output(t, h, "journalctl", "--list-boots", "--quiet", "--no-pager"); strings.Count(got, "\n")+1 != 2 {
		t.Errorf("the journal knows of these boots, want two:\n%s", got)
	}
	if err := h.PowerOn(t.Context()); err == nil || !strings.Contains(err.Error(), "it is on") {
		t.Errorf("PowerOn while on: %v", err)
	}
}

func TestLabShutdown(t *testing.T) {
	h := New(t, Options{Name: "orderly", WithoutImages: true, Files: map[string]File{
		"/etc/systemd/system/farewell.service": {Content: "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\nExecStop=/bin/sh -c 'echo bye >/var/lib/farewell'\n"},
	}})
	output(t, h, "systemctl", "start", "farewell.service")
	if err := h.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(filepath.Join(h.Var(), "lib/farewell")); err != nil || string(content) != "bye\n" {
		t.Errorf("what the unit wrote when it was stopped: %q, %v", content, err)
	}
	if err := h.Shutdown(t.Context()); !errors.Is(err, ErrOff) {
		t.Errorf("a second Shutdown: %v, want ErrOff", err)
	}
	// The machine can also go off by itself.
	if err := h.PowerOnEarly(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := h.WaitBooted(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Exec(t.Context(), "systemctl", "--no-block", "reboot"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := h.WaitOff(ctx); err != nil {
		t.Fatal(err)
	}
	if err := h.PowerOn(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestLabLeavesNothingBehind(t *testing.T) {
	Require(t)
	var hosts []*Host
	for range 2 { // at once, and of the same name
		h, err := Boot(t.Context(), Options{Name: "twin", Log: t.Output()})
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		hosts = append(hosts, h)
	}
	if hosts[0].ID() == hosts[1].ID() || hosts[0].BootID() == hosts[1].BootID() {
		t.Errorf("two hosts share id %s or boot id %s", hosts[0].ID(), hosts[0].BootID())
	}
	if output(t, hosts[0], "cat", "/etc/machine-id") == output(t, hosts[1], "cat", "/etc/machine-id") {
		t.Error("two hosts share a machine id")
	}
	for _, h := range hosts {
		output(t, h, "docker", "run", "--detach", "--network", "host", BusyboxImage, "sleep", "600")
	}
	first, second := tracesOf(t, hosts[0]), tracesOf(t, hosts[1])
	if err := hosts[0].Close(); err != nil {
		t.Fatal(err)
	}
	first.expectGone(t)
	if got := output(t, hosts[1], "docker", "ps", "--quiet"); got == "" {
		t.Error("closing one host ended the container of the other")
	}
	if err := hosts[1].Close(); err != nil {
		t.Fatal(err)
	}
	second.expectGone(t)
	for _, h := range hosts {
		if _, err := os.Stat(h.dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the directory of host %s: %v, want ErrNotExist", h.ID(), err)
		}
		if err := h.Close(); err != nil {
			t.Errorf("a second Close: %v", err)
		}
	}
}

func TestLabSaysWhatItWaitsFor(t *testing.T) {
	h := New(t, Options{Name: "slow", WithoutImages: true})
	if err := h.PowerCut(t.Context()); err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string]string{
		"/etc/systemd/system/endless.service":                  "[Service]\nType=oneshot\nExecStart=/bin/sleep infinity\n",
		"/etc/systemd/system/multi-user.target.d/endless.conf": "[Unit]\nWants=endless.service\nAfter=endless.service\n",
	} {
		if err := h.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.PowerOnEarly(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	err := h.WaitBooted(ctx)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "READY=1") || !strings.Contains(err.Error(), "endless.service start running") {
		t.Errorf("a boot that does not end: %v", err)
	}
}

func TestLabNamesABrokenRoot(t *testing.T) {
	Require(t)
	made, err := build(t.Context(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	made.root, made.engines = t.TempDir(), ""
	for _, dir := range []string{"var", "run", "proc", "sys", "dev", "etc/systemd/system"} {
		if err := os.MkdirAll(filepath.Join(made.root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	_, err = bootOn(t.Context(), made, Options{Name: "broken"})
	if err == nil || !strings.Contains(err.Error(), "labinit: execute /lib/systemd/systemd: no such file or directory") {
		t.Errorf("boot without systemd: %v", err)
	}
	hosts, err := List()
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range hosts {
		if strings.HasPrefix(host.ID, "broken.") {
			t.Errorf("left behind: %+v", host)
		}
	}
}

// A test that is killed, or interrupted at the terminal, takes its host with it;
// what is left on disk goes at the next Boot.
func TestLabDiesWithItsMaker(t *testing.T) {
	if os.Getenv("LAB_TEST_ROLE") == "maker" {
		makeAndWait(t)
		return
	}
	Require(t)
	if err := Build(t.Context(), t.Output()); err != nil {
		t.Fatal(err)
	}
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGINT} {
		t.Run(sig.String(), func(t *testing.T) {
			maker := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLabDiesWithItsMaker$", "-test.v")
			maker.Env = append(os.Environ(), "LAB_TEST_ROLE=maker")
			stdout, err := maker.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := maker.Start(); err != nil {
				t.Fatal(err)
			}
			dir := ""
			for lines := bufio.NewScanner(stdout); dir == "" && lines.Scan(); {
				_, dir, _ = strings.Cut(lines.Text(), "made host in ")
			}
			if dir == "" {
				t.Fatalf("the other process made no host: %v", maker.Wait())
			}
			state, err := readState(dir)
			if err != nil {
				t.Fatal(err)
			}
			orphan := tracesOf(t, &Host{dir: dir, state: state})
			if err := maker.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			if err := maker.Wait(); err == nil {
				t.Errorf("the other process was to die of %v", sig)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if err := state.Process.wait(ctx); err != nil {
				t.Fatalf("the host outlives its maker: %v", err)
			}
			// Any Boot does this first.
			c, err := openCache()
			if err != nil {
				t.Fatal(err)
			}
			if err := c.reap(ctx); err != nil {
				t.Fatal(err)
			}
			orphan.expectGone(t)
			if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the directory of the dead host: %v, want ErrNotExist", err)
			}
		})
	}
}

func makeAndWait(t *testing.T) {
	h, err := Boot(t.Context(), Options{Name: "orphan", WithoutImages: true})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("made host in", h.dir)
	<-t.Context().Done()
}

func output(t *testing.T, h *Host, argv ...string) string {
	t.Helper()
	out, err := h.Output(t.Context(), argv...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
