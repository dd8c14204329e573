package filelock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"
)

// ErrUnsafe is wrapped by the errors of Acquire, AcquireShared and TryAcquire
// when the path is not a lock file one may trust: a symbolic link, a directory,
// a device, and for the exclusive ones also a file of another user or one with a
// second name, because they write into it.
var ErrUnsafe = errors.New("not a safe lock file")

// Lock is one held lock. Its methods are safe for concurrent use.
type Lock struct {
	file    *os.File
	written bool
	once    sync.Once
	err     error
}

// Acquire takes the exclusive lock on path and writes h into it. It creates the
// file with mode 0600, whatever the umask, but not its directory, and waits for
// the present holder until ctx ends; the error is then a *LockedError that names
// it. A ctx that is already over is returned at once. Other errors wrap what the
// system answered, or ErrUnsafe.
//
// That h cannot be written, for want of space, is no error.
func Acquire(ctx context.Context, path string, h Holder) (*Lock, error) {
	return acquire(ctx, path, request{open: openExclusive, how: syscall.LOCK_EX, wait: true, holder: &h})
}

// AcquireShared takes a shared lock on path: any number of them exist side by
// side, but none beside an exclusive one. It only reads, so it works on a
// read-only file system; a file that does not exist is not created, the error is
// then fs.ErrNotExist. It waits like Acquire.
func AcquireShared(ctx context.Context, path string) (*Lock, error) {
	return acquire(ctx, path, request{open: openShared, how: syscall.LOCK_SH, wait: true})
}

// TryAcquire is Acquire without waiting: a lock that somebody holds gives a
// *LockedError at once.
func TryAcquire(path string, h Holder) (*Lock, error) {
	return acquire(context.Background(), path, request{open: openExclusive, how: syscall.LOCK_EX, holder: &h})
}

// Release gives the lock back and takes the holder's name out of the file. It
// does not block. Calling it again returns what the first call returned.
func (l *Lock) Release() error {
	l.once.Do(func() {
		if l.written {
			_, _ = l.file.WriteAt(padded(nil), 0)
		}
		// Unlocking, and not only closing: a child between fork and exec still
		// shares this open file and would keep the lock.
		unlockErr := flock(l.file, syscall.LOCK_UN)
		if err := errors.Join(unlockErr, l.file.Close()); err != nil {
			l.err = fmt.Errorf("release lock: %w", err)
		}
	})
	return l.err
}

// request is a way to lock a file.
type request struct {
	open   func(path string) (*os.File, error)
	how    int     // for flock(2)
	wait   bool    // for the present holder
	holder *Holder // what to write into the file; nil: nothing
}

func acquire(ctx context.Context, path string, r request) (*Lock, error) {
	start := time.Now()
	for {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("lock %s: %w", path, ctx.Err())
		}
		f, err := r.open(path)
		if err != nil {
			return nil, lockError(path, err)
		}
		var locked *LockedError
		if err := lock(ctx, f, r); errors.As(err, &locked) {
			locked.Path = path
			if r.wait {
				locked.Waited = time.Since(start)
			}
			return nil, locked
		} else if err != nil {
			_ = f.Close()
			return nil, lockError(path, err)
		}
		// A file that was deleted or replaced while we waited guards nothing:
		// whoever comes next locks the one at the path.
		if !isAt(f, path) {
			_ = f.Close()
			continue
		}
		l := &Lock{file: f}
		if r.holder != nil {
			l.write(*r.holder)
		}
		return l, nil
	}
}

// lockError names path once: the errors of os carry it already.
func lockError(path string, err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	if errors.Is(err, syscall.ELOOP) {
		err = fmt.Errorf("%w: it is a symbolic link", ErrUnsafe)
	} else if errors.Is(err, syscall.EISDIR) {
		err = fmt.Errorf("%w: it is a directory", ErrUnsafe)
	}
	return fmt.Errorf("lock %s: %w", path, err)
}

// lock locks f as r says, waiting until ctx ends. If the error is a
// *LockedError, f is closed or belongs to the goroutine that still waits.
func lock(ctx context.Context, f *os.File, r request) error {
	// The try without waiting first spares a free lock the goroutine.
	err := flock(f, r.how|syscall.LOCK_NB)
	if !errors.Is(err, syscall.EWOULDBLOCK) {
		return err
	}
	if !r.wait {
		defer f.Close()
		return &LockedError{Holder: readHolder(f), Err: err}
	}
	got, gone := make(chan error), make(chan struct{})
	go func() {
		err := flock(f, r.how)
		select {
		case got <- err:
		case <-gone:
			_ = flock(f, syscall.LOCK_UN)
			_ = f.Close()
		}
	}()
	select {
	case err := <-got:
		return err
	case <-ctx.Done():
		defer close(gone)
		return &LockedError{Holder: readHolder(f), Err: ctx.Err()}
	}
}

// flock is flock(2), repeated when a signal interrupts it.
func flock(f *os.File, how int) error {
	for {
		err := syscall.Flock(int(f.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// isAt reports whether path still names the open file f.
func isAt(f *os.File, path string) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(path)
	return err == nil && os.SameFile(mine, there)
}

// write puts h into the lock file. It is best effort: on a full disk the lock
// holds all the same.
func (l *Lock) write(h Holder) {
	if line, err := h.filled().record(); err == nil {
		_, err = l.file.WriteAt(line, 0)
		l.written = err == nil
	}
}

// openExclusive opens the lock file for a holder that writes into it, and
// creates it if need be. An existing file is opened without O_CREATE: in a
// directory like /run/lock the kernel may refuse that flag on a file it would
// let us open.
func openExclusive(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW, 0)
		if errors.Is(err, fs.ErrNotExist) {
			f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
			if errors.Is(err, fs.ErrExist) {
				continue
			}
			if err == nil {
				err = f.Chmod(0o600)
			}
		}
		if err == nil {
			err = checkExclusive(f)
		}
		if err != nil {
			_ = f.Close()
			return nil, err
		}
		return f, nil
	}
}

// openShared opens an existing lock file for a reader.
func openShared(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if _, err := checkRegular(f); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func checkRegular(f *os.File) (*syscall.Stat_t, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: it is no regular file (%s)", ErrUnsafe, info.Mode().Type())
	}
	return info.Sys().(*syscall.Stat_t), nil
}

func checkExclusive(f *os.File) error {
	stat, err := checkRegular(f)
	switch {
	case err != nil:
		return err
	case int(stat.Uid) != os.Geteuid():
		return fmt.Errorf("%w: it belongs to uid %d, not to uid %d", ErrUnsafe, stat.Uid, os.Geteuid())
	case stat.Nlink > 1:
		return fmt.Errorf("%w: it has %d names (hard links)", ErrUnsafe, stat.Nlink)
	}
	return nil
}
