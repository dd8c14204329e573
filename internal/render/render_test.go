package render

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "rewrite golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s:\n%s", name, diff)
	}
}

func write(t *testing.T, table *Table) string {
	t.Helper()
	var b strings.Builder
	if err := table.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// status fills a table with all that a table can hold.
func status(p Palette) *Table {
	t := &Table{Palette: p, Columns: []Column{{}, {Header: "SLOT"}, {Header: "STATE"}, {Header: "SEQ", Right: true}, {Header: "LAST ERROR"}}}
	t.Add(p.Glyph(Active), Text("kube1"), Cell{"Wired", Green}, Text("7"), Text(""))
	t.Add(p.Glyph(Inactive), Text("kube2"), Text("Stopped"), Text("12345"))
	t.Line(Cell{"-- Boot 5c31a0de, a line that is longer than the columns beneath it are together --", Dim})
	t.Add(p.Glyph(Failed), Text("zürich"), Cell{"Failed", Red}, Text("31"), Text("exit 1: \x1b[31mno such file\nor directory\x9b \u202egpj.exe, and so on"))
	t.Add(p.Glyph(Busy), Text("東京"), Text("Starting"), Text("32"), Text("ﬁne"), Text("one more"))
	t.Add(p.Glyph(Warning), Text("e\u0301"), Text("Running"))
	t.Add(p.Glyph(Status(99)), Text(""), Text("?"), Text(""), Text(""))
	t.Add()
	return t
}

func TestTable(t *testing.T) {
	golden(t, "table-plain.golden", write(t, status(Palette{})))
	golden(t, "table-utf8.golden", write(t, status(Palette{UTF8: true})))
	golden(t, "table-color.golden", write(t, status(Palette{UTF8: true, Color: true})))

	bare := status(Palette{UTF8: true})
	bare.NoHeader, bare.Indent = true, "    "
	golden(t, "table-bare.golden", write(t, bare))
}

// Colours change nothing but colours.
func TestTable_ColorKeepsShape(t *testing.T) {
	painted := write(t, status(Palette{UTF8: true, Color: true}))
	for _, s := range []Style{Bold, Dim, Red, Green, Yellow} {
		painted = strings.ReplaceAll(painted, "\x1b["+string(s)+"m", "")
	}
	painted = strings.ReplaceAll(painted, "\x1b[0m", "")
	if diff := cmp.Diff(write(t, status(Palette{UTF8: true})), painted); diff != "" {
		t.Error(diff)
	}
}

// Only the last column is cut, to the width of the terminal, and never to
// nothing.
func TestTable_Width(t *testing.T) {
	table := func(p Palette, width int) string {
		x := &Table{Palette: p, Columns: []Column{{Header: "SLOT", Min: 8}, {Header: "ERROR"}}, Width: width}
		x.Add(Text("kube1"), Cell{"cannot open the file", Red})
		x.Add(Text("kube2"), Text("東京東京東京東京"))
		x.Add(Text("kube3"), Text("fits"))
		return write(t, x)
	}
	for _, tc := range []struct {
		p     Palette
		width int
		want  string
	}{
		{Palette{}, 0, "SLOT      ERROR\nkube1     cannot open the file\nkube2     東京東京東京東京\nkube3     fits\n"},
		{Palette{}, 30, "SLOT      ERROR\nkube1     cannot open the file\nkube2     東京東京東京東京\nkube3     fits\n"},
		{Palette{UTF8: true}, 24, "SLOT      ERROR\nkube1     cannot open t…\nkube2     東京東京東京…\nkube3     fits\n"},
		{Palette{}, 24, "SLOT      ERROR\nkube1     cannot open...\nkube2     東京東京東...\nkube3     fits\n"},
		{Palette{Color: true, UTF8: true}, 5, "SLOT      ERROR\nkube1     \x1b[1;31mcannot op…\x1b[0m\nkube2     東京東京…\nkube3     fits\n"},
	} {
		if diff := cmp.Diff(tc.want, table(tc.p, tc.width)); diff != "" {
			t.Errorf("width %d: %s", tc.width, diff)
		}
	}
}

// Whatever the cells hold, a table of n rows has n lines, and a column begins
// at the same place in each.
func TestTable_Alignment(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cells := rapid.SliceOfN(rapid.String(), 1, 8).Draw(t, "cells")
		x := &Table{Palette: Palette{UTF8: true}, Width: rapid.IntRange(0, 50).Draw(t, "width")}
		for _, c := range cells {
			x.Add(Text(c), Text("|"))
		}
		var b strings.Builder
		if err := x.Write(&b); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
		if len(lines) != len(cells) {
			t.Fatalf("%d rows take %d lines: %q", len(cells), len(lines), b.String())
		}
		for _, l := range lines {
			if Width(l) != Width(lines[0]) || !strings.HasSuffix(l, "|") {
				t.Fatalf("not aligned: %q", lines)
			}
		}
	})
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestWriteErrors(t *testing.T) {
	if err := status(Palette{}).Write(broken{}); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("table: %v", err)
	}
	if err := NewJSON(broken{}).Encode(1); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("JSON: %v", err)
	}
	if err := NewJSON(io.Discard).Encode(func() {}); err == nil {
		t.Error("a function has no JSON")
	}
}

