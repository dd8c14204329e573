// Command gendocs writes the documents that are generated from the code. It
// runs inside the module, from any directory of it:
//
//	go run ./internal/gendocs          write what is out of date
//	go run ./internal/gendocs -check   write nothing; list what is out of date and fail
//
// It exits 0 if all is well, 1 if -check found something or a document could
// not be made, 64 if it was called wrongly.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/node-lifecycle/node-lifecycle/fsm"
	"github.com/node-lifecycle/node-lifecycle/phases"
)

// document is one generated file.
type document struct {
	path  string // below the module's root, with slashes
	write func(io.Writer) error
}

// documents lists every generated file. To add one, add a line: its writer has
// to give the same bytes on every machine and at every time.
var documents = []document{
	{path: "docs/state-diagram.md", write: fsm.WriteReference},
	{path: "docs/resume.md", write: writeResume},
	{path: "docs/exit-codes.md", write: writeExitCodes},
}

// writeResume documents what resume does, from the table that it acts by.
func writeResume(w io.Writer) error {
	if _, err := io.WriteString(w, `<!-- Generated from the table in phases/. Do not edit. -->

# What resume does

`+"`node-lifecycle resume [SLOT]`"+` looks at a slot whose run was cut off: by the state that the journal has, by where the run was cut
off, and by whether the slot's unit is still up, or coming up, with the activation of that run. A run whose process lives is
left alone. Calling it twice, or beside hooks, does no harm.

"continue" needs a living stack; without one it settles. "settle" ends a survivor as post-stop would and writes what became
of the slot: `+"`failed`"+` if a run died in a step, `+"`lost`"+` if the stack went away unasked, `+"`rebooted`"+` after a reboot.

`); err != nil {
		return err
	}
	return phases.WriteResumeTable(w)
}

// writeExitCodes documents the exit codes in the words of the program itself: the table
// is part of its main package, which cannot be imported.
func writeExitCodes(w io.Writer) error {
	help := exec.Command("go", "run", "github.com/node-lifecycle/node-lifecycle/cmd/node-lifecycle", "help", "exit-codes")
	help.Stderr = os.Stderr
	text, err := help.Output()
	if err != nil {
		return fmt.Errorf("print the exit codes: %w", err)
	}
	_, err = fmt.Fprintf(w, `<!-- Generated from "node-lifecycle help exit-codes". Do not edit. -->

# Exit codes

They follow sysexits.h where that has a word for it, so that systemd prints a name beside the number. No code may be listed
in SuccessExitStatus= of a unit: it would hold for the hooks too.

`+"```\n%s```\n", text)
	return err
}

const (
	exitOK    = 0
	exitStale = 1
	exitUsage = 64
)

func main() {
	os.Exit(run(os.Args[1:], ".", documents, os.Stdout, os.Stderr))
}

// run is main without the process around it: dir is where to look for the
// module's root from.
func run(args []string, dir string, docs []document, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("gendocs", flag.ContinueOnError)
	flags.SetOutput(stderr)
	check := flags.Bool("check", false, "write nothing; list the documents that are out of date and exit 1 if there are any")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return exitOK
		}
		return exitUsage
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(stderr, "gendocs: unexpected argument %q\n", flags.Arg(0))
		return exitUsage
	}
	if err := generate(dir, docs, *check, stdout); err != nil {
		fmt.Fprintf(stderr, "gendocs: %v\n", err)
		return exitStale
	}
	return exitOK
}

var errStale = errors.New(`documents are out of date; run "go run ./internal/gendocs" and commit the result`)

// generate brings every document up to date and names the ones it wrote on
// stdout. With check it writes none, names the stale ones and returns errStale.
func generate(dir string, docs []document, check bool, stdout io.Writer) error {
	root, err := moduleRoot(dir)
	if err != nil {
		return err
	}
	stale := false
	for _, doc := range docs {
		changed, err := bring(root, doc, check)
		if err != nil {
			return err
		}
		if changed {
			stale = true
			fmt.Fprintln(stdout, doc.path)
		}
	}
	if check && stale {
		return errStale
	}
	return nil
}

// bring makes one document anew and reports whether it differs from the file;
// if so it replaces the file, unless it is only to check.
func bring(root string, doc document, check bool) (changed bool, err error) {
	var want bytes.Buffer
	if err := doc.write(&want); err != nil {
		return false, fmt.Errorf("generate %s: %w", doc.path, err)
	}
	path := filepath.Join(root, filepath.FromSlash(doc.path))
	have, err := os.ReadFile(path)
	switch {
	case err == nil && bytes.Equal(have, want.Bytes()):
		return false, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return false, err
	case check:
		return true, nil
	}
	return true, put(path, want.Bytes())
}

// put writes a document, making its directory where needed. Documents are for
// everybody to read, and a half-written one is caught by the next check.
func put(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}

// moduleRoot is the nearest directory at or above dir that has a go.mod, since
// go generate starts commands in the package's directory.
func moduleRoot(dir string) (string, error) {
	start, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find the module's root: %w", err)
	}
	for at := start; ; at = filepath.Dir(at) {
		_, err := os.Stat(filepath.Join(at, "go.mod"))
		if err == nil {
			return at, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("find the module's root: %w", err)
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("no go.mod in %s or above it; run gendocs inside the module", start)
		}
	}
}
