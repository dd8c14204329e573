package fsm

import (
	"bytes"
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/template"
)

//go:embed reference.md.tmpl
var referenceTemplate string

// phaseEnd says where a phase leaves its slot. The phases themselves are not
// this package's business; which states they may end in is.
type phaseEnd struct {
	phase    string
	succeeds []State
	also     []State
	remarks  string
}

var phaseEnds = []phaseEnd{
	{
		"pre-start",
		[]State{Regenerated},
		[]State{Failed},
		"Refused before anything began: the state stays as it was, or as what an earlier run left open was settled. Cut short by a stop that was asked for: post-stop settles it.",
	},
	{
		"post-start",
		[]State{Wired},
		[]State{Failed},
		"Cut short by a stop that was asked for: post-stop settles it.",
	},
	{
		"post-stop",
		[]State{Stopped, Failed},
		nil,
		"Stopped if a stop was asked for, Failed if the stack was lost or had failed before. Container not proven gone: the state stays as it was, and so does the claim.",
	},
	{
		"resume",
		[]State{Wired, Stopped, Failed},
		nil,
		"Wired where post-start could be continued. A slot whose run was not cut off is left alone.",
	},
	{
		"reconcile",
		[]State{Wired},
		[]State{Stopped, Failed},
		"Fires no event: the hooks of the unit's new activation do, and reconcile waits for them.",
	},
	{
		"switch",
		[]State{Wired},
		[]State{Stopped, Failed},
		"Fires no event: the hooks of the unit that takes over do.",
	},
}

type referenceData struct {
	Count       int
	Mermaid     string
	FailureMark string
	States      []stateEntry
	Events      []eventEntry
	Phases      []phaseEntry
	Notes       []noteEntry
}

type (
	stateEntry struct{ Name, Meaning, Terminal, Legal string }
	eventEntry struct{ Name, From, To, FiredBy, Meaning string }
	phaseEntry struct{ Name, Succeeds, Also, Remarks string }
	noteEntry  struct{ Name, Meaning string }
)

// WriteReference writes the whole of docs/state-diagram.md: the diagram, the
// states, the events, where each phase ends, and the notes. The result depends
// on nothing but the table. Errors are those of w, wrapped.
func WriteReference(w io.Writer) error {
	text, err := template.New("reference").Parse(referenceTemplate)
	if err != nil {
		return fmt.Errorf("parse the template of the reference: %w", err)
	}
	data, err := newReferenceData()
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := text.Execute(&b, data); err != nil {
		return fmt.Errorf("render the reference: %w", err)
	}
	return writeAll(w, "reference", &b)
}

func newReferenceData() (*referenceData, error) {
	var diagram bytes.Buffer
	if err := WriteMermaid(&diagram, GraphOptions{}); err != nil {
		return nil, err
	}
	data := &referenceData{
		Count:       len(states),
		Mermaid:     diagram.String(),
		FailureMark: strings.TrimSpace(failureMark),
	}
	for _, s := range append(States(), Unknown) {
		data.States = append(data.States, stateEntry{code(s), s.Meaning(), terminal(s), codes(Legal(s))})
	}
	for _, r := range table {
		data.Events = append(data.Events, eventEntry{code(r.Event), span(r.From), code(r.To), r.FiredBy, r.Meaning})
	}
	for _, p := range phaseEnds {
		data.Phases = append(data.Phases, phaseEntry{code(p.phase), codes(p.succeeds), codes(p.also), p.remarks})
	}
	for _, n := range Notes() {
		data.Notes = append(data.Notes, noteEntry{code(n), n.Meaning()})
	}
	return data, nil
}

// terminal names the phases for which s is terminal, if it is not so for all.
func terminal(s State) string {
	if s.Terminal() {
		return "yes"
	}
	var only []string
	for _, p := range phaseEnds {
		if slices.Contains(p.succeeds, s) {
			only = append(only, p.phase)
		}
	}
	if len(only) == 0 {
		return "no"
	}
	return "for " + codes(only)
}

func code[S ~string](name S) string { return "`" + string(name) + "`" }

func codes[S ~string](names []S) string {
	if len(names) == 0 {
		return "—"
	}
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = code(name)
	}
	return strings.Join(quoted, ", ")
}

// span shortens three or more states that follow one another in table order.
func span(from []State) string {
	all := States()
	first := slices.Index(all, from[0])
	if first < 0 || len(from) < 3 || len(from) > len(all)-first || !slices.Equal(all[first:first+len(from)], from) {
		return codes(from)
	}
	return code(from[0]) + " … " + code(from[len(from)-1])
}
