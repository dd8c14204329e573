package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/node-lifecycle/node-lifecycle/fsm"
	"github.com/node-lifecycle/node-lifecycle/internal/timespec"
	"github.com/node-lifecycle/node-lifecycle/journal"
	"github.com/node-lifecycle/node-lifecycle/phases"
)

// historyFilter is which entries to show.
type historyFilter struct {
	limit        int // 0: all
	reverse      bool
	since, until time.Time
	boot, run    string
	failed       bool
	notes        bool
	evidence     bool
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
	if f.until, err = parseTime(c, "until", now); err != nil {
		return f, err
	}
	if !f.until.IsZero() && f.until.Before(f.since) {
		return f, usagef("--since %q is after --until %q: nothing lies between them", c.String("since"), c.String("until"))
	}
	return f, nil
}

// linesValue is what -n takes, for people.
const linesValue = "a number of entries, or all"

func parseLines(s string) (int, error) {
	if s == "all" {
		return 0, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n <= 0 {
		return 0, usagef("-n takes %s; not %q", linesValue, s)
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
	if f.boot == "" || f.boot == "0" {
		return current, nil
	}
	back, err := strconv.Atoi(f.boot)
	offset := err == nil && back < 0
	if !offset && strings.HasPrefix(f.boot, "-") {
		return "", usagef("-b takes a boot id, 0 or -1, -2, …; not %q", f.boot)
	}
	boots, err := bootsOf(v, slot, current)
	if err != nil {
		return "", err
	}
	if offset {
		if -back < len(boots) {
			return boots[-back], nil
		}
		return "", usagef("there is no boot %s of %s; %s", f.boot, slot, known(boots))
	}
	id := strings.ReplaceAll(strings.ToLower(f.boot), "-", "")
	for _, boot := range boots {
		if strings.HasPrefix(boot, id) {
			return id, nil
		}
	}
	return "", usagef("no boot of %s has an id that begins with %q; %s", slot, f.boot, known(boots))
}

// bootsOf are the current boot and those that the slot's entries know of, newest first.
func bootsOf(v *journal.View, slot, current string) ([]string, error) {
	boots := []string{current}
	_, err := v.Entries(slot, journal.Query{Reverse: true, Match: func(e *journal.Entry) bool {
		if e.Boot != boots[len(boots)-1] {
			boots = append(boots, e.Boot)
		}
		return false
	}})
	return boots, err
}

// maxBootsListed is how many boots an error lists: enough to see which one was meant.
const maxBootsListed = 5

// known lists the boots that there are, for an error.
func known(boots []string) string {
	if len(boots) == 1 {
		return "the journal knows only the current one, " + boots[0]
	}
	var listed []string
	for i, boot := range boots[:min(len(boots), maxBootsListed)] {
		listed = append(listed, fmt.Sprintf("%d %s", -i, boot))
	}
	if more := len(boots) - maxBootsListed; more > 0 {
		listed = append(listed, fmt.Sprintf("and %d older", more))
	}
	return "the journal knows " + strings.Join(listed, ", ")
}

// wentWrong reports whether an entry tells of something that an engineer should see.
func wentWrong(e *journal.Entry) bool {
	switch fsm.Note(e.Kind) {
	case fsm.NoteRefused, fsm.NoteUndone, fsm.NoteUnproven, fsm.NoteDiverged, fsm.NoteQuarantined, fsm.NoteGap:
		return true
	}
	return e.To == string(fsm.Failed)
}

// commandReset is the phase that the entries of reset name: they change no state, and yet
// somebody has done something.
const commandReset = "reset"

// isBookkeeping reports whether an entry only matters to the machine, or to somebody
// who wants to see everything: where a step began, that it ended well.
func isBookkeeping(e *journal.Entry) bool {
	switch fsm.Note(e.Kind) {
	case fsm.NoteIntent:
		return true
	case fsm.NoteDone:
		return e.Phase != commandReset
	case fsm.NoteEnded:
		return e.Phase != phases.PhaseReconcile
	}
	return false
}
