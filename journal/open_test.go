package journal

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/bbolt"
)

// try appends to and reads from a journal.
func try(t *testing.T, j *Journal) (appendErr, viewErr error) {
	t.Helper()
	appendErr = appendOne(t.Context(), j, "kube1")
	viewErr = j.View(t.Context(), func(v *View) error {
		_, err := v.Entries("kube1", Query{})
		return err
	})
	return appendErr, viewErr
}

// What stands where the database should be is judged before it is used.
func TestOpen_File(t *testing.T) {
	write := func(data []byte, mode fs.FileMode) func(*testing.T, string) error {
		return func(_ *testing.T, path string) error {
			return errors.Join(os.WriteFile(path, data, 0o600), os.Chmod(path, mode))
		}
	}
	for _, test := range []struct {
		name         string
		make         func(t *testing.T, path string) error
		append, view Kind
		says         string
		cure         string
		root         bool
	}{
		{name: "empty", make: write(nil, 0o600), append: KindCorrupt, view: KindCorrupt, says: "the file is empty", cure: "journal verify"},
		{name: "short", make: write(make([]byte, 100), 0o600), append: KindCorrupt, view: KindCorrupt, says: "100 bytes"},
		{name: "zeros", make: write(make([]byte, 1<<16), 0o600), append: KindCorrupt, view: KindCorrupt, says: "neither of its two meta pages"},
		{name: "text", make: write(bytes.Repeat([]byte("log line\n"), 9000), 0o600), append: KindCorrupt, view: KindCorrupt, says: "neither of its two meta pages"},
		{name: "directory", make: func(_ *testing.T, p string) error { return os.Mkdir(p, 0o700) }, append: KindInvalid, view: KindInvalid, says: "directory", cure: "move"},
		{name: "fifo", make: func(_ *testing.T, p string) error { return syscall.Mkfifo(p, 0o600) }, append: KindInvalid, view: KindInvalid, says: "no regular file", cure: "move it away"},
		{name: "symbolic link", make: func(_ *testing.T, p string) error { return os.Symlink("elsewhere", p) }, append: KindInvalid, view: KindInvalid, says: "symbolic link", cure: "put the file itself there"},
		{name: "second name", make: func(t *testing.T, p string) error {
			return errors.Join(os.WriteFile(p+".other", fixture(t), 0o600), os.Link(p+".other", p))
		}, append: KindInvalid, says: "2 names", cure: "copy of itself"},
		{name: "readable by others", make: func(t *testing.T, p string) error { return write(fixture(t), 0o640)(t, p) }, append: KindInvalid, says: "mode is 0640", cure: "chmod 0600 "},
		{name: "another owner", root: true, make: func(t *testing.T, p string) error {
			return errors.Join(os.WriteFile(p, fixture(t), 0o600), os.Chown(p, 65534, 65534))
		}, append: KindInvalid, says: "belongs to uid 65534", cure: "chown 0 "},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.root && os.Geteuid() != 0 {
				t.Skip("needs root: only root can give a file away")
			}
			j := New(t.TempDir(), Options{})
			if err := test.make(t, j.Path()); err != nil {
				t.Fatal(err)
			}
			before := content(j.Path())
			appendErr, viewErr := try(t, j)
			wantKind(t, appendErr, test.append, test.says, test.cure)
			if strings.Count(appendErr.Error(), j.Path()) == 0 || !strings.HasPrefix(appendErr.Error(), "append to the journal") && !strings.HasPrefix(appendErr.Error(), "read the journal") {
				t.Errorf("got %v", appendErr)
			}
			if KindOf(viewErr) != test.view {
				t.Errorf("view: got %v, want kind %q", viewErr, test.view)
			}
			if !bytes.Equal(before, content(j.Path())) {
				t.Error("it was changed")
			}
			if _, err := os.Lstat(filepath.Join(j.dir, "elsewhere")); err == nil {
				t.Error("the link was followed")
			}
		})
	}
}

