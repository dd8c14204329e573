package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/node-lifecycle/node-lifecycle/internal/render"
	"github.com/node-lifecycle/node-lifecycle/journal"
)

// writeVerbose writes every field of every entry, one a line, under the names that they
// have in JSON, and the evidence.
func (e *environment) writeVerbose(h *history) error {
	if len(h.entries) == 0 {
		return e.noEntries()
	}
	var b strings.Builder
	for i := range h.entries {
		entry := &h.entries[i]
		fmt.Fprintf(&b, "%s  entry %d of %s\n", render.TimeMilli(entry.Time, time.Local), entry.Seq, entry.Slot)
		fields := fieldsOf(entry)
		widest := 0
		for _, f := range fields {
			widest = max(widest, render.Width(f[0]))
		}
		for _, f := range fields {
			fmt.Fprintf(&b, "    %-*s  %s\n", widest, f[0], render.Escape(f[1]))
		}
		if entry.EvidenceSize > 0 {
			writeEvidence(&b, entry, h.evidence[entry.Seq])
		}
	}
	_, err := fmt.Fprint(e.stdout, b.String())
	return err
}

func fieldsOf(e *journal.Entry) [][2]string {
	fields := [][2]string{
		{"kind", e.Kind}, {"event", e.Event}, {"from", e.From}, {"to", e.To},
		{"phase", e.Phase}, {"step", e.Step}, {"run", e.Run},
		{"cause", e.Cause}, {"error", e.Error}, {"detail", e.Detail},
	}
	if e.Exit != nil {
		fields = append(fields, [2]string{"exit", fmt.Sprint(*e.Exit)})
	}
	if !e.Deadline.IsZero() {
		fields = append(fields, [2]string{"deadline", render.TimeMilli(e.Deadline, time.Local)})
	}
	for _, key := range slices.Sorted(maps.Keys(e.Attrs)) {
		fields = append(fields, [2]string{"attrs." + key, e.Attrs[key]})
	}
	fields = append(fields,
		[2]string{"activation", e.Activation}, [2]string{"boot", e.Boot},
		[2]string{"pid", fmt.Sprint(e.PID)}, [2]string{"version", e.Version}, [2]string{"id", e.ID},
	)
	return slices.DeleteFunc(fields, func(f [2]string) bool { return f[1] == "" })
}

// writeEvidence writes what was captured with an entry, for people: JSON with a line for
// each value, and text of several lines, such as the output of the stack, line by line.
func writeEvidence(b *strings.Builder, entry *journal.Entry, data []byte) {
	const indent = "        "
	if data == nil {
		fmt.Fprintf(b, "    evidence: %d bytes were captured, and are not kept any more\n", entry.EvidenceSize)
		return
	}
	fmt.Fprintf(b, "    evidence (%d bytes):\n", len(data))
	var pretty bytes.Buffer
	if json.Indent(&pretty, data, "", "  ") != nil {
		b.WriteString(render.EscapeLines(string(data), indent))
		return
	}
	for line := range strings.Lines(pretty.String()) {
		key, text, ok := multiline(line)
		if !ok {
			b.WriteString(render.EscapeLines(line, indent))
			continue
		}
		b.WriteString(render.EscapeLines(key, indent))
		b.WriteString(render.EscapeLines(text, indent+strings.Repeat(" ", len(key)-len(strings.TrimLeft(key, " ")))+"  | "))
	}
}

// multiline takes apart a line of indented JSON that holds a text of several lines.
func multiline(line string) (key, text string, ok bool) {
	line = strings.TrimSuffix(strings.TrimRight(line, "\n"), ",")
	cut := strings.Index(line, `": "`)
	if cut < 0 || json.Unmarshal([]byte(line[cut+3:]), &text) != nil || !strings.Contains(text, "\n") {
		return "", "", false
	}
	return line[:cut+2], text, true
}
