package fsm

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func renderedReference(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	if err := WriteReference(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestTheCommittedDocumentIsCurrent(t *testing.T) {
	path := filepath.Join("..", "docs", "state-diagram.md")
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (go generate ./fsm writes it)", err)
	}
	if diff := cmp.Diff(string(have), renderedReference(t)); diff != "" {
		t.Errorf("docs/state-diagram.md is stale, run go generate ./fsm (-committed +generated):\n%s", diff)
	}
}

// section returns the cells of the table under a heading, without the table's
// own heading.
func section(t *testing.T, document, heading string) [][]string {
	t.Helper()
	_, text, found := strings.Cut(document, "\n## "+heading+"\n")
	if !found {
		t.Fatalf("no section %q", heading)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	var rows [][]string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	if len(rows) < 3 {
		t.Fatalf("section %q has no table", heading)
	}
	for _, row := range rows {
		if len(row) != len(rows[0]) || slices.Contains(row, "") {
			t.Errorf("section %q: row %q does not fit under %q", heading, row, rows[0])
		}
	}
	return rows[2:]
}

func TestTheDocumentSaysWhatTheTableSays(t *testing.T) {
	document := renderedReference(t)

	states := section(t, document, "States")
	for i, s := range append(States(), Unknown) {
		want := []string{code(s), s.Meaning(), "no", codes(Legal(s))}
		switch {
		case s.Terminal():
			want[2] = "yes"
		case s == Regenerated:
			want[2] = "for `pre-start`"
		}
		if diff := cmp.Diff(want, states[i]); diff != "" {
			t.Errorf("state %s (-want +got):\n%s", s, diff)
		}
	}
	for i, row := range section(t, document, "Events") {
		r := table[i]
		want := []string{code(r.Event), row[1], code(r.To), r.FiredBy, r.Meaning}
		if diff := cmp.Diff(want, row); diff != "" {
			t.Errorf("event %s (-want +got):\n%s", r.Event, diff)
		}
	}
	for i, row := range section(t, document, "Notes") {
		if n := Notes()[i]; row[0] != code(n) || row[1] != n.Meaning() {
			t.Errorf("note %s: %q", n, row)
		}
	}
	diagram := draw(t, WriteMermaid, GraphOptions{})
	if !strings.Contains(document, "\n```mermaid\n"+diagram+"```\n") {
		t.Error("the diagram is not in the document, or not fenced off")
	}
}

// A phase that succeeds leaves its slot in a terminal state; pre-start alone
// hands over to post-start in Regenerated.
func TestPhasesEndInTerminalStates(t *testing.T) {
	for _, p := range phaseEnds {
		for _, s := range slices.Concat(p.succeeds, p.also) {
			if !s.Terminal() && (p.phase != "pre-start" || s != Regenerated) {
				t.Errorf("%s ends in %s, which is not terminal", p.phase, s)
			}
		}
	}
}

func TestSpan(t *testing.T) {
	tests := []struct {
		from []State
		want string
	}{
		{[]State{PreChecked}, "`PreChecked`"},
		{[]State{Stopped, PreChecked}, "`Stopped`, `PreChecked`"},
		{[]State{PreChecked, Regenerated, Starting}, "`PreChecked` … `Starting`"},
		{[]State{PreChecked, Starting, Running}, "`PreChecked`, `Starting`, `Running`"},
		{[]State{Running, Wired, Failed, Stopped}, "`Running`, `Wired`, `Failed`, `Stopped`"},
		{[]State{Unknown}, "`Unknown`"},
	}
	for _, tt := range tests {
		if got := span(tt.from); got != tt.want {
			t.Errorf("span(%v) = %s, want %s", tt.from, got, tt.want)
		}
	}
}
