package argv

import (
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func isBoot(word string) bool {
	return regexp.MustCompile(`^([+-]?[0-9]+|[0-9a-f]{32})$`).MatchString(word)
}

func isCount(word string) bool {
	_, err := strconv.Atoi(word)
	return err == nil || word == "all"
}

// app is a command line as it could be: global flags, a command with all kinds
// of flags, commands without, and a group.
var app = App{
	Flags: []Flag{
		{Names: []string{"config"}, Takes: Value},
		{Names: []string{"color"}, Takes: Value},
		{Names: []string{"quiet", "q"}},
		{Names: []string{"version"}},
	},
	Commands: []Command{
		{Names: []string{"pre-start"}, Flags: []Flag{{Names: []string{"force"}}}},
		{Names: []string{"history", "log"}, Flags: []Flag{
			{Names: []string{"lines", "n"}, Takes: Value, Accepts: isCount, Wants: "a number"},
			{Names: []string{"reverse", "r"}},
			{Names: []string{"follow", "f"}},
			{Names: []string{"since", "S"}, Takes: Value},
			{Names: []string{"output", "o"}, Takes: Value},
			{Names: []string{"boot", "b"}, Takes: OptionalValue, Bare: "0", Accepts: isBoot},
			{Names: []string{"mark"}, Takes: OptionalValue, Bare: "yes"},
		}},
		{
			Names: []string{"journal"},
			Flags: []Flag{{Names: []string{"file"}, Takes: Value}},
			Commands: []Command{
				{Names: []string{"verify"}, Flags: []Flag{{Names: []string{"deep", "d"}}}},
				{Names: []string{"export"}, Flags: []Flag{{Names: []string{"to"}, Takes: Value}}},
			},
		},
	},
	Completion: "--generate-bash-completion",
}

// The left side is what people type, the right side what the library gets, or
// the error. Words are separated by single spaces.
func TestNormalize(t *testing.T) {
	for _, tc := range []struct{ typed, want string }{
		// Flags behind and between arguments.
		{"history kube1 -n 5", "history -n=5 kube1"},
		{"history -n 5 kube1", "history -n=5 kube1"},
		{"history kube1 -n 5 -r", "history -n=5 -r kube1"},
		{"history kube1 -n=5", "history -n=5 kube1"},
		{"history kube1 --lines 5 kube2", "history --lines=5 kube1 kube2"},
		{"history kube1 --lines=5", "history --lines=5 kube1"},
		{"history kube1 -lines 5", "history -lines=5 kube1"},
		{"log kube1 -r", "log -r kube1"},
		{"pre-start kube1 --force", "pre-start --force kube1"},
		{"pre-start kube1 --force=false", "pre-start --force=false kube1"},

		// Application and group flags.
		{"history kube1 --color never", "--color=never history kube1"},
		{"--config x history --color never -r kube1 -q", "--config=x --color=never -q history -r kube1"},
		{"journal verify --file a -d -q", "-q journal --file=a verify -d"},
		{"journal --file a verify", "journal --file=a verify"},
		{"journal verify", "journal verify"},
		{"--version", "--version"},
		{"history --version", "--version history"},
		{"-q", "-q"},
		{"", ""},

		// Short flags joined, with and without values.
		{"history kube1 -n5", "history -n=5 kube1"},
		{"history kube1 -rf", "history -r -f kube1"},
		{"history -rfn5 kube1", "history -r -f -n=5 kube1"},
		{"history -rn 5 kube1", "history -r -n=5 kube1"},
		{"history -rn=5 kube1", "history -r -n=5 kube1"},
		{"history -rq kube1", "-q history -r kube1"},
		{"history -ojson kube1", "history -o=json kube1"},
		{"history -n5 --lines 6", "history -n=5 -n=6"},
		{"history --reverse -r", "history --reverse --reverse"},
		{"journal verify -qd", "-q journal verify -d"},

		// Values with a dash, and flags that are no values.
		{"history kube1 --since -1h", "history --since=-1h kube1"},
		{"history -S -1h kube1 -r", "history -S=-1h -r kube1"},
		{"history -S-1h", "history -S=-1h"},
		{"history -S -.5h", "history -S=-.5h"},
		{"history -n -5", "history -n=-5"},
		{"history -o -", "history -o=-"},
		{"history --since= kube1", "history --since= kube1"},
		{"history --output=a=b", "history --output=a=b"},
		{"history kube1 -n", "ERROR history -n: flag -n needs a value"},
		{"history -n kube1", `ERROR history -n: -n takes a number; not "kube1"`},
		{"history -n -r kube1", "ERROR history -n: flag -n needs a value before -r"},
		{"history -n -rf kube1", "ERROR history -n: flag -n needs a value before -rf"},
		{"history --since --lines=5", "ERROR history --since: flag --since needs a value before --lines=5"},
		{"history --since --color", "ERROR history --since: flag --since needs a value before --color"},
		{"history --since -- kube1", "ERROR history --since: flag --since needs a value before --"},
		{"history -S --yesterday", `ERROR history -S: flag -S needs a value; if that is "--yesterday", write -S=--yesterday`},
		{"--config", "ERROR --config: flag --config needs a value"},
		{"journal export --to", "ERROR journal export --to: flag --to needs a value"},
		{"history -n x -o", `ERROR history -n: -n takes a number; not "x"`},

		// Optional values.
		{"history -b", "history -b=0"},
		{"history -b kube1", "history -b=0 kube1"},
		{"history -b -1 kube1", "history -b=-1 kube1"},
		{"history --boot 5c31a0de5c31a0de5c31a0de5c31a0de kube1", "history --boot=5c31a0de5c31a0de5c31a0de5c31a0de kube1"},
		{"history -b-1 kube1", "history -b=-1 kube1"},
		{"history -b=-2 kube1", "history -b=-2 kube1"},
		{"history -b -r kube1", "history -b=0 -r kube1"},
		{"history -br -1 kube1", "history -b=0 -r -1 kube1"},
		{"history -rb -1 kube1", "history -r -b=-1 kube1"},
		{"history --mark kube1", "history --mark=yes kube1"},
		{"history -b -- -1", "history -b=0 -- -1"},

		// Help from anywhere.
		{"history kube1 -h", "history --help"},
		{"-h history kube1", "history --help"},
		{"history --help -n", "history --help"},
		{"history -n --help", "history --help"},
		{"history -n x -h", "history --help"},
		{"history -rh kube1", "history --help"},
		{"history -hn5", "history --help"},
		{"journal verify -q -h", "journal verify --help"},
		{"journal -help", "journal --help"},
		{"--h", "--help"},

		// The end of flags.
		{"history -- kube1 -r", "history -- kube1 -r"},
		{"history kube1 -r -- -n 5 --help", "history -r -- kube1 -n 5 --help"},
		{"history kube1 -- --", "history -- kube1 --"},
		{"-- history kube1", "-- history kube1"},
		{"history -", "history -"},

		// Unknown flags stay in front, where the library refuses them.
		{"history kube1 --lnes 5", "history --lnes kube1 5"},
		{"history kube1 -rx", "history -rx kube1"},
		{"history kube1 -5", "history -5 kube1"},
		{"pre-start kube1 -n 5", "pre-start -n kube1 5"},
		{"-n 5 history", "-n 5 history"},
		{"--frobnicate history", "--frobnicate history"},
		{"history ---r -= --=x", "history ---r -= --=x"},

		// Unknown commands keep their words.
		{"histroy kube1 -n 5", "histroy kube1 -n 5"},
		{"histroy kube1 --color never", "--color=never histroy kube1"},
		{"histroy --help", "histroy --help"},
		{"journal verfy -d verify", "journal verfy -d verify"},
		{"journal verfy -h", "journal verfy -h"},

		// Completion.
		{"history kube1 -n --generate-bash-completion", "history kube1 -n --generate-bash-completion"},
		{"--generate-bash-completion", "--generate-bash-completion"},
		{"history -- --generate-bash-completion", "ERROR : nothing can be completed after --"},
		{"-- history --generate-bash-completion", "ERROR : nothing can be completed after --"},
		{"history --generate-bash-completion kube1", "history --generate-bash-completion kube1"},
	} {
		words := []string{"nl"}
		if tc.typed != "" {
			words = append(words, strings.Split(tc.typed, " ")...)
		}
		before := slices.Clone(words)
		out, err := Normalize(app, words)
		got := strings.TrimPrefix(strings.Join(out, " "), "nl")
		got = strings.TrimPrefix(got, " ")
		var e *Error
		if errors.As(err, &e) {
			got = "ERROR " + strings.TrimLeft(e.Command+" "+e.Flag, " ") + ": " + e.Error()
		} else if out[0] != "nl" {
			t.Errorf("%s: the program's name is gone: %q", tc.typed, out)
		}
		if got != tc.want {
			t.Errorf("%s\n got %s\nwant %s", tc.typed, got, tc.want)
		}
		if diff := cmp.Diff(before, words); diff != "" {
			t.Errorf("%s: the input was changed: %s", tc.typed, diff)
		}
	}
}

func TestNormalize_Short(t *testing.T) {
	for _, words := range [][]string{nil, {}, {"nl"}} {
		if got, err := Normalize(app, words); err != nil || len(got) != len(words) {
			t.Errorf("%q becomes %q, %v", words, got, err)
		}
	}
	// Empty words are arguments, and where nothing completes, the word for it is
	// a flag like any other.
	got, err := Normalize(App{}, []string{"nl", "", "--generate-bash-completion"})
	if diff := cmp.Diff([]string{"nl", "--generate-bash-completion", ""}, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

// call is what a command line means to a parser as simple as the library: flags
// come before anything else, a value is always behind "=".
type call struct {
	Path  []string
	Flags map[string][]string
	Args  []string
}

// interpret reads a normalized line like the library does.
func interpret(app App, argv []string) (call, bool) {
	c := call{Flags: map[string][]string{}}
	flags, commands, words := app.Flags, app.Commands, argv[1:]
	for len(words) > 0 {
		word := words[0]
		switch {
		case word == "--":
			c.Args = words[1:]
			return c, true
		case !isFlag(word):
			sub := subcommand(commands, word)
			if sub == nil {
				c.Args = words
				return c, true
			}
			c.Path, flags, commands = append(c.Path, sub.Names[0]), sub.Flags, sub.Commands
		default:
			name, value, has := strings.Cut(strings.TrimLeft(word, "-"), "=")
			i := find(flags, name)
			if i < 0 || (!has && flags[i].Takes != Nothing) {
				return c, false // the library refuses it
			}
			name = strings.Join(append(slices.Clone(c.Path), flags[i].Names[0]), ".")
			c.Flags[name] = append(c.Flags[name], value)
		}
		words = words[1:]
	}
	return c, true
}

// oneName is app with a flag of its own for each name and with nothing in the
// place of a value that is not given, so that no word is ever respelt.
func oneName() App {
	var split func(commands []Command) []Command
	single := func(flags []Flag) (out []Flag) {
		for _, f := range flags {
			for _, name := range f.Names {
				out = append(out, Flag{Names: []string{name}, Takes: f.Takes, Accepts: f.Accepts})
			}
		}
		return out
	}
	split = func(commands []Command) (out []Command) {
		for _, c := range commands {
			out = append(out, Command{Names: c.Names, Flags: single(c.Flags), Commands: split(c.Commands)})
		}
		return out
	}
	return App{Flags: single(app.Flags), Commands: split(app.Commands), Completion: app.Completion}
}

// content counts the bytes of words, except for dashes and "=", which are all
// that Normalize may add or take away.
func content(words []string) map[byte]int {
	count := map[byte]int{}
	for _, w := range words {
		for i := range len(w) {
			if w[i] != '-' && w[i] != '=' {
				count[w[i]]++
			}
		}
	}
	return count
}

// FuzzNormalize holds for every line of words: no panic; an accepted line is
// its own normal form; nothing of any word is lost or doubled; and no flag is
// left where the library would take it for an argument.
func FuzzNormalize(f *testing.F) {
	for _, s := range []string{
		"history kube1 -n 5 -r", "journal verify -qd --file a", "history -b -1 -- -x", "x -h", "history -rfn5 -S -1h kube1",
		"history \xff -\xff -n\xff", "history -o= -n= --=", "log -br -hn --mark -- --generate-bash-completion",
	} {
		f.Add(s)
	}
	app := oneName()
	f.Fuzz(func(t *testing.T, line string) {
		argv := append([]string{"nl"}, strings.Split(line, " ")...)
		out, err := Normalize(app, argv)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Message == "" || out != nil {
				t.Fatalf("%q: %v", argv, err)
			}
			return
		}
		again, err := Normalize(app, out)
		if err != nil || !slices.Equal(out, again) {
			t.Errorf("%q becomes %q, and that %q, %v", argv, out, again, err)
		}
		if last := out[len(out)-1]; last == "--help" || last == app.Completion {
			return
		}
		if diff := cmp.Diff(content(argv), content(out)); diff != "" {
			t.Errorf("%q becomes %q: %s", argv, out, diff)
		}
		c, ok := interpret(app, out)
		if !ok || slices.Contains(out, "--") || len(c.Path) == 0 || len(c.Path) == 1 && c.Path[0] == "journal" {
			return // refused by the library, flags ended, or no such command
		}
		if i := slices.IndexFunc(c.Args, isFlag); i >= 0 {
			t.Errorf("%q becomes %q, where %s is an argument", argv, out, c.Args[i])
		}
	})
}

// The library's view of a line is the one that the words asked for.
func TestNormalize_Meaning(t *testing.T) {
	out, err := Normalize(app, strings.Split("nl history kube1 -rn5 --config c -b --lines 7 kube2 -S -1h", " "))
	if err != nil {
		t.Fatal(err)
	}
	got, ok := interpret(app, out)
	want := call{
		Path: []string{"history"},
		Flags: map[string][]string{
			"config": {"c"}, "history.lines": {"5", "7"}, "history.reverse": {""}, "history.boot": {"0"}, "history.since": {"-1h"},
		},
		Args: []string{"kube1", "kube2"},
	}
	if diff := cmp.Diff(want, got); diff != "" || !ok {
		t.Error(diff)
	}
}
