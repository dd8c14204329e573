package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"go.etcd.io/bbolt"
)

// create makes the database. It becomes visible only when it is whole: whatever
// interrupts this leaves either no journal or a complete one. The exclusive lock
// must be held.
func (j *Journal) create() (err error) {
	temp := j.path + ".new"
	// A leftover of a creation that was killed; the lock says it is nobody's.
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temp)
		}
	}()
	if err := initDatabase(temp); err != nil {
		return err
	}
	if err := preallocate(temp, j.opts.Preallocate); err != nil {
		return err
	}
	if err := os.Rename(temp, j.path); err != nil {
		return err
	}
	return syncDir(j.dir)
}

// initDatabase writes an empty journal to a new file.
func initDatabase(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	if err := f.Chmod(0o600); err != nil { // whatever the umask took away
		_ = f.Close()
		return err
	}
	h := &handle{path: path, file: f}
	if err := h.open(os.O_RDWR, maxOpenWait); err != nil {
		h.abandon()
		return err
	}
	defer h.close()
	return h.guard(func() error { return h.db.Update(layOut) })
}

// layOut makes the top-level buckets.
func layOut(tx *bbolt.Tx) error {
	for _, name := range [][]byte{metaBucket, slotsBucket, pairsBucket} {
		if _, err := tx.CreateBucket(name); err != nil {
			return err
		}
	}
	format, err := encodeJSON(formatRecord{Format: formatVersion})
	if err != nil {
		return err
	}
	return tx.Bucket(metaBucket).Put(formatKey, frame(formatKey, format))
}

// preallocate gives the file its disk space and flushes it. Where the file
// system cannot set space aside, the file simply grows when it has to.
func preallocate(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if size > 0 {
		if err := fallocate(f, size); err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return fmt.Errorf("set aside %d bytes: %w", size, err)
		}
	}
	return f.Sync()
}

func fallocate(f *os.File, size int64) error {
	for {
		err := syscall.Fallocate(int(f.Fd()), 0, 0, size)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// makeDir makes a directory with that mode, whatever the umask, and the parents
// it lacks, and brings their names to the disk.
func makeDir(path string, mode fs.FileMode) error {
	err := os.Mkdir(path, mode)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeDir(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		err = os.Mkdir(path, mode)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.Chmod(path, mode); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir brings the names in a directory to the disk.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, syscall.EINVAL) {
		return err
	}
	return nil
}

// checkDir refuses a directory in which somebody else could replace our files.
func checkDir(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case info.Mode().Type() == fs.ModeSymlink:
		// systemd waits for the mounts of the path that it is told, not of where a link leads.
		return invalid(opAppend, path, "set state_dir to where it leads, or put the directory itself there", "it is a symbolic link")
	case !info.IsDir():
		return invalid(opAppend, path, "move it away", "it is no directory")
	case ok && int(stat.Uid) != os.Geteuid():
		return invalid(opAppend, path, fmt.Sprintf("chown %d %s", os.Geteuid(), path), "it belongs to uid %d, not to uid %d", stat.Uid, os.Geteuid())
	case info.Mode().Perm()&0o022 != 0:
		return invalid(opAppend, path, "chmod 0700 "+path, "its mode is %#o: others may write to it", info.Mode().Perm())
	}
	return nil
}

// checkRegular refuses what is not a file.
func checkRegular(path string, info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return invalid(opRead, path, "move it away", "it is no regular file (%s)", info.Mode().Type())
	}
	return nil
}

// checkOwnFile refuses a file that somebody else could write, read or have put
// there.
func checkOwnFile(path string, info fs.FileInfo) error {
	if err := checkRegular(path, info); err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case ok && int(stat.Uid) != os.Geteuid():
		return invalid(opAppend, path, fmt.Sprintf("chown %d %s", os.Geteuid(), path), "it belongs to uid %d, not to uid %d", stat.Uid, os.Geteuid())
	case info.Mode().Perm()&0o077 != 0:
		return invalid(opAppend, path, "chmod 0600 "+path, "its mode is %#o: others may use it", info.Mode().Perm())
	case ok && stat.Nlink != 1:
		return invalid(opAppend, path, "delete the other name, or replace it by a copy of itself", "it has %d names (hard links)", stat.Nlink)
	}
	return nil
}
