package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/node-lifecycle/node-lifecycle/fsm"
	"github.com/node-lifecycle/node-lifecycle/internal/config"
	"github.com/node-lifecycle/node-lifecycle/internal/render"
	"github.com/node-lifecycle/node-lifecycle/internal/timespec"
	"github.com/node-lifecycle/node-lifecycle/journal"
	"github.com/node-lifecycle/node-lifecycle/phases"
)

func (e *environment) historyCommand() *cli.Command {
	return e.command(&cli.Command{
		Name: "history", ArgsUsage: "SLOT", Category: "inspect",
		Usage: "what happened in the slot, oldest first",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: linesFlag, Aliases: []string{"n"}, Usage: "show the newest `N` entries, or all", Value: "all"},
			&cli.BoolFlag{Name: "reverse", Aliases: []string{"r"}, Usage: "newest first"},
			&cli.StringFlag{Name: "since", Aliases: []string{"S"}, Usage: "entries from this `TIME` on: \"2026-12-01 02:00\", yesterday, -1h, \"10 min ago\""},
			&cli.StringFlag{Name: "until", Aliases: []string{"U"}, Usage: "entries up to this `TIME`"},
			&cli.StringFlag{Name: bootFlag, Aliases: []string{"b"}, Usage: "entries of one `BOOT`: an id, 0 or nothing for the current one, -1 for the one before"},
			&cli.StringFlag{Name: "run", Usage: "entries of the run whose id begins with `ID`"},
			&cli.BoolFlag{Name: "failed", Usage: "only what went wrong: failures, losses, refusals"},
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "`FORMAT`: short, verbose, json (one object a line) or json-seq", Value: "short"},
		},
		Action: func(c *cli.Context) error {
			s, err := e.inspectedSlot(c)
			if err != nil {
				return err
			}
			show, ok := historyFormats[c.String("output")]
			if !ok {
				return usagef("unknown output format %q: short, verbose, json or json-seq", c.String("output"))
			}
			f, err := e.historyFilter(c, show.notes)
			if err != nil {
				return err
			}
			entries, damaged := e.readHistory(c.Context, s, f)
			if entries == nil && damaged != nil {
				return damaged
			}
			if err := show.write(e, entries); err != nil {
				return err
			}
			return damaged
		},
	})
}

// historyFormats are the formats, and whether they show every note.
var historyFormats = map[string]struct {
	notes bool
	write func(*environment, []journal.Entry) error
}{
	"short":   {false, (*environment).writeShort},
	"verbose": {true, (*environment).writeVerbose},
	"json": {true, func(e *environment, entries []journal.Entry) error {
		return encodeAll(render.NewJSON(e.stdout), entries)
	}},
	"json-seq": {true, func(e *environment, entries []journal.Entry) error {
		return encodeAll(render.NewJSONSeq(e.stdout), entries)
	}},
}

func encodeAll[T any](w *render.JSONWriter, values []T) error {
	for i := range values {
		if err := w.Encode(&values[i]); err != nil {
			return err
		}
	}
	return nil
}

// historyFilter is which entries to show.
type historyFilter struct {
	limit        int // 0: all
	reverse      bool
	since, until time.Time
	boot, run    string
	failed       bool
	notes        bool
}

func (e *environment) historyFilter(c *cli.Context, notes bool) (historyFilter, error) {
	f := historyFilter{
		reverse: c.Bool("reverse"), run: strings.ToUpper(c.String("run")), boot: c.String(bootFlag),
		failed: c.Bool("failed"), notes: notes,
	}
	var err error
	if f.limit, err = parseLines(c.String(linesFlag)); err != nil {
		return f, err
	}
	now := time.Now()
	if f.since, err = parseTime(c, "since", now); err != nil {
		return f, err
	}
	f.until, err = parseTime(c, "until", now)
	return f, err
}

func parseLines(s string) (int, error) {
	if s == "all" {
		return 0, nil
	}
	var n int
	if _, err := fmt.Sscanf(s+" ", "%d ", &n); err != nil || n <= 0 || fmt.Sprint(n) != s {
		return 0, usagef("-n takes a number of entries, or all; not %q", s)
	}
	return n, nil
}

func parseTime(c *cli.Context, flag string, now time.Time) (time.Time, error) {
	if !c.IsSet(flag) {
		return time.Time{}, nil
	}
	t, err := timespec.Parse(c.String(flag), now)
	if err != nil {
		return t, usagef("--%s: %w", flag, err)
	}
	return t, nil
}

