package filelock

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// childPath, if set, makes the test binary hold that lock until its standard
// input ends: another process, as the real ones are.
const childPath = "FILELOCK_TEST_HOLD"

func TestMain(m *testing.M) {
	if path := os.Getenv(childPath); path != "" {
		hold(path)
		return
	}
	goleak.VerifyTestMain(m)
}

func hold(path string) {
	l, err := Acquire(context.Background(), path, Holder{Phase: "post-start"})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("held")
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := l.Release(); err != nil {
		os.Exit(1)
	}
}

// startHolder starts a process that holds the lock. Closing the pipe lets it go.
func startHolder(t *testing.T, path string) (*exec.Cmd, io.WriteCloser) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childPath+"="+path)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatalf("the holder says %q (%v)", line, err)
	}
	return cmd, in
}

func lockPath(t *testing.T) string { return filepath.Join(t.TempDir(), "x.lock") }

func mustAcquire(t *testing.T, path string) *Lock {
	t.Helper()
	l, err := Acquire(t.Context(), path, Holder{Phase: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func mustRelease(t *testing.T, l *Lock) {
	t.Helper()
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
}

func TestAcquire_NamesTheHolder(t *testing.T) {
	path := lockPath(t)
	since := time.Date(2026, 12, 1, 14, 8, 3, 0, time.FixedZone("", 3600))
	l, err := Acquire(t.Context(), path, Holder{Phase: "pre-start", Since: since})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = Acquire(ctx, path, Holder{})
	var locked *LockedError
	if !errors.As(err, &locked) || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v, want a *LockedError at the deadline", err)
	}
	if locked.Path != path || locked.Holder.PID != os.Getpid() || locked.Holder.Phase != "pre-start" || !locked.Holder.Since.Equal(since) {
		t.Errorf("got %+v", locked)
	}
	if locked.Waited < 250*time.Millisecond {
		t.Errorf("it says it waited %s only", locked.Waited)
	}
	locked.Waited = 2 * time.Second
	want := fmt.Sprintf("%s is locked by pid %d (pre-start) since 2026-12-01T14:08:03+01:00, waited 2s: context deadline exceeded", path, os.Getpid())
	if locked.Error() != want {
		t.Errorf("got  %s\nwant %s", locked, want)
	}
	mustRelease(t, l)
}

func TestTryAcquire(t *testing.T) {
	path := lockPath(t)
	l, err := TryAcquire(path, Holder{Phase: "reconcile"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = TryAcquire(path, Holder{})
	var locked *LockedError
	if !errors.As(err, &locked) || locked.Holder.Phase != "reconcile" || locked.Waited != 0 {
		t.Fatalf("got %v", err)
	}
	if text := err.Error(); strings.Contains(text, "waited") || strings.Contains(text, "unavailable") {
		t.Errorf("one try waits for nothing: %s", text)
	}
	mustRelease(t, l)
	l, err = TryAcquire(path, Holder{})
	if err != nil {
		t.Fatalf("the lock is free: %v", err)
	}
	mustRelease(t, l)
}

// A waiting process goes on when the holder lets go, and when the holder dies.
func TestAcquire_HandOff(t *testing.T) {
	for name, end := range map[string]func(*exec.Cmd, io.Closer) error{
		"released": func(_ *exec.Cmd, in io.Closer) error { return in.Close() },
		"killed":   func(cmd *exec.Cmd, _ io.Closer) error { return cmd.Process.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			path := lockPath(t)
			cmd, in := startHolder(t, path)
			_, err := TryAcquire(path, Holder{})
			var locked *LockedError
			if !errors.As(err, &locked) || locked.Holder.PID != cmd.Process.Pid || locked.Holder.Phase != "post-start" {
				t.Fatalf("got %v, want pid %d named", err, cmd.Process.Pid)
			}
			got := make(chan error, 1)
			go func() {
				l, err := Acquire(t.Context(), path, Holder{})
				if err == nil {
					err = l.Release()
				}
				got <- err
			}()
			if err := end(cmd, in); err != nil {
				t.Fatal(err)
			}
			if err := <-got; err != nil {
				t.Fatal(err)
			}
		})
	}
}

// Who gave up waiting never holds the lock, not even when it becomes free.
func TestAcquire_GivenUp(t *testing.T) {
	path := lockPath(t)
	l := mustAcquire(t, path)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := acquire(ctx, path, request{how: syscall.LOCK_EX, wait: true, open: func(path string) (*os.File, error) {
		defer cancel() // once it is past the first look at ctx
		return openExclusive(path)
	}})
	var locked *LockedError
	if !errors.Is(err, context.Canceled) || !errors.As(err, &locked) {
		t.Fatalf("got %v", err)
	}
	mustRelease(t, l)
	goleak.VerifyNone(t) // the one that gave up had its turn
	l, err = TryAcquire(path, Holder{})
	if err != nil {
		t.Fatal(err)
	}
	mustRelease(t, l)
}

func TestAcquire_ContextOver(t *testing.T) {
	path := lockPath(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Acquire(ctx, path, Holder{})
	var locked *LockedError
	if !errors.Is(err, context.Canceled) || errors.As(err, &locked) {
		t.Fatalf("got %v, want the context's error and no holder blamed", err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it made a file all the same: %v", err)
	}
}

func TestAcquireShared(t *testing.T) {
	path := lockPath(t)
	if _, err := AcquireShared(t.Context(), path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("got %v, want fs.ErrNotExist and no file made", err)
	}
	mustRelease(t, mustAcquire(t, path))
	if err := os.Chmod(path, 0o400); err != nil {
		t.Fatal(err)
	}
	a, err := AcquireShared(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := AcquireShared(t.Context(), path)
	if err != nil {
		t.Fatalf("readers exclude each other: %v", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = TryAcquire(path, Holder{})
	var locked *LockedError
	if !errors.As(err, &locked) || locked.Holder.PID != 0 || !strings.Contains(err.Error(), "a reader") {
		t.Fatalf("got %v, want a reader to be blamed", err)
	}
	mustRelease(t, a)
	mustRelease(t, b)
	l := mustAcquire(t, path)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := AcquireShared(ctx, path); !errors.As(err, &locked) || locked.Holder.Phase != "test" {
		t.Fatalf("got %v, want the writer to be named", err)
	}
	mustRelease(t, l)
}

// The name of a process that was killed stays in the file, but is not blamed.
func TestHolder_DeadIsNotBlamed(t *testing.T) {
	path := lockPath(t)
	cmd, _ := startHolder(t, path)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	l, err := AcquireShared(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	_, err = TryAcquire(path, Holder{})
	var locked *LockedError
	if !errors.As(err, &locked) || locked.Holder.PID != 0 {
		t.Fatalf("got %v", err)
	}
}

// A child that shares the open file, as every one does between fork and exec,
// must not keep the lock when its parent lets go.
func TestLock_NotInherited(t *testing.T) {
	path := lockPath(t)
	l := mustAcquire(t, path)
	cmd := exec.Command("cat")
	cmd.ExtraFiles = []*os.File{l.file}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	mustRelease(t, l)
	l, err = TryAcquire(path, Holder{})
	if err != nil {
		t.Errorf("the child still has it: %v", err)
	} else {
		mustRelease(t, l)
	}
	_ = in.Close()
	_ = cmd.Wait()
}

// A lock file that was replaced while somebody waited guards nothing; the waiter
// must end up with the one at the path.
func TestAcquire_Replaced(t *testing.T) {
	path := lockPath(t)
	l := mustAcquire(t, path)
	got := make(chan *Lock, 1)
	opened := make(chan struct{})
	go func() {
		first := true
		w, err := acquire(t.Context(), path, request{how: syscall.LOCK_EX, wait: true, open: func(path string) (*os.File, error) {
			f, err := openExclusive(path)
			if first {
				first = false
				close(opened)
			}
			return f, err
		}})
		if err != nil {
			t.Error(err)
		}
		got <- w
	}()
	<-opened
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	mustRelease(t, l)
	w := <-got
	if w == nil {
		t.FailNow()
	}
	if !isAt(w.file, path) {
		t.Error("it holds a file that is not at the path")
	}
	mustRelease(t, w)
}

func TestAcquire_Unsafe(t *testing.T) {
	for _, test := range []struct {
		name, says string
		make       func(path string) error
		root       bool
		shared     bool // refused for readers too
	}{
		{name: "symbolic link", says: "symbolic link", shared: true, make: func(p string) error { return os.Symlink("elsewhere", p) }},
		{name: "directory", says: "directory", shared: true, make: func(p string) error { return os.Mkdir(p, 0o700) }},
		{name: "fifo", says: "no regular file", shared: true, make: func(p string) error { return syscall.Mkfifo(p, 0o600) }},
		{name: "second name", says: "2 names", make: func(p string) error {
			if err := os.WriteFile(p+".other", nil, 0o600); err != nil {
				return err
			}
			return os.Link(p+".other", p)
		}},
		{name: "another owner", says: "belongs to uid 65534", root: true, make: func(p string) error {
			if err := os.WriteFile(p, nil, 0o666); err != nil {
				return err
			}
			return os.Chown(p, 65534, 65534)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.root && os.Geteuid() != 0 {
				t.Skip("needs root: only root can give a file away")
			}
			path := lockPath(t)
			if err := test.make(path); err != nil {
				t.Fatal(err)
			}
			_, err := TryAcquire(path, Holder{})
			if !errors.Is(err, ErrUnsafe) || !strings.Contains(err.Error(), test.says) || strings.Count(err.Error(), path) != 1 {
				t.Errorf("exclusive: got %v", err)
			}
			l, err := AcquireShared(t.Context(), path)
			if errors.Is(err, ErrUnsafe) != test.shared {
				t.Errorf("shared: got %v", err)
			}
			if err == nil {
				mustRelease(t, l)
			}
		})
	}
}

func TestAcquire_NoDirectory(t *testing.T) {
	_, err := TryAcquire(filepath.Join(t.TempDir(), "none", "x.lock"), Holder{})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("got %v", err)
	}
}

func TestAcquire_Mode(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o777))
	path := lockPath(t)
	mustRelease(t, mustAcquire(t, path))
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Fatalf("mode %v (%v), want 0600 whatever the umask", info.Mode(), err)
	}
}

func TestRelease_Twice(t *testing.T) {
	path := lockPath(t)
	l := mustAcquire(t, path)
	if h := readHolder(l.file); h.PID != os.Getpid() || h.Since.IsZero() {
		t.Errorf("while held the file says %+v", h)
	}
	mustRelease(t, l)
	mustRelease(t, l)
	text, err := os.ReadFile(path)
	if err != nil || strings.TrimSpace(string(text)) != "" || len(text) != recordSize {
		t.Errorf("after release the file says %q (%v)", text, err)
	}
	// A descriptor that is gone is an error, and the same one again.
	l = mustAcquire(t, path)
	_ = l.file.Close()
	first := l.Release()
	if first == nil || !errors.Is(l.Release(), first) {
		t.Errorf("got %v, then %v", first, l.Release())
	}
}

func TestHolder_Record(t *testing.T) {
	h := Holder{PID: 7, Phase: strings.Repeat("phase ", 100), Since: time.Unix(0, 0)}
	line, err := h.record()
	if err != nil || len(line) != recordSize || !strings.HasPrefix(string(line), `{"pid":7,"phase":"","since":`) {
		t.Errorf("got %q (%v)", line, err)
	}
	h.Since = time.Date(123456, 1, 1, 0, 0, 0, 0, time.UTC)
	if _, err := h.record(); err == nil {
		t.Error("a time that JSON cannot express must be an error")
	}
}

func TestHolder_String(t *testing.T) {
	for want, h := range map[string]Holder{
		"a process that did not write its name (a reader)": {},
		"pid 7":           {PID: 7},
		"pid 7 (migrate)": {PID: 7, Phase: "migrate"},
		"pid 7 (migrate) since 2026-12-01T00:00:00Z": {PID: 7, Phase: "migrate", Since: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)},
	} {
		if got := h.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
