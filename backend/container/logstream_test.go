package container

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// fakeLog is a container's log as an engine has it stored, with what the
// engine makes of the time of a line.
type fakeLog struct {
	lines     []storedLine
	precision time.Duration // of the time stamps it tells
	exclusive bool          // "since" means "after", not "not before"
	tty       bool
}

type storedLine struct {
	at     time.Time
	stream byte
	text   string        // with its newline
	behind time.Duration // how far the clock had been set back when it was printed
}

// clock is the clock at the time when n lines were stored.
func (l *fakeLog) clock(n int) (time.Time, time.Duration) {
	if n == 0 {
		return time.Time{}, 0
	}
	return l.lines[n-1].at, l.lines[n-1].behind
}

// read renders the first n lines as the engine sends them from since on.
func (l *fakeLog) read(since int64, n int) []byte {
	var out bytes.Buffer
	for _, line := range l.lines[:n] {
		ns := line.at.UnixNano()
		if ns < since || l.exclusive && since != 0 && ns <= since {
			continue
		}
		layout := "2006-01-02T15:04:05.000000000Z07:00"
		if l.precision == time.Second {
			layout = time.RFC3339
		}
		text := line.at.UTC().Format(layout) + " " + line.text
		if !l.tty {
			var header [8]byte
			header[0] = line.stream
			binary.BigEndian.PutUint32(header[4:], uint32(len(text)))
			out.Write(header[:])
		}
		out.WriteString(text)
	}
	return out.Bytes()
}

func (l *fakeLog) text() string {
	var out strings.Builder
	for _, line := range l.lines {
		out.WriteString(line.text)
	}
	return out.String()
}

// assembler puts a log together from several reads, as Attend does.
type assembler struct {
	cursor *logCursor
	out    strings.Builder
	tty    bool
}

func (a *assembler) read(stream []byte, last bool) error {
	emit := func(line logLine) error {
		if line.at.IsZero() || a.cursor.isNew(a.cursor.key(line.at, line.stream, line.text)) {
			a.out.Write(line.text)
		}
		return nil
	}
	r := iotest.HalfReader(bytes.NewReader(stream))
	if a.tty {
		return readLines(r, last, emit)
	}
	return readFrames(r, emit)
}

// drawLog draws a log with the traps of real ones: equal lines, equal time
// stamps, lines of the two streams stored out of order, and a clock that is
// set, forward or back.
func drawLog(t *rapid.T) *fakeLog {
	l := &fakeLog{tty: rapid.Bool().Draw(t, "tty"), precision: time.Nanosecond}
	if rapid.Bool().Draw(t, "podman") {
		l.precision, l.exclusive = time.Second, true
	}
	now := time.Date(2026, 12, 1, 2, 3, 4, 500, time.UTC)
	jumps := rapid.IntRange(0, 1).Draw(t, "jumps")
	unique := jumps > 0 // the same time may come twice
	behind := time.Duration(0)
	for i := range rapid.IntRange(0, 40).Draw(t, "lines") {
		at := now
		switch step := rapid.IntRange(0, 9).Draw(t, "step"); {
		case step == 0: // the very same instant
		case step == 1:
			now = now.Add(time.Duration(rapid.IntRange(1, 5000).Draw(t, "ms")) * time.Millisecond)
			at = now
		case step == 2: // stored late
			at = now.Add(-time.Duration(rapid.IntRange(1, 900).Draw(t, "µs")) * time.Microsecond)
		case step == 3 && jumps > 0:
			jumps--
			jump := time.Duration(rapid.IntRange(-36000, 36000).Draw(t, "jump")) * time.Second
			now, behind = now.Add(jump), behind-jump
			at = now
		default:
			now = now.Add(time.Duration(rapid.IntRange(1, 999999).Draw(t, "ns")))
			at = now
		}
		stream := byte(1)
		if !l.tty {
			stream = byte(rapid.IntRange(1, 2).Draw(t, "stream"))
		}
		text := rapid.SampledFrom([]string{"a", "b", "", "2026-12-01T02:03:04Z", "x y z"}).Draw(t, "text")
		if unique {
			text = fmt.Sprint(i)
		}
		l.lines = append(l.lines, storedLine{at, stream, text + "\n", behind})
	}
	return l
}

