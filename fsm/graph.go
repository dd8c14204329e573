package fsm

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// GraphOptions says what a diagram highlights. States and events that are not
// in the table, as an older version finds them in a newer journal, are drawn
// too and marked as such; characters that could break the diagram are replaced.
type GraphOptions struct {
	Current State        // where the slot stands; "" for none
	Path    []Transition // the way it came, oldest first; steps are numbered from 1
}

// Marks in front of an event's name where colour is not to be had: Mermaid's
// state diagrams cannot style a single edge.
const (
	failureMark = "✗ "
	foreignMark = "? "
)

// maxName bounds, in characters, what a foreign name may take up.
const maxName = 40

type nodeKind string

const (
	nodeResting nodeKind = "resting" // nothing of the slot is up, nor wanted
	nodeMoving  nodeKind = "moving"  // a phase is at work, or post-start is awaited
	nodeGood    nodeKind = "good"
	nodeBad     nodeKind = "bad"
	nodePseudo  nodeKind = "pseudo"
	nodeForeign nodeKind = "foreign"
)

type graphNode struct {
	state   State
	id      string // safe in both languages
	label   string // safe between double quotes in both
	kind    nodeKind
	current bool
	onPath  bool
}

// graphEdge carries all events between two states: one arrow each would make
// the diagram unreadable.
type graphEdge struct {
	from, to State
	labels   []graphLabel
}

type graphLabel struct {
	event   Event
	foreign bool  // not in the table
	steps   []int // positions in the path, from 1
}

type graph struct {
	nodes []graphNode
	edges []graphEdge
}

// newGraph lays out the table, then whatever the options add to it. The order
// depends on nothing but the table and the options.
func newGraph(o GraphOptions) *graph {
	g := &graph{}
	for _, s := range States() {
		g.addNode(s)
	}
	g.addNode(Unknown)
	for _, rule := range table {
		for _, from := range rule.From {
			g.label(from, rule.Event, rule.To, false)
		}
	}
	for i, t := range o.Path {
		g.node(t.From).onPath = true
		g.node(t.To).onPath = true
		label := g.label(t.From, t.Event, t.To, true)
		label.steps = append(label.steps, i+1)
	}
	if o.Current != "" {
		g.node(o.Current).current = true
	}
	return g
}

// node finds the node of s, or adds one; the pointer holds until the next call.
func (g *graph) node(s State) *graphNode {
	i := slices.IndexFunc(g.nodes, func(n graphNode) bool { return n.state == s })
	if i < 0 {
		return g.addNode(s)
	}
	return &g.nodes[i]
}

func (g *graph) addNode(s State) *graphNode {
	n := graphNode{state: s, id: string(s), label: plain(string(s)), kind: kindOf(s)}
	if n.kind == nodeForeign {
		n.id = "foreign" + strconv.Itoa(len(g.nodes))
	}
	g.nodes = append(g.nodes, n)
	return &g.nodes[len(g.nodes)-1]
}

// label finds the label of an event on its edge, or adds it and marks it as
// foreign if so told; the pointer holds until the next call.
func (g *graph) label(from State, ev Event, to State, foreign bool) *graphLabel {
	e := slices.IndexFunc(g.edges, func(e graphEdge) bool { return e.from == from && e.to == to })
	if e < 0 {
		e = len(g.edges)
		g.edges = append(g.edges, graphEdge{from: from, to: to})
	}
	edge := &g.edges[e]
	i := slices.IndexFunc(edge.labels, func(l graphLabel) bool { return l.event == ev })
	if i < 0 {
		i = len(edge.labels)
		edge.labels = append(edge.labels, graphLabel{event: ev, foreign: foreign})
	}
	return &edge.labels[i]
}

func kindOf(s State) nodeKind {
	switch {
	case s == Unknown:
		return nodePseudo
	case s == Failed:
		return nodeBad
	case s.Live() && s.Terminal():
		return nodeGood
	case s.Live():
		return nodeMoving
	case s.Known():
		return nodeResting
	default:
		return nodeForeign
	}
}

func (e graphEdge) failure() bool { return e.to == Failed }

func (e graphEdge) onPath() bool {
	return slices.ContainsFunc(e.labels, func(l graphLabel) bool { return len(l.steps) > 0 })
}

func (e graphEdge) foreign() bool {
	return !slices.ContainsFunc(e.labels, func(l graphLabel) bool { return !l.foreign })
}

// text joins the edge's labels: each event, then its place in the path.
func (e graphEdge) text() string {
	parts := make([]string, len(e.labels))
	for i, l := range e.labels {
		parts[i] = l.mark(e.failure()) + plain(string(l.event))
		if len(l.steps) > 0 {
			parts[i] += " (" + numbers(l.steps) + ")"
		}
	}
	return strings.Join(parts, ", ")
}

func (l graphLabel) mark(failure bool) string {
	switch {
	case l.foreign:
		return foreignMark
	case failure:
		return failureMark
	default:
		return ""
	}
}

func numbers(steps []int) string {
	parts := make([]string, len(steps))
	for i, n := range steps {
		parts[i] = strconv.Itoa(n)
	}
	return strings.Join(parts, " ")
}

// plain makes a name that may come from a journal safe inside a diagram: what
// is not a letter, a digit or one of "-_." becomes an underscore.
func plain(name string) string {
	if name == "" {
		return "(none)"
	}
	runes := []rune(name)
	if len(runes) > maxName {
		runes = append(runes[:maxName-1], '…')
	}
	for i, r := range runes {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_.…", r) {
			runes[i] = '_'
		}
	}
	return string(runes)
}

func writeAll(w io.Writer, what string, b *bytes.Buffer) error {
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write the %s: %w", what, err)
	}
	return nil
}
