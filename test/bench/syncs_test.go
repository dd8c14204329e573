// Package bench measures the goals of node-lifecycle. Each prints a line
// "RATIO name value goal<=value"; a goal that is missed fails.
//
// Times on a shared machine mean nothing, so goals are counts, or ratios within one run.
package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/node-lifecycle/node-lifecycle/fsm"
	"github.com/node-lifecycle/node-lifecycle/internal/lab"
	"github.com/node-lifecycle/node-lifecycle/journal"
)

const configuration = `version: 1
timeouts: {ready: 1m, poll: 200ms}
slots:
  kube1:
    peer: kube2
    container:
      image: ` + lab.BusyboxImage + `
      pull: never
      network: host
      command: [/bin/sh, -c, "trap 'exit 0' TERM; while :; do sleep 1 & wait $!; done"]
      stop: {signal: SIGTERM, grace: 5s}
    ready: [{exec: ["true"]}]
    after_start: ["true"]
`

// TestSyncs counts what a phase makes the disk wait for: two syncs a commit, and one
// commit more than it has steps. It runs the phases by hand, under strace, on a host
// whose unit is down.
func TestSyncs(t *testing.T) {
	lab.Require(t)
	strace, err := exec.LookPath("strace")
	if err != nil {
		if os.Getenv("LAB") == "required" {
			t.Fatal("needs strace: apt-get install strace")
		}
		t.Skip("needs strace: apt-get install strace")
	}
	h := lab.New(t, lab.Options{
		Name: "bench", Binary: build(t),
		Files: map[string]lab.File{"/etc/node-lifecycle/config.yaml": {Content: configuration}},
	})
	// The file is there, as on any host that has started a slot before.
	for _, command := range [][]string{{"units", "--install"}, {"reset", "kube1"}} {
		if _, err := h.Output(t.Context(), append([]string{"node-lifecycle"}, command...)...); err != nil {
			t.Fatal(err)
		}
	}
	trace := func(phase string) {
		syncs := underStrace(t, h, strace, "node-lifecycle", phase, "kube1")
		steps := lastSteps(t, h, phase)
		goal(t, "syncs-"+phase, float64(syncs)/float64(2*(steps+1)), 1)
	}

	trace("pre-start")
	running, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = h.Exec(running, "node-lifecycle", "run", "kube1") // its end is the next phase's business
	}()
	trace("post-start")
	if _, err := h.Output(t.Context(), "node-lifecycle", "stop", "kube1"); err != nil {
		t.Error(err)
	}
	trace("post-stop")
	stop()
	<-ended
}

// goal prints a measured value and fails if it misses its goal.
func goal(t *testing.T, name string, value, atMost float64) {
	t.Helper()
	fmt.Printf("RATIO %s %.2f goal<=%.2f\n", name, value, atMost)
	if value > atMost {
		t.Errorf("%s is %.2f, over its goal of %.2f", name, value, atMost)
	}
}

// underStrace runs a command in the host, watched from outside, and returns how often it
// had the disk sync.
func underStrace(t *testing.T, h *lab.Host, strace string, argv ...string) int {
	t.Helper()
	out := filepath.Join(t.TempDir(), "trace")
	args := append([]string{"-f", "-e", "trace=fdatasync,fsync,msync,sync_file_range,syncfs", "-o", out,
		"nsenter", "--target", strconv.Itoa(h.PID()), "--all", "--"}, argv...)
	cmd := exec.CommandContext(t.Context(), strace, args...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, text)
	}
	f, err := os.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	count := 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		if strings.Contains(line, "sync(") || strings.Contains(line, "sync_file_range(") || strings.Contains(line, "syncfs(") {
			count++
		}
	}
	if count == 0 {
		t.Fatal("strace saw no sync at all: it did not follow the phase")
	}
	return count
}

// lastSteps is how many steps the last run of the phase began.
func lastSteps(t *testing.T, h *lab.Host, phase string) int {
	t.Helper()
	text, err := h.Output(t.Context(), "node-lifecycle", "history", "kube1", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	run, steps := "", 0
	for line := range strings.Lines(text) {
		var e journal.Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.Phase != phase {
			continue
		}
		if e.Run != run {
			run, steps = e.Run, 0
		}
		if e.Kind == string(fsm.NoteIntent) {
			steps++
		}
	}
	if steps == 0 {
		t.Fatalf("the history knows of no step of %s", phase)
	}
	return steps
}

// build makes the program as it is shipped.
func build(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "node-lifecycle")
	cmd := exec.Command("go", "build", "-trimpath", "-tags", "urfave_cli_no_docs", "-o", path,
		"github.com/node-lifecycle/node-lifecycle/cmd/node-lifecycle")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build node-lifecycle: %v\n%s", err, out)
	}
	return path
}
