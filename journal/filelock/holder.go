package filelock

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// recordSize is the fixed length of the text in a lock file. One size lets
// every holder overwrite the one before in place: no truncation, no new block,
// and a file that can be read with cat.
const recordSize = 256

// Holder says who holds a lock. It is written into the lock file for the
// messages of those who wait.
type Holder struct {
	// PID is the holder's process id; zero stands for the calling process.
	PID int `json:"pid"`
	// Phase is what the holder does, in the words of its user.
	Phase string `json:"phase"`
	// Since is when the lock was taken; zero stands for the moment it is.
	Since time.Time `json:"since"`
}

// filled returns h with its zero fields replaced by this process and this
// moment.
func (h Holder) filled() Holder {
	if h.PID == 0 {
		h.PID = os.Getpid()
	}
	if h.Since.IsZero() {
		h.Since = time.Now()
	}
	h.Since = h.Since.Round(0)
	return h
}

// record renders h as one padded line of recordSize bytes. A phase too long for
// it is left out: the process id is what people need most.
func (h Holder) record() ([]byte, error) {
	text, err := json.Marshal(h)
	if err == nil && len(text) >= recordSize {
		h.Phase = ""
		text, err = json.Marshal(h)
	}
	if err != nil {
		return nil, err
	}
	return padded(text), nil
}

// padded fills text with spaces up to one line of recordSize bytes.
func padded(text []byte) []byte {
	line := make([]byte, recordSize)
	for i := copy(line, text); i < recordSize-1; i++ {
		line[i] = ' '
	}
	line[recordSize-1] = '\n'
	return line
}

// readHolder returns who f says holds it, or the zero Holder if f does not say,
// or names a process that no longer exists: then the lock is held by someone who
// wrote nothing, such as a reader, and a dead process must not take the blame.
func readHolder(f *os.File) Holder {
	line := make([]byte, recordSize)
	n, _ := f.ReadAt(line, 0)
	var h Holder
	if json.Unmarshal(line[:n], &h) != nil || h.PID <= 0 {
		return Holder{}
	}
	if errors.Is(syscall.Kill(h.PID, 0), syscall.ESRCH) {
		return Holder{}
	}
	return h
}

// String names the holder for people: "pid 4242 (post-start) since
// 2026-12-01T14:08:03+01:00".
func (h Holder) String() string {
	if h.PID == 0 {
		return "a process that did not write its name (a reader)"
	}
	text := fmt.Sprintf("pid %d", h.PID)
	if h.Phase != "" {
		text += " (" + h.Phase + ")"
	}
	if !h.Since.IsZero() {
		text += " since " + h.Since.Format(time.RFC3339)
	}
	return text
}

// LockedError reports a lock that somebody else holds.
type LockedError struct {
	// Path is the lock file.
	Path string
	// Holder is who holds it, as far as the file says; zero if it does not.
	Holder Holder
	// Waited is how long the caller waited.
	Waited time.Duration
	// Err is why the caller waits no longer: the error of its context, or
	// EWOULDBLOCK from TryAcquire.
	Err error
}

func (e *LockedError) Error() string {
	text := fmt.Sprintf("%s is locked by %s", e.Path, e.Holder)
	if e.Waited > 0 {
		text += fmt.Sprintf(", waited %s", e.Waited.Round(time.Millisecond))
	}
	if e.Err != nil && !errors.Is(e.Err, syscall.EWOULDBLOCK) {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns the reason why the caller waits no longer.
func (e *LockedError) Unwrap() error { return e.Err }
