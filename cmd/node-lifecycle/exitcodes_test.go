package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The table that people read must have the codes that the code can return: every constant
// whose name says that it is one, and those that come from elsewhere.
func TestExitCodesAreTheTable(t *testing.T) {
	want := map[int]string{
		0:   "success",
		129: "128 and SIGHUP", 130: "128 and SIGINT", 143: "128 and SIGTERM",
		255: "peerCheckExit",
	}
	for _, dir := range []string{".", filepath.Join("..", "..", "phases")} {
		maps.Copy(want, exitConstants(t, dir))
	}
	var printed bytes.Buffer
	if err := writeExitCodes(&printed); err != nil {
		t.Fatal(err)
	}
	var got []int
	for _, m := range regexp.MustCompile(`(?m)^ *(\d+)  \S`).FindAllStringSubmatch(printed.String(), -1) {
		code, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, code)
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), got); diff != "" {
		t.Errorf("node-lifecycle help exit-codes (-code +table):\n%s\nthe code has %v", diff, want)
	}
}

// exitConstants are the constants of a package that are exit codes by their name.
func exitConstants(t *testing.T, dir string) map[int]string {
	t.Helper()
	found := make(map[int]string)
	sources, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, source := range sources {
		if strings.HasSuffix(source, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), source, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || !strings.HasPrefix(strings.ToLower(spec.Names[0].Name), "exit") || len(spec.Values) != 1 {
				return true
			}
			if lit, ok := spec.Values[0].(*ast.BasicLit); ok && lit.Kind == token.INT {
				code, err := strconv.Atoi(lit.Value)
				if err != nil {
					t.Fatal(err)
				}
				found[code] = spec.Names[0].Name
			}
			return true
		})
	}
	if len(found) == 0 {
		t.Fatalf("no exit codes in %s", dir)
	}
	return found
}