// content returns what is in a file, and nothing for what is none.
func content(path string) []byte {
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	data, _ := os.ReadFile(path)
	return data
}

func TestOpen_Directory(t *testing.T) {
	for _, test := range []struct {
		name, says, cure string
		make             func(dir string) error
		root             bool
	}{
		{name: "others may write", says: "mode is 0770", cure: "chmod 0700 ", make: func(d string) error {
			return errors.Join(os.Mkdir(d, 0o700), os.Chmod(d, 0o770))
		}},
		{name: "a file", says: "no directory", cure: "move it away", make: func(d string) error { return os.WriteFile(d, nil, 0o600) }},
		{name: "a symbolic link", says: "it is a symbolic link", cure: "set state_dir to where it leads", make: func(d string) error {
			return errors.Join(os.Mkdir(d+"2", 0o700), os.Symlink(d+"2", d))
		}},
		{name: "below a file", says: "not a directory", make: func(d string) error { return os.WriteFile(filepath.Dir(d)+"/state", nil, 0o600) }},
		{name: "another owner", says: "belongs to uid 65534", cure: "chown 0 ", root: true, make: func(d string) error {
			return errors.Join(os.Mkdir(d, 0o700), os.Chown(d, 65534, 65534))
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.root && os.Geteuid() != 0 {
				t.Skip("needs root: only root can give a directory away")
			}
			dir := filepath.Join(t.TempDir(), "state")
			if err := test.make(dir); err != nil {
				t.Fatal(err)
			}
			if test.name == "below a file" {
				dir += "/deeper"
			}
			wantKind(t, appendOne(t.Context(), New(dir, Options{}), "kube1"), KindInvalid, dir, test.says, test.cure)
			if _, err := os.Lstat(filepath.Join(dir, lockName)); err == nil {
				t.Error("it made a lock file in there")
			}
		})
	}
}

func TestOpen_UnsafeLock(t *testing.T) {
	j := New(t.TempDir(), Options{})
	if err := os.Symlink("elsewhere", j.lockPath); err != nil {
		t.Fatal(err)
	}
	appendErr, viewErr := try(t, j)
	wantKind(t, appendErr, KindInvalid, j.lockPath, "symbolic link", "delete it")
	wantKind(t, viewErr, KindInvalid, j.lockPath)
}

