package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// pageSize is the size of the database's pages on every machine, so that a copy
// can be read on any other of the same byte order.
const pageSize = 4096

// formatVersion is the version of the layout of buckets and keys.
const formatVersion = 1

// maxOpenWait bounds the wait for bbolt's own lock. Ours is already held, so
// only a program that knows nothing of it can be in the way; bbolt polls.
const maxOpenWait = 5 * time.Second

// The top-level buckets and fixed keys.
var (
	metaBucket     = []byte("meta")
	formatKey      = []byte("format")
	slotsBucket    = []byte("slots")
	entriesBucket  = []byte("entries")
	evidenceBucket = []byte("evidence")
	headKey        = []byte("head")
	pairsBucket    = []byte("pairs")
)

// handle is one opening of the database, with at most one transaction. It
// belongs to one goroutine.
type handle struct {
	path string
	file *os.File
	db   *bbolt.DB
	tx   *bbolt.Tx
	// fault is set when bbolt panicked or memory faulted under it. Then the
	// handle is good for nothing, not even for closing: bbolt may hold its own
	// locks for ever.
	fault error
}

// openWrite opens the database for writing and creates it if there is none. The
// exclusive lock must be held.
func (j *Journal) openWrite(ctx context.Context) (*handle, error) {
	h, err := openDatabase(ctx, j.path, os.O_RDWR)
	if !errors.Is(err, fs.ErrNotExist) {
		return h, err
	}
	if err := j.create(); err != nil {
		return nil, failure(opCreate, j.path, err)
	}
	return openDatabase(ctx, j.path, os.O_RDWR)
}

// openRead opens the database for reading.
func openRead(ctx context.Context, path string) (*handle, error) {
	return openDatabase(ctx, path, os.O_RDONLY)
}

// openDatabase opens an existing database, having looked at everything about
// the file that bbolt takes on trust.
func openDatabase(ctx context.Context, path string, flag int) (*handle, error) {
	// O_NONBLOCK: a FIFO in the wrong place must not stop us.
	f, err := os.OpenFile(path, flag|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) {
		return nil, invalid(opRead, path, "put the file itself there, or set state_dir to where it is", "it is a symbolic link")
	}
	if err != nil {
		return nil, err
	}
	h := &handle{path: path, file: f}
	if err := h.inspect(flag == os.O_RDWR); err != nil {
		_ = f.Close()
		return nil, err
	}
	if err := h.open(flag, openWait(ctx)); err != nil {
		h.abandon()
		return nil, err
	}
	if err := h.checkPlace(); err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

// inspect refuses a file that is not a journal, or not one to be trusted, before
// any of it is mapped into memory.
func (h *handle) inspect(write bool) error {
	info, err := h.file.Stat()
	if err != nil {
		return err
	}
	if write {
		err = checkOwnFile(h.path, info)
	} else {
		err = checkRegular(h.path, info)
	}
	if err != nil {
		return err
	}
	return preflight(h.path, h.file, info.Size())
}

// open lets bbolt open the file we already have, on which all checks were made.
// Its freelist stays in the file, because building it anew would read every
// page, and in a goroutine whose faults nothing can catch.
func (h *handle) open(flag int, wait time.Duration) error {
	return h.guard(func() (err error) {
		h.db, err = bbolt.Open(h.path, 0o600, &bbolt.Options{
			Timeout:      wait,
			ReadOnly:     flag == os.O_RDONLY,
			PageSize:     pageSize,
			NoStatistics: true,
			OpenFile:     func(string, int, os.FileMode) (*os.File, error) { return h.file, nil },
		})
		if errors.Is(err, bolterrors.ErrInvalid) || errors.Is(err, bolterrors.ErrChecksum) || errors.Is(err, bolterrors.ErrVersionMismatch) {
			return corrupt(opRead, h.path, err)
		}
		return err
	})
}

// openWait is how long to wait for bbolt's own lock: no longer than ctx.
func openWait(ctx context.Context) time.Duration {
	wait := maxOpenWait
	if deadline, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(deadline))
	}
	return max(wait, time.Millisecond) // zero would mean for ever
}

// checkPlace makes sure that the file that is now locked is the one others will
// find at the path.
func (h *handle) checkPlace() error {
	mine, err := h.file.Stat()
	if err != nil {
		return err
	}
	there, err := os.Lstat(h.path)
	if err == nil && os.SameFile(mine, there) {
		return nil
	}
	return invalid(opRead, h.path, "find out what replaces it, then try again", "the file was replaced or deleted while it was being opened")
}

// begin starts the transaction of the handle and checks the format.
func (h *handle) begin(write bool) (*View, error) {
	v := &View{h: h}
	err := h.guard(func() (err error) {
		if h.tx, err = h.db.Begin(write); err != nil {
			return err
		}
		if err := checkFormat(h.tx, h.path); err != nil {
			return err
		}
		v.slots, v.pairs = h.tx.Bucket(slotsBucket), h.tx.Bucket(pairsBucket)
		if v.slots == nil || v.pairs == nil {
			return corrupt(opRead, h.path, errors.New("it lacks the buckets of a journal"))
		}
		return nil
	})
	return v, err
}

// checkFormat refuses a database whose layout is not ours.
func checkFormat(tx *bbolt.Tx, path string) error {
	meta := tx.Bucket(metaBucket)
	if meta == nil {
		return corrupt(opRead, path, errors.New("it is a database, but not a journal"))
	}
	format, err := decodeFramed[formatRecord](formatKey, meta.Get(formatKey))
	switch {
	case err != nil:
		return corrupt(opRead, path, fmt.Errorf("its format version: %w", err))
	case format.Format > formatVersion:
		return &Error{
			Kind: KindNewer, Op: opRead, Path: path, Hint: hintNewer,
			Err: fmt.Errorf("it has format %d, this program knows formats up to %d", format.Format, formatVersion),
		}
	case format.Format < 1:
		return corrupt(opRead, path, fmt.Errorf("it has format %d", format.Format))
	}
	return nil
}

// formatRecord is the value of formatKey.
type formatRecord struct {
	Format int `json:"format"`
}

// guard runs fn, which calls bbolt or reads memory it mapped. A damaged file
// makes bbolt panic, and a truncated one is a memory fault, which ends the
// process unless this goroutine asked for a panic instead. Either becomes the
// handle's fault. fn must not call code of the journal's user, whose panics are
// its own.
func (h *handle) guard(fn func() error) (err error) {
	if h.fault != nil {
		return h.fault
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			h.fault = corrupt(opRead, h.path, fmt.Errorf("damaged: %v", p))
			err = h.fault
		}
	}()
	return fn()
}

// verdict is the outcome of the user's function: its own error, unless a fault
// happened that it did not pass on.
func (h *handle) verdict(err error) error {
	if h.fault != nil && !errors.Is(err, h.fault) {
		return h.fault
	}
	return err
}

// close ends the transaction if it is not committed, and closes the database.
// Neither can undo a commit, so neither has an error to tell.
func (h *handle) close() {
	_ = h.guard(func() error {
		if h.tx != nil && h.tx.DB() != nil {
			_ = h.tx.Rollback()
		}
		return h.db.Close()
	})
	if h.fault != nil {
		h.abandon()
	}
}

// abandon lets go of the file without asking bbolt. The memory it mapped stays
// mapped until the process ends and would keep bbolt's lock with it, so the lock
// is given back first. After bbolt itself closed the file this does nothing.
func (h *handle) abandon() {
	_ = syscall.Flock(int(h.file.Fd()), syscall.LOCK_UN)
	_ = h.file.Close()
}
