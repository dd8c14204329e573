package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/node-lifecycle/node-lifecycle/internal/render"
	"github.com/node-lifecycle/node-lifecycle/journal"
)

func (e *environment) historyCommand() *cli.Command {
	return e.command(&cli.Command{
		Name: "history", ArgsUsage: "SLOT", Category: "inspect",
		Usage: "what happened in the slot, oldest first",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: linesFlag, Aliases: []string{"n"}, Usage: "show the newest `N` entries of those that the format shows (short leaves out where a step began or ended well), or all", Value: "all"},
			&cli.BoolFlag{Name: "reverse", Aliases: []string{"r"}, Usage: "newest first"},
			&cli.StringFlag{Name: "since", Aliases: []string{"S"}, Usage: "entries from this `TIME` on: \"2026-12-01 02:00\", yesterday, -1h, \"10 min ago\""},
			&cli.StringFlag{Name: "until", Aliases: []string{"U"}, Usage: "entries up to this `TIME`"},
			&cli.StringFlag{Name: bootFlag, Aliases: []string{"b"}, Usage: "entries of one `BOOT`: its id or the first 8 digits of it, 0 or nothing for the current one, -1 for the one before"},
			&cli.StringFlag{Name: "run", Usage: "entries of the run whose id begins with `ID`"},
			&cli.BoolFlag{Name: "failed", Usage: "only what went wrong: failures, losses, refusals"},
			outputFlag("short", "short, verbose (every field, and the evidence of failures), json (one object a line) or json-seq", historyFormatNames...),
			&cli.BoolFlag{Name: "evidence", Usage: "with -o json or json-seq: include what was captured at a failure"},
		},
		Action: func(c *cli.Context) error {
			s, err := e.inspectedSlot(c)
			if err != nil {
				return err
			}
			show, ok := historyFormats[c.String("output")]
			if !ok {
				return unknownFormat(c, historyFormatNames)
			}
			if c.Bool("evidence") && !show.json {
				return usagef("--evidence is for -o json and json-seq; -o verbose shows it in any case, -o short never does")
			}
			f, err := e.historyFilter(c, show.notes)
			if err != nil {
				return err
			}
			f.evidence = c.Bool("evidence") || show.evidence
			h, damaged := e.readHistory(c.Context, s, f)
			if h == nil {
				return damaged
			}
			if err := show.write(e, h); err != nil {
				return err
			}
			return damaged
		},
	})
}

// historyFormats are the formats, and whether they show every note, evidence without being
// asked, and JSON.
var historyFormats = map[string]struct {
	notes, evidence, json bool
	write                 func(*environment, *history) error
}{
	"short":   {write: (*environment).writeShort},
	"verbose": {notes: true, evidence: true, write: (*environment).writeVerbose},
	"json": {notes: true, json: true, write: func(e *environment, h *history) error {
		return encodeAll(render.NewJSON(e.stdout), h.withEvidence())
	}},
	"json-seq": {notes: true, json: true, write: func(e *environment, h *history) error {
		return encodeAll(render.NewJSONSeq(e.stdout), h.withEvidence())
	}},
}

var historyFormatNames = []string{"short", "verbose", "json", "json-seq"}

func encodeAll[T any](w *render.JSONWriter, values []T) error {
	for i := range values {
		if err := w.Encode(&values[i]); err != nil {
			return err
		}
	}
	return nil
}

func (e *environment) noEntries() error {
	_, err := fmt.Fprintln(e.stdout, "-- No entries --")
	return err
}

// history is what was read to be shown: entries and, by their number, the evidence that
// is still kept of them.
type history struct {
	entries  []journal.Entry
	evidence map[uint64][]byte
}

// withEvidence are the entries with the evidence as one more member of their JSON.
func (h *history) withEvidence() []journal.Entry {
	for i := range h.entries {
		entry := &h.entries[i]
		data, ok := h.evidence[entry.Seq]
		if !ok {
			continue
		}
		if !json.Valid(data) { // a text then
			data, _ = json.Marshal(string(data)) // a string can always be marshalled
		}
		if entry.Extra == nil {
			entry.Extra = journal.Extra{}
		}
		entry.Extra["evidence"] = data
	}
	return h.entries
}

// readHistory copies what is to be shown out of the journal and closes it, so that a
// slow reader of our output blocks nobody. What could be read comes back even if other
// entries could not; nil only if nothing could.
func (e *environment) readHistory(ctx context.Context, s slotOf, f historyFilter) (h *history, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeouts.Lock)
	defer cancel()
	err = e.openJournal(s.cfg, "history").View(ctx, func(v *journal.View) error {
		match, err := f.matcher(v, s.slot, e.host.Boot())
		if err != nil {
			return err
		}
		entries, damaged := v.Entries(s.slot, journal.Query{Limit: f.limit, Reverse: true, Match: match})
		if damaged != nil && entries == nil {
			return damaged
		}
		h = &history{entries: entries, evidence: map[uint64][]byte{}}
		if f.evidence {
			damaged = errors.Join(damaged, h.readEvidence(v, s.slot))
		}
		return damaged
	})
	if e.noJournal(err) {
		return &history{}, nil
	}
	if h != nil && !f.reverse {
		slices.Reverse(h.entries)
	}
	return h, err
}

// readEvidence reads what is still kept. Evidence that is damaged counts as far as it goes.
func (h *history) readEvidence(v *journal.View, slot string) (damaged error) {
	for i := range h.entries {
		seq := h.entries[i].Seq
		if h.entries[i].EvidenceSize == 0 {
			continue
		}
		data, err := v.Evidence(slot, seq)
		if data != nil {
			h.evidence[seq] = data
		}
		if journal.KindOf(err) != journal.KindNotExist {
			damaged = errors.Join(damaged, err)
		}
	}
	return damaged
}

// noJournal reports whether err says that there is no journal yet, which is none for who
// only looks; it says where it would be.
func (e *environment) noJournal(err error) bool {
	var missing *journal.Error
	if !errors.As(err, &missing) || missing.Kind != journal.KindNotExist {
		return false
	}
	e.warn("there is no journal yet; looked for " + missing.Path)
	return true
}
