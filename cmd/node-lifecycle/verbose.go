package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/node-lifecycle/node-lifecycle/internal/render"
	"github.com/node-lifecycle/node-lifecycle/journal"
)

// writeVerbose writes every field of every entry, one a line.
func (e *environment) writeVerbose(entries []journal.Entry) error {
	if len(entries) == 0 {
		_, err := fmt.Fprintln(e.stdout, "-- No entries --")
		return err
	}
	var b strings.Builder
	for i := range entries {
		entry := &entries[i]
		fmt.Fprintf(&b, "%s  entry %d of %s\n", render.TimeMilli(entry.Time, time.Local), entry.Seq, entry.Slot)
		for _, f := range fieldsOf(entry) {
			if f[1] != "" {
				fmt.Fprintf(&b, "    %-12s %s\n", f[0], render.Escape(f[1]))
			}
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
		fields = append(fields, [2]string{"exit code", fmt.Sprint(*e.Exit)})
	}
	if !e.Deadline.IsZero() {
		fields = append(fields, [2]string{"deadline", render.TimeMilli(e.Deadline, time.Local)})
	}
	if e.EvidenceSize > 0 {
		fields = append(fields, [2]string{"evidence", fmt.Sprintf("%d bytes", e.EvidenceSize)})
	}
	for _, key := range slices.Sorted(maps.Keys(e.Attrs)) {
		fields = append(fields, [2]string{key, e.Attrs[key]})
	}
	return append(fields,
		[2]string{"activation", e.Activation}, [2]string{"boot", e.Boot},
		[2]string{"pid", fmt.Sprint(e.PID)}, [2]string{"version", e.Version}, [2]string{"id", e.ID},
	)
}
