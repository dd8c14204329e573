package render

import (
	"fmt"
	"strings"
)

// What --color may say.
const (
	ColorAuto   = "auto"
	ColorAlways = "always"
	ColorNever  = "never"
)

// Color decides whether to use colour. mode, the value of --color ("" counts
// as auto), decides if it is not auto; then SYSTEMD_COLORS, a boolean or a
// number of colours as for systemctl; then NO_COLOR, if not empty; then TERM,
// if unset or "dumb"; then whether the output is a terminal. An error means
// that mode is none of the three.
func Color(mode string, getenv func(string) string, tty bool) (bool, error) {
	switch mode {
	case ColorAlways:
		return true, nil
	case ColorNever:
		return false, nil
	case ColorAuto, "":
	default:
		return false, fmt.Errorf("color %q is none of %s, %s and %s", mode, ColorAuto, ColorAlways, ColorNever)
	}
	switch strings.ToLower(getenv("SYSTEMD_COLORS")) {
	case "1", "y", "yes", "t", "true", "on", "16", "256", "24bit":
		return true, nil
	case "0", "n", "no", "f", "false", "off":
		return false, nil
	}
	term := getenv("TERM")
	return tty && getenv("NO_COLOR") == "" && term != "" && term != "dumb", nil
}

// UTF8 reports whether the locale of the environment is a UTF-8 one.
func UTF8(getenv func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if locale := strings.ToLower(getenv(name)); locale != "" {
			return strings.Contains(locale, "utf-8") || strings.Contains(locale, "utf8")
		}
	}
	return false
}

// Style is how a piece of text is painted.
type Style string

// The styles, as parameters of the terminal's "select graphic rendition".
const (
	Plain  Style = ""
	Bold   Style = "1"
	Dim    Style = "2"
	Red    Style = "1;31"
	Green  Style = "1;32"
	Yellow Style = "1;33"
)

// Palette is what the output can show.
type Palette struct {
	Color bool
	UTF8  bool
}

// Paint returns text in a style; unchanged without colour. It does not escape.
func (p Palette) Paint(s Style, text string) string {
	if !p.Color || s == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// Status is what a glyph stands for.
type Status int

// The statuses; the zero value is that nothing is known.
const (
	Unknown Status = iota
	Active
	Inactive
	Failed
	Busy
	Warning
)

// glyphs are those of systemctl where it has one, with a letter or sign of
// ASCII for each.
var glyphs = map[Status]struct {
	utf8, ascii string
	style       Style
}{
	Unknown:  {"?", "?", Yellow},
	Active:   {"●", "*", Green},
	Inactive: {"○", "o", Plain},
	Failed:   {"×", "x", Red},
	Busy:     {"↻", "~", Yellow},
	Warning:  {"!", "!", Yellow},
}

// Glyph returns the sign of a status, one column wide, as a cell of a table.
func (p Palette) Glyph(s Status) Cell {
	g, ok := glyphs[s]
	if !ok {
		g = glyphs[Unknown]
	}
	if p.UTF8 {
		return Cell{Text: g.utf8, Style: g.style}
	}
	return Cell{Text: g.ascii, Style: g.style}
}

// ellipsis marks text that was cut.
func (p Palette) ellipsis() string {
	if p.UTF8 {
		return "…"
	}
	return "..."
}
