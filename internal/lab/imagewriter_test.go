package lab

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestImageWriterCopiesATree(t *testing.T) {
	root := t.TempDir()
	for name, content := range map[string]string{
		"etc/own":            "of the tree",
		"etc/replaced":       "of the tree",
		"usr/bin/tool":       "program",
		"usr/bin/dockerd":    "left out",
		"usr/share/doc/a/b":  "left out",
		"var/lib/keep/state": "state",
	} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(filepath.Join(root, "usr/bin/tool"), filepath.Join(root, "usr/bin/tool2")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("usr/bin", filepath.Join(root, "bin")); err != nil {
		t.Fatal(err)
	}
	var stream bytes.Buffer
	w := newImageWriter(&stream)
	err := errors.Join(
		w.copyTree(root, []string{"usr/share/doc", "usr/bin/docker*"}, map[string]string{"/etc/replaced": "ours"}),
		w.file("/etc/replaced", 0o600, []byte("ours")),
		w.file("/new/dir/file", 0o755, []byte("ours")),
		w.link("/etc/null", "/dev/null"),
		w.directory("/etc", 0o700), // exists: not written again
		w.close(),
	)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"link bin -> usr/bin",
		"dir etc/",
		"file etc/own 640 of the tree",
		"dir usr/",
		"dir usr/bin/",
		"file usr/bin/tool 640 program",
		"hard usr/bin/tool2 -> usr/bin/tool",
		"dir usr/share/",
		"dir var/",
		"dir var/lib/",
		"dir var/lib/keep/",
		"file var/lib/keep/state 640 state",
		"file etc/replaced 600 ours",
		"dir new/",
		"dir new/dir/",
		"file new/dir/file 755 ours",
		"link etc/null -> /dev/null",
	}
	if diff := cmp.Diff(want, listTar(t, &stream)); diff != "" {
		t.Errorf("the image's entries (-want +got):\n%s", diff)
	}
}

func listTar(t *testing.T, r io.Reader) []string {
	t.Helper()
	var entries []string
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if err == io.EOF {
			return entries
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uname != "" || h.Gname != "" {
			t.Errorf("%s names its owner: %s:%s", h.Name, h.Uname, h.Gname)
		}
		content, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		switch h.Typeflag {
		case tar.TypeDir:
			entries = append(entries, "dir "+h.Name)
		case tar.TypeSymlink:
			entries = append(entries, "link "+h.Name+" -> "+h.Linkname)
		case tar.TypeLink:
			entries = append(entries, "hard "+h.Name+" -> "+h.Linkname)
		default:
			entries = append(entries, fmt.Sprintf("file %s %o %s", h.Name, h.Mode, content))
		}
	}
}

func TestNodeImageHoldsTheStandin(t *testing.T) {
	root, standin := t.TempDir(), filepath.Join(t.TempDir(), "standin")
	if err := os.WriteFile(standin, []byte("ELF"), 0o700); err != nil {
		t.Fatal(err)
	}
	var stream bytes.Buffer
	if err := writeNodeImage(&stream, root, standin); err != nil {
		t.Fatal(err)
	}
	entries := strings.Join(listTar(t, &stream), "\n")
	for _, want := range []string{
		"file usr/local/bin/kubelet 755 ELF",
		"link etc/systemd/system/multi-user.target.wants/kubelet.service -> /etc/systemd/system/kubelet.service",
		"link etc/systemd/system/multi-user.target.wants/containerd.service -> /usr/lib/systemd/system/containerd.service",
		"link etc/systemd/system/getty.target -> /dev/null",
		"file etc/systemd/system/mark.service 644 ",
	} {
		if !strings.Contains(entries, want) {
			t.Errorf("no entry %q in the node image:\n%s", want, entries)
		}
	}
	if err := writeNodeImage(io.Discard, root, filepath.Join(root, "absent")); err == nil {
		t.Error("an image without the stand-in is no error")
	}
}

func TestMatchesAny(t *testing.T) {
	for _, test := range []struct {
		name string
		want bool
	}{
		{"usr/bin/docker", true},
		{"usr/bin/docker-proxy", true},
		{"usr/bin/dockerfile", false},
		{"dev/null", true},
		{"dev", false},
		{"etc/systemd/system/multi-user.target.wants", true},
	} {
		got, err := matchesAny(recipeLines(recipeWithout), test.name)
		if err != nil || got != test.want {
			t.Errorf("the node image leaves out %s: %v, %v; want %v", test.name, got, err, test.want)
		}
	}
	if _, err := matchesAny([]string{"["}, "x"); err == nil {
		t.Error("a malformed pattern is no error")
	}
}
