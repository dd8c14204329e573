package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/node-lifecycle/node-lifecycle/internal/config"
	"github.com/node-lifecycle/node-lifecycle/journal"
	"github.com/node-lifecycle/node-lifecycle/phases"
)

// try runs a command line that reaches neither an engine nor systemd.
func try(t *testing.T, ctx context.Context, vars map[string]string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	work := t.TempDir()
	all := map[string]string{
		"WORK": work, "NODE_LIFECYCLE_CONFIG": os.DevNull, "NODE_LIFECYCLE_STATE_DIR": filepath.Join(work, "state"),
	}
	for name, value := range vars {
		all[name] = value
	}
	var out, err bytes.Buffer
	env := testEnvironment(args, func(name string) string { return all[name] }, &out, &err)
	code = Main(ctx, env)
	return code, out.String(), err.String()
}

func TestWithSignals(t *testing.T) {
	for _, tc := range []struct {
		signal syscall.Signal
		want   phases.Interrupted
	}{
		{syscall.SIGTERM, phases.Interrupted{Signal: 15, Name: "SIGTERM"}},
		{syscall.SIGINT, phases.Interrupted{Signal: 2, Name: "SIGINT"}},
		{syscall.SIGHUP, phases.Interrupted{Signal: 1, Name: "SIGHUP"}},
	} {
		ctx, stop := withSignals(t.Context())
		if err := syscall.Kill(os.Getpid(), tc.signal); err != nil {
			t.Fatal(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(patience):
			t.Fatalf("%s was not heard", tc.want.Name)
		}
		var got phases.Interrupted
		if !errors.As(context.Cause(ctx), &got) || got != tc.want {
			t.Errorf("cause %v, want %v", context.Cause(ctx), tc.want)
		}
		stop()
		stop() // does no harm
	}
	ctx, stop := withSignals(t.Context())
	stop()
	if ctx.Err() == nil {
		t.Error("the context goes on after its stop")
	}
}

func TestOrInterrupted(t *testing.T) {
	signal := phases.Interrupted{Signal: 2, Name: "SIGINT"}
	interrupted, cancel := context.WithCancelCause(t.Context())
	cancel(signal)
	locked := &journal.Error{Kind: journal.KindLocked, Err: context.Canceled}
	phase := &phases.Error{Cause: phases.CauseUnproven, Err: errors.New("still there")}
	for _, tc := range []struct {
		name string
		ctx  context.Context
		err  error
		want error
	}{
		{"a wait that the signal ended", interrupted, locked, signal},
		{"a phase knows better", interrupted, phase, phase},
		{"no signal", t.Context(), locked, locked},
	} {
		if got := orInterrupted(tc.ctx, tc.err); !errors.Is(got, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
	usage := usagef("wrong")
	if got := orInterrupted(interrupted, usage); got != usage {
		t.Errorf("a wrong line stays one: %v", got)
	}
}

// Whoever only looks and is interrupted while waiting has not found a locked journal.
func TestMain_InterruptedWhileLooking(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(phases.Interrupted{Signal: 2, Name: "SIGINT"})
	state := t.TempDir()
	j := journal.New(state, journal.Options{Preallocate: -1})
	if err := j.Append(t.Context(), func(tx *journal.Tx) error {
		return tx.SetHead("kube1", func(h *journal.Head) { h.State = "Stopped" })
	}); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"history", "status", "graph"} {
		code, stdout, stderr := try(t, ctx, map[string]string{"NODE_LIFECYCLE_STATE_DIR": state}, command, "kube1")
		if code != 130 || stdout != "" || stderr != "node-lifecycle: interrupted by SIGINT\n" {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", command, code, stdout, stderr)
		}
	}
}

func TestMain_Panic(t *testing.T) {
	code, stdout, stderr := try(t, t.Context(), map[string]string{"TEST_PANIC": "main"}, "pre-start", "kube1")
	if code != phases.ExitBug || stdout != "" || !strings.HasPrefix(stderr, "node-lifecycle: bug: asked for\n") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

func TestPeerCheckExit(t *testing.T) {
	for code := range 256 {
		want := 255
		if code == 0 || code == 76 {
			want = code
		}
		if got := peerCheckExit(code); got != want {
			t.Errorf("%d becomes %d, want %d", code, got, want)
		}
	}
}

// An exit code survives whatever an error is wrapped in.
func TestExit(t *testing.T) {
	refused := &phases.Error{Slot: "kube1", Phase: "pre-start", Cause: phases.CausePeerAlive, Err: errors.New("up"), Refused: true}
	for _, tc := range []struct {
		name  string
		err   error
		code  int
		quiet bool
	}{
		{"usage", usagef("wrong"), 64, false},
		{"usage, wrapped", fmt.Errorf("a: %w", fmt.Errorf("b: %w", usagef("wrong"))), 64, false},
		{"a code of its own", fmt.Errorf("a: %w", &exitError{code: 7, err: errors.New("died")}), 7, false},
		{"a code and no words", fmt.Errorf("a: %w", &exitError{code: 3, quiet: true}), 3, true},
		{"a phase", refused, 76, false},
		{"a phase, wrapped and joined", errors.Join(errors.New("first"), fmt.Errorf("a: %w", refused)), 76, false},
		{"the configuration", fmt.Errorf("a: %w", &config.Error{File: "f", Message: "wrong"}), 78, false},
		{"the journal", fmt.Errorf("a: %w", &journal.Error{Kind: journal.KindCorrupt, Err: errors.New("bad")}), 74, false},
		{"a signal", fmt.Errorf("a: %w", phases.Interrupted{Signal: 15, Name: "SIGTERM"}), 143, false},
		{"a reader that has seen enough", fmt.Errorf("a: %w", &outputError{syscall.EPIPE}), 0, true},
		{"a connection to the engine that broke", fmt.Errorf("a: %w", &phases.Error{Cause: phases.CauseEngine, Err: syscall.EPIPE}), 69, false},
		{"a broken pipe of nobody knows whom", syscall.EPIPE, 70, false},
		{"a full disk", &outputError{syscall.ENOSPC}, 74, false},
		{"nothing known", errors.New("what"), 70, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var stderr bytes.Buffer
			env := &environment{stderr: &stderr}
			if got := env.exit(tc.err); got != tc.code || (stderr.Len() == 0) != tc.quiet {
				t.Errorf("exit code %d, want %d; stderr %q", got, tc.code, stderr.String())
			}
		})
	}
	if got := (&exitError{code: 3}).Error(); got != "exit code 3" {
		t.Errorf("without words it is %q", got)
	}
}

// printing are command lines that print.
var printing = [][]string{
	{"status"}, {"history", "kube1"}, {"history", "kube1", "-o", "verbose"}, {"graph"}, {"graph", "--resume"},
	{"config", "show"}, {"units"}, {"version"}, {"version", "-o", "json"}, {"--version"},
	{"completion", "bash"}, {"__complete", ""},
	{"help", "exit-codes"}, {"help"}, {}, {"help", "history"}, {"config", "--help"}, {"--help"},
}

// Output that cannot be written is an error, whatever it was.
func TestMain_OutputCannotBeWritten(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	for _, args := range printing {
		vars := map[string]string{"NODE_LIFECYCLE_CONFIG": os.DevNull, "WORK": t.TempDir()}
		if !slices.Equal(args, []string{"units"}) {
			vars["NODE_LIFECYCLE_STATE_DIR"] = t.TempDir()
		}
		var stderr bytes.Buffer
		env := testEnvironment(args, func(name string) string { return vars[name] }, full, &stderr)
		env.systemd.(*fakeSystemd).dir = t.TempDir()
		if code := Main(t.Context(), env); code != phases.ExitIO || !strings.Contains(stderr.String(), "no space left on device") {
			t.Errorf("%v: exit code %d, stderr %q", args, code, stderr.String())
		}
	}
}

// Every command that prints ends well and quietly when its reader has gone.
func TestMain_ReaderGone(t *testing.T) {
	for _, args := range printing {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		vars := map[string]string{"NODE_LIFECYCLE_CONFIG": os.DevNull, "NODE_LIFECYCLE_STATE_DIR": t.TempDir(), "WORK": t.TempDir()}
		if slices.Equal(args, []string{"units"}) {
			delete(vars, "NODE_LIFECYCLE_STATE_DIR")
		}
		var stderr bytes.Buffer
		env := testEnvironment(args, func(name string) string { return vars[name] }, w, &stderr)
		env.systemd.(*fakeSystemd).dir = t.TempDir()
		code := Main(t.Context(), env)
		said := regexp.MustCompile("(?m)^node-lifecycle: there is no journal yet; .*\n").ReplaceAllString(stderr.String(), "")
		if code != 0 || said != "" {
			t.Errorf("%v: exit code %d, stderr %q", args, code, said)
		}
		w.Close()
	}
}

func TestComplain(t *testing.T) {
	err := errors.Join(errors.New("first\n"), errors.New("second"))
	for journald, want := range map[bool]string{
		false: "node-lifecycle: first\n\nsecond\n",
		true:  "<3>first\n<3>\n<3>second\n",
	} {
		var stderr bytes.Buffer
		(&environment{stderr: &stderr, journald: journald}).complain(err)
		if stderr.String() != want {
			t.Errorf("%q, want %q", stderr.String(), want)
		}
	}
}

func TestIsJournalStream(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "stream"))
	if err != nil {
		t.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	stat := info.Sys().(*syscall.Stat_t)
	mine := fmt.Sprintf("%d:%d", stat.Dev, stat.Ino)
	for stream, want := range map[string]bool{
		mine: true, "": false, "1:2": false, mine + "0": false, "what": false,
		fmt.Sprintf("%d:%d", stat.Dev, stat.Ino+1): false,
	} {
		if got := isJournalStream(f, stream); got != want {
			t.Errorf("JOURNAL_STREAM=%q: %t, want %t", stream, got, want)
		}
	}
	f.Close()
	if isJournalStream(f, mine) {
		t.Error("a closed file is no stream")
	}
}

// The real environment: this process, its own files, the host's paths.
func TestHostEnvironment(t *testing.T) {
	t.Setenv("INVOCATION_ID", "f00d")
	env := hostEnvironment()
	if env.self.PID != os.Getpid() || env.self.Activation != "f00d" || env.self.Version == "" {
		t.Errorf("self is %+v", env.self)
	}
	if !env.host.ProcessAlive(env.self.PID, env.self.Start) || env.host.Boot() == "" {
		t.Error("this process is not known to be alive in this boot")
	}
	if env.hostLock != "/run/lock/node-lifecycle.lock" || env.runtimeDir != "/run/node-lifecycle" || env.unitDir != "/etc/systemd/system" {
		t.Errorf("paths that every process of a host must agree on: %s, %s, %s", env.hostLock, env.runtimeDir, env.unitDir)
	}
	if !filepath.IsAbs(env.binary) || env.systemd != nil || env.stdout != io.Writer(os.Stdout) || env.getenv("INVOCATION_ID") != "f00d" {
		t.Errorf("environment %+v", env)
	}
}

func TestVersion(t *testing.T) {
	defer func(before string) { buildVersion = before }(buildVersion)
	buildVersion = ""
	if got := version(); got != "devel" && !strings.HasPrefix(got, "devel-") && got != "unknown" {
		t.Errorf("a version without a release: %q", got)
	}
	buildVersion = "1.2.3"
	if code, stdout, _ := try(t, t.Context(), nil, "version"); code != 0 || stdout != "node-lifecycle 1.2.3\n" {
		t.Errorf("exit code %d, stdout %q", code, stdout)
	}
}

// A status line says first what deserves attention most.
func TestSlotStatus(t *testing.T) {
	e := &environment{host: testHost{boot: "b1"}}
	for _, tc := range []struct {
		name               string
		head               journal.Head
		claim              journal.Claim
		state, holds, note string
	}{
		{"never started", journal.Head{}, journal.Claim{}, "Stopped", "-", ""},
		{"the claim is ours", journal.Head{State: "Wired"}, journal.Claim{Holder: "kube1", Epoch: 3}, "Wired", "held, epoch 3", ""},
		{"the claim is the peer's", journal.Head{State: "Stopped"}, journal.Claim{Holder: "kube2", Epoch: 3}, "Stopped", "-", ""},
		{"the claim is lost", journal.Head{State: "Stopped"}, journal.Claim{Holder: "kube2", Unknown: true}, "Stopped", "unknown", ""},
		{"one failure is none to count", journal.Head{State: "Failed", Attempts: 1}, journal.Claim{}, "Failed", "-", ""},
		{"some are", journal.Head{State: "Failed", Attempts: 4}, journal.Claim{}, "Failed", "-", "4 attempts in a row have not reached Wired"},
		{
			"a run of another boot is no run", journal.Head{State: "Starting", Attempts: 4, Open: &journal.Open{Phase: "post-start", Step: "wait-ready", PID: os.Getpid(), Boot: "b0"}},
			journal.Claim{}, "Starting", "-", "interrupted post-start: wait-ready | 4 attempts in a row have not reached Wired",
		},
		{
			"a run without a step", journal.Head{State: "Stopped", Open: &journal.Open{Phase: "pre-start", Boot: "b0"}},
			journal.Claim{}, "Stopped", "-", "interrupted pre-start",
		},
	} {
		s := e.fromBooks(&books{
			cfg: load(t, ""), heads: map[string]journal.Head{"kube1": tc.head}, claims: map[string]journal.Claim{"kube1": tc.claim},
		}, "kube1")
		if notes := strings.Join(s.notes(), " | "); s.State != tc.state || s.claim() != tc.holds || notes != tc.note {
			t.Errorf("%s: %s, claim %q, notes %q", tc.name, s.State, s.claim(), notes)
		}
	}
}
