package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/node-lifecycle/node-lifecycle/fsm"
	"github.com/node-lifecycle/node-lifecycle/phases"
)

// wantNotStarted starts the unit and wants it to fail, which a condition that is merely
// not met would not do. What the hooks said is returned.
func (h *host) wantNotStarted(slot, line, how string) (said string) {
	h.t.Helper()
	if r := h.run("systemctl", "start", unit(slot)); r.Code == 0 {
		h.t.Errorf("systemctl start %s succeeded", unit(slot))
	}
	h.wantHook(slot, line, how)
	if state := h.property(slot, "ActiveState") + " " + h.property(slot, "SubState"); state != "activating auto-restart" && state != "failed failed" {
		h.t.Errorf("%s is %s after a start that must fail", unit(slot), state)
	}
	if result := h.property(slot, "Result"); result == "success" || result == "exec-condition" {
		h.t.Errorf("Result of %s is %s", unit(slot), result)
	}
	if all := h.containers(true); len(all) != 0 {
		h.t.Errorf("containers: %v", all)
	}
	said = h.ok("journalctl", "--boot", "--no-pager", "--output", "cat", "--unit", unit(slot), "_SYSTEMD_INVOCATION_ID="+h.property(slot, "InvocationID"))
	h.ok("systemctl", "stop", unit(slot))
	return said
}

const impatient = "2s" // of an engine that is away

func TestEngineSocketThatIsNotThereIsSaidInTime(t *testing.T) {
	config := setup{busybox: true, engineWait: impatient}.String()
	h := newHost(t, strings.Replace(config, "engine: {", "engine: {socket: /run/nothing.sock, ", 1))
	h.wantQuick("pre-start", phases.ExitUnavailable, "/run/nothing.sock")
	h.wantQuick("post-stop", phases.ExitUnavailable, "/run/nothing.sock")
	h.wantQuick("peer-check", 255, "/run/nothing.sock")
	h.wantNotStarted("kube1", "ExecCondition", "exited 255")
	refused := h.lastNote("kube1", fsm.NoteRefused)
	if refused.Cause != string(phases.CauseEngine) || !strings.Contains(refused.Error, "/run/nothing.sock does not exist") {
		t.Errorf("refused with cause %q: %s", refused.Cause, refused.Error)
	}
}

func TestEngineThatHangsIsSaidInTime(t *testing.T) {
	h := newHost(t, setup{busybox: true, engineWait: impatient, ready: "3s"}.String())
	h.wantExit("pre-start while the engine answers", h.run("node-lifecycle", "pre-start", "kube1"), 0)
	h.ok("systemctl", "kill", "--signal=STOP", "--kill-whom=main", "docker.service")
	defer h.ok("systemctl", "kill", "--signal=CONT", "--kill-whom=main", "docker.service")

	h.wantQuick("post-start", phases.ExitReady, "not ready after 3", "the engine")
	h.wantQuick("pre-start", phases.ExitUnavailable, "the engine did not answer within 2s")
	h.wantQuick("post-stop", phases.ExitUnavailable, "not proven gone")
	h.wantQuick("peer-check", 255, "the engine did not answer within 2s")
	if r := h.run("systemctl", "start", unit("kube1")); r.Code == 0 {
		t.Error("systemctl start succeeded")
	}
	h.wantHook("kube1", "ExecCondition", "exited 255")
	h.wantProperty("kube1", "Result", "exit-code")
	h.ok("systemctl", "stop", unit("kube1"))
}

// wantQuick runs a hook by hand and wants its exit code within a fraction of its budget,
// but allows for a busy machine.
func (h *host) wantQuick(hook string, code int, said ...string) {
	h.t.Helper()
	began := time.Now()
	h.wantExit(hook, h.run("node-lifecycle", hook, "kube1"), code, said...)
	if took := time.Since(began); took > 30*time.Second {
		h.t.Errorf("%s took %s", hook, took.Round(time.Second))
	}
}

