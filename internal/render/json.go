package render

import (
	"bytes"
	"encoding/json"
	"io"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// recordSeparator begins each text of a JSON text sequence.
const recordSeparator = 0x1e

// JSONWriter writes values as JSON, each with one call of the underlying
// Write, so that a reader that follows never sees half of one.
type JSONWriter struct {
	w   io.Writer
	seq bool
}

// NewJSON writes one value per line.
func NewJSON(w io.Writer) *JSONWriter { return &JSONWriter{w: w} }

// NewJSONSeq writes a JSON text sequence (RFC 7464): each value between a
// record separator and a line end, so that one cut short by a crash does not
// spoil the next.
func NewJSONSeq(w io.Writer) *JSONWriter { return &JSONWriter{w: w, seq: true} }

// Encode writes one value. Strings need no escaping beforehand: what a terminal
// could act on is written as \u escapes, which a reader turns back.
func (j *JSONWriter) Encode(v any) error {
	var b bytes.Buffer
	if j.seq {
		b.WriteByte(recordSeparator)
	}
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := j.w.Write(escapeJSON(b.Bytes()))
	return err
}

// escapeJSON escapes what encoding/json leaves alone although a terminal may
// not: DEL, C1 controls, invisible and direction-changing characters. In valid
// JSON they occur in strings only.
func escapeJSON(text []byte) []byte {
	if !bytes.ContainsFunc(text, unsafeInJSON) {
		return text
	}
	out := make([]byte, 0, len(text)+16)
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case !unsafeInJSON(r):
			out = append(out, text[:size]...)
		case r < 0x10000:
			out = appendEscape(out, r)
		default:
			high, low := utf16.EncodeRune(r)
			out = appendEscape(appendEscape(out, high), low)
		}
		text = text[size:]
	}
	return out
}

func unsafeInJSON(r rune) bool { return r >= 0x7f && !strconv.IsGraphic(r) }

func appendEscape(out []byte, r rune) []byte {
	const digits = "0123456789abcdef"
	return append(out, '\\', 'u', digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15])
}