// readHistory copies what is to be shown out of the journal and closes it, so that a
// slow reader of our output blocks nobody. The entries that could be read come back
// even if others could not.
func (e *environment) readHistory(ctx context.Context, s slotOf, f historyFilter) (entries []journal.Entry, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeouts.Lock)
	defer cancel()
	err = e.openJournal(s.cfg, "history").View(ctx, func(v *journal.View) (err error) {
		match, err := f.matcher(v, s.slot, e.host.Boot())
		if err != nil {
			return err
		}
		entries, err = v.Entries(s.slot, journal.Query{Limit: f.limit, Reverse: true, Match: match})
		return err
	})
	if journal.KindOf(err) == journal.KindNotExist && errors.Is(err, fs.ErrNotExist) {
		return []journal.Entry{}, nil
	}
	if !f.reverse {
		reverse(entries)
	}
	return entries, err
}

func reverse(entries []journal.Entry) {
	for i, j := 0, len(entries)-1; i < j; i, j = i+1, j-1 {
		entries[i], entries[j] = entries[j], entries[i]
	}
}

func (f historyFilter) matcher(v *journal.View, slot, current string) (func(*journal.Entry) bool, error) {
	boot, err := f.resolveBoot(v, slot, current)
	if err != nil {
		return nil, err
	}
	return func(e *journal.Entry) bool {
		switch {
		case !f.since.IsZero() && e.Time.Before(f.since), !f.until.IsZero() && e.Time.After(f.until):
			return false
		case f.boot != "" && !strings.HasPrefix(e.Boot, boot):
			return false
		case f.run != "" && !strings.HasPrefix(e.Run, f.run):
			return false
		case f.failed:
			return wentWrong(e)
		}
		return f.notes || !isBookkeeping(e)
	}, nil
}

// resolveBoot turns what -b was given into the beginning of a boot id: an offset counts
// the boots that the slot's entries know of, back from the current one.
func (f historyFilter) resolveBoot(v *journal.View, slot, current string) (string, error) {
	var back int
	switch {
	case f.boot == "" || f.boot == "0":
		return current, nil
	case !strings.HasPrefix(f.boot, "-"):
		return strings.ReplaceAll(strings.ToLower(f.boot), "-", ""), nil
	}
	if _, err := fmt.Sscanf(f.boot, "-%d", &back); err != nil || back < 1 {
		return "", usagef("-b takes a boot id, 0 or -1, -2, …; not %q", f.boot)
	}
	boots := []string{current}
	if _, err := v.Entries(slot, journal.Query{Reverse: true, Match: func(e *journal.Entry) bool {
		if e.Boot != boots[len(boots)-1] {
			boots = append(boots, e.Boot)
		}
		return false
	}}); err != nil {
		return "", err
	}
	if back >= len(boots) {
		return "", usagef("the journal knows of %d boots of this slot, and not of boot -%d", len(boots), back)
	}
	return boots[back], nil
}

// wentWrong reports whether an entry tells of something that an engineer should see.
func wentWrong(e *journal.Entry) bool {
	switch fsm.Note(e.Kind) {
	case fsm.NoteRefused, fsm.NoteUndone, fsm.NoteUnproven, fsm.NoteDiverged, fsm.NoteQuarantined, fsm.NoteGap:
		return true
	}
	return e.To == string(fsm.Failed)
}

// isBookkeeping reports whether an entry only matters to the machine, or to somebody
// who wants to see everything: where a step began, that it ended well.
func isBookkeeping(e *journal.Entry) bool {
	switch fsm.Note(e.Kind) {
	case fsm.NoteIntent, fsm.NoteDone:
		return true
	case fsm.NoteEnded:
		return e.Phase != phases.PhaseReconcile
	}
	return false
}

// writeShort writes one line an entry, boots apart, as journalctl does.
func (e *environment) writeShort(entries []journal.Entry) error {
	if len(entries) == 0 {
		_, err := fmt.Fprintln(e.stdout, "-- No entries --")
		return err
	}
	table := render.Table{Palette: e.palette()}
	boot := ""
	for i := range entries {
		entry := &entries[i]
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

// loadSlots reads the heads and claims of the slots; a journal that does not exist yet
// is an empty one.
func (e *environment) loadSlots(ctx context.Context, cfg *config.Config, slots []string) (heads map[string]journal.Head, claims map[string]journal.Claim, err error) {
	ctx, cancel := context.WithTimeout(ctx, cfg.Timeouts.Lock)
	defer cancel()
	heads, claims = map[string]journal.Head{}, map[string]journal.Claim{}
	err = e.openJournal(cfg, "status").View(ctx, func(v *journal.View) error {
		for _, slot := range slots {
			head, err := v.Head(slot)
			if err != nil {
				return err
			}
			heads[slot] = head
			pair := cfg.Pair(slot)
			if claims[pair], err = v.Claim(pair); err != nil {
				return err
			}
		}
		return nil
	})
	if journal.KindOf(err) == journal.KindNotExist {
		err = nil
	}
	return heads, claims, err
}
