package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/node-lifecycle/node-lifecycle/backend/container"
	"github.com/node-lifecycle/node-lifecycle/fsm"
	"github.com/node-lifecycle/node-lifecycle/internal/render"
)

// maxNote is how many characters of a note are shown: with the other columns it makes a
// line that fits most terminals. JSON and -o wide have the whole of it elsewhere.
const maxNote = 66

// notes are what a person should know of the slot beyond its columns, the most important
// first.
func (s *slotStatus) notes() []string {
	var notes []string
	add := func(format string, args ...any) {
		notes = append(notes, shorten(fmt.Sprintf(format, args...)))
	}
	if s.Diverged != "" {
		add("%s", s.Diverged)
	}
	if s.StackState != "" {
		add("the stack is %s", s.StackState)
	}
	if s.stackErr != nil {
		add("%s", reason(s.stackErr))
	}
	if s.unitErr != nil {
		add("%s", reason(s.unitErr))
	}
	switch {
	case s.Phase != "" && s.Step != "":
		add("%s: %s", s.Phase, s.Step)
	case s.Phase != "":
		add("%s", s.Phase)
	}
	if s.Failure != nil {
		add("%s", s.Failure)
	}
	if s.Attempts > 1 {
		add("%d attempts in a row have not reached Wired", s.Attempts)
	}
	if s.UnitGaveUp {
		add("systemd gave up: node-lifecycle reset %s, then systemctl start", s.Slot)
	}
	if s.Unconfigured {
		add("the slot is not in the configuration")
	}
	return notes
}

// String is the failure in a few words.
func (f *failure) String() string {
	words := f.Phase + " " + f.Kind
	if f.Kind == string(fsm.EventLost) {
		words = f.Kind
	} else if f.Kind == string(fsm.EventFailed) && f.Step != "" {
		words += " in " + f.Step
	}
	if f.Cause != "" {
		words += ": " + f.Cause
	}
	return words
}

// gaveUp reports whether the unit has run into its start limit: systemd starts it no more
// by itself, and not when asked either. It says so only when nothing else had failed
// before; otherwise its automatic restarts tell.
func gaveUp(u container.UnitStatus) bool {
	return u.ActiveState == "failed" &&
		(u.Result == "start-limit-hit" || u.StartLimitBurst > 0 && u.NRestarts >= u.StartLimitBurst)
}

// reason is why the engine or systemd did not answer, without what it was asked.
func reason(err error) string {
	var e *container.Error
	if errors.As(err, &e) {
		return e.Err.Error()
	}
	return err.Error()
}

// hindrance is what keeps a living stack from running, in the engine's word; "" if nothing
// does.
func hindrance(alive bool, detail string) string {
	_, state, _ := strings.Cut(detail, ") is ")
	for _, word := range []string{"paused", "restarting"} {
		if alive && strings.HasPrefix(state, word) {
			return word
		}
	}
	return ""
}

// shorten cuts a note to maxNote characters.
func shorten(note string) string {
	if text := []rune(note); len(text) > maxNote {
		return string(text[:maxNote-1]) + "…"
	}
	return note
}

// detail is what -o wide says beyond the notes: the engine's words and systemd's, and the
// last error whole.
func (s *slotStatus) detail() string {
	parts := []string{s.StackDetail}
	if s.UnitDetail != "" {
		parts = append(parts, s.UnitDetail)
	}
	if s.Failure != nil && s.Failure.Error != "" {
		parts = append(parts, s.Failure.Error)
	}
	return strings.Join(parts, "; ")
}

// divergence says where the journal and the world disagree.
func (s *slotStatus) divergence() string {
	down := s.State == string(fsm.Stopped) || s.State == string(fsm.Failed)
	up := s.State == string(fsm.Running) || s.State == string(fsm.Wired)
	says := "the journal says " + s.State + ", but "
	switch {
	case s.alive != nil && *s.alive && s.Journal != "":
		return "the stack is alive, but there is no journal"
	case s.alive != nil && *s.alive && down:
		return says + "the stack is alive"
	case s.alive != nil && !*s.alive && up:
		return says + "the stack is not alive"
	case up && (s.UnitState == "inactive" || s.UnitState == "failed"):
		return says + "the unit is " + s.UnitState
	}
	return ""
}

// up reports whether the slot does what it is there for, as far as can be seen.
func (s *slotStatus) up() bool {
	return s.Diverged == "" && s.State == string(fsm.Wired) && s.alive != nil && *s.alive && s.StackState == ""
}

// glyph is the mark of a slot, as systemctl has one of a unit.
func (s *slotStatus) glyph() render.Status {
	switch {
	case s.Diverged != "" || s.StackState != "":
		return render.Warning
	case s.State == string(fsm.Failed):
		return render.Failed
	case s.alive == nil && (s.State == string(fsm.Wired) || s.State == string(fsm.Stopped)):
		return render.Unknown // what is not seen to be up, or down, must not look as if it were
	case s.State == string(fsm.Wired):
		return render.Active
	case s.State == string(fsm.Stopped):
		return render.Inactive
	}
	return render.Busy
}
