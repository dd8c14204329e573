package container

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// writeFile replaces a file as a whole: a reader sees the old content or the
// new one. It does not wait for the disk: what it writes is in /run, which a
// power cut clears anyway, or is compared and written again by the next
// pre-start, before anything depends on it.
func writeFile(name string, content []byte, mode fs.FileMode) (err error) {
	op := "write " + name
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return fileError(op, err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if _, err = f.Write(content); err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return fileError(op, err)
	}
	return nil
}

// fileError classifies what went wrong with a file of ours.
func fileError(op string, err error) error {
	e := &Error{Op: op, Err: err}
	switch {
	case errors.Is(err, fs.ErrPermission):
		e.kind, e.Hint = kindDenied, "run as root"
	case errors.Is(err, syscall.EROFS):
		e.kind, e.Hint = kindMisconfigured, "make the directory writable for this unit (ReadWritePaths=)"
	}
	return e
}
