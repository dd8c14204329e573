package fsm

import (
	"bytes"
	"fmt"
	"io"
)

// nodeStyles gives fill, line and text together, so that a diagram reads the
// same on a light and on a dark page.
var nodeStyles = []struct {
	kind    nodeKind
	mermaid string
	dot     string
}{
	{nodeResting, "fill:#eeeeee,stroke:#757575,color:#212121", `fillcolor="#eeeeee", color="#757575"`},
	{nodeMoving, "fill:#e3f2fd,stroke:#1976d2,color:#0d3c61", `fillcolor="#e3f2fd", color="#1976d2"`},
	{nodeGood, "fill:#e0f2e1,stroke:#2e7d32,color:#1b5e20", `fillcolor="#e0f2e1", color="#2e7d32"`},
	{nodeBad, "fill:#fde0e0,stroke:#c62828,color:#8e0000", `fillcolor="#fde0e0", color="#c62828"`},
	{nodePseudo, "fill:#ffffff,stroke:#757575,color:#616161,stroke-dasharray:4 3", `fillcolor="#ffffff", color="#757575", style="rounded,filled,dashed"`},
	{nodeForeign, "fill:#fff3e0,stroke:#ef6c00,color:#8a3b00,stroke-dasharray:4 3", `fillcolor="#fff3e0", color="#ef6c00", style="rounded,filled,dashed"`},
}

// Highlights come after the kinds and set other properties than they do, so
// that a current Failed is still red.
const (
	mermaidPath    = "stroke-width:3px"
	mermaidCurrent = "stroke-width:5px,font-weight:bold"
)

// WriteMermaid draws the table as a Mermaid state diagram. The initial state is
// Stopped whatever is current. The result depends on nothing but the options.
// Errors are those of w, wrapped.
func WriteMermaid(w io.Writer, o GraphOptions) error {
	var b bytes.Buffer
	g := newGraph(o)
	fmt.Fprintf(&b, "stateDiagram-v2\n    [*] --> %s\n", Stopped)
	for _, n := range g.nodes {
		if n.kind == nodeForeign {
			fmt.Fprintf(&b, "    state \"%s\" as %s\n", n.label, n.id)
		}
	}
	for _, e := range g.edges {
		fmt.Fprintf(&b, "    %s --> %s: %s\n", g.node(e.from).id, g.node(e.to).id, e.text())
	}
	g.mermaidStyles(&b)
	return writeAll(w, "Mermaid diagram", &b)
}

func (g *graph) mermaidStyles(b *bytes.Buffer) {
	for _, style := range nodeStyles {
		g.mermaidClass(b, string(style.kind), style.mermaid, func(n graphNode) bool { return n.kind == style.kind })
	}
	g.mermaidClass(b, "path", mermaidPath, func(n graphNode) bool { return n.onPath && !n.current })
	g.mermaidClass(b, "current", mermaidCurrent, func(n graphNode) bool { return n.current })
}

// mermaidClass defines a class and puts the chosen nodes into it; nothing if
// there are none.
func (g *graph) mermaidClass(b *bytes.Buffer, name, style string, chosen func(graphNode) bool) {
	ids := ""
	for _, n := range g.nodes {
		if !chosen(n) {
			continue
		}
		if ids != "" {
			ids += ", "
		}
		ids += n.id
	}
	if ids == "" {
		return
	}
	fmt.Fprintf(b, "    classDef %s %s\n    class %s %s\n", name, style, ids, name)
}
