package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/node-lifecycle/node-lifecycle/backend/container"
	"github.com/node-lifecycle/node-lifecycle/fsm"
	"github.com/node-lifecycle/node-lifecycle/internal/render"
	"github.com/node-lifecycle/node-lifecycle/internal/timespec"
)

// exitNotRunning is what status answers about a slot that is not up, or of which the
// journal and the world say different things (LSB).
const exitNotRunning = 3

// lookTimeout bounds what status may ask of the engine and of systemd.
const lookTimeout = 3 * time.Second

// slotStatus is one slot as status shows it; its JSON is documented in docs/json.md.
type slotStatus struct {
	Schema   int       `json:"schema"`
	Slot     string    `json:"slot"`
	State    string    `json:"state"`
	Since    time.Time `json:"since,omitzero"`
	Attempts int       `json:"attempts,omitempty"`
	// Failure is what went wrong last, if that still matters.
	Failure   *failure `json:"failure,omitempty"`
	Unit      string   `json:"unit"`
	UnitState string   `json:"unit_state"`
	// UnitResult is how systemd says that the last activation ended, unless well,
	// UnitGaveUp that it starts the unit no more, UnitDetail why it does not answer.
	UnitResult string `json:"unit_result,omitempty"`
	UnitGaveUp bool   `json:"unit_gave_up,omitempty"`
	UnitDetail string `json:"unit_detail,omitempty"`
	Stack      string `json:"stack"`
	// StackState is what keeps a living stack from running, StackDetail what the engine
	// says of it, or why it does not answer.
	StackState  string `json:"stack_state,omitempty"`
	StackDetail string `json:"stack_detail,omitempty"`
	Claim       string `json:"claim,omitempty"`
	Epoch       uint64 `json:"epoch,omitempty"`
	Phase       string `json:"phase,omitempty"`
	Step        string `json:"step,omitempty"`
	Diverged    string `json:"diverged,omitempty"`
	// Journal is "missing" if there is none yet, Unconfigured is a slot that was taken out
	// of the configuration.
	Journal      string   `json:"journal,omitempty"`
	Unconfigured bool     `json:"unconfigured,omitempty"`
	Notes        []string `json:"notes,omitempty"`

	alive    *bool
	stackErr error
	unitErr  error
}

// failure is an entry that says what went wrong.
type failure struct {
	Phase string    `json:"phase"`
	Step  string    `json:"step,omitempty"`
	Kind  string    `json:"kind"` // failed, lost or refused
	Cause string    `json:"cause,omitempty"`
	Error string    `json:"error,omitempty"`
	Time  time.Time `json:"time"`
}

var statusFormats = []string{"table", "wide", "json"}

func (e *environment) statusCommand() *cli.Command {
	return e.command(&cli.Command{
		Name: "status", ArgsUsage: "[SLOT]", Category: "inspect",
		Usage: "the state of the slots, one line each",
		Flags: []cli.Flag{outputFlag("table", "table, wide (with what the engine says of the stack) or json", statusFormats...)},
		Action: func(c *cli.Context) error {
			format := c.String("output")
			if !slices.Contains(statusFormats, format) {
				return unknownFormat(c, statusFormats)
			}
			cfg, slots, gone, err := e.oneOrAll(c, toInspect)
			if err != nil {
				return err
			}
			b, err := e.readBooks(c.Context, cfg, slots, c.NArg() == 0)
			if err != nil {
				return err
			}
			backend := e.openBackend(b.cfg, nil)
			defer backend.Close()
			all := make([]slotStatus, len(b.slots))
			var looks sync.WaitGroup
			for i, slot := range b.slots {
				all[i] = e.fromBooks(b, slot)
				all[i].Unconfigured = gone || !hasSlot(cfg, slot)
				looks.Go(func() { look(c.Context, backend, &all[i]) })
			}
			looks.Wait()
			if err := e.writeStatus(all, format); err != nil {
				return err
			}
			if c.NArg() == 1 && !all[0].up() {
				return &exitError{code: exitNotRunning, quiet: true}
			}
			return nil
		},
	})
}