// TestLogStream_NoLossNoDoubling reads a growing log again and again, each
// time cut off somewhere, and demands every line exactly once, in order.
func TestLogStream_NoLossNoDoubling(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := drawLog(t)
		stored := 0
		cursor := newLogCursor(func() (time.Time, time.Duration) { return l.clock(stored) })
		a := &assembler{cursor: cursor, tty: l.tty}
		for range rapid.IntRange(0, 6).Draw(t, "reads") {
			stored += rapid.IntRange(0, len(l.lines)-stored).Draw(t, "stored")
			stream := l.read(a.cursor.reopen(), stored)
			cut := rapid.IntRange(0, len(stream)).Draw(t, "cut")
			if err := a.read(stream[:cut], false); err != nil {
				t.Fatal(err)
			}
		}
		stored = len(l.lines)
		if err := a.read(l.read(a.cursor.reopen(), stored), true); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(l.text(), a.out.String()); diff != "" {
			t.Fatalf("output (-want +got):\n%s", diff)
		}
	})
}

// A container that prints faster than lines are remembered loses none, and
// none comes twice.
func TestLogCursor_RemembersABoundedNumber(t *testing.T) {
	t.Parallel()
	const lines = logMemory + 5000
	start := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	cursor := newLogCursor(newLogClock())
	read, text := 0, []byte("x\n")
	for _, stored := range []int{lines - 1, lines} {
		since := cursor.reopen()
		for i := range stored {
			at := start.Add(time.Duration(i) * time.Microsecond)
			if at.UnixNano() < since {
				continue
			}
			if cursor.isNew(cursor.key(at, 1, text)) {
				if i != read {
					t.Fatalf("line %d follows line %d", i, read-1)
				}
				read++
			}
		}
	}
	if read != lines {
		t.Errorf("%d lines, want %d", read, lines)
	}
	if n := len(cursor.recent); n > 2*logMemory+1 {
		t.Errorf("%d lines are remembered", n)
	}
}

func TestCutStamp(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"2026-12-01T02:03:04.000000005Z hello": "hello",
		"2026-12-01T02:03:04Z hello":           "hello",
		"2026-12-01T02:03:04+01:00 hello":      "hello",
		"2026-12-01T02:03:04Z ":                "",
		"2026-12-01T02:03:04Z":                 "-",
		"hello there, nothing like a time":     "-",
		"2026-13-01T02:03:04Z hello":           "-",
		"":                                     "-",
	} {
		_, rest, ok := cutStamp([]byte(text))
		if ok != (want != "-") || ok && string(rest) != want || !ok && string(rest) != text {
			t.Errorf("cutStamp(%q) = %q, %v", text, rest, ok)
		}
	}
}

const stamp1, stamp2 = "2026-12-01T02:03:04.000000001Z ", "2026-12-01T02:03:04.000000002Z "

// TestReadLines_LongLine puts a line together that Docker cut in pieces.
func TestReadLines_LongLine(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", logChunk)
	for name, test := range map[string]struct{ stream, want string }{
		"two pieces":         {stamp1 + long + stamp2 + "y\n", long + "y\n"},
		"three pieces":       {stamp1 + long + stamp1 + long + stamp2 + "y\n" + stamp2 + "z\n", long + long + "y\nz\n"},
		"exactly one":        {stamp1 + long + "\n" + stamp2 + "z\n", long + "\nz\n"},
		"not cut":            {stamp1 + long + long + "\n" + stamp2 + "z\n", long + long + "\nz\n"},
		"piece at the end":   {stamp1 + long + stamp2 + "y", long + "y"},
		"stamp in the text":  {stamp1 + "a " + stamp2 + "b\n", "a " + stamp2 + "b\n"},
		"no newline, no end": {stamp1 + "login: ", "login: "},
		"no stamp":           {"plain\n", "plain\n"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(test.stream), iotest.OneByteReader(strings.NewReader(test.stream))} {
				var got strings.Builder
				err := readLines(r, true, func(line logLine) error {
					got.Write(line.text)
					return nil
				})
				if err != nil || got.String() != test.want {
					t.Errorf("%d bytes, %v; want %d", got.Len(), err, len(test.want))
				}
			}
		})
	}
}