// Whoever cuts the file leaves no crash behind: every size below what is in use
// is found out before anything is mapped.
func TestOpen_Truncated(t *testing.T) {
	j := New(t.TempDir(), Options{Preallocate: 1 << 20})
	fillRing(t, j, 200)
	whole, err := os.ReadFile(j.Path())
	if err != nil {
		t.Fatal(err)
	}
	meta, ok := newestMeta(whole[:2*pageSize])
	if !ok {
		t.Fatal("no meta page")
	}
	inUse := int(meta.pages) * pageSize
	for size := len(whole); size >= 0; size -= pageSize / 2 {
		if size > inUse+pageSize && size%(64*pageSize) != 0 {
			continue // all alike
		}
		if err := os.WriteFile(j.Path(), whole[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		_, viewErr := try(t, j)
		appendErr := appendOne(t.Context(), j, "kube1")
		if want := map[bool]Kind{true: "", false: KindCorrupt}[size >= inUse]; KindOf(appendErr) != want || KindOf(viewErr) != want {
			t.Errorf("%d of %d bytes: %v; %v; want kind %q", size, inUse, appendErr, viewErr, want)
		}
	}
}

// A file that is cut while it is mapped is a memory fault; the process survives
// it, and can go on with a good file.
func TestOpen_TruncatedWhileOpen(t *testing.T) {
	j := open(t, Options{})
	fillRing(t, j, 300)
	whole, err := os.ReadFile(j.Path())
	if err != nil {
		t.Fatal(err)
	}
	cut := func() {
		if err := os.Truncate(j.Path(), 2*pageSize); err != nil {
			t.Fatal(err)
		}
	}
	for name, run := range map[string]func() error{
		"reading": func() error {
			return j.View(t.Context(), func(v *View) error {
				cut()
				_, err := v.Entries("kube1", Query{})
				return err
			})
		},
		"reading, and the caller does not care": func() error {
			return j.View(t.Context(), func(v *View) error {
				cut()
				_, _ = v.Entries("kube1", Query{})
				if slots := v.Slots(); slots != nil {
					t.Errorf("slots %v", slots)
				}
				return nil
			})
		},
		"listing": func() error {
			return j.View(t.Context(), func(v *View) error {
				cut()
				v.Slots()
				return nil
			})
		},
		"appending": func() error {
			return j.Append(t.Context(), func(tx *Tx) error {
				cut()
				_, err := tx.Append("kube1", anEntry(1), nil)
				return err
			})
		},
		"committing": func() error {
			return j.Append(t.Context(), func(tx *Tx) error {
				if err := tx.SetClaim("pair", Claim{}); err != nil {
					return err
				}
				cut()
				_, _ = tx.Append("kube2", anEntry(1), nil)
				return nil
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			wantKind(t, run(), KindCorrupt, j.Path(), "damaged")
			if err := os.WriteFile(j.Path(), whole, 0o600); err != nil {
				t.Fatal(err)
			}
			if appendErr, viewErr := try(t, j); appendErr != nil || viewErr != nil {
				t.Errorf("with a good file again: %v; %v", appendErr, viewErr)
			}
		})
	}
}

// What the preflight cannot see makes bbolt panic; that is an error too, and the
// same one again, since the handle is let go.
func TestOpen_Panics(t *testing.T) {
	j := New(t.TempDir(), Options{Preallocate: -1})
	fillRing(t, j, 10)
	overwriteMetaPage(t, j, func(m metaPage) int64 { return int64(m.freelist) })
	for range 2 {
		start := time.Now()
		appendErr, viewErr := try(t, j)
		wantKind(t, appendErr, KindCorrupt, j.Path(), "damaged: ", "journal verify")
		if viewErr != nil {
			t.Errorf("reading needs no free list: %v", viewErr)
		}
		if took := time.Since(start); took > maxOpenWait {
			t.Errorf("it took %s: the first attempt still holds bbolt's lock", took)
		}
	}
	overwriteMetaPage(t, j, func(m metaPage) int64 { return int64(m.root) })
	_, viewErr := try(t, j)
	wantKind(t, viewErr, KindCorrupt, j.Path())
}

// A program that opens the database without the lock file is waited for no
// longer than allowed, and is what the message blames.
func TestOpen_ForeignLock(t *testing.T) {
	j := open(t, Options{})
	fillRing(t, j, 1)
	db, err := bbolt.Open(j.Path(), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, wait := range []func(context.Context) error{
		func(ctx context.Context) error { return appendOne(ctx, j, "kube1") },
		func(ctx context.Context) error { return j.View(ctx, func(*View) error { return nil }) },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		wantKind(t, wait(ctx), KindLocked, j.Path(), "without taking the lock file")
		cancel()
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	// The same, when it lets go in time.
	if db, err = bbolt.Open(j.Path(), 0o600, nil); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(20*time.Millisecond, func() { _ = db.Close() })
	defer timer.Stop()
	fillRing(t, j, 1)
}

func TestOpenWait(t *testing.T) {
	if got := openWait(t.Context()); got != maxOpenWait {
		t.Errorf("got %s", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), -time.Second)
	defer cancel()
	if got := openWait(ctx); got != time.Millisecond {
		t.Errorf("got %s, and zero would mean for ever", got)
	}
}

// A file that was replaced between opening and locking is not the journal.
func TestOpen_Replaced(t *testing.T) {
	j := open(t, Options{})
	fillRing(t, j, 1)
	h, err := openRead(t.Context(), j.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer h.close()
	data, err := os.ReadFile(j.Path())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(j.Path()), os.WriteFile(j.Path(), data, 0o600)); err != nil {
		t.Fatal(err)
	}
	wantKind(t, h.checkPlace(), KindInvalid, "replaced or deleted")
}
