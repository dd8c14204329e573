package overlay

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestApply(t *testing.T) {
	for _, tc := range []struct {
		name  string
		edits []Edit
		want  string
		err   error
	}{
		{"nothing", nil, "a b c b\n", nil},
		{"one", []Edit{{"f", "a", "x"}}, "x b c b\n", nil},
		{"one after the other", []Edit{{"f", "a b", "x"}, {"f", "x c", "y"}}, "y b\n", nil},
		{"not there", []Edit{{"f", "d", "x"}}, "", ErrNotFound},
		{"nothing to look for", []Edit{{"f", "", "x"}}, "", ErrNotFound},
		{"there twice", []Edit{{"f", "b", "x"}}, "", ErrAmbiguous},
		{"by itself", []Edit{{"f", "a", "a"}}, "", ErrSame},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Apply("a b c b\n", tc.edits...)
			if got != tc.want || !errors.Is(err, tc.err) {
				t.Errorf("got %q, %v; want %q, %v", got, err, tc.want, tc.err)
			}
		})
	}
}

func TestWrite(t *testing.T) {
	root, dir := t.TempDir(), t.TempDir()
	for name, content := range map[string]string{"a.go": "package a\n", "b.go": "package b\n"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path, err := Write(root, dir, []Edit{{"a.go", "package a", "package x"}, {"a.go", "x\n", "y\n"}, {"b.go", "b", "z"}},
		map[string]string{"sub/new.go": "package sub\n"})
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var index struct{ Replace map[string]string }
	if err := json.Unmarshal(data, &index); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for original, replacement := range index.Replace {
		content, err := os.ReadFile(replacement)
		if err != nil {
			t.Fatal(err)
		}
		name, err := filepath.Rel(root, original)
		if err != nil {
			t.Fatal(err)
		}
		got[name] = string(content)
	}
	want := map[string]string{"a.go": "package y\n", "b.go": "package z\n", filepath.Join("sub", "new.go"): "package sub\n"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("overlay (-want +got):\n%s", diff)
	}
	if content, err := os.ReadFile(filepath.Join(root, "a.go")); err != nil || string(content) != "package a\n" {
		t.Errorf("the tree was touched: %q, %v", content, err)
	}
	if err := Check(root, []Edit{{"none.go", "a", "b"}}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