func TestReadLines_NeverEndingLine(t *testing.T) {
	t.Parallel()
	pieces := 0
	err := readLines(strings.NewReader(strings.Repeat("x", 3*logLineMax)), true, func(line logLine) error {
		pieces++
		if len(line.text) > logLineMax+64<<10 {
			t.Errorf("a piece of %d bytes", len(line.text))
		}
		return nil
	})
	if err != nil || pieces < 2 {
		t.Errorf("%d pieces, %v", pieces, err)
	}
}

func TestReadFrames_SeveralLinesInOne(t *testing.T) {
	t.Parallel()
	text := stamp1 + "one\n" + stamp2 + "two\nthree\n"
	frame := append([]byte{2, 0, 0, 0, 0, 0, 0, byte(len(text))}, text...)
	var got []string
	err := readFrames(bytes.NewReader(frame), func(line logLine) error {
		got = append(got, fmt.Sprintf("%d %s", line.stream, line.text))
		return nil
	})
	if diff := cmp.Diff([]string{"2 one\n", "2 two\nthree\n"}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestReaders_PassErrorsOn(t *testing.T) {
	t.Parallel()
	full := errors.New("disk full")
	refuse := func(logLine) error { return full }
	frame := append([]byte{1, 0, 0, 0, 0, 0, 0, 2}, "a\n"...)
	if err := readFrames(bytes.NewReader(frame), refuse); !errors.Is(err, full) {
		t.Errorf("readFrames: %v", err)
	}
	if err := readLines(strings.NewReader("a\n"), true, refuse); !errors.Is(err, full) {
		t.Errorf("readLines: %v", err)
	}
	broken := iotest.ErrReader(io.ErrUnexpectedEOF)
	if err := readLines(broken, false, refuse); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("readLines: %v", err)
	}
}

// FuzzReadLines feeds anything to the reader of a terminal's log: what comes
// out must not depend on how the stream is cut into reads, and nothing but time
// stamps may be missing.
func FuzzReadLines(f *testing.F) {
	f.Add([]byte(stamp1+"hello\n"), uint8(3))
	f.Add([]byte("no stamp\n\n\r\n"), uint8(1))
	f.Add([]byte(stamp1+strings.Repeat("x", logChunk)+stamp2+"y\n"), uint8(200))
	f.Fuzz(func(t *testing.T, stream []byte, step uint8) {
		read := func(r io.Reader) (out []byte) {
			err := readLines(r, true, func(line logLine) error {
				out = append(out, line.text...)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		whole := read(bytes.NewReader(stream))
		pieces := read(&stepReader{bytes.NewReader(stream), int(step)%97 + 5})
		if !bytes.Equal(whole, pieces) {
			t.Errorf("in one read %q, in pieces %q", whole, pieces)
		}
		if len(whole) > len(stream) {
			t.Errorf("%d bytes became %d", len(stream), len(whole))
		}
	})
}

// FuzzReadFrames feeds anything to the reader of framed logs.
func FuzzReadFrames(f *testing.F) {
	f.Add(append([]byte{1, 0, 0, 0, 0, 0, 0, 2}, "a\n"...))
	f.Add([]byte{3, 0, 0, 0, 0, 0, 0, 1, 'x'})
	f.Add([]byte{9})
	f.Fuzz(func(t *testing.T, stream []byte) {
		if len(stream) >= 8 && binary.BigEndian.Uint32(stream[4:8]) > 1<<20 {
			t.Skip("an engine never frames that much")
		}
		total := 0
		_ = readFrames(bytes.NewReader(stream), func(line logLine) error { // garbage is an error, that is fine
			total += len(line.text)
			return nil
		})
		if total > len(stream) {
			t.Errorf("%d bytes became %d", len(stream), total)
		}
	})
}

// stepReader reads so many bytes at a time.
type stepReader struct {
	r    io.Reader
	step int
}

func (s *stepReader) Read(p []byte) (int, error) { return s.r.Read(p[:min(len(p), s.step)]) }
