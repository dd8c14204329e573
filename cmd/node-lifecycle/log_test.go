package main

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
)

func TestLineHandler(t *testing.T) {
	for _, tc := range []struct {
		name     string
		journald bool
		log      func(*slog.Logger)
		want     string
	}{
		{"the message alone", false, func(l *slog.Logger) { l.Info("kube1 pre-start: a → b", "slot", "kube1", "seq", 3) }, "kube1 pre-start: a → b\n"},
		{"an error is worth the room", false, func(l *slog.Logger) { l.Warn("no lock", "error", errors.New("held")) }, "no lock: held\n"},
		{"so is an entry", false, func(l *slog.Logger) { l.Error("unrecorded", "entry", `{"v":1}`) }, "unrecorded: {\"v\":1}\n"},
		{"whoever gave it", false, func(l *slog.Logger) { l.With("error", "away", "slot", "kube1").WithGroup("g").Info("m") }, "m: away\n"},
		{"one line, whatever is in it", false, func(l *slog.Logger) { l.Info("a\nb", "error", "c\nd") }, "a b: c d\n"},
		{"nothing for a terminal", false, func(l *slog.Logger) { l.Info("a\x1b[2J\r\u202eb") }, `a\x1b[2J\r\u202eb` + "\n"},
		{"nothing for whoever looks for bugs", false, func(l *slog.Logger) { l.Debug("m") }, ""},
		{"priorities: information", true, func(l *slog.Logger) { l.Info("m") }, "<6>m\n"},
		{"priorities: warning", true, func(l *slog.Logger) { l.Warn("m") }, "<4>m\n"},
		{"priorities: error", true, func(l *slog.Logger) { l.Error("m") }, "<3>m\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out bytes.Buffer
			tc.log(slog.New(newLineHandler(&out, tc.journald)))
			if out.String() != tc.want {
				t.Errorf("%q, want %q", out.String(), tc.want)
			}
		})
	}
}

// Lines of several goroutines do not run into each other, also from loggers made with
// attributes of their own.
func TestLineHandler_Concurrent(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(newLineHandler(&out, false))
	var all sync.WaitGroup
	for range 8 {
		mine := log.With("slot", "kube1")
		all.Go(func() {
			for range 50 {
				mine.Info("a whole line")
			}
		})
	}
	all.Wait()
	if got := strings.Count(out.String(), "a whole line\n"); got != 400 || out.Len() != 400*len("a whole line\n") {
		t.Errorf("%d whole lines in %d bytes", got, out.Len())
	}
}
