package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"testing"
	"time"
)

// One node stack on each engine, one after the other: both use the host's
// network, as a real one does.
func TestLabNode(t *testing.T) {
	h := New(t, Options{Name: "node"})
	for _, engine := range []string{"docker", "podman"} {
		t.Run(engine, func(t *testing.T) {
			n := &testNode{h: h, engine: engine, control: "/var/lib/" + engine + "-node"}
			output(t, h, "mkdir", "--parents", n.control)
			began := time.Now()
			n.run(t)
			n.waitBooted(t)
			t.Logf("node container on %s: running %v after its start", engine, time.Since(began).Round(time.Millisecond))
			n.testUnits(t)
			n.testHealth(t)
			n.testStop(t)
			n.testKill(t)
			n.testPowerOff(t)
		})
	}
}

type testNode struct {
	h       *Host
	engine  string
	control string // the control directory as the host sees it
}

func (n *testNode) run(t *testing.T) {
	t.Helper()
	output(t, n.h, append([]string{n.engine}, NodeRunArguments("node", n.control+":"+NodeControl)...)...)
}

func (n *testNode) remove(t *testing.T) {
	t.Helper()
	output(t, n.h, n.engine, "rm", "node")
}

func (n *testNode) waitBooted(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := WaitFor(ctx, "the node to have booted", func(ctx context.Context) (bool, string) {
		result, err := n.h.Exec(ctx, n.engine, "exec", "node", "systemctl", "is-system-running", "--wait")
		return err == nil && strings.TrimSpace(result.Stdout) == "running", fmt.Sprint(result, err)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (n *testNode) testUnits(t *testing.T) {
	t.Helper()
	got := output(t, n.h, n.engine, "exec", "node", "systemctl", "is-active", "containerd", "kubelet", "mark")
	if got != "active\nactive\nactive" {
		t.Errorf("containerd, kubelet and mark are %q", got)
	}
	if got := output(t, n.h, n.engine, "exec", "node", "ctr", "version"); !strings.Contains(got, "Server:") {
		t.Errorf("containerd does not answer: %s", got)
	}
}

func (n *testNode) testHealth(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	// "late" counts from the stand-in's start, so only a long wait is a wait.
	for _, step := range []struct {
		mode    string
		healthy bool
	}{{"ready", true}, {"never", false}, {"late 0", true}, {"late 3600", false}, {"ready", true}} {
		n.setMode(t, step.mode)
		if got := n.healthy(ctx); got != step.healthy {
			t.Errorf("mode %s: healthy %v, want %v", step.mode, got, step.healthy)
		}
	}
	n.setMode(t, "flapping")
	if first, second := n.healthy(ctx), n.healthy(ctx); first == second {
		t.Errorf("mode flapping: twice healthy %v", first)
	}
	n.setMode(t, "late 2")
	output(t, n.h, n.engine, "exec", "node", "systemctl", "restart", "kubelet")
	err := WaitFor(ctx, "kubelet to become ready late", func(ctx context.Context) (bool, string) { return n.healthy(ctx), "" })
	if err != nil {
		t.Error(err)
	}
	n.setMode(t, "ready")
}

func (n *testNode) setMode(t *testing.T, mode string) {
	t.Helper()
	if err := n.h.WriteFile(path.Join(n.control, NodeControlMode), []byte(mode+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (n *testNode) healthy(ctx context.Context) bool {
	result, err := n.h.Exec(ctx, "busybox", "wget", "-q", "-O", "-", NodeHealthz)
	return err == nil && result.Code == 0 && result.Stdout == "ok"
}

func (n *testNode) stoppedInOrder(t *testing.T) bool {
	t.Helper()
	_, err := n.h.ReadFile(path.Join(n.control, NodeControlMark))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

func (n *testNode) exitCode(t *testing.T) string {
	t.Helper()
	return output(t, n.h, n.engine, "inspect", "--format", "{{.State.Running}} {{.State.ExitCode}}", "node")
}

func (n *testNode) testStop(t *testing.T) {
	t.Helper()
	if n.stoppedInOrder(t) {
		t.Error("a running node has the mark of an orderly stop")
	}
	began := time.Now()
	output(t, n.h, n.engine, "stop", "node")
	t.Logf("node container on %s: stopped in %v", n.engine, time.Since(began).Round(time.Millisecond))
	if !n.stoppedInOrder(t) {
		t.Error("no mark after an orderly stop")
	}
	if got := n.exitCode(t); got != "false 130" { // systemd's own
		t.Errorf("running and exit code after an orderly stop: %s, want false 130", got)
	}
	n.remove(t)
}

func (n *testNode) testKill(t *testing.T) {
	t.Helper()
	n.run(t)
	n.waitBooted(t)
	output(t, n.h, n.engine, "kill", "node")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	n.waitExited(t, ctx)
	if n.stoppedInOrder(t) {
		t.Error("a killed node left the mark of an orderly stop")
	}
	n.remove(t)
}

func (n *testNode) testPowerOff(t *testing.T) {
	t.Helper()
	n.run(t)
	n.waitBooted(t)
	output(t, n.h, n.engine, "exec", "node", "systemctl", "--no-block", "poweroff")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	n.waitExited(t, ctx)
	if !n.stoppedInOrder(t) {
		t.Error("no mark after poweroff inside the node")
	}
	if got := n.exitCode(t); got != "false 0" && got != "false 130" {
		t.Errorf("running and exit code after poweroff: %s", got)
	}
	n.remove(t)
}

func (n *testNode) waitExited(t *testing.T, ctx context.Context) {
	t.Helper()
	err := WaitFor(ctx, "the node's container to exit", func(context.Context) (bool, string) {
		state := n.exitCode(t)
		return strings.HasPrefix(state, "false "), state
	})
	if err != nil {
		t.Fatal(err)
	}
}