func TestEscape(t *testing.T) {
	for s, want := range map[string]string{
		"":                             "",
		`plain \ "text" ü €`:           `plain \ "text" ü €`,
		"a\nb\tc\rd":                   `a\nb\tc\rd`,
		"\x00\x1b[2J\x7f":              `\x00\x1b[2J\x7f`,
		"\u009b31m\u2028":              `\u009b31m\u2028`,
		"\u202etxt.\u2066\ufeff\u200b": `\u202etxt.\u2066\ufeff\u200b`,
		"bad \xff\xc3 bytes":           `bad \xff\xc3 bytes`,
		"\U000e0041":                   `\U000e0041`,
		"real \ufffd":                  "real \ufffd",
		"no\u00a0break 東":              "no\u00a0break 東",
	} {
		if got := Escape(s); got != want {
			t.Errorf("%q becomes %s, want %s", s, got, want)
		}
	}
}

// FuzzEscape holds that nothing a terminal acts on gets through, that what is
// harmless stays, and that escaping twice changes nothing.
func FuzzEscape(f *testing.F) {
	f.Add("a\x1b]0;title\x07\xff\u202e")
	f.Fuzz(func(t *testing.T, s string) {
		got := Escape(s)
		if !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }) {
			t.Errorf("%q becomes %q", s, got)
		}
		if again := Escape(got); again != got {
			t.Errorf("%q becomes %q and then %q", s, got, again)
		}
		if lines := EscapeLines(s, ""); strings.Count(lines, "\n") != strings.Count(s, "\n")+btoi(s != "" && !strings.HasSuffix(s, "\n")) {
			t.Errorf("%q becomes %q", s, lines)
		}
	})
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestEscapeLines(t *testing.T) {
	for s, want := range map[string]string{
		"":                      "",
		"one":                   "> one\n",
		"one\n":                 "> one\n",
		"one\r\n\ttwo\n\nx\x1b": "> one\n>     two\n> \n> x\\x1b\n",
		"a\rb":                  "> a\\rb\n",
	} {
		if got := EscapeLines(s, "> "); got != want {
			t.Errorf("%q becomes %q, want %q", s, got, want)
		}
	}
}

func TestWidth(t *testing.T) {
	for s, want := range map[string]int{"": 0, "abc": 3, "zürich": 6, "e\u0301": 1, "東京": 4, "●": 1, "😀": 2, "한": 2} {
		if got := Width(s); got != want {
			t.Errorf("%q is %d wide, want %d", s, got, want)
		}
	}
	for _, tc := range []struct {
		s, mark string
		width   int
		want    string
	}{{"abc", "…", 3, "abc"}, {"abcd", "…", 3, "ab…"}, {"abcd", "...", 2, "ab"}, {"東京", "…", 2, "…"}, {"abc", "…", 0, ""}} {
		if got := truncate(tc.s, tc.width, tc.mark); got != tc.want {
			t.Errorf("%q cut to %d is %q, want %q", tc.s, tc.width, got, tc.want)
		}
	}
}

func env(pairs ...string) func(string) string {
	m := map[string]string{}
	for _, p := range pairs {
		k, v, _ := strings.Cut(p, "=")
		m[k] = v
	}
	return func(k string) string { return m[k] }
}

