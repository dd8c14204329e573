package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// What was kept is the same configuration, whatever stands in it, and is all that counts.
func TestKeep_RoundTrip(t *testing.T) {
	path := filepath.Join(tree(t, map[string]string{"kube1/conf.d/50-site.yaml": "journal: {keep: 7}\n"}), "..", "kube1", "config.yaml")
	rapid.Check(t, func(rt *rapid.T) {
		want := genConfig(rt)
		if err := want.Keep(path); err != nil {
			rt.Fatal(err)
		}
		got, err := Kept(path, nil)
		if err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(want, got, values); diff != "" {
			rt.Fatal(diff)
		}
	})
}

// Flags and variables are part of what is kept; a flag given later is stronger.
func TestKept_Overrides(t *testing.T) {
	c, err := Load(Options{
		Path:      tree(t, map[string]string{"config.yaml": "timeouts: {pull: 5m}\n"}),
		Getenv:    func(k string) string { return map[string]string{"NODE_LIFECYCLE_TIMEOUTS_READY": "7m"}[k] },
		Overrides: []Override{{Key: "state_dir", Value: "/srv/a", Flag: "--state-dir"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kube1", "config.yaml")
	if err := c.Keep(path); err != nil {
		t.Fatal(err)
	}
	kept, err := Kept(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c, kept, values); diff != "" {
		t.Error(diff)
	}
	kept, err = Kept(path, []Override{{Key: "state_dir", Value: "/srv/b", Flag: "--state-dir"}})
	if err != nil || kept.StateDir != "/srv/b" {
		t.Errorf("got %v, %v", kept, err)
	}
	if _, err := Kept(path, []Override{{Key: "state_dir", Value: "relative", Flag: "--state-dir"}}); err == nil || !strings.HasPrefix(err.Error(), "--state-dir: ") {
		t.Errorf("got %v", err)
	}
}

// It is for its owner only, is left alone while it says the same, and leaves nothing else
// behind.
func TestKeep_File(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	path := filepath.Join(dir, "config.yaml")
	keep := func(text string) time.Time {
		t.Helper()
		if err := load(t, text).Keep(path); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != 0o600 {
			t.Errorf("mode %v", info.Mode())
		}
		return info.ModTime()
	}
	keep("")
	old := time.Unix(1000, 0)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	if at := keep("journal: {keep: 4000}"); !at.Equal(old) {
		t.Error("it was written again although it says the same")
	}
	if at := keep("journal: {keep: 4001}"); at.Equal(old) {
		t.Error("a change was not written")
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
		t.Errorf("in the directory are %v, %v", names, err)
	}
}

func TestKeep_CannotBeWritten(t *testing.T) {
	path := tree(t, map[string]string{"file": ""})
	if err := load(t, "").Keep(filepath.Join(filepath.Dir(path), "file", "config.yaml")); err == nil {
		t.Error("no error")
	}
	if err := os.MkdirAll(filepath.Join(path, "in-the-way"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := load(t, "").Keep(path); err == nil {
		t.Error("no error although a directory is in the way")
	}
	names, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(names) != 2 {
		t.Errorf("in the directory are %v, %v", names, err)
	}
}

func TestBuiltin(t *testing.T) {
	c, err := Builtin(func(k string) string { return map[string]string{"NODE_LIFECYCLE_STATE_DIR": "/srv"}[k] }, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := builtin()
	want.StateDir = "/srv"
	if diff := cmp.Diff(want, c, values); diff != "" {
		t.Error(diff)
	}
}

// A slot that is added has the defaults, and the configuration it is added to has none.
func TestConfig_WithSlot(t *testing.T) {
	c := load(t, "slots: {green: {}}")
	with := c.WithSlot("kube1", "kube2")
	if diff := cmp.Diff(builtin().Slots["kube1"], with.Slots["kube1"]); diff != "" {
		t.Error(diff)
	}
	if _, ok := c.Slot("kube1"); ok || with.Pair("kube1") != "kube1+kube2" {
		t.Errorf("the slots are %v, the pair is %s", c.SlotNames(), with.Pair("kube1"))
	}
}
