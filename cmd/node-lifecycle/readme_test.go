package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
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

// fenced is the block of code that follows the mark.
func fenced(t *testing.T, text, mark string) string {
	t.Helper()
	_, after, found := strings.Cut(text, mark+"\n```")
	_, after, _ = strings.Cut(after, "\n")
	block, _, closed := strings.Cut(after, "\n```")
	if !found || !closed || strings.TrimSpace(block) == "" {
		t.Fatalf("README.md has no block behind %s", mark)
	}
	return block
}
