package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/node-lifecycle/node-lifecycle/journal/filelock"
	bolterrors "go.etcd.io/bbolt/errors"
)

// Kind says what a failure of the journal means for its caller.
type Kind string

// The kinds of failure. Each one asks for a different thing to be done next.
const (
	// KindLocked: another process holds the journal and the context ended
	// while waiting for it. Nothing was done.
	KindLocked Kind = "locked"
	// KindNoSpace: the disk, the quota or the file size limit is exhausted.
	// Nothing was written.
	KindNoSpace Kind = "no-space"
	// KindReadOnly: the file system is mounted read-only. Nothing was written.
	KindReadOnly Kind = "read-only"
	// KindPermission: this process may not read or write the journal.
	KindPermission Kind = "permission"
	// KindCorrupt: the file is damaged, or is not a journal at all. What can
	// still be read comes with the error.
	KindCorrupt Kind = "corrupt"
	// KindNewer: a newer version wrote the journal, or this entry of it. It was
	// not touched.
	KindNewer Kind = "newer"
	// KindUnknown: a commit failed in such a way that nobody can tell whether
	// it will be there after a restart.
	KindUnknown Kind = "unknown"
	// KindInvalid: the directory or file has the wrong owner, mode or type, or
	// the caller asked for something that cannot be stored.
	KindInvalid Kind = "invalid"
	// KindNotExist: there is no journal, no such entry, or no evidence kept for
	// it. Errors of this kind are fs.ErrNotExist too.
	KindNotExist Kind = "not-exist"
	// KindIO: reading or writing failed for any other reason.
	KindIO Kind = "io"
)

// Error is what every failed operation of the journal returns, except that an
// error of the caller's own function comes back as it is.
type Error struct {
	// Kind is what the failure means.
	Kind Kind
	// Op is what was being done: "append to the journal".
	Op string
	// Path is the file or directory it was done to.
	Path string
	// Err is the cause.
	Err error
	// Hint is what a person can do about it; it may be empty.
	Hint string
}

func (e *Error) Error() string {
	cause := e.Err.Error()
	text := e.Op
	if e.Path != "" && !strings.Contains(cause, e.Path) {
		text += " " + e.Path
	}
	text += ": " + cause
	if e.Hint != "" {
		text += "; " + e.Hint
	}
	return text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the Kind of the first *Error in the tree of err, and "" if
// there is none.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return ""
}

// EntryError names entries that cannot be read. It stands inside the errors of
// View.Entries, View.Entry, View.Evidence and View.Verify.
type EntryError struct {
	// Slot is whose entries they are.
	Slot string
	// First and Last are the first and the last sequence number concerned; they
	// are equal if it is one entry.
	First, Last uint64
	// Err is what is wrong.
	Err error
}

func (e *EntryError) Error() string {
	if e.First == e.Last {
		return fmt.Sprintf("entry %d of %s: %v", e.First, e.Slot, e.Err)
	}
	return fmt.Sprintf("entries %d to %d of %s: %v", e.First, e.Last, e.Slot, e.Err)
}

// Unwrap returns what is wrong.
func (e *EntryError) Unwrap() error { return e.Err }

// The reasons inside an EntryError or an Error of KindCorrupt that callers may
// want to tell apart.
var (
	// ErrChecksum: the stored bytes are not those that were written.
	ErrChecksum = errors.New("checksum mismatch")
	// ErrMissing: the sequence numbers are missing where none may be.
	ErrMissing = errors.New("missing")
	// ErrChain: the entry does not continue the entry before it.
	ErrChain = errors.New("does not continue the entry before it")
)

// errEnded is what the methods of a View answer after its function returned.
var errEnded = errors.New("used after its function returned")

// Hints, by what has to be done.
const (
	hintCorrupt = "keep a copy of the file and check it with: node-lifecycle journal verify"
	hintNewer   = "use the node-lifecycle that wrote it, or a newer one"
	hintSpace   = "free space on that file system"
)

// failure turns the cause of a failed operation on path into an *Error of the
// kind that fits it. An *Error stays what it is.
func failure(op, path string, err error) error {
	var done *Error
	if err == nil || errors.As(err, &done) {
		return err
	}
	kind, hint := classify(err)
	if kind == "" {
		return err
	}
	return &Error{Kind: kind, Op: op, Path: path, Err: bare(err), Hint: hint}
}

// classify tells what a cause means and what to do about it. It returns "" for
// a context that was already over: that says nothing about the journal.
func classify(err error) (Kind, string) {
	var locked *filelock.LockedError
	switch {
	case errors.As(err, &locked):
		if locked.Holder.PID > 0 {
			return KindLocked, fmt.Sprintf("wait for that process, or look at it with: ps -fp %d", locked.Holder.PID)
		}
		return KindLocked, "wait for that process to end"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "", ""
	case errors.Is(err, bolterrors.ErrTimeout):
		return KindLocked, "another program has the database open without taking the lock file; end that program"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
		return KindNoSpace, hintSpace
	case errors.Is(err, syscall.EROFS):
		return KindReadOnly, "remount it read-write"
	case errors.Is(err, fs.ErrPermission):
		return KindPermission, "run as the owner of the journal (normally root)"
	case errors.Is(err, filelock.ErrUnsafe):
		return KindInvalid, "find out who made it so, then delete it"
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.EISDIR):
		return KindInvalid, "the journal must be a regular file in a directory of its own; move away what is there"
	case errors.Is(err, fs.ErrNotExist):
		return KindNotExist, "nothing was recorded there yet"
	}
	return KindIO, ""
}

// bare takes the operation and path off an error of package os, because the
// Error around it names them.
func bare(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	var linkErr *os.LinkError
	if errors.As(err, &linkErr) {
		return linkErr.Err
	}
	return err
}

// cause takes the outermost Error off, for an Error around it that says the same.
func cause(err error) error {
	var e *Error
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

// corrupt returns an error of KindCorrupt.
func corrupt(op, path string, err error) error {
	return &Error{Kind: KindCorrupt, Op: op, Path: path, Err: err, Hint: hintCorrupt}
}

// invalid returns an error of KindInvalid.
func invalid(op, path, hint, format string, args ...any) error {
	return &Error{Kind: KindInvalid, Op: op, Path: path, Err: fmt.Errorf(format, args...), Hint: hint}
}