// A bug in peer-check must never look to systemd like a condition that is not met: Go
// exits with 2 after a panic. The units as shipped make 255 of any end; one that somebody
// wrote without the shell is held as well.
func TestPanicInPeerCheckFailsTheUnit(t *testing.T) {
	h := newHost(t, setup{busybox: true}.String())
	program, err := os.ReadFile(build(t, "urfave_cli_no_docs,panics"))
	if err != nil {
		t.Fatal(err)
	}
	if err := h.WriteFile("/root/scenario/node-lifecycle", program, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, panics := range []struct{ where, how string }{
		{"main", "exited 255"},
		{"goroutine", "killed 6"}, // SIGABRT
	} {
		h.dropIn("kube1", "[Service]\nRestart=no\nEnvironment=TEST_PANIC="+panics.where+
			"\nExecCondition=\nExecCondition=/root/scenario/node-lifecycle peer-check %i\n")
		if said := h.wantNotStarted("kube1", "ExecCondition", panics.how); !strings.Contains(said, "asked for") {
			t.Errorf("a panic in %s says nothing: %s", panics.where, said)
		}
	}
}

func TestJournalDirectoryThatIsNotOursIsNamedWithItsCure(t *testing.T) {
	const dir = "/var/lib/node-lifecycle"
	h := newHost(t, setup{busybox: true}.String())
	db := filepath.Join(dir, "journal.db")
	for _, fault := range []struct{ make, path, cure string }{
		{"chown 1000 " + dir, dir, "chown 0 " + dir},
		{"chmod 0777 " + dir, dir, "chmod 0700 " + dir},
		{"rm -r " + dir + "; touch " + dir, dir, "move"},
		{"mv " + dir + " " + dir + "2; ln -s node-lifecycle2 " + dir, dir, "set state_dir to where it leads"},
		{"chown 1000 " + db, db, "chown 0 " + db},
		{"chmod 0666 " + db, db, "chmod 0600 " + db},
		{"rm " + db + "; mkdir " + db, db, "move it away"},
		{"mv " + db + " " + db + "2; ln -s journal.db2 " + db, db, "set state_dir to where it is"},
	} {
		h.ok("rm", "-rf", dir, dir+"2")
		h.ok("node-lifecycle", "reset", "kube1") // makes a journal
		h.ok("sh", "-c", fault.make)
		h.wantExit("pre-start after "+fault.make, h.run("node-lifecycle", "pre-start", "kube1"), phases.ExitCannotOpen, fault.path, fault.cure)
	}
	if said := h.wantNotStarted("kube1", "ExecCondition", "exited 255"); !strings.Contains(said, db) {
		t.Errorf("the unit does not say that it is about %s: %s", db, said)
	}

	// systemd itself would take a directory that it cannot set up for an unmet condition.
	h.ok("sh", "-c", "rm -rf "+dir+" "+dir+"2; mkdir -m 0700 "+dir+"2; ln -s node-lifecycle2 "+dir)
	defer h.ok("rm", "-rf", dir, dir+"2")
	if said := h.wantNotStarted("kube1", "ExecStartPre", "exited 73"); !strings.Contains(said, dir+": it is a symbolic link; set state_dir to where it leads") {
		t.Errorf("the unit does not say what is wrong with %s: %s", dir, said)
	}
}

func TestUnitOfAnUnknownSlotFails(t *testing.T) {
	h := newHost(t, setup{busybox: true}.String())
	const says = "there is no slot kube9; the configured ones are kube1 and kube2"
	h.wantExit("pre-start", h.run("node-lifecycle", "pre-start", "kube9"), phases.ExitUsage, says)
	if said := h.wantNotStarted("kube9", "ExecCondition", "exited 255"); !strings.Contains(said, says) {
		t.Errorf("the unit does not say %q: %s", says, said)
	}
}

// wantVerified checks that systemd has nothing to say about any unit that is installed.
func (h *host) wantVerified() {
	h.t.Helper()
	r := h.run("systemd-analyze", "verify", unit("kube1"), unit("kube2"), "node-lifecycle-resume.service",
		"node-lifecycle-reconcile@kube1.service", "node-lifecycle-reconcile@kube1.timer")
	if r.Code != 0 || r.Stdout+r.Stderr != "" {
		h.t.Errorf("systemd-analyze verify: exit code %d: %s%s", r.Code, r.Stdout, r.Stderr)
	}
}

func TestUnitsAsShippedVerify(t *testing.T) {
	h := newHost(t, setup{busybox: true}.String())
	h.start("kube1") // which writes the slot's drop-in
	h.wantVerified()
	h.write("/etc/systemd/system/"+unit("kube1")+".d/99-spoilt.conf", "[Service]\nBogus=yes\n")
	if r := h.run("systemd-analyze", "verify", unit("kube1")); !strings.Contains(r.Stderr, "Bogus") {
		t.Errorf("the check does not notice a mistake: %s", r.Stderr)
	}
}

// odd is everything that means something to systemd, to a shell or to YAML.
const odd = `50% %i "$HOME" '${HOME}' \n;`

func TestConfiguredValuesStayOneValue(t *testing.T) {
	const injected = odd + "\n[Service]\nExecStartPre=/bin/false\n"
	path, state := "/root/scenario/"+odd+".yaml", "/srv/scenario/"+odd
	config := fmt.Sprintf("state_dir: %q\n", state) + strings.ReplaceAll(setup{busybox: true}.String(),
		"      network: host\n", fmt.Sprintf("      network: host\n      env: {ODD: %q}\n", odd))
	h := newHost(t, config)
	defer h.ok("rm", "-rf", "/srv/scenario")
	h.write(path, config)
	h.ok("node-lifecycle", "--config", path, "units", "--install")
	h.ok("mkdir", "-p", "/srv/scenario")
	h.enable("kube1")
	h.start("kube1")
	h.wantVerified()
	if got := h.words(h.property("kube1", "Environment")); got != "NODE_LIFECYCLE_CONFIG="+path {
		t.Errorf("Environment is %q", got)
	}
	h.ok("systemctl", "start", "node-lifecycle-resume.service")
	h.wantResumed()
	if r := h.run("test", "-f", state+"/journal.db"); r.Code != 0 {
		t.Errorf("there is no journal in %s", state)
	}
	for line, command := range map[string]string{
		"ExecCondition": "peer-check", "ExecStartPre": "pre-start", "ExecStart": "run",
		"ExecStartPost": "post-start", "ExecStop": "stop", "ExecStopPost": "post-stop",
	} {
		want := "/usr/bin/node-lifecycle " + command + " kube1 ;"
		if line != "ExecCondition" {
			want = "argv[]=" + want
		}
		if got := h.property("kube1", line); !strings.Contains(got, want) || strings.Count(got, "path=") != 1 {
			t.Errorf("%s is %s", line, got)
		}
	}
	var env []string
	if err := json.Unmarshal([]byte(h.container("kube1", "{{json .Config.Env}}")), &env); err != nil || !slices.Contains(env, "ODD="+odd) {
		t.Errorf("the container's environment is %q, %v", env, err)
	}

	installed := h.ok("sh", "-c", "cat /etc/systemd/system/node-*.service")
	for _, bad := range []string{
		fmt.Sprintf("state_dir: %q\n", "/srv/"+injected), fmt.Sprintf("engine: {unit: %q}\n", "docker.service"+injected),
		fmt.Sprintf("slots: {kube1: {unit: %q}}\n", "node-stack@kube1.service"+injected),
		fmt.Sprintf("slots: {kube1: {container: {env: {ODD: %q}}}}\n", injected),
	} {
		h.write("/root/scenario/bad.yaml", bad)
		h.wantExit("units with "+bad, h.run("node-lifecycle", "--config", "/root/scenario/bad.yaml", "units", "--install"), phases.ExitConfig)
	}
	h.write("/root/scenario/"+injected, "version: 1\n")
	h.wantExit("units", h.run("node-lifecycle", "--config", "/root/scenario/"+injected, "units", "--install"), phases.ExitConfig)
	if h.ok("sh", "-c", "cat /etc/systemd/system/node-*.service") != installed {
		t.Error("the units have changed")
	}
}

// words takes off the quotes that systemctl show puts around words; one a line.
func (h *host) words(shown string) string {
	h.t.Helper()
	return h.ok("sh", "-c", `eval "set -- $0"; printf '%s\n' "$@"`, shown)
}
