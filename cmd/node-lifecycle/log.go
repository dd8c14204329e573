package main

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"

	"github.com/node-lifecycle/node-lifecycle/internal/render"
)

// lineHandler writes a record as one line for people: its message, with the priority in
// front that journald reads (sd-daemon(3)) when it is the one who listens. Attributes
// are in the journal of node-lifecycle; here only an error is worth the room.
type lineHandler struct {
	mu       *sync.Mutex
	out      io.Writer
	journald bool
	attrs    []slog.Attr
}

func newLineHandler(out io.Writer, journald bool) *lineHandler {
	return &lineHandler{mu: new(sync.Mutex), out: out, journald: journald}
}

func (h *lineHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo
}

func (h *lineHandler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	if h.journald {
		b.WriteString(priority(r.Level))
	}
	b.WriteString(r.Message)
	tell := func(a slog.Attr) bool {
		if a.Key == "error" || a.Key == "entry" {
			b.WriteString(": " + a.Value.String())
		}
		return true
	}
	for _, a := range h.attrs {
		tell(a)
	}
	r.Attrs(tell)
	line := render.Escape(strings.ReplaceAll(b.String(), "\n", " ")) + "\n"
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := io.WriteString(h.out, line)
	return err
}

func (h *lineHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *h
	c.attrs = append(append([]slog.Attr(nil), h.attrs...), attrs...)
	return &c
}

func (h *lineHandler) WithGroup(string) slog.Handler { return h }

func priority(level slog.Level) string {
	switch {
	case level >= slog.LevelError:
		return "<3>"
	case level >= slog.LevelWarn:
		return "<4>"
	default:
		return "<6>"
	}
}
