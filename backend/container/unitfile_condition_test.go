package container

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// condition is the command of the rendered ExecCondition=, as systemd would run it.
func condition(t *testing.T, binary string) []string {
	t.Helper()
	content, err := RenderTemplate(UnitParams{Binary: binary})
	if err != nil {
		t.Fatal(err)
	}
	line := parseDirectives(t, content)["Service.ExecCondition"][0]
	words, ok := systemdWords(line, true)
	if !ok {
		t.Fatalf("systemd would not read %s", line)
	}
	return words
}

// Only the two answers of peer-check may be anything but 255 to systemd: it takes every
// code from 1 to 254 for a condition that is not met, and leaves the unit down for good.
func TestConditionPassesOnlyItsTwoAnswers(t *testing.T) {
	binary := filepath.Join(t.TempDir(), `50% of  "a"`, "node-lifecycle")
	if err := os.MkdirAll(filepath.Dir(binary), 0o700); err != nil {
		t.Fatal(err)
	}
	// A name that systemd would not accept in the first word of a line stands behind the shell.
	argv := condition(t, "/usr/bin/node-lifecycle")
	argv[3] = binary
	for _, code := range []int{0, 1, 2, 64, 70, 75, 76, 77, 126, 127, 134, 143, 203, 226, 238, 254, 255} {
		want := 255
		if code == 0 || code == 76 {
			want = code
		}
		writeProgram(t, binary, fmt.Sprintf(`[ "$*" = "peer-check <instance>" ] || exit 0; exit %d`, code))
		checkCondition(t, fmt.Sprint("exit code ", code), argv, want)
	}
	for name, end := range map[string]string{"SIGABRT": "kill -ABRT $$", "SIGKILL": "kill -KILL $$", "SIGTERM": "kill -TERM $$"} {
		writeProgram(t, binary, end)
		checkCondition(t, name, argv, 255)
	}
	if err := os.Chmod(binary, 0o600); err != nil {
		t.Fatal(err)
	}
	checkCondition(t, "a binary that is not executable", argv, 255)
	if err := os.Remove(binary); err != nil {
		t.Fatal(err)
	}
	checkCondition(t, "no binary", argv, 255)
}

func writeProgram(t *testing.T, path, script string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
}

func checkCondition(t *testing.T, name string, argv []string, want int) {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != want {
		t.Errorf("%s: %d, want %d", name, got, want)
	}
}

// systemd ends a command by a signal to all its processes.
func TestConditionEndsWithItsControlGroup(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "node-lifecycle")
	started := filepath.Join(t.TempDir(), "started")
	writeProgram(t, binary, "touch "+started+"; exec sleep 60")
	argv := condition(t, binary)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(started); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the command behind the shell did not start within 10 s")
		}
	}
	began := time.Now()
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() == 0 || cmd.ProcessState.ExitCode() == 76 {
		t.Errorf("it ended with %v", cmd.ProcessState)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
}
