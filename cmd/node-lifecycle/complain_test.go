package main

import (
	"bytes"
	"errors"
	"io"
	"log"
	"os"
	"strings"
	"testing"

	"github.com/node-lifecycle/node-lifecycle/phases"
)

// What an engine or a file says goes to a terminal, or to journald, which reads priorities
// at the beginning of a line.
func TestComplaintsAreEscaped(t *testing.T) {
	for journald, want := range map[bool]string{
		false: "node-lifecycle: no \\x1b]0;owned\\x07such \\u202eimage\n    at line 2\n",
		true:  "<3>no \\x1b]0;owned\\x07such \\u202eimage\n<3>    at line 2\n",
	} {
		var stderr bytes.Buffer
		(&environment{stderr: &stderr, journald: journald}).complain(errors.New("no \x1b]0;owned\x07such \u202eimage\n\tat line 2\n"))
		if stderr.String() != want {
			t.Errorf("%q, want %q", stderr.String(), want)
		}
	}
}

// Libraries have nothing to say on stderr.
func TestStandardLoggerIsSilent(t *testing.T) {
	defer log.SetOutput(os.Stderr)
	prepareProcess()
	if log.Writer() != io.Discard {
		t.Error("net/http would write lines of its own")
	}
}

// No more is repeated of what was typed, or is configured, than it takes to recognise it.
func TestLongWordsAreShortened(t *testing.T) {
	long := "a" + strings.Repeat("b", 10_000)
	for _, args := range [][]string{
		{"history", long}, {"peer-check", long}, {long}, {"config", long}, {"status", "-o", long}, {"status", "--" + long},
		{"history", "kube1", "--since", long}, {"history", "kube1", "-n", long}, {"pre-start", "kube1", long}, {"help", long},
		{"version", long}, {"version", strings.ReplaceAll(long, "bb", "b ")}, {"status", "--color", long},
		{"status", "--config", os.DevNull, "--state-dir", long},
	} {
		code, _, stderr := try(t, t.Context(), nil, args...)
		if code != phases.ExitUsage && code != phases.ExitConfig && code != 255 {
			t.Errorf("%s: exit code %d", args[0], code)
		}
		if len(stderr) > 1200 || !strings.Contains(stderr, "…") && !strings.Contains(stderr, "...") {
			t.Errorf("%.20s: %d bytes: %.300s", strings.Join(args, " "), len(stderr), stderr)
		}
	}
}
