package container

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// tailBuffer is a writer that keeps the last max bytes it was given.
type tailBuffer struct {
	max int
	buf []byte
	cut bool // something was dropped
}

// Write never fails.
func (t *tailBuffer) Write(p []byte) (int, error) {
	n := len(p)
	if len(p) > t.max {
		p, t.cut = p[len(p)-t.max:], true
	}
	t.buf = append(t.buf, p...)
	if len(t.buf) > 2*t.max { // seldom, so that many small writes stay cheap
		t.buf, t.cut = append(t.buf[:0], t.buf[len(t.buf)-t.max:]...), true
	}
	return n, nil
}

// bytes returns what is kept. If something was dropped, what is left of the
// line it was cut in is dropped too, unless nothing else is there.
func (t *tailBuffer) bytes() []byte {
	b, cut := t.buf, t.cut
	if len(b) > t.max {
		b, cut = b[len(b)-t.max:], true
	}
	if !cut {
		return b
	}
	if i := bytes.IndexByte(b, '\n'); i >= 0 && i+1 < len(b) {
		return b[i+1:]
	}
	for len(b) > 0 && !utf8.RuneStart(b[0]) {
		b = b[1:]
	}
	return b
}

// String is the kept text without the space around it.
func (t *tailBuffer) String() string {
	return strings.TrimSpace(strings.ToValidUTF8(string(t.bytes()), "\uFFFD"))
}

// firstLine returns the first line of a text that is not empty, cut to a
// length that fits in a message.
func firstLine(text string) string {
	const most = 200
	line, _, _ := strings.Cut(strings.TrimSpace(strings.ToValidUTF8(text, "\uFFFD")), "\n")
	line = strings.TrimSpace(line)
	if len(line) <= most {
		return line
	}
	end := most
	for !utf8.RuneStart(line[end]) {
		end--
	}
	return line[:end] + "…"
}
