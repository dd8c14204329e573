package journal

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/node-lifecycle/node-lifecycle/journal/filelock"
	"go.etcd.io/bbolt"
)

// The files of a journal inside its directory.
const (
	databaseName = "journal.db"
	lockName     = "journal.lock"
)

// The defaults of Options.
const (
	// DefaultKeep is how many entries of a slot are kept.
	DefaultKeep = 4000
	// DefaultKeepBytes is how many bytes the entries of a slot may take.
	DefaultKeepBytes = 8 << 20
	// DefaultPreallocate is how many bytes the file of a new journal gets. It is
	// more than two slots ever need, so that a full disk stops no append.
	DefaultPreallocate = 64 << 20
)

// Operations, as errors name them.
const (
	opAppend = "append to the journal"
	opCreate = "create the journal"
	opRead   = "read the journal"
)

// Options are the settings of a Journal; the zero value is the default.
type Options struct {
	// Keep is how many entries of each slot are kept. Zero or less: DefaultKeep.
	Keep int
	// KeepBytes is how many bytes the entries of each slot may take as stored.
	// Zero or less: DefaultKeepBytes.
	KeepBytes int64
	// Preallocate is how many bytes of disk a new journal gets at once. Zero:
	// DefaultPreallocate. Negative: none.
	Preallocate int64
	// Holder is written into the lock file while this process appends. Its zero
	// fields are filled in.
	Holder filelock.Holder
}

// Journal is the journal in one directory. It holds neither a file nor a lock
// between calls. It is safe for concurrent use, also by other processes.
type Journal struct {
	dir, path, lockPath string
	opts                Options
	// commit is bbolt's; tests replace it to make a commit fail.
	commit func(*bbolt.Tx) error
}

// New returns the journal in dir. It touches nothing: the first Append creates
// the directory, its parents and the database.
func New(dir string, o Options) *Journal {
	if o.Keep <= 0 {
		o.Keep = DefaultKeep
	}
	if o.KeepBytes <= 0 {
		o.KeepBytes = DefaultKeepBytes
	}
	if o.Preallocate == 0 {
		o.Preallocate = DefaultPreallocate
	}
	return &Journal{
		dir:      dir,
		path:     filepath.Join(dir, databaseName),
		lockPath: filepath.Join(dir, lockName),
		opts:     o,
		commit:   (*bbolt.Tx).Commit,
	}
}

// Path returns the path of the database.
func (j *Journal) Path() string { return j.path }

// Append runs fn in one transaction and commits it: everything fn did through
// its Tx is on disk when Append returns nil, and nothing of it is otherwise
// (KindUnknown excepted). If fn returns an error, nothing is written and Append
// returns that error as it is. If fn writes nothing, neither does Append.
//
// Append waits for the lock until ctx ends; that gives KindLocked. Once it has
// the lock and fn has begun, ctx is not looked at any more. fn runs under the
// lock: it must not wait for anything, nor call Append or View.
func (j *Journal) Append(ctx context.Context, fn func(*Tx) error) error {
	lock, err := j.lock(ctx)
	if err != nil {
		return failure(opAppend, j.lockPath, err)
	}
	defer func() { _ = lock.Release() }()

	t, err := j.appendLocked(ctx, fn)
	var failed *commitError
	if errors.As(err, &failed) {
		return j.settle(t, failed.error)
	}
	return err
}

// commitError is the error that a commit returned.
type commitError struct{ error }

// appendLocked is Append under the lock. A *commitError is all that it leaves
// undecided; the Tx says then what was to be written.
func (j *Journal) appendLocked(ctx context.Context, fn func(*Tx) error) (*Tx, error) {
	h, err := j.openWrite(ctx)
	if err != nil {
		return nil, failure(opAppend, j.path, err)
	}
	defer h.close()
	v, err := h.begin(true)
	if err != nil {
		return nil, failure(opAppend, j.path, err)
	}
	defer v.end()
	t := &Tx{View: v, opts: &j.opts}
	if err := fn(t); err != nil || h.fault != nil {
		return nil, h.verdict(err)
	}
	if !t.wrote() {
		return nil, nil
	}
	if err := t.flush(); err != nil {
		return nil, err
	}
	return t, h.guard(func() error {
		if err := j.commit(h.tx); err != nil {
			return &commitError{err}
		}
		return nil
	})
}

