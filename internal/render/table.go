package render

import (
	"io"
	"strings"
)

const (
	// gap separates columns.
	gap = "  "
	// minLast is the least width to which the last column is cut; narrower
	// than that it is left whole, and the terminal wraps it.
	minLast = 10
)

// Column is a column of a table.
type Column struct {
	Header string
	// Right aligns to the right, for numbers.
	Right bool
	// Min is the least width, for tables that are written in pieces.
	Min int
}

// Cell is one piece of text with its style. Tables escape the text.
type Cell struct {
	Text  string
	Style Style
}

// Text returns a cell without a style.
func Text(s string) Cell { return Cell{Text: s} }

// Table collects rows and writes them with aligned columns.
type Table struct {
	Columns []Column
	Palette Palette
	// NoHeader leaves the line of headers out; so does having none.
	NoHeader bool
	// Indent is put in front of every line.
	Indent string
	// Width, if not 0, is the width of the terminal, to which the last column
	// is cut. Leave it 0 where output does not go to a terminal.
	Width int

	rows []row
}

// row is either cells or, with a single one, a line across all columns.
type row struct {
	cells []Cell
	line  bool
}

// Add appends a row. Cells beyond the columns form columns of their own.
func (t *Table) Add(cells ...Cell) {
	escaped := make([]Cell, len(cells))
	for i, c := range cells {
		escaped[i] = Cell{Text: Escape(c.Text), Style: c.Style}
	}
	t.rows = append(t.rows, row{cells: escaped})
}

// Line appends a line that runs across the columns and does not widen them,
// such as a separator. It is never cut.
func (t *Table) Line(c Cell) {
	t.Add(c)
	t.rows[len(t.rows)-1].line = true
}

// Write writes the table, in one call of w's Write.
func (t *Table) Write(w io.Writer) error {
	rows := t.rows
	if header, ok := t.header(); ok {
		rows = append([]row{header}, rows...)
	}
	widths := t.widths(rows)
	var b strings.Builder
	for _, r := range rows {
		b.WriteString(t.Indent)
		if r.line {
			b.WriteString(t.Palette.Paint(r.cells[0].Style, r.cells[0].Text))
		} else {
			t.writeRow(&b, r.cells, widths)
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (t *Table) header() (row, bool) {
	var r row
	named := false
	for _, c := range t.Columns {
		r.cells = append(r.cells, Cell{Text: Escape(c.Header)})
		named = named || c.Header != ""
	}
	return r, named && !t.NoHeader
}

func (t *Table) widths(rows []row) []int {
	var widths []int
	for _, c := range t.Columns {
		widths = append(widths, c.Min)
	}
	for _, r := range rows {
		for i, c := range r.cells {
			if r.line {
				break
			}
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], Width(c.Text))
		}
	}
	return widths
}

// writeRow pads each cell before it is painted, since escape sequences must
// not count as width, and leaves no blanks at the end of the line.
func (t *Table) writeRow(b *strings.Builder, cells []Cell, widths []int) {
	last := len(cells) - 1
	for last >= 0 && cells[last].Text == "" {
		last--
	}
	used := Width(t.Indent)
	for i := 0; i <= last; i++ {
		text := cells[i].Text
		if i == len(widths)-1 && t.Width > 0 {
			text = truncate(text, max(t.Width-used, minLast), t.Palette.ellipsis())
		}
		pad := strings.Repeat(" ", max(0, widths[i]-Width(text)))
		right := i < len(t.Columns) && t.Columns[i].Right
		if right {
			b.WriteString(pad)
		}
		b.WriteString(t.Palette.Paint(cells[i].Style, text))
		if i < last {
			if !right {
				b.WriteString(pad)
			}
			b.WriteString(gap)
		}
		used += widths[i] + len(gap)
	}
}
