package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/node-lifecycle/node-lifecycle/internal/config"
)

// What the README shows of the program is what the program prints.
func TestREADME(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		mark string
		args []string
	}{
		{"<!-- units -->", []string{"units"}},
		{"<!-- exit codes -->", []string{"help", "exit-codes"}},
	} {
		var stdout, stderr bytes.Buffer
		env := &environment{
			args: tc.args, stdout: &stdout, stderr: &stderr, getenv: func(string) string { return "" },
			binary: "/usr/bin/node-lifecycle",
		}
		if code := Main(t.Context(), env); code != 0 {
			t.Fatalf("%v: exit code %d: %s", tc.args, code, &stderr)
		}
		shown := fenced(t, string(readme), tc.mark)
		if !strings.Contains(stdout.String(), shown) {
			t.Errorf("README.md, %s: not what %v prints:\n%s", tc.mark, tc.args, shown)
		}
	}
}

// The configurations that the documentation shows can be loaded as they stand, and say
// what the text says of them.
func TestDocumentedConfigurations(t *testing.T) {
	for _, tc := range []struct{ file, mark string }{
		{"README.md", "<!-- configuration -->"},
		{"docs/configuration.md", "<!-- every key -->"},
		{"docs/configuration.md", "<!-- node image -->"},
	} {
		text, err := os.ReadFile("../../" + tc.file)
		if err != nil {
			t.Fatal(err)
		}
		cfg := load(t, fenced(t, string(text), tc.mark))
		for name, slot := range cfg.Slots {
			if slot.Container.Image == "" {
				continue // with the defaults only
			}
			command, volumes := strings.Join(slot.Container.Command, " "), strings.Join(slot.Container.Volumes, " ")
			if !strings.Contains(command, "remount,rw /sys/fs/cgroup") || !slices.Contains(slot.Container.Capabilities, "SYS_ADMIN") {
				t.Errorf("%s, %s: systemd in %s could not write to its cgroup", tc.file, tc.mark, name)
			}
			for _, kept := range []string{"/var/lib/containerd", "/var/lib/kubelet", "/etc/kubernetes"} {
				if !strings.Contains(volumes, name+"/"+filepath.Base(kept)+":"+kept) {
					t.Errorf("%s, %s: %s loses %s", tc.file, tc.mark, name, kept)
				}
			}
		}
		if cfg.Peer("kube1") != "kube2" || cfg.Peer("kube2") != "kube1" {
			t.Errorf("%s, %s: kube1 and kube2 are no pair", tc.file, tc.mark)
		}
	}
	if _, err := config.Load(config.Options{Path: "../../examples/demo.yaml", Required: true}); err != nil {
		t.Error(err)
	}
}

// The key list of the documentation is the schema: no key is missing from it.
func TestDocumentedKeys(t *testing.T) {
	text, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	block := fenced(t, string(text), "<!-- every key -->")
	cfg := load(t, block)
	for _, key := range config.EnvVars() {
		if cfg.Origin(key.Key).Kind != config.OriginFile {
			t.Errorf("%s is not in it", key.Key)
		}
	}
	for _, key := range []string{
		"peer", "unit", "ready", "after_start", "gpu", "container.name", "container.image", "container.pull", "container.command",
		"container.tty", "container.network", "container.cgroupns", "container.tmpfs", "container.security_opt",
		"container.capabilities", "container.devices", "container.volumes", "container.stop.signal", "container.stop.grace",
		"container.discard_limit", "container.env.container",
	} {
		if cfg.Origin("slots.kube1."+key).Kind != config.OriginFile {
			t.Errorf("slots.kube1.%s is not in it", key)
		}
	}
}

// fenced is the block of code that follows the mark.
func fenced(t *testing.T, text, mark string) string {
	t.Helper()
	_, after, found := strings.Cut(text, mark+"\n```")
	_, after, _ = strings.Cut(after, "\n")
	block, _, closed := strings.Cut(after, "\n```")
	if !found || !closed || strings.TrimSpace(block) == "" {
		t.Fatalf("there is no block behind %s", mark)
	}
	return block
}