// fromBooks is what the journal says of a slot.
func (e *environment) fromBooks(b *books, slot string) slotStatus {
	head, claim := b.heads[slot], b.claims[slot]
	s := slotStatus{
		Schema: 1, Slot: slot, State: head.State, Since: head.Since, Attempts: head.Attempts,
		Failure: b.failures[slot], Unit: b.cfg.Slots[slot].Unit,
		Claim: claim.Holder, Epoch: claim.Epoch,
	}
	if s.State == "" {
		s.State = string(fsm.Stopped)
	}
	if claim.Unknown {
		s.Claim = "unknown"
	}
	if b.missing {
		s.Journal = "missing"
	}
	if head.Open != nil {
		s.Phase, s.Step = head.Open.Phase, head.Open.Step
		if head.Open.Boot != e.host.Boot() || !e.host.ProcessAlive(head.Open.PID, head.Open.Start) {
			s.Phase = "interrupted " + s.Phase
		}
	}
	return s
}

// look asks the engine and systemd. What cannot be known is said to be unknown.
func look(ctx context.Context, backend *container.Controller, s *slotStatus) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	var asking sync.WaitGroup
	asking.Go(func() {
		u, err := backend.Unit(ctx, s.Slot)
		switch {
		case err != nil:
			s.UnitState, s.UnitDetail, s.unitErr = "unknown", err.Error(), err
		case u.LoadState == "not-found":
			s.UnitState = "no such unit"
		default:
			s.UnitState = u.ActiveState
			if u.Result != "success" {
				s.UnitResult = u.Result
			}
			s.UnitGaveUp = gaveUp(u)
		}
	})
	asking.Go(func() {
		alive, detail, err := backend.Alive(ctx, s.Slot)
		switch {
		case err != nil:
			s.Stack, s.StackDetail, s.stackErr = "unknown", err.Error(), err
			return
		case alive:
			s.Stack = "alive"
		default:
			s.Stack = "down"
		}
		s.StackDetail, s.StackState, s.alive = detail, hindrance(alive, detail), &alive
	})
	asking.Wait()
	s.Diverged = s.divergence()
	s.Notes = s.notes()
}

func (e *environment) writeStatus(all []slotStatus, format string) error {
	if format == "json" {
		return encodeAll(render.NewJSON(e.stdout), all)
	}
	table := render.Table{Palette: e.palette()}
	for _, title := range []string{"", "SLOT", "STATE", "SINCE", "UNIT", "STACK", "CLAIM", "NOTE"} {
		table.Columns = append(table.Columns, render.Column{Header: title})
	}
	if format == "wide" {
		table.Columns = append(table.Columns, render.Column{Header: "DETAIL"})
	}
	now := time.Now()
	for i := range all {
		s := &all[i]
		glyph := table.Palette.Glyph(s.glyph())
		first, rest := "", s.Notes
		if len(rest) > 0 {
			first, rest = rest[0], rest[1:]
		}
		cells := []render.Cell{
			glyph, render.Text(s.Slot), render.Cell{Text: s.State, Style: glyph.Style}, render.Text(s.since(now)),
			render.Text(s.UnitState), render.Text(cmp.Or(s.StackState, s.Stack)), render.Text(s.claim()), render.Text(first),
		}
		if format == "wide" {
			cells = append(cells, render.Text(s.detail()))
		}
		table.Add(cells...)
		for _, note := range rest {
			row := make([]render.Cell, noteColumn+1)
			row[noteColumn] = render.Text(note)
			table.Add(row...)
		}
	}
	return table.Write(e.stdout)
}

// noteColumn is where the notes stand; a note that is not the only one has a line of its
// own below, so that the table stays narrow.
const noteColumn = 7

func (s *slotStatus) since(now time.Time) string {
	if s.Since.IsZero() {
		return "-"
	}
	return timespec.Ago(s.Since, now)
}

func (s *slotStatus) claim() string {
	switch s.Claim {
	case s.Slot:
		return fmt.Sprintf("held, epoch %d", s.Epoch)
	case "unknown":
		return s.Claim
	}
	return "-"
}