// lock takes the exclusive lock. It looks at the directory first, so that no
// file is made where none must be, and makes the directory if there is none.
func (j *Journal) lock(ctx context.Context) (*filelock.Lock, error) {
	err := checkDir(j.dir)
	if errors.Is(err, fs.ErrNotExist) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err = makeDir(j.dir, 0o700); err != nil {
			return nil, failure(opCreate, j.dir, err)
		}
		err = checkDir(j.dir)
	}
	if err != nil {
		return nil, failure(opAppend, j.dir, err)
	}
	return filelock.Acquire(ctx, j.lockPath, j.opts.Holder)
}

// View runs fn on the journal as it is now, without writing anything: it works
// on a read-only file system, and on a copy of the database without a lock file
// or with other owners and modes. It returns the error of fn as it is. Without a
// journal it does not run fn and returns KindNotExist.
//
// View waits until ctx ends for a commit that is in progress; that gives
// KindLocked. fn runs under a shared lock, which keeps writers waiting: it must
// copy what it needs and return, and must not call Append or View.
func (j *Journal) View(ctx context.Context, fn func(*View) error) error {
	lock, err := filelock.AcquireShared(ctx, j.lockPath)
	switch {
	case err == nil:
		defer func() { _ = lock.Release() }()
	case !errors.Is(err, fs.ErrNotExist):
		return failure(opRead, j.lockPath, err)
	}
	h, err := openRead(ctx, j.path)
	if err != nil {
		return failure(opRead, j.path, err)
	}
	defer h.close()
	v, err := h.begin(false)
	if err != nil {
		return failure(opRead, j.path, err)
	}
	defer v.end()
	return h.verdict(fn(v))
}

// settle answers for a commit that returned an error. Some such commits are on
// disk all the same, so it opens the database anew and looks: what is not there
// was not written. What is there may still be in memory only, if it was the very
// last flush that failed; a further commit, which goes to the other meta page,
// brings it to the disk or shows that nobody can tell.
func (j *Journal) settle(t *Tx, cause error) error {
	// The caller's deadline must not turn an answer into a riddle.
	ctx := context.Background()
	landed, err := j.landed(ctx, t)
	if err == nil && !landed {
		return failure(opAppend, j.path, cause)
	}
	if err == nil {
		err = j.confirm(ctx)
	}
	if err == nil {
		return nil
	}
	return &Error{
		Kind: KindUnknown, Op: opAppend, Path: j.path, Err: errors.Join(bare(cause), err),
		Hint: "it is unknown whether the entries are on disk; check the disk, then look at: node-lifecycle history",
	}
}

// landed reports whether what t wrote is in the database. A head carries the
// number and hash of its last entry, and so stands for every entry before it.
func (j *Journal) landed(ctx context.Context, t *Tx) (bool, error) {
	h, err := openRead(ctx, j.path)
	if err != nil {
		return false, err
	}
	defer h.close()
	v, err := h.begin(false)
	if err != nil {
		return false, err
	}
	defer v.end()
	landed := true
	err = h.guard(func() error {
		for _, w := range t.written {
			landed = landed && w.isIn(v)
		}
		return nil
	})
	return landed, err
}

// confirm commits an empty transaction.
func (j *Journal) confirm(ctx context.Context) error {
	h, err := j.openWrite(ctx)
	if err != nil {
		return err
	}
	defer h.close()
	v, err := h.begin(true)
	if err != nil {
		return err
	}
	defer v.end()
	return h.guard(func() error { return j.commit(h.tx) })
}
