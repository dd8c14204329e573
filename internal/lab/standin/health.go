package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// health is the handler of the health endpoint.
type health struct {
	modeFile string
	started  time.Time
	requests atomic.Int64
}

func newHealth(modeFile string) *health {
	return &health{modeFile: modeFile, started: time.Now()}
}

func (h *health) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	request := h.requests.Add(1)
	text, err := os.ReadFile(h.modeFile)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = []byte("ready"), nil
	}
	reason := "cannot read the mode"
	if err == nil {
		reason = unready(string(text), time.Since(h.started), request)
	}
	if reason != "" {
		http.Error(w, reason, http.StatusServiceUnavailable)
		return
	}
	fmt.Fprint(w, "ok")
}

// unready returns why the mode asks for a refusal, or "" for a healthy answer.
// request counts from one.
func unready(mode string, up time.Duration, request int64) string {
	fields := strings.Fields(mode)
	switch {
	case len(fields) == 1 && fields[0] == "ready":
		return ""
	case len(fields) == 1 && fields[0] == "never":
		return "not ready, and never will be"
	case len(fields) == 1 && fields[0] == "flapping" && request%2 == 1:
		return ""
	case len(fields) == 1 && fields[0] == "flapping":
		return "not ready this time"
	case len(fields) == 2 && fields[0] == "late":
		return late(fields[1], up)
	default:
		return fmt.Sprintf("mode %q is none of ready, late SECONDS, never, flapping", mode)
	}
}

func late(seconds string, up time.Duration) string {
	wanted, err := strconv.ParseFloat(seconds, 64)
	if err != nil || wanted < 0 {
		return fmt.Sprintf("mode late: %q is not a number of seconds", seconds)
	}
	left := time.Duration(wanted*float64(time.Second)) - up
	if left <= 0 {
		return ""
	}
	return fmt.Sprintf("not ready for another %v", left.Round(time.Millisecond))
}
