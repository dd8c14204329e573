package main

import (
	"strings"
	"testing"
)

// What people type on the left, what the library gets on the right.
func TestNormalise(t *testing.T) {
	for _, tc := range []struct{ typed, want string }{
		{"", ""},
		{"status", "status"},
		{"status kube1 -o json", "status -o=json kube1"},
		{"-o json status kube1", "-o json status kube1"}, // no flag of the program: refused
		{"history kube1 -n 5 -r", "history -n=5 -r kube1"},
		{"history -n5 kube1", "history -n=5 kube1"},
		{"history -rn5 kube1", "history -r -n=5 kube1"},
		{"history kube1 -n all", "history -n=all kube1"},
		{"history kube1 --lines=5", "history --lines=5 kube1"},
		{"history kube1 --since -1h", "history --since=-1h kube1"},
		{"history kube1 -S '10 min ago'", "history -S='10 kube1 min ago'"}, // words, not a shell's quotes
		{"history -b kube1", "history -b=0 kube1"},
		{"history -b -1 kube1", "history -b=-1 kube1"},
		{"history -b 5c31a0de5c31a0de5c31a0de5c31a0de kube1", "history -b=5c31a0de5c31a0de5c31a0de5c31a0de kube1"},
		{"history -b 5c31a0de-5c31-a0de-5c31-a0de5c31a0de kube1", "history -b=5c31a0de-5c31-a0de-5c31-a0de5c31a0de kube1"},
		{"history -b 61801ad1 kube1", "history -b=61801ad1 kube1"},
		{"history kube1 -b deadbeef", "history -b=deadbeef kube1"},
		{"history -b 6180 kube1", "history -b=6180 kube1"},
		{"history -b cafe", "history -b=0 cafe"},       // it may be a slot
		{"history -b 1 kube1", "history -b=0 1 kube1"}, // journalctl counts boots forward; here nobody does
		{"history kube1 --config x", "--config=x history kube1"},
		{"history kube1 --color=never --state-dir d", "--color=never --state-dir=d history kube1"},
		{"config show --origin", "config show --origin"},
		{"config --origin show", "config --origin show"}, // a flag of show, not of config: refused
		{"pre-start kube1 --force", "pre-start --force kube1"},
		{"reconcile kube1 --if-needed", "reconcile --if-needed kube1"},
		{"units --install --dir d", "units --install --dir=d"},

		{"--help", "help"},
		{"-h", "help"},
		{"history kube1 -h", "help history"},
		{"history -rh kube1", "help history"},
		{"-h history", "help history"},
		{"config show -h", "help config show"},
		{"config -h", "help config"},
		{"history -n -h", "help history"},
		{"frobnicate -h", "frobnicate -h"},
		{"frobnicate --help", "help frobnicate"},
		{"history -- --help", "history -- --help"},
		{"history kube1 -- -h", "history -- kube1 -h"},

		{"history -- kube1 -n", "history -- kube1 -n"},
		{"history kube1 -n", "ERROR flag -n needs a value"},
		{"history -n kube1", `ERROR -n takes a number of entries, or all; not "kube1"`},
		{"history -n -r kube1", "ERROR flag -n needs a value before -r"},
		{"status --config", "ERROR flag --config needs a value"},
		{"history kube1 --nope", "history --nope kube1"},

		{"__complete history -n", "__complete history -n"},
		{"__complete history -- --help", "__complete history -- --help"},
	} {
		var typed []string
		if tc.typed != "" {
			typed = strings.Split(tc.typed, " ")
		}
		env := &environment{args: typed}
		words, err := normalise(env.app(), typed)
		got := strings.TrimSpace(strings.TrimPrefix(strings.Join(words, " "), "node-lifecycle"))
		if err != nil {
			got = "ERROR " + err.Error()
		}
		if got != tc.want {
			t.Errorf("%s\n is %s\nnot %s", tc.typed, got, tc.want)
		}
	}
}
