package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func fixed(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}

var two = []document{
	{"docs/a.md", fixed("a\n")},
	{"docs/man/b.1", fixed("b\n")},
}

// module makes an empty module with the given files and returns its root.
func module(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for path, text := range files {
		if err := put(filepath.Join(root, path), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func read(t *testing.T, root string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(root, path)
		files[filepath.ToSlash(name)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestRun(t *testing.T) {
	broken := []document{{"docs/c.md", func(io.Writer) error { return errors.New("no such page") }}}
	tests := []struct {
		name   string
		files  map[string]string
		dir    string // below the root
		args   []string
		docs   []document
		exit   int
		stdout string
		stderr string            // a part of it
		after  map[string]string // nil: the files as they were
	}{
		{
			name:   "writes what is missing or out of date, and says which",
			files:  map[string]string{"go.mod": "", "docs/a.md": "old"},
			docs:   two,
			stdout: "docs/a.md\ndocs/man/b.1\n",
			after:  map[string]string{"go.mod": "", "docs/a.md": "a\n", "docs/man/b.1": "b\n"},
		},
		{
			name:  "says nothing when all is current",
			files: map[string]string{"go.mod": "", "docs/a.md": "a\n", "docs/man/b.1": "b\n"},
			docs:  two,
		},
		{
			name:   "finds the root from a package's directory, as go generate needs",
			files:  map[string]string{"go.mod": "", "fsm/doc.go": ""},
			dir:    "fsm",
			docs:   two[:1],
			stdout: "docs/a.md\n",
			after:  map[string]string{"go.mod": "", "fsm/doc.go": "", "docs/a.md": "a\n"},
		},
		{
			name:   "-check lists and leaves alone",
			files:  map[string]string{"go.mod": "", "docs/a.md": "old"},
			args:   []string{"-check"},
			docs:   two,
			exit:   exitStale,
			stdout: "docs/a.md\ndocs/man/b.1\n",
			stderr: "gendocs: documents are out of date; run",
		},
		{
			name:  "-check is silent when all is current",
			files: map[string]string{"go.mod": "", "docs/a.md": "a\n"},
			args:  []string{"-check"},
			docs:  two[:1],
		},
		{
			name:   "a document that cannot be made is named",
			files:  map[string]string{"go.mod": ""},
			docs:   broken,
			exit:   exitStale,
			stderr: "gendocs: generate docs/c.md: no such page\n",
		},
		{
			name:   "a document that cannot be read is named",
			files:  map[string]string{"go.mod": "", "docs/a.md/x": "a directory in its place"},
			docs:   two[:1],
			exit:   exitStale,
			stderr: "docs/a.md: is a directory",
		},
		{
			name:   "a directory that cannot be made is named",
			files:  map[string]string{"go.mod": "", "docs/a.md": "a\n", "docs/man": "a file in its place"},
			docs:   two,
			exit:   exitStale,
			stderr: "docs/man",
		},
		{
			name:   "outside a module",
			files:  map[string]string{"README": ""},
			docs:   two,
			exit:   exitStale,
			stderr: "run gendocs inside the module",
		},
		{
			name:   "started in what is no directory",
			files:  map[string]string{"go.mod": ""},
			dir:    "go.mod",
			docs:   two,
			exit:   exitStale,
			stderr: "gendocs: find the module's root: ",
		},
		{
			name:   "an argument too many",
			files:  map[string]string{"go.mod": ""},
			args:   []string{"check"},
			docs:   two,
			exit:   exitUsage,
			stderr: `gendocs: unexpected argument "check"`,
		},
		{
			name:   "an unknown flag",
			files:  map[string]string{"go.mod": ""},
			args:   []string{"-chekc"},
			docs:   two,
			exit:   exitUsage,
			stderr: "-chekc",
		},
		{
			name:   "help",
			files:  map[string]string{"go.mod": ""},
			args:   []string{"-h"},
			docs:   two,
			stderr: "-check",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := module(t, tt.files)
			var stdout, stderr bytes.Buffer
			exit := run(tt.args, filepath.Join(root, tt.dir), tt.docs, &stdout, &stderr)
			if exit != tt.exit || stdout.String() != tt.stdout {
				t.Errorf("exit %d, stdout %q; want %d, %q", exit, &stdout, tt.exit, tt.stdout)
			}
			if (tt.stderr == "") != (stderr.Len() == 0) || !strings.Contains(stderr.String(), tt.stderr) {
				t.Errorf("stderr %q, want %q in it", &stderr, tt.stderr)
			}
			want := tt.after
			if want == nil {
				want = tt.files
			}
			if diff := cmp.Diff(want, read(t, root)); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}

func TestADirectoryThatLeadsNowhereIsNamed(t *testing.T) {
	root := module(t, map[string]string{"go.mod": ""})
	if err := os.Symlink("gone", filepath.Join(root, "docs")); err != nil {
		t.Fatal(err)
	}
	err := generate(root, two, false, io.Discard)
	var path *os.PathError
	if !errors.As(err, &path) || path.Path != filepath.Join(root, "docs") {
		t.Errorf("error %v, want one about docs", err)
	}
}

// What is committed in this repository is what the code generates now.
func TestTheRepositorysDocumentsAreCurrent(t *testing.T) {
	var stale bytes.Buffer
	if err := generate(".", documents, true, &stale); err != nil {
		t.Errorf("%v:\n%s", err, &stale)
	}
}
