package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/node-lifecycle/node-lifecycle/backend/container"
	"github.com/node-lifecycle/node-lifecycle/fsm"
	"github.com/node-lifecycle/node-lifecycle/internal/config"
	"github.com/node-lifecycle/node-lifecycle/internal/render"
	"github.com/node-lifecycle/node-lifecycle/internal/timespec"
	"github.com/node-lifecycle/node-lifecycle/journal"
)

// exitNotRunning is what status answers about a slot that is not up, or of which the
// journal and the world say different things (LSB).
const exitNotRunning = 3

// lookTimeout bounds what status may ask of the engine and of systemd.
const lookTimeout = 3 * time.Second

// slotStatus is one slot as status shows it; its JSON is documented in docs/json.md.
type slotStatus struct {
	Schema    int       `json:"schema"`
	Slot      string    `json:"slot"`
	State     string    `json:"state"`
	Since     time.Time `json:"since,omitzero"`
	Attempts  int       `json:"attempts,omitempty"`
	Unit      string    `json:"unit"`
	UnitState string    `json:"unit_state"`
	Stack     string    `json:"stack"`
	// StackDetail is what the engine says of it.
	StackDetail string `json:"stack_detail,omitempty"`
	Alive       *bool  `json:"-"`
	Claim       string `json:"claim"`
	Epoch       uint64 `json:"epoch,omitempty"`
	Phase       string `json:"phase,omitempty"`
	Step        string `json:"step,omitempty"`
	Diverged    string `json:"diverged,omitempty"`
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
			cfg, slots, err := e.oneOrAll(c, toInspect)
			if err != nil {
				return err
			}
			heads, claims, err := e.loadSlots(c.Context, cfg, slots)
			if err != nil {
				return err
			}
			backend := e.openBackend(cfg, nil)
			defer backend.Close()
			all := make([]slotStatus, len(slots))
			var looks sync.WaitGroup
			for i, slot := range slots {
				all[i] = e.fromBooks(slot, heads[slot], claims[cfg.Pair(slot)])
				all[i].Unit = cfg.Slots[slot].Unit
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
func (e *environment) fromBooks(slot string, head journal.Head, claim journal.Claim) slotStatus {
	s := slotStatus{
		Schema: 1, Slot: slot, State: head.State, Since: head.Since, Attempts: head.Attempts,
		Claim: claim.Holder, Epoch: claim.Epoch,
	}
	if s.State == "" {
		s.State = string(fsm.Stopped)
	}
	if claim.Unknown {
		s.Claim = "unknown"
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
			s.UnitState = "unknown"
		case u.LoadState == "not-found":
			s.UnitState = "no such unit"
		default:
			s.UnitState = u.ActiveState
		}
	})
	asking.Go(func() {
		alive, detail, err := backend.Alive(ctx, s.Slot)
		switch {
		case err != nil:
			s.Stack, s.StackDetail = "unknown", err.Error()
			return
		case alive:
			s.Stack = "alive"
		default:
			s.Stack = "down"
		}
		s.StackDetail, s.Alive = detail, &alive
	})
	asking.Wait()
	s.Diverged = s.divergence()
}

// divergence says where the journal and the world disagree.
func (s *slotStatus) divergence() string {
	down := s.State == string(fsm.Stopped) || s.State == string(fsm.Failed)
	up := s.State == string(fsm.Running) || s.State == string(fsm.Wired)
	says := "the journal says " + s.State + ", but "
	switch {
	case s.Alive != nil && *s.Alive && down:
		return says + "the stack is alive"
	case s.Alive != nil && !*s.Alive && up:
		return says + "the stack is not alive"
	case up && (s.UnitState == "inactive" || s.UnitState == "failed"):
		return says + "the unit is " + s.UnitState
	}
	return ""
}

func (s *slotStatus) up() bool {
	return s.Diverged == "" && s.State == string(fsm.Wired) && s.Alive != nil && *s.Alive
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
		cells := []render.Cell{
			glyph, render.Text(s.Slot), render.Cell{Text: s.State, Style: glyph.Style}, render.Text(s.since(now)),
			render.Text(s.UnitState), render.Text(s.Stack), render.Text(s.claim()), render.Text(s.note()),
		}
		if format == "wide" {
			cells = append(cells, render.Text(s.StackDetail))
		}
		table.Add(cells...)
	}
	return table.Write(e.stdout)
}

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

// note is what deserves attention most.
func (s *slotStatus) note() string {
	switch {
	case s.Diverged != "":
		return s.Diverged
	case s.Phase != "" && s.Step != "":
		return s.Phase + ": " + s.Step
	case s.Phase != "":
		return s.Phase
	case s.Attempts > 1:
		return fmt.Sprintf("%d attempts in a row", s.Attempts)
	}
	return ""
}

// glyph is the mark of a slot, as systemctl has one of a unit.
func (s *slotStatus) glyph() render.Status {
	switch {
	case s.Diverged != "":
		return render.Warning
	case s.State == string(fsm.Failed):
		return render.Failed
	case s.State == string(fsm.Wired):
		return render.Active
	case s.State == string(fsm.Stopped):
		return render.Inactive
	}
	return render.Busy
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
	if e.noJournal(err) {
		err = nil
	}
	return heads, claims, err
}
