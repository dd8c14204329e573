package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/node-lifecycle/node-lifecycle/internal/lab"
)

func TestCommandLine(t *testing.T) {
	t.Setenv("LAB_CACHE", t.TempDir())
	for _, test := range []struct {
		args string
		code int
		want string // part of the error
	}{
		{args: "", code: 64, want: "no command"},
		{args: "boot x", code: 64, want: `no command "boot"`},
		{args: "up", code: 64, want: "up wants one name"},
		{args: "up a b", code: 64, want: "up wants one name"},
		{args: "up -fast a", code: 64, want: "-fast"},
		{args: "up -file /etc/x a", code: 64, want: "want PATH=SOURCE"},
		{args: "exec a", code: 64, want: "a name and a command"},
		{args: "exec a --", code: 64, want: "a name and a command"},
		{args: "exec missing -- true", code: 126, want: "lab up missing"},
		{args: "cut", code: 64, want: "cut wants one name"},
		{args: "cut ../x", code: 1, want: "no such lab host"},
		{args: "on missing", code: 1, want: "lab up missing"},
		{args: "down missing", code: 1, want: "lab up missing"},
		{args: "status all", code: 64, want: "no argument"},
		{args: "build it", code: 64, want: "no argument"},
		{args: "clean it", code: 64, want: "no argument"},
	} {
		code, err := run(t.Context(), strings.Fields(test.args), io.Discard, io.Discard)
		if code != test.code || err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("lab %s: status %d, %v; want %d with %q", test.args, code, err, test.code, test.want)
		}
	}
}

func TestHelpNamesEveryCommand(t *testing.T) {
	for _, command := range []string{"build", "up", "exec", "cut", "on", "down", "status", "clean"} {
		if !strings.Contains(usage, "\n  "+command+" ") {
			t.Errorf("the usage does not name %q", command)
		}
	}
}

func TestStatusOfNothing(t *testing.T) {
	t.Setenv("LAB_CACHE", t.TempDir())
	var out strings.Builder
	code, err := run(t.Context(), []string{"status"}, &out, io.Discard)
	if code != 0 || err != nil || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("status without hosts: %d, %v, %q", code, err, out.String())
	}
}

// The way a shell script uses the command: every call a process of its own, which
// here are calls that share nothing.
func TestLabCommand(t *testing.T) {
	lab.Require(t)
	name := fmt.Sprintf("command-%d", os.Getpid())
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho under test\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	do := func(args ...string) (string, int) {
		t.Helper()
		var out strings.Builder
		code, err := run(t.Context(), args, &out, t.Output())
		if err != nil {
			t.Fatalf("lab %s: %v", strings.Join(args, " "), err)
		}
		return out.String(), code
	}
	t.Cleanup(func() {
		// Only after a failure is there anything left.
		_, err := run(context.Background(), []string{"down", name}, io.Discard, io.Discard)
		if err != nil && !errors.Is(err, lab.ErrNotFound) {
			t.Errorf("remove the host: %v", err)
		}
	})

	do("up", "-binary", program, "-file", "/opt/copy="+program, "-live-restore", name)
	if out, code := do("exec", name, "--", "sh", "-c", "node-lifecycle; /opt/copy; exit 3"); out != "under test\nunder test\n" || code != 3 {
		t.Errorf("exec: %q, status %d", out, code)
	}
	if out, _ := do("exec", name, "docker", "info", "--format", "{{.LiveRestoreEnabled}}"); out != "true\n" {
		t.Errorf("live-restore is %q", out)
	}
	if _, err := run(t.Context(), []string{"up", name}, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "exists") {
		t.Errorf("up of a host that exists: %v", err)
	}
	expectStatus := func(power, boots string) {
		t.Helper()
		out, _ := do("status")
		for line := range strings.Lines(out) {
			if fields := strings.Fields(line); fields[0] == name {
				if fields[1] != power || fields[3] != boots {
					t.Errorf("status says %q, want %s after %s boots", line, power, boots)
				}
				return
			}
		}
		t.Errorf("status does not list the host:\n%s", out)
	}
	expectStatus("on", "1")
	do("cut", name)
	expectStatus("off", "1")
	if code, err := run(t.Context(), []string{"exec", name, "true"}, io.Discard, io.Discard); code != 126 || !errors.Is(err, lab.ErrOff) {
		t.Errorf("exec while off: status %d, %v", code, err)
	}
	do("on", name)
	expectStatus("on", "2")
	do("down", name)
	if out, _ := do("status"); strings.Contains(out, name) {
		t.Errorf("status after down:\n%s", out)
	}
}
