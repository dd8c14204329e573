package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// module is a small module whose one function has a test that notices half of what can
// go wrong with it.
func module(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range map[string]string{
		"go.mod": "module example.org/m\n\ngo 1.24\n",
		"sign/sign.go": "package sign\n\nfunc Of(n int) int {\n\tif n < 0 {\n\t\treturn -1\n\t}\n" +
			"\tif n > 1000 {\n\t\treturn 1\n\t}\n\treturn 1\n}\n",
		"sign/sign_test.go": "package sign\n\nimport (\n\t\"os\"\n\t\"testing\"\n\t\"time\"\n)\n\n" +
			"func TestOf(t *testing.T) {\n\tif Of(-3) != -1 {\n\t\tt.Error(\"sign of -3\")\n\t}\n" +
			"\tif Of(3) == 3 {\n\t\ttime.Sleep(time.Hour)\n\t}\n\tif _, err := os.Stat(\"sign.go\"); err != nil {\n\t\tt.Error(err)\n\t}\n}\n\n" +
			"func TestRed(t *testing.T) { t.Error(\"always\") }\n\nfunc TestSkipped(t *testing.T) { t.Skip(\"never here\") }\n",
	} {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func signMutant(name, run, old, new string) mutant {
	return mutant{Name: name, Pkg: "sign", Run: run, Edits: edit("sign/sign.go", old, new), Breaks: "signs"}
}

func TestRun(t *testing.T) {
	noticed := signMutant("noticed", "TestOf", "return -1", "return -2")
	for _, tc := range []struct {
		name      string
		mutants   []mutant
		survivors int
		says      []string // in the output, or in the error
		fails     bool
	}{
		{"killed and not", []mutant{
			noticed, signMutant("unnoticed", "TestOf", "n > 1000", "n > 2000"),
		}, 1, []string{
			"MUTANT noticed killed\n", "MUTANT unnoticed SURVIVED\n    breaks: signs\n",
			"SUITE MUTANTS cases=2 lost=0 double_run=0 crash=0 survived=1 seed=0\n",
		}, false},
		{"hangs", []mutant{signMutant("hangs", "TestOf", "\t}\n\treturn 1\n", "\t}\n\treturn n\n")}, 0, []string{"MUTANT hangs killed\n"}, false},
		{"does not compile", []mutant{noticed, signMutant("broken", "TestOf", "n < 0", "n < zero")}, 0, []string{"mutant broken: it does not compile", "undefined: zero"}, true},
		{"text not there", []mutant{signMutant("gone", "TestOf", "n == 0", "n == 1")}, 0, []string{"mutant gone: sign/sign.go: the text is not there"}, true},
		{"text there twice", []mutant{signMutant("twice", "TestOf", "return 1", "return 2")}, 0, []string{"mutant twice: sign/sign.go: the text is there more than once"}, true},
		{"two of a name", []mutant{noticed, noticed}, 0, []string{"there are two of that name"}, true},
		{"tests always red", []mutant{signMutant("red", "TestRed", "return -1", "return -2")}, 0, []string{"are red as things are (TestRed)"}, true},
		{"no tests", []mutant{signMutant("none", "TestNothing", "return -1", "return -2")}, 0, []string{`no test of sign matches "TestNothing"`}, true},
		{"tests skipped", []mutant{signMutant("skipped", "TestSkipped", "return -1", "return -2")}, 0, []string{"or all of them are skipped here"}, true},
		{"no word of what it breaks", []mutant{{Name: "mute", Pkg: "sign"}}, 0, []string{"it needs a name, edits, a package and what it breaks"}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			root := module(t)
			var out bytes.Buffer
			r := &runner{root: root, limit: 5 * time.Second, workers: 2, out: &out}
			survivors, err := r.run(t.Context(), tc.mutants)
			if survivors != tc.survivors || (err != nil) != tc.fails {
				t.Errorf("%d survivors, error %v; want %d, an error: %v", survivors, err, tc.survivors, tc.fails)
			}
			text := out.String()
			if err != nil {
				text = err.Error()
			}
			for _, want := range tc.says {
				if !strings.Contains(text, want) {
					t.Errorf("it does not say %q:\n%s", want, text)
				}
			}
		})
	}
}

func TestCommand_Mistakes(t *testing.T) {
	for _, args := range [][]string{{"-run", "("}, {"-run", "no such mutant"}, {"-no-such-flag"}} {
		var out, errs bytes.Buffer
		code, err := command(context.Background(), args, &out, &errs)
		if code != exitMistake || err == nil && errs.Len() == 0 {
			t.Errorf("%q: exit code %d, %v, %q", args, code, err, errs.String())
		}
	}
}

// Every row of the table fits the tree, so that a change of the program which leaves a
// row behind is noticed at once and not when the mutants are run.
func TestTable(t *testing.T) {
	var out, errs bytes.Buffer
	if code, err := command(t.Context(), []string{"-list"}, &out, &errs); code != 0 || err != nil {
		t.Fatalf("exit code %d: %v\n%s", code, err, errs.String())
	}
	rows := strings.Count(out.String(), "\n")
	var cheap bytes.Buffer
	if code, err := command(t.Context(), []string{"-list", "-cheap"}, &cheap, &errs); code != 0 || err != nil {
		t.Fatalf("exit code %d: %v", code, err)
	}
	if few := strings.Count(cheap.String(), "\n"); rows < 40 || few < 20 || few >= rows {
		t.Errorf("%d mutants, %d of them cheap", rows, few)
	}
}
