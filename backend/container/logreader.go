package container

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
)

const (
	// logChunk is where Docker cuts a line that is longer. The rest follows
	// with a time stamp of its own, in the middle of the line.
	logChunk = 16 << 10
	// logLineMax bounds the memory one line takes while it is put together.
	logLineMax = 1 << 20
	// frameMax is above every frame that an engine makes; Docker's have 16 KiB.
	frameMax = 16 << 20
	// stampMax is the longest time stamp there is, with the space behind it.
	stampMax = len("2006-01-02T15:04:05.000000000+00:00 ")
)

// logLine is one line of a container's log, or one piece of a long line.
type logLine struct {
	stream byte      // of stdcopy; 0 where a terminal makes one stream of both
	at     time.Time // zero if the line had no time stamp
	text   []byte    // without the time stamp, with the newline if there was one
}

// cutStamp takes the time stamp off a line.
func cutStamp(line []byte) (at time.Time, text []byte, ok bool) {
	i := bytes.IndexByte(line[:min(len(line), stampMax)], ' ')
	if i < len("2006-01-02T15:04:05Z") {
		return time.Time{}, line, false
	}
	at, err := time.Parse(time.RFC3339Nano, string(line[:i]))
	if err != nil {
		return time.Time{}, line, false
	}
	return at, line[i+1:], true
}

// readFrames reads the log of a container without a terminal: frames that say
// which stream they are of, each with one line or piece of a line. What is cut
// off at the end is dropped; the engine tells it again.
func readFrames(r io.Reader, emit func(logLine) error) error {
	return copyFrames(frameWriter{byte(stdcopy.Stdout), emit}, frameWriter{byte(stdcopy.Stderr), emit}, r)
}

// copyFrames is stdcopy.StdCopy, which makes room for whatever size a frame claims to
// have, for frames of a size that makes sense.
func copyFrames(stdout, stderr io.Writer, r io.Reader) error {
	_, err := stdcopy.StdCopy(stdout, stderr, &frameChecker{r: r})
	return err
}

// frameChecker passes a stream of frames on, up to a frame that is too long.
type frameChecker struct {
	r      io.Reader
	header [8]byte
	have   int // of the header
	left   int // of the frame's body
}

func (c *frameChecker) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	for i := 0; i < n; {
		if c.left > 0 {
			body := min(c.left, n-i)
			c.left, i = c.left-body, i+body
			continue
		}
		head := copy(c.header[c.have:], p[i:n])
		c.have, i = c.have+head, i+head
		if c.have < len(c.header) {
			break
		}
		size := binary.BigEndian.Uint32(c.header[4:])
		if size > frameMax {
			return 0, fmt.Errorf("a frame of the output claims to have %d bytes", size)
		}
		c.have, c.left = 0, int(size)
	}
	return n, err
}

// frameWriter gets exactly one frame with each Write.
type frameWriter struct {
	stream byte
	emit   func(logLine) error
}

func (w frameWriter) Write(frame []byte) (int, error) {
	n := len(frame)
	for len(frame) > 0 {
		at, text, _ := cutStamp(frame)
		end := lineEnd(text)
		if err := w.emit(logLine{stream: w.stream, at: at, text: text[:end]}); err != nil {
			return 0, err
		}
		frame = text[end:]
	}
	return n, nil
}

// lineEnd is where the first line of a frame ends: behind the first newline
// that a time stamp follows, else at the end.
func lineEnd(text []byte) int {
	for from := 0; ; {
		i := bytes.IndexByte(text[from:], '\n')
		if i < 0 || from+i+1 == len(text) {
			return len(text)
		}
		from += i + 1
		if _, _, ok := cutStamp(text[from:]); ok {
			return from
		}
	}
}

// readLines reads the log of a container with a terminal, which is plain text.
// A line that the stream ends in the middle of is dropped, because the engine
// tells it again, unless last says that there is no again.
func readLines(r io.Reader, last bool, emit func(logLine) error) error {
	var pending []byte
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		pending = append(pending, buf[:n]...)
		used, emitErr := takeLines(pending, err == io.EOF && last, emit)
		if emitErr != nil {
			return emitErr
		}
		pending = append(pending[:0], pending[used:]...)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// takeLines emits the lines that are complete and returns their length. whole
// tells that nothing will follow the text.
func takeLines(text []byte, whole bool, emit func(logLine) error) (used int, err error) {
	for used < len(text) {
		line, size := takeLine(text[used:], whole)
		if size == 0 {
			break
		}
		if err := emit(line); err != nil {
			return used, err
		}
		used += size
	}
	return used, nil
}

// takeLine cuts the first line or piece of a long line off a text. Its size is
// 0 while it cannot be told where the line ends.
func takeLine(text []byte, whole bool) (line logLine, size int) {
	at, body, stamped := cutStamp(text)
	end := bytes.IndexByte(body, '\n') + 1
	if stamped && len(body) > logChunk && (end == 0 || end > logChunk) {
		if !whole && end == 0 && len(body) < logChunk+stampMax {
			return logLine{}, 0 // a time stamp may be on its way
		}
		if _, _, cut := cutStamp(body[logChunk:]); cut {
			end = logChunk
		}
	}
	if end == 0 && !whole && len(body) < logLineMax {
		return logLine{}, 0
	}
	if end == 0 {
		end = len(body)
	}
	return logLine{at: at, text: body[:end]}, len(text) - len(body) + end
}