// From top to bottom: each row shows one source overruled by the one before.
func TestColor(t *testing.T) {
	for _, tc := range []struct {
		mode string
		env  func(string) string
		tty  bool
		want bool
	}{
		{"always", env("SYSTEMD_COLORS=0", "NO_COLOR=1", "TERM=dumb"), false, true},
		{"never", env("SYSTEMD_COLORS=1", "TERM=xterm"), true, false},
		{"auto", env("SYSTEMD_COLORS=1", "NO_COLOR=1", "TERM=dumb"), false, true},
		{"", env("SYSTEMD_COLORS=256"), false, true},
		{"", env("SYSTEMD_COLORS=No", "TERM=xterm"), true, false},
		{"", env("SYSTEMD_COLORS=auto-16", "TERM=xterm"), true, true},
		{"", env("SYSTEMD_COLORS=auto-16", "TERM=xterm"), false, false},
		{"", env("SYSTEMD_COLORS=pink", "TERM=xterm"), true, true},
		{"", env("SYSTEMD_COLORS=", "NO_COLOR=1", "TERM=xterm"), true, false},
		{"", env("NO_COLOR=", "TERM=xterm"), true, true},
		{"", env("TERM=dumb"), true, false},
		{"", env(), true, false},
		{"", env("TERM=xterm"), true, true},
		{"", env("TERM=xterm"), false, false},
	} {
		got, err := Color(tc.mode, tc.env, tc.tty)
		if err != nil || got != tc.want {
			t.Errorf("%+v: %v, %v", tc, got, err)
		}
	}
	if _, err := Color("yes", env(), true); err == nil || err.Error() != `color "yes" is none of auto, always and never` {
		t.Errorf("got %v", err)
	}
}

func TestUTF8(t *testing.T) {
	for _, tc := range []struct {
		env  func(string) string
		want bool
	}{
		{env(), false},
		{env("LANG=C.UTF-8"), true},
		{env("LANG=de_DE.utf8"), true},
		{env("LANG=de_DE"), false},
		{env("LC_ALL=C", "LANG=C.UTF-8"), false},
		{env("LC_CTYPE=C.UTF-8", "LANG=C"), true},
		{env("LC_ALL=", "LC_CTYPE=", "LANG=en_US.UTF-8"), true},
	} {
		if got := UTF8(tc.env); got != tc.want {
			t.Errorf("%+v: %v", tc, got)
		}
	}
}

func TestJSON(t *testing.T) {
	type value struct {
		Text string `json:"text"`
		N    int    `json:"n,omitempty"`
	}
	values := []value{
		{Text: "plain <ü> & \"quoted\"", N: 1},
		{Text: "\x1b[31m\n\x7f\u009b\u202e\u2028\U000e0041 end"},
	}
	var plain, seq bytes.Buffer
	for _, v := range values {
		for _, j := range []*JSONWriter{NewJSON(&plain), NewJSONSeq(&seq)} {
			if err := j.Encode(v); err != nil {
				t.Fatal(err)
			}
		}
	}
	golden(t, "json.golden", plain.String())
	golden(t, "json-seq.golden", seq.String())

	for i, text := range strings.Split(seq.String(), "\x1e")[1:] {
		var back value
		if err := json.Unmarshal([]byte(text), &back); err != nil || back != values[i] || !strings.HasSuffix(text, "\n") {
			t.Errorf("%q reads back as %+v, %v", text, back, err)
		}
	}
}

type counter struct{ calls int }

func (c *counter) Write(p []byte) (int, error) { c.calls++; return len(p), nil }

// A reader that follows must never see half of a value.
func TestJSONWriter_OneWrite(t *testing.T) {
	for name, j := range map[string]func(io.Writer) *JSONWriter{"json": NewJSON, "seq": NewJSONSeq} {
		var c counter
		if err := j(&c).Encode(map[string]string{"a": strings.Repeat("x", 100_000)}); err != nil || c.calls != 1 {
			t.Errorf("%s: %d writes, %v", name, c.calls, err)
		}
	}
}

// Escaping for terminals changes no value.
func TestJSON_RoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.String().Draw(t, "text")
		var b bytes.Buffer
		if err := NewJSON(&b).Encode(want); err != nil {
			t.Fatal(err)
		}
		if strings.ContainsFunc(strings.TrimSuffix(b.String(), "\n"), unicode.IsControl) {
			t.Fatalf("%q is written %q", want, b.String())
		}
		var got string
		if err := json.Unmarshal(b.Bytes(), &got); err != nil || got != want {
			t.Fatalf("%q is read back as %q, %v", want, got, err)
		}
	})
}

func TestTime(t *testing.T) {
	at := time.Date(2026, 12, 1, 1, 5, 49, 21_900_000, time.UTC)
	zone := time.FixedZone("CET", 3600)
	for got, want := range map[string]string{
		TimeMilli(at, zone):          "2026-12-01 02:05:49.021 +01:00",
		TimeMilli(at, nil):           "2026-12-01 01:05:49.021 +00:00",
		TimeMilli(time.Time{}, zone): "-",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
