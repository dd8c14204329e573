// Package e2e holds the scenarios of the main job: every one runs on a real systemd and a
// real Docker, in the lab, and asserts on what a person would see: the unit, the
// containers and the slot's history.
package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/node-lifecycle/node-lifecycle/fsm"
	"github.com/node-lifecycle/node-lifecycle/internal/lab"
	"github.com/node-lifecycle/node-lifecycle/journal"
)

// patience is how long a scenario waits for what must come; none is slower than this
// unless it says so itself.
const patience = 60 * time.Second

// host is a lab host with node-lifecycle installed.
type host struct {
	*lab.Host
	t *testing.T
}

// shared is the host of all scenarios that leave it as they found it.
var shared struct {
	once sync.Once
	host *lab.Host
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.host != nil {
		if err := shared.host.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "close the shared lab host:", err)
			code = 1
		}
	}
	_ = os.Remove(binaryPath) // it may never have been built
	os.Exit(code)
}

// newHost gives the shared host, with no trace of an earlier scenario, and the
// configuration installed.
func newHost(t *testing.T, config string) *host {
	t.Helper()
	lab.Require(t)
	shared.once.Do(func() {
		shared.host, shared.err = lab.Boot(context.Background(), options(t, lab.Options{Name: "e2e"}))
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return (&host{Host: shared.host}).again(t, config)
}

// again gives the host to another scenario, or to one part of it, as if it were new.
func (h *host) again(t *testing.T, config string) *host {
	t.Helper()
	h = &host{Host: h.Host, t: t}
	if !h.On() {
		h.powerOn()
	}
	h.reset()
	h.configure(config)
	h.tellWhenFailed()
	return h
}

// ownHost boots a host for this scenario alone.
func ownHost(t *testing.T, config string, o lab.Options) *host {
	t.Helper()
	lab.Require(t)
	h := &host{Host: lab.New(t, options(t, o)), t: t}
	h.configure(config)
	h.tellWhenFailed()
	return h
}

func options(t testing.TB, o lab.Options) lab.Options {
	o.Binary = binary(t)
	return o
}

// binary is the program under test, built once, as it is shipped.
func binary(t testing.TB) string {
	t.Helper()
	path, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var binaryPath = filepath.Join(os.TempDir(), fmt.Sprintf("node-lifecycle-e2e-%d", os.Getpid()))

var buildOnce = sync.OnceValues(func() (string, error) { return buildTo(binaryPath, "urfave_cli_no_docs") })

// build builds the program with other tags than it is shipped with.
func build(t testing.TB, tags string) string {
	t.Helper()
	path, err := buildTo(filepath.Join(t.TempDir(), "node-lifecycle"), tags)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func buildTo(path, tags string, flags ...string) (string, error) {
	argv := slices.Concat([]string{"build", "-trimpath", "-tags", tags, "-o", path}, flags,
		[]string{"github.com/node-lifecycle/node-lifecycle/cmd/node-lifecycle"})
	build := exec.Command("go", argv...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build node-lifecycle: %w\n%s", err, out)
	}
	return path, nil
}

// reset takes everything away that a scenario may have left. It is one script, since every
// scenario begins with it.
func (h *host) reset() {
	h.t.Helper()
	h.ok("sh", "-c", `exec 2>/dev/null
rm -f /etc/systemd/system/*.wants/node-*
systemctl kill --signal=KILL 'node-stack@*.service'
systemctl stop 'node-stack@*.service' 'node-lifecycle-*'
if [ "$(systemctl is-active docker.service)" != active ] || [ -L /etc/systemd/system/docker.service ]; then
	systemctl unmask --quiet docker.service docker.socket
	systemctl reset-failed
	systemctl start docker.socket docker.service
fi
docker ps -aq | xargs -r docker rm -f >/dev/null
rm -rf /var/lib/node-lifecycle /var/lib/node /run/node-lifecycle /etc/systemd/system/node-* /etc/node-lifecycle /root/scenario
systemctl daemon-reload
systemctl reset-failed
[ -z "$(docker ps -aq)" ]`)
}

// configure installs the configuration and the units that follow from it.
func (h *host) configure(config string) {
	h.t.Helper()
	h.write("/etc/node-lifecycle/config.yaml", config)
	for _, slot := range []string{"kube1", "kube2"} {
		h.ok("mkdir", "-p", "/var/lib/node/"+slot+"/lab", "/var/lib/node/"+slot+"/containerd", "/var/lib/node/pair")
		h.write("/var/lib/node/"+slot+"/lab/mode", "ready\n")
	}
	h.ok("node-lifecycle", "units", "--install")
}

// tellWhenFailed logs what an engineer would look at first.
func (h *host) tellWhenFailed() {
	h.t.Cleanup(func() {
		if !h.t.Failed() || !h.On() {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		for _, argv := range [][]string{
			{"node-lifecycle", "status"},
			{"node-lifecycle", "history", "kube1", "-o", "verbose", "-n", "60"},
			{"node-lifecycle", "history", "kube2", "-o", "verbose", "-n", "60"},
			{"journalctl", "--boot", "--no-pager", "-o", "short-precise", "-n", "120", "-u", "node-*"},
			{"docker", "ps", "-a"},
		} {
			result, err := h.Exec(ctx, argv...)
			h.t.Logf("%s: %v\n%s%s", strings.Join(argv, " "), err, result.Stdout, result.Stderr)
		}
	})
}

func unit(slot string) string { return "node-stack@" + slot + ".service" }

// run runs a command whose exit status is part of the scenario.
func (h *host) run(argv ...string) lab.Result {
	h.t.Helper()
	result, err := h.Exec(h.t.Context(), argv...)
	if err != nil {
		h.t.Fatal(err)
	}
	return result
}

// ok runs a command that must succeed and returns its output.
func (h *host) ok(argv ...string) string {
	h.t.Helper()
	out, err := h.Output(h.t.Context(), argv...)
	if err != nil {
		h.t.Fatal(err)
	}
	return out
}

func (h *host) write(path, content string) {
	h.t.Helper()
	h.ok("mkdir", "-p", filepath.Dir(path))
	if err := h.WriteFile(path, []byte(content), fs.FileMode(0o644)); err != nil {
		h.t.Fatal(err)
	}
}

// wantExit checks how a command ended and that it said so on stderr.
func (h *host) wantExit(what string, got lab.Result, code int, said ...string) {
	h.t.Helper()
	if got.Code != code {
		h.t.Errorf("%s: exit code %d, want %d: %s", what, got.Code, code, got.Stderr)
	}
	for _, words := range said {
		if !strings.Contains(got.Stderr, words) {
			h.t.Errorf("%s: it does not say %q: %s", what, words, got.Stderr)
		}
	}
}

// background runs a command while the scenario goes on, until its end at the latest.
// What it returns waits for the command.
func (h *host) background(argv ...string) (wait func() lab.Result) {
	type end struct {
		lab.Result
		err error
	}
	done := make(chan end, 1)
	go func() {
		result, err := h.Exec(h.t.Context(), argv...)
		done <- end{result, err}
	}()
	return func() lab.Result {
		h.t.Helper()
		e := <-done
		if e.err != nil {
			h.t.Fatal(e.err)
		}
		return e.Result
	}
}

// open lets a gated stack of the slot go on; the host may be on or off.
func (h *host) open(slot, gate string) {
	h.t.Helper()
	if err := h.WriteFile("/var/lib/node/"+slot+"/lab/"+gate, nil, 0o644); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) shut(slot, gate string) {
	h.t.Helper()
	h.ok("rm", "-f", "/var/lib/node/"+slot+"/lab/"+gate)
}

func (h *host) powerCut() {
	h.t.Helper()
	if err := h.PowerCut(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
}

// powerOn boots and returns when every unit that is enabled has been started, or has failed.
func (h *host) powerOn() {
	h.t.Helper()
	if err := h.PowerOn(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
}

// waitFor waits until the condition holds and fails with what was seen last.
func (h *host) waitFor(within time.Duration, what string, condition func() (bool, string)) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), within)
	defer cancel()
	if err := lab.WaitFor(ctx, what, func(context.Context) (bool, string) { return condition() }); err != nil {
		h.t.Fatal(err)
	}
}

// history is everything that the journal has of the slot, oldest first.
func (h *host) history(slot string) (entries []journal.Entry) {
	h.t.Helper()
	for line := range strings.Lines(h.ok("node-lifecycle", "history", slot, "-o", "json")) {
		var e journal.Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			h.t.Fatalf("history of %s: %v: %s", slot, err, line)
		}
		entries = append(entries, e)
	}
	return entries
}

// last is the newest entry that matches.
func (h *host) last(slot, what string, match func(*journal.Entry) bool) journal.Entry {
	h.t.Helper()
	entries := h.history(slot)
	for i := len(entries) - 1; i >= 0; i-- {
		if match(&entries[i]) {
			return entries[i]
		}
	}
	h.t.Fatalf("the history of %s has no %s", slot, what)
	return journal.Entry{}
}

func (h *host) lastTransition(slot string) journal.Entry {
	h.t.Helper()
	return h.last(slot, "transition", func(e *journal.Entry) bool { return e.Kind == journal.KindTransition })
}

// transition is the newest transition of this event.
func (h *host) transition(slot string, event fsm.Event) journal.Entry {
	h.t.Helper()
	return h.last(slot, string(event), func(e *journal.Entry) bool { return e.Event == string(event) })
}

func (h *host) lastNote(slot string, note fsm.Note) journal.Entry {
	h.t.Helper()
	return h.last(slot, string(note), func(e *journal.Entry) bool { return e.Kind == string(note) })
}

// state is where the slot stands, by its journal.
func (h *host) state(slot string) fsm.State {
	h.t.Helper()
	entries := h.history(slot)
	for i := len(entries) - 1; i >= 0; i-- {
		if entries[i].To != "" {
			return fsm.State(entries[i].To)
		}
	}
	return fsm.Stopped
}

func (h *host) wantState(slot string, want fsm.State) {
	h.t.Helper()
	if got := h.state(slot); got != want {
		h.t.Errorf("%s is %s, want %s", slot, got, want)
	}
}

func (h *host) waitState(slot string, want fsm.State) {
	h.t.Helper()
	h.waitFor(patience, slot+" to be "+string(want), func() (bool, string) {
		got := h.state(slot)
		return got == want, string(got)
	})
}

// property is one property of the slot's unit.
func (h *host) property(slot, name string) string {
	h.t.Helper()
	return h.ok("systemctl", "show", unit(slot), "--value", "--property", name)
}

func (h *host) wantProperty(slot, name, want string) {
	h.t.Helper()
	if got := h.property(slot, name); got != want {
		h.t.Errorf("%s of %s is %q, want %q", name, unit(slot), got, want)
	}
}

// dropIn adds to the slot's unit, as systemctl edit would.
func (h *host) dropIn(slot, text string) {
	h.t.Helper()
	h.write("/etc/systemd/system/"+unit(slot)+".d/90-scenario.conf", text)
	h.ok("systemctl", "daemon-reload")
}

func (h *host) waitProperty(slot, name, want string) {
	h.t.Helper()
	h.waitFor(patience, name+" of "+unit(slot)+" to be "+want, func() (bool, string) {
		got := h.property(slot, name)
		return got == want, got
	})
}

// start starts the unit and wants it to come up.
func (h *host) start(slot string) {
	h.t.Helper()
	h.ok("systemctl", "start", unit(slot))
	h.wantState(slot, fsm.Wired)
}

// containers are the names of the containers, or only of the running ones.
func (h *host) containers(all bool) []string {
	h.t.Helper()
	argv := []string{"docker", "ps", "--format", "{{.Names}}"}
	if all {
		argv = append(argv, "--all")
	}
	return strings.Fields(h.ok(argv...))
}

// wantContainers checks which containers run.
func (h *host) wantContainers(want ...string) {
	h.t.Helper()
	if got := h.containers(false); !slices.Equal(got, want) {
		h.t.Errorf("running containers: %v, want %v", got, want)
	}
}

// wantStory checks the slot's history; what a wait was told meanwhile does not matter, nor
// how many processes were told to end.
func (h *host) wantStory(slot string, parts ...string) {
	h.t.Helper()
	want := strings.Join(strings.Fields(strings.Join(parts, " ")), " ")
	words := slices.DeleteFunc(strings.Fields(h.story(slot)), func(word string) bool { return word == string(fsm.NoteWaiting) })
	got := strings.Join(slices.CompactFunc(words, func(a, b string) bool { return a == b && a == string(fsm.NoteStopRequested) }), " ")
	if got != want {
		h.t.Errorf("history of %s:\n got %s\nwant %s", slot, got, want)
	}
}

// story is the slot's history as its events and the notes that matter.
func (h *host) story(slot string) string {
	h.t.Helper()
	var words []string
	for _, e := range h.history(slot) {
		switch {
		case e.Kind == journal.KindTransition:
			words = append(words, e.Event)
		case e.Kind != string(fsm.NoteIntent) && e.Kind != string(fsm.NoteDone) && e.Kind != string(fsm.NoteEnded):
			words = append(words, e.Kind)
		}
	}
	return strings.Join(words, " ")
}
