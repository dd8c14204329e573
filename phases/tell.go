package phases

import (
	"context"
	"log/slog"

	"github.com/node-lifecycle/node-lifecycle/fsm"
	"github.com/node-lifecycle/node-lifecycle/journal"
)

// tell logs an entry, once it is durable: one line for people, its parts as attributes.
func (l *Lifecycle) tell(e *journal.Entry) {
	level, message := sentence(e)
	if message == "" {
		return
	}
	attrs := []slog.Attr{
		slog.String("slot", e.Slot), slog.String("phase", e.Phase), slog.String("run", e.Run),
		slog.Uint64("seq", e.Seq), slog.String("kind", e.Kind),
	}
	for _, a := range []struct{ key, value string }{
		{"step", e.Step}, {"event", e.Event}, {"from", e.From}, {"to", e.To}, {"cause", e.Cause},
	} {
		if a.value != "" {
			attrs = append(attrs, slog.String(a.key, a.value))
		}
	}
	l.log().LogAttrs(context.Background(), level, message, attrs...)
}

// sentence is what people read of an entry; "" for what only matters in the journal.
// What went wrong is left to the error that the phase returns: it is told once.
func sentence(e *journal.Entry) (slog.Level, string) {
	s := e.Slot + " " + e.Phase + ": "
	level := slog.LevelInfo
	switch fsm.Note(e.Kind) {
	case journal.KindTransition:
		s += e.From + " → " + e.To
		if e.To == string(fsm.Failed) {
			level = slog.LevelError
		}
	case fsm.NoteIntent, fsm.NoteDone, fsm.NoteUndone, fsm.NoteEnded, fsm.NoteRefused, fsm.NoteUnproven:
		return level, ""
	case fsm.NoteDiverged:
		level = slog.LevelWarn
		s += e.Kind
	case fsm.NoteWaiting:
		return level, s + "waiting for " + e.Detail
	default:
		s += e.Kind
	}
	if e.Cause != "" {
		s += " (" + e.Cause + ")"
	}
	if e.Detail != "" && e.Error == "" {
		s += ": " + e.Detail
	}
	return level, s
}
