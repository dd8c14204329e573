package main

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "write what the commands print into the scripts")

// localZone is where every script plays: not UTC, so that an offset that is forgotten
// shows.
var localZone = time.FixedZone("", 3600)

func TestMain(m *testing.M) {
	time.Local = localZone
	testscript.Main(m, map[string]func(){"node-lifecycle": processMain})
}

// TestScripts runs the command line as a person or a unit would. The words behind
// "exits" run in the process of the test, those behind "start" and "exec" in one of
// their own.
func TestScripts(t *testing.T) {
	params := testscript.Params{
		Dir:                 filepath.Join("..", "..", "testdata", "script"),
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               setUp,
		Condition: func(name string) (bool, error) {
			return name == "root" && os.Geteuid() == 0, nil
		},
		Cmds: make(map[string]func(*testscript.TestScript, bool, []string)),
	}
	for name, do := range commands() {
		params.Cmds[name] = func(ts *testscript.TestScript, neg bool, args []string) {
			w := ts.Value(worldKey{}).(*world)
			w.vars = ts.Getenv
			w.last = ts.ReadFile
			w.streams = func() (io.Writer, io.Writer) { return &lockedTo{w: ts.Stdout()}, &lockedTo{w: ts.Stderr()} }
			if err := do(w, args); neg != (err != nil) {
				ts.Fatalf("%s: %v", name, err)
			}
		}
	}
	testscript.Run(t, params)
}

type worldKey struct{}

// setUp gives a script its world, and variables that keep it away from the host's own.
func setUp(env *testscript.Env) error {
	dir, remove, err := socketDir()
	if err != nil {
		return err
	}
	env.Defer(remove)
	for name, value := range map[string]string{
		"NODE_LIFECYCLE_CONFIG":         filepath.Join(env.WorkDir, "config.yaml"),
		"NODE_LIFECYCLE_STATE_DIR":      filepath.Join(env.WorkDir, "state"),
		"NODE_LIFECYCLE_ENGINE_SOCKET":  filepath.Join(dir, "s"),
		"NODE_LIFECYCLE_ENGINE_WAIT":    "20s",
		"NODE_LIFECYCLE_TIMEOUTS_POLL":  "10ms",
		"NODE_LIFECYCLE_TIMEOUTS_LOCK":  "20s",
		"NODE_LIFECYCLE_TIMEOUTS_READY": "20s",
		"LANG":                          "C.UTF-8",
		"GORACE":                        "atexit_sleep_ms=0",
		"ESC":                           "\x1b", "NEWLINE": "\n",
	} {
		env.Setenv(name, value)
	}
	if err := defaultConfig(filepath.Join(env.WorkDir, "config.yaml")); err != nil {
		return err
	}
	w, err := newWorld(env.WorkDir, env.Getenv)
	if err != nil {
		return err
	}
	env.Defer(w.close)
	env.Values[worldKey{}] = w
	return nil
}

// defaultConfig is what a script has that brings none.
func defaultConfig(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	return os.WriteFile(path, []byte(`slots:
  kube1: {container: {image: "`+imageName+`", stop: {grace: 5s}}}
  kube2: {container: {image: "`+imageName+`", stop: {grace: 5s}}}
`), 0o600)
}

// lockedTo makes a writer that several goroutines may use.
type lockedTo struct {
	lockedWriter
	w io.Writer
}

func (l *lockedTo) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// normalise prints the last output again, without what differs from run to run.
func (w *world) normalise([]string) error {
	text := w.last("stdout")
	for _, r := range []struct{ pattern, with string }{
		{regexp.QuoteMeta(w.work), "$$WORK"},
		{regexp.QuoteMeta(w.getenv("NODE_LIFECYCLE_ENGINE_SOCKET")), "$$SOCKET"},
		{`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{3})? \+01:00`, "TIME"},
		{`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`, "TIME"},
		{`\((\d[\d.hms]*)(ns|µs|ms|s)\)`, "(TOOK)"},
		{`(?m)("took":"|took +)\d[\d.hm]*(ns|µs|ms|s)`, "${1}TOOK"},
		{`not ready after [^:]+`, "not ready after TOOK"},
		{`\bin \d+(\.\d+)?(ms|s)\b`, "in TOOK"},
		{`"boottime":\d+`, `"boottime":BOOTTIME`},
		{`"prev":"[0-9a-f]+"`, `"prev":"HASH"`},
		{`(?m)("pid":|pid +)\d{1,7}\b`, "${1}PID"},
		{`just now|\d+(\.\d)? m?s ago`, "AGE"},
		{`(\S)  +`, "$1  "},
	} {
		if r.pattern != "" { // of a variable that the script has emptied
			text = regexp.MustCompile(r.pattern).ReplaceAllString(text, r.with)
		}
	}
	runs := make(map[string]string)
	text = regexp.MustCompile(`\b[0-9A-HJKMNP-TV-Z]{26}\b`).ReplaceAllStringFunc(text, func(id string) string {
		if runs[id] == "" {
			runs[id] = "RUN" + strconv.Itoa(len(runs)+1)
		}
		return runs[id]
	})
	stdout, _ := w.streams()
	_, err := io.WriteString(stdout, text)
	return err
}
