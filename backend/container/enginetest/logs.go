package enginetest

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// chunk is where the engine cuts a long line in two.
const chunk = 16 << 10

// record is one piece of a log: a line, or a part of one if partial.
type record struct {
	at      time.Time
	stream  byte
	text    string // without the newline
	partial bool
}

// print stores what a program printed.
func (c *entry) print(stream byte, text string) {
	for text != "" {
		line, rest, whole := strings.Cut(text, "\n")
		for len(line) > chunk {
			c.logs = append(c.logs, record{time.Now(), stream, line[:chunk], true})
			line = line[chunk:]
		}
		c.logs = append(c.logs, record{time.Now(), stream, line, !whole})
		text = rest
	}
}

// logQuery is what a request for a log asks for.
type logQuery struct {
	since              time.Time
	tail               int // -1: all
	follow, timestamps bool
	stdout, stderr     bool
}

func parseLogQuery(r *http.Request) (logQuery, error) {
	q := r.URL.Query()
	l := logQuery{
		tail: -1, follow: q.Get("follow") == "1", timestamps: q.Get("timestamps") == "1",
		stdout: q.Get("stdout") == "1", stderr: q.Get("stderr") == "1",
	}
	if text := q.Get("tail"); text != "" && text != "all" {
		n, err := strconv.Atoi(text)
		if err != nil {
			return l, err
		}
		l.tail = n
	}
	if text := q.Get("since"); text != "" {
		at, err := parseSeconds(text)
		if err != nil {
			return l, err
		}
		l.since = at
	}
	return l, nil
}

// parseSeconds reads SECONDS or SECONDS.NANOSECONDS since 1970.
func parseSeconds(text string) (time.Time, error) {
	whole, fraction, _ := strings.Cut(text, ".")
	seconds, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("invalid time %q", text)
	}
	nanos, err := strconv.ParseInt((fraction + "000000000")[:9], 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("invalid time %q", text)
	}
	return time.Unix(seconds, nanos), nil
}

func (e *Engine) serveLogs(ref string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		query, err := parseLogQuery(r)
		if err != nil {
			fail(w, http.StatusBadRequest, err.Error())
			return
		}
		e.mu.Lock()
		c := e.find(ref)
		e.mu.Unlock()
		if c == nil {
			fail(w, http.StatusNotFound, "No such container: "+ref)
			return
		}
		w.WriteHeader(http.StatusOK)
		flush(w)
		e.copyLogs(w, r, c, query)
	}
}

// copyLogs writes what is there and, if that is asked for, what comes until
// the container does not run any more.
func (e *Engine) copyLogs(w http.ResponseWriter, r *http.Request, c *entry, query logQuery) {
	next := -1
	for {
		e.mu.Lock()
		if next < 0 {
			next = c.firstFor(query.tail)
		}
		fresh := append([]record(nil), c.logs[min(next, len(c.logs)):]...)
		next = len(c.logs)
		changed, running := e.changed, c.process != nil
		tty := c.info.Config.Tty
		if e.flavor == Podman && c.info.HostConfig.LogConfig.Type == "journald" && !query.since.IsZero() {
			running = false // its journald driver does not follow from a time on
		}
		e.mu.Unlock()
		for _, rec := range fresh {
			if e.wants(query, rec) {
				_, _ = w.Write(e.frame(query, rec, tty)) // a client that is gone ends the request
			}
		}
		flush(w)
		if !query.follow || !running {
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		case <-e.ctx.Done():
			return
		}
	}
}

// firstFor is the index of the first record when so many lines are asked for.
func (c *entry) firstFor(tail int) int {
	if tail < 0 || tail >= len(c.logs) {
		return 0
	}
	return len(c.logs) - tail
}

// wants reports whether a record is asked for. Docker means "not before",
// Podman "after".
func (e *Engine) wants(query logQuery, rec record) bool {
	if rec.stream == 1 && !query.stdout || rec.stream == 2 && !query.stderr {
		return false
	}
	if query.since.IsZero() {
		return true
	}
	if e.flavor == Podman {
		return rec.at.After(query.since)
	}
	return !rec.at.Before(query.since)
}

// frame renders one record as the stream of a log carries it.
func (e *Engine) frame(query logQuery, rec record, tty bool) []byte {
	text := rec.text
	if !rec.partial {
		text += "\n"
	}
	if query.timestamps {
		layout := "2006-01-02T15:04:05.000000000Z07:00"
		if e.flavor == Podman {
			layout = time.RFC3339
		}
		text = rec.at.UTC().Format(layout) + " " + text
	}
	if tty {
		return []byte(text)
	}
	frame := make([]byte, 8, 8+len(text))
	frame[0] = rec.stream
	binary.BigEndian.PutUint32(frame[4:], uint32(len(text)))
	return append(frame, text...)
}
