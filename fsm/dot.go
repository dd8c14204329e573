package fsm

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

// WriteDOT draws the table in Graphviz's language. Edges into Failed are red,
// edges of the path are thick, edges that the table does not have are dashed.
// The result depends on nothing but the options. Errors are those of w, wrapped.
func WriteDOT(w io.Writer, o GraphOptions) error {
	var b bytes.Buffer
	g := newGraph(o)
	b.WriteString("digraph fsm {\n")
	b.WriteString("    node [shape=box, style=\"rounded,filled\", fontname=\"sans-serif\"];\n")
	b.WriteString("    edge [fontname=\"sans-serif\", fontsize=10];\n")
	b.WriteString("    \"initial\" [shape=point, width=0.15, style=solid];\n")
	for _, n := range g.nodes {
		fmt.Fprintf(&b, "    %q [%s];\n", n.id, n.dotAttributes())
	}
	fmt.Fprintf(&b, "    \"initial\" -> %q;\n", string(Stopped))
	for _, e := range g.edges {
		fmt.Fprintf(&b, "    %q -> %q [%s];\n", g.node(e.from).id, g.node(e.to).id, e.dotAttributes())
	}
	b.WriteString("}\n")
	return writeAll(w, "DOT diagram", &b)
}

func (n graphNode) dotAttributes() string {
	attributes := []string{`label="` + n.label + `"`}
	for _, style := range nodeStyles {
		if style.kind == n.kind {
			attributes = append(attributes, style.dot)
		}
	}
	switch {
	case n.current:
		attributes = append(attributes, "penwidth=5")
	case n.onPath:
		attributes = append(attributes, "penwidth=3")
	}
	return strings.Join(attributes, ", ")
}

func (e graphEdge) dotAttributes() string {
	attributes := []string{`label="` + e.text() + `"`}
	if e.failure() {
		attributes = append(attributes, `color="#c62828"`, `fontcolor="#c62828"`)
	}
	if e.onPath() {
		attributes = append(attributes, "penwidth=3")
	}
	if e.foreign() {
		attributes = append(attributes, "style=dashed")
	}
	return strings.Join(attributes, ", ")
}
