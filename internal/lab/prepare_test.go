package lab

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestHostFiles(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("ELF"), 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := hostFiles(Options{
		Name: "one", Binary: program, LiveRestore: true,
		Files: map[string]File{
			"/etc/hosts": {Content: "mine"},
			"/opt/run":   {Content: "script", Mode: 0o755},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]File{
		BinaryPath:                {Content: "ELF", Mode: 0o755},
		"/etc/docker/daemon.json": {Content: `{"live-restore":true}` + "\n", Mode: 0o644},
		"/etc/hostname":           {Content: "one\n", Mode: 0o644},
		"/etc/hosts":              {Content: "mine", Mode: 0o644}, // the caller wins
		"/opt/run":                {Content: "script", Mode: 0o755},
	} {
		if files[path] != want {
			t.Errorf("%s is %+v, want %+v", path, files[path], want)
		}
	}
	if _, err := hostFiles(Options{Files: map[string]File{"etc/x": {}}}); err == nil || !strings.Contains(err.Error(), `"etc/x"`) {
		t.Errorf("a relative path: %v", err)
	}
	if _, err := hostFiles(Options{Binary: program + ".absent"}); err == nil {
		t.Error("a program that does not exist is no error")
	}
}

// A layer's files are shared, everything else must be the host's own.
func TestCopyStores(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	layer, database := "docker/overlay2/abc/diff/bin/sh", "docker/network/files/local-kv.db"
	for _, name := range []string{layer, database, "docker/overlay2/abc/link", "containers/storage/overlay/def/diff/x", "containers/cache"} {
		file := filepath.Join(from, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o710); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(name), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../abc/diff", filepath.Join(from, "docker/overlay2/l")); err != nil {
		t.Fatal(err)
	}
	if err := copyStores(t.Context(), from, to); err != nil {
		t.Fatal(err)
	}
	for name, shared := range map[string]bool{
		layer: true, database: false, "docker/overlay2/abc/link": false,
		"containers/storage/overlay/def/diff/x": true, "containers/cache": false,
	} {
		source, target := filepath.Join(from, name), filepath.Join(to, name)
		before, err := os.Stat(source)
		if err != nil {
			t.Fatal(err)
		}
		after, err := os.Stat(target)
		if err != nil {
			t.Errorf("not copied: %v", err)
			continue
		}
		if os.SameFile(before, after) != shared || before.Mode() != after.Mode() {
			t.Errorf("%s: shared %v, want %v; mode %v, want %v", name, os.SameFile(before, after), shared, after.Mode(), before.Mode())
		}
		if content, err := os.ReadFile(target); err != nil || string(content) != name {
			t.Errorf("%s holds %q, %v", name, content, err)
		}
	}
	if target, err := os.Readlink(filepath.Join(to, "docker/overlay2/l")); err != nil || target != "../abc/diff" {
		t.Errorf("the symbolic link: %q, %v", target, err)
	}
	if info, err := os.Stat(filepath.Join(to, "docker/overlay2")); err != nil || info.Mode() != fs.ModeDir|0o710 {
		t.Errorf("the mode of a directory: %v, %v", info.Mode(), err)
	}
}
