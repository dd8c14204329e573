package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/node-lifecycle/node-lifecycle/fsm"
	"github.com/node-lifecycle/node-lifecycle/internal/render"
	"github.com/node-lifecycle/node-lifecycle/journal"
)

// writeShort writes one line an entry, boots apart, as journalctl does.
func (e *environment) writeShort(h *history) error {
	if len(h.entries) == 0 {
		return e.noEntries()
	}
	table := render.Table{Palette: e.palette()}
	boot := ""
	for i := range h.entries {
		entry := &h.entries[i]
		if entry.Boot != boot && boot != "" {
			table.Line(render.Text("-- Boot " + entry.Boot + " --"))
		}
		boot = entry.Boot
		table.Add(
			render.Text(render.TimeMilli(entry.Time, time.Local)),
			render.Text(entry.Phase),
			render.Cell{Text: what(entry, table.Palette), Style: styleOf(entry)},
			render.Text(why(entry)),
		)
	}
	return table.Write(e.stdout)
}

// what is the entry in a word or two.
func what(e *journal.Entry, p render.Palette) string {
	switch {
	case e.Kind != journal.KindTransition:
		return e.Kind
	case p.UTF8:
		return e.From + " → " + e.To
	}
	return e.From + " -> " + e.To
}

// why is the rest of it, as far as it fits on a line.
func why(e *journal.Entry) string {
	parts := make([]string, 0, 4)
	if e.Cause != "" {
		parts = append(parts, "["+e.Cause+"]")
	}
	if e.Step != "" && e.Error != "" && (e.Event == string(fsm.EventFailed) || e.Kind == string(fsm.NoteUndone)) {
		parts = append(parts, "in "+e.Step+":")
	}
	if e.Kind == string(fsm.NoteEnded) && e.Exit != nil {
		colon := ""
		if e.Error != "" {
			colon = ":"
		}
		parts = append(parts, fmt.Sprintf("exit code %d%s", *e.Exit, colon))
	}
	if e.Error != "" {
		parts = append(parts, e.Error)
	}
	if e.Detail != "" {
		if e.Error != "" {
			parts[len(parts)-1] += ";"
		}
		parts = append(parts, e.Detail)
	}
	if took := e.Attrs["took"]; took != "" && e.Kind == journal.KindTransition {
		parts = append(parts, "("+took+")")
	}
	return strings.Join(parts, " ")
}

func styleOf(e *journal.Entry) render.Style {
	switch {
	case wentWrong(e):
		return render.Red
	case e.To == string(fsm.Wired):
		return render.Green
	}
	return render.Plain
}
