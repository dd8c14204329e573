package fsm

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

// golden compares what is written with testdata/name.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (go test ./fsm -update writes it)", err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got), go test ./fsm -update if that is meant:\n%s", path, diff)
	}
}

var languages = []struct {
	name  string
	write func(io.Writer, GraphOptions) error
	edge  *regexp.Regexp // from, to, label
}{
	{"mmd", WriteMermaid, regexp.MustCompile(`(?m)^    (\w+) --> (\w+): (.*)$`)},
	{"dot", WriteDOT, regexp.MustCompile(`(?m)^    "(\w+)" -> "(\w+)" \[label="([^"]*)"`)},
}

func draw(t rapid.TB, write func(io.Writer, GraphOptions) error, o GraphOptions) string {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestDiagrams(t *testing.T) {
	failedStart := []Transition{
		{Stopped, EventPrechecked, PreChecked},
		{PreChecked, EventRegenerated, Regenerated},
		{Regenerated, EventStarting, Starting},
		{Starting, EventFailed, Failed},
	}
	tests := []struct {
		name    string
		options GraphOptions
	}{
		{"plain", GraphOptions{}},
		{"wired", GraphOptions{Current: Wired}},
		{"failed-start", GraphOptions{Current: Failed, Path: failedStart}},
		// A second attempt passes the same edges again: both places are shown.
		{"second-attempt", GraphOptions{
			Current: PreChecked,
			Path: append(failedStart[:len(failedStart):len(failedStart)],
				Transition{Failed, EventPrechecked, PreChecked},
				Transition{PreChecked, EventStopped, Stopped},
				Transition{Stopped, EventPrechecked, PreChecked}),
		}},
		// An older version draws what a newer one wrote, and says so.
		{"newer-journal", GraphOptions{
			Current: "Draining",
			Path: []Transition{
				{Running, EventWired, Wired},
				{Wired, "drained", "Draining"},
				{"Draining", EventStopped, Stopped},
				{Running, "jumped", Wired},
			},
		}},
		{"hostile-names", GraphOptions{
			Current: "\"];\nx --> [*]",
			Path:    []Transition{{"", "a\x1b[31m\"; label=b\n", "\"];\nx --> [*]"}, {Wired, Event(strings.Repeat("long", 30)), Failed}},
		}},
	}
	for _, tt := range tests {
		for _, lang := range languages {
			t.Run(tt.name+"/"+lang.name, func(t *testing.T) {
				golden(t, tt.name+"."+lang.name, []byte(draw(t, lang.write, tt.options)))
			})
		}
	}
}

// The diagrams have exactly the edges of the table, each of them once.
func TestDiagramsHaveTheTablesEdges(t *testing.T) {
	want := map[Transition]int{}
	for _, r := range Table() {
		for _, from := range r.From {
			want[Transition{from, r.Event, r.To}]++
		}
	}
	for _, lang := range languages {
		got := map[Transition]int{}
		for _, m := range lang.edge.FindAllStringSubmatch(draw(t, lang.write, GraphOptions{}), -1) {
			for label := range strings.SplitSeq(m[3], ", ") {
				event, isFailure := strings.CutPrefix(label, failureMark)
				if isFailure != (m[2] == "Failed") {
					t.Errorf("%s: %s --> %s: label %q", lang.name, m[1], m[2], label)
				}
				got[Transition{State(m[1]), Event(event), State(m[2])}]++
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: edges (-table +diagram):\n%s", lang.name, diff)
		}
	}
}

// Whatever a journal holds, a diagram keeps its shape: every line is one of the
// few forms that the renderers know, so nothing can break out of a name.
func TestNoNameBreaksADiagram(t *testing.T) {
	shapes := map[string]*regexp.Regexp{
		"mmd": regexp.MustCompile(`^(stateDiagram-v2|    \[\*\] --> Stopped` +
			`|    state "[\pL\pN_.…()-]+" as foreign\d+` +
			`|    \w+ --> \w+: [\pL\pN_.…()✗?, -]+` +
			`|    classDef [a-z]+ [^"\\]+|    class [\w, ]+ [a-z]+)$`),
		"dot": regexp.MustCompile(`^(digraph fsm \{|\}|    (node|edge) \[[^\n]*\];` +
			`|    "\w+"( -> "\w+")?( \[(label="[\pL\pN_.…()✗?, -]+")?[\w"#=., ]*\])?;)$`),
	}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.String(), rapid.SampledFrom(append(allStates, allEvents...)))
		o := GraphOptions{Current: State(name.Draw(t, "current"))}
		for range rapid.IntRange(0, 5).Draw(t, "steps") {
			o.Path = append(o.Path, Transition{
				State(name.Draw(t, "from")), Event(name.Draw(t, "event")), State(name.Draw(t, "to")),
			})
		}
		for _, lang := range languages {
			drawn := draw(t, lang.write, o)
			for line := range strings.Lines(drawn) {
				if !shapes[lang.name].MatchString(strings.TrimSuffix(line, "\n")) {
					t.Fatalf("%s: line %q of\n%s", lang.name, line, drawn)
				}
			}
			if again := draw(t, lang.write, o); again != drawn {
				t.Fatalf("%s: not the same twice:\n%s\n%s", lang.name, drawn, again)
			}
		}
	})
}

func TestAWritersErrorIsNamed(t *testing.T) {
	full := errors.New("no space left on device")
	w := writerFunc(func([]byte) (int, error) { return 0, full })
	for what, write := range map[string]func() error{
		"Mermaid diagram": func() error { return WriteMermaid(w, GraphOptions{}) },
		"DOT diagram":     func() error { return WriteDOT(w, GraphOptions{}) },
		"reference":       func() error { return WriteReference(w) },
	} {
		err := write()
		if want := "write the " + what + ": no space left on device"; !errors.Is(err, full) || err.Error() != want {
			t.Errorf("error %q, want %q", err, want)
		}
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
