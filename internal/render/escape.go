package render

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Escape returns s as one line that is safe on a terminal: control characters,
// invisible ones, those that change the direction of writing and bytes that are
// no UTF-8 become \n, \t, \x1b, \u202e and the like. A backslash stays as it
// is, so the result is for people and cannot be turned back.
func Escape(s string) string {
	if clean(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case strconv.IsGraphic(r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
		i += size
	}
	return b.String()
}

// clean reports whether Escape has nothing to do.
func clean(s string) bool {
	for i, r := range s {
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(s[i:]); size == 1 {
				return false
			}
		}
		if !strconv.IsGraphic(r) {
			return false
		}
	}
	return true
}

// EscapeLines is Escape for text of several lines: line ends stay, each
// carriage return before one goes, tabs become spaces, and indent is put in
// front of each line. An empty text is no line; the result ends with a line
// end otherwise.
func EscapeLines(s, indent string) string {
	if s == "" {
		return ""
	}
	var b strings.Builder
	for line := range strings.Lines(s) {
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		b.WriteString(indent)
		b.WriteString(Escape(strings.ReplaceAll(line, "\t", "    ")))
		b.WriteByte('\n')
	}
	return b.String()
}

// wide are the characters that take two columns of a terminal, roughly: East
// Asian scripts and emoji.
var wide = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x1100, Hi: 0x115f, Stride: 1}, {Lo: 0x2e80, Hi: 0x303e, Stride: 1}, {Lo: 0x3041, Hi: 0xa4cf, Stride: 1},
		{Lo: 0xa960, Hi: 0xa97f, Stride: 1}, {Lo: 0xac00, Hi: 0xd7a3, Stride: 1}, {Lo: 0xf900, Hi: 0xfaff, Stride: 1},
		{Lo: 0xfe30, Hi: 0xfe6f, Stride: 1}, {Lo: 0xff00, Hi: 0xff60, Stride: 1}, {Lo: 0xffe0, Hi: 0xffe6, Stride: 1},
	},
	R32: []unicode.Range32{
		{Lo: 0x1f300, Hi: 0x1f64f, Stride: 1}, {Lo: 0x1f680, Hi: 0x1f6ff, Stride: 1}, {Lo: 0x1f900, Hi: 0x1faff, Stride: 1},
		{Lo: 0x20000, Hi: 0x3fffd, Stride: 1},
	},
}

// Width returns how many columns of a terminal the escaped text s takes.
func Width(s string) int {
	n := 0
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

func runeWidth(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case unicode.Is(wide, r):
		return 2
	default:
		return 1
	}
}

// truncate cuts s to at most width columns; what is cut off is replaced by
// mark, if there is room for that.
func truncate(s string, width int, mark string) string {
	if Width(s) <= width {
		return s
	}
	if width < Width(mark) {
		mark = ""
	}
	room, n := width-Width(mark), 0
	for i, r := range s {
		if n += runeWidth(r); n > room {
			return s[:i] + mark
		}
	}
	return s
}
