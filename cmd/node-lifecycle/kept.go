package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/node-lifecycle/node-lifecycle/internal/config"
	"github.com/node-lifecycle/node-lifecycle/journal"
	"github.com/node-lifecycle/node-lifecycle/phases"
)

// A slot that was started must be stopped, and be seen, whatever has become of its
// configuration meanwhile. So pre-start keeps the configuration it goes by, and what
// begins nothing new goes on with that when the present one cannot be had.

// need is what a command needs of the configuration, and with what less it goes on.
type need struct {
	unknown int  // the exit code for a slot that is not there
	kept    bool // the configuration of the slot's last start will do
	builtin bool // so will the defaults
	gone    bool // so will a slot that only the journal knows
}

var (
	toBegin   = need{unknown: phases.ExitUsage}
	toGoOn    = need{unknown: phases.ExitUsage, kept: true}
	toEnd     = need{unknown: phases.ExitUsage, kept: true, gone: true}
	toInspect = need{unknown: exitNoSlot, kept: true, builtin: true, gone: true}
)

// keptPath is where the configuration of the slot's last start is kept; like all that
// stands beside it, it does not outlive the boot.
func (e *environment) keptPath(slot string) string {
	return filepath.Join(e.runtimeDir, slot, "config.yaml")
}

// keep keeps the configuration of a start. One that cannot be kept is none the worse.
func (e *environment) keep(s slotOf) {
	if err := s.cfg.Keep(e.keptPath(s.slot)); err != nil {
		e.warn(fmt.Sprintf("%s: the configuration of this start cannot be kept: %v; should it become invalid, stop and status must do without it", s.slot, err))
	}
}

// loadFor reads the configuration for a command about a slot, or about all if that is "".
func (e *environment) loadFor(c *cli.Context, slot string, n need) (*config.Config, error) {
	o, err := e.configOptions(c)
	if err != nil {
		return nil, err
	}
	cfg, wrong := config.Load(o)
	if wrong == nil || !n.kept {
		return cfg, wrong
	}
	if cfg, of := e.keptFor(slot, o.Overrides); cfg != nil {
		e.warn(firstProblem(wrong) + "; going on with the configuration of the last start of " + of)
		return cfg, nil
	}
	// A file that was asked for by name and is not there, or that is for other eyes, is no
	// reason to show what the defaults would be.
	if !n.builtin || errors.Is(wrong, fs.ErrNotExist) || errors.Is(wrong, fs.ErrPermission) {
		return nil, wrong
	}
	for _, getenv := range []func(string) string{e.getenv, nil} { // the environment may be what is wrong
		if cfg, err := config.Builtin(getenv, o.Overrides); err == nil {
			e.warn(firstProblem(wrong) + "; going on with the defaults")
			return cfg, nil
		}
	}
	return nil, wrong
}

// keptFor is the configuration that was kept at the last start of the slot, or else, as
// when slot is "", the newest one that has the slot; nil if there is none. of is the slot
// whose start it was.
func (e *environment) keptFor(slot string, overrides []config.Override) (cfg *config.Config, of string) {
	for _, of := range e.keptSlots() {
		cfg, err := config.Kept(e.keptPath(of), overrides)
		if err != nil {
			continue
		}
		if _, ok := cfg.Slot(slot); slot == of || slot == "" || ok && !e.hasKept(slot) {
			return cfg, of
		}
	}
	return nil, ""
}

func (e *environment) hasKept(slot string) bool {
	_, err := os.Stat(e.keptPath(slot))
	return err == nil
}

// keptSlots are the slots whose configuration was kept, the latest change first.
func (e *environment) keptSlots() []string {
	paths, err := filepath.Glob(filepath.Join(e.runtimeDir, "*", "config.yaml"))
	if err != nil {
		return nil
	}
	type start struct {
		slot string
		at   int64
	}
	var starts []start
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil {
			starts = append(starts, start{filepath.Base(filepath.Dir(path)), info.ModTime().UnixNano()})
		}
	}
	slices.SortFunc(starts, func(a, b start) int { return cmp.Or(cmp.Compare(b.at, a.at), cmp.Compare(a.slot, b.slot)) })
	slots := make([]string, len(starts))
	for i := range starts {
		slots[i] = starts[i].slot
	}
	return slots
}

// firstProblem is the error in one line.
func firstProblem(err error) string {
	first, rest, more := strings.Cut(err.Error(), "\n")
	if more {
		first += fmt.Sprintf(" (and %d more)", 1+strings.Count(strings.TrimRight(rest, "\n"), "\n"))
	}
	return first
}

// findSlot reads the configuration and finds the slot in it, or in what is left of one
// that it has been taken out of.
func (e *environment) findSlot(c *cli.Context, name string, n need) (slotOf, error) {
	cfg, err := e.loadFor(c, name, n)
	if err != nil {
		return slotOf{}, err
	}
	if hasSlot(cfg, name) {
		return slotOf{cfg: cfg, slot: name}, nil
	}
	if n.kept && e.hasKept(name) {
		o, err := e.configOptions(c)
		if err != nil {
			return slotOf{}, err
		}
		if kept, err := config.Kept(e.keptPath(name), o.Overrides); err == nil && hasSlot(kept, name) {
			e.warn(fmt.Sprintf("slot %s is not in the configuration any more; going on with that of its last start", name))
			return slotOf{kept, name, true}, nil
		}
	}
	if n.gone {
		if with := e.fromJournal(c.Context, cfg, name); with != nil {
			e.warn(fmt.Sprintf("slot %s is not in the configuration, only in the journal; going on with the defaults for it", name))
			return slotOf{with, name, true}, nil
		}
	}
	return slotOf{}, &exitError{code: n.unknown, err: fmt.Errorf("there is no slot %s; the configured ones are %s", name, strings.Join(cfg.SlotNames(), " and "))}
}

func hasSlot(cfg *config.Config, name string) bool {
	_, ok := cfg.Slot(name)
	return ok
}

// fromJournal is the configuration with a slot that only the journal knows; nil if it
// does not.
func (e *environment) fromJournal(ctx context.Context, cfg *config.Config, name string) (with *config.Config) {
	ctx, cancel := context.WithTimeout(ctx, cfg.Timeouts.Lock)
	defer cancel()
	// What cannot be read is not known: the command will say so itself.
	_ = e.openJournal(cfg, "slots").View(ctx, func(v *journal.View) error {
		if slices.Contains(v.Slots(), name) {
			with = e.withSlot(v, cfg, name)
		}
		return nil
	})
	return with
}

// withSlot is the configuration with a slot that is not in it: as it was at its last start,
// or else with the defaults and with the peer with which the journal has it share a claim.
func (e *environment) withSlot(v *journal.View, cfg *config.Config, name string) *config.Config {
	peer := ""
	for _, other := range slices.Concat(v.Slots(), cfg.SlotNames()) {
		claim, err := v.Claim(phases.Pair(name, other))
		if err == nil && other != name && (claim.Holder == name || peer == "" && claim.Epoch > 0) {
			peer = other
		}
	}
	with := cfg.WithSlot(name, peer)
	if kept, err := config.Kept(e.keptPath(name), nil); err == nil && hasSlot(kept, name) {
		with.Slots[name] = kept.Slots[name]
	}
	return with
}
