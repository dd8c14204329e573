package journal

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Eight processes append at once and three of them are killed in the middle:
// no number is missing, the chain holds, and nothing is lost that the journal
// answered for.
func TestProcesses(t *testing.T) {
	const processes, victims, each = 8, 3, 50
	j := open(t, Options{})
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		acked []string
	)
	for p := range processes {
		cmd := child(t.Context(), "append", j.dir, fmt.Sprintf("process%d", p), strconv.Itoa(each))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			lines := bufio.NewScanner(out)
			for n := 0; lines.Scan(); n++ {
				if p < victims && n == 5+3*p {
					_ = cmd.Process.Kill() // lines it printed before still come
				}
				mu.Lock()
				acked = append(acked, lines.Text())
				mu.Unlock()
			}
			if err := cmd.Wait(); p >= victims && err != nil {
				t.Errorf("process %d: %v", p, err)
			}
		})
	}
	wg.Wait()

	if got, min := len(acked), (processes-victims)*each; got < min {
		t.Errorf("%d appends were answered for, want at least %d", got, min)
	}
	entries := mustEntries(t, j, "kube1", Query{})
	present := make(map[string]bool, len(entries))
	for i, e := range entries {
		if e.Seq != uint64(i)+1 {
			t.Fatalf("entry %d follows %d", e.Seq, i)
		}
		if present[e.ID] {
			t.Errorf("%s is there twice", e.ID)
		}
		present[e.ID] = true
	}
	for _, id := range acked {
		if !present[id] {
			t.Errorf("%s was answered for and is lost", id)
		}
	}
	// A killed process may have written one entry without living to say so.
	if len(entries) > len(acked)+victims {
		t.Errorf("%d entries, but only %d were answered for", len(entries), len(acked))
	}
}

// Readers see a whole journal at any time, while others append.
func TestReadersBesideWriter(t *testing.T) {
	j := open(t, Options{Keep: 40})
	mustAppend(t, j, func(tx *Tx) error { _, err := tx.Append("kube1", anEntry(0), nil); return err })
	cmd := child(t.Context(), "append", j.dir, "writer", "200")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for last := uint64(0); ; {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			if head := mustHead(t, j, "kube1"); head.Seq != 201 {
				t.Errorf("the last entry is %d, want 201", head.Seq)
			}
			return
		default:
		}
		mustView(t, j, func(v *View) error {
			head, err := v.Head("kube1")
			if head.Seq < last {
				t.Errorf("entry %d was the last, now it is %d", last, head.Seq)
			}
			last = head.Seq
			return errors.Join(err, v.Verify())
		})
	}
}

// One append to a journal that exists costs two flushes of data and none of
// metadata.
func TestFlushes(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "trace")
	j := open(t, Options{Preallocate: 8 << 20})
	fillRing(t, j, 3)
	out, err := strace(t, j, "-o", trace, "-e", "trace=fdatasync,fsync,sync_file_range,sync,syncfs,msync")
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	calls := regexp.MustCompile(`(?m)\b\w+\(`).FindAllString(string(text), -1)
	if got := strings.Join(calls, " "); got != "fdatasync( fdatasync(" {
		t.Errorf("one append flushed %q, want fdatasync twice:\n%s", got, text)
	}
}

// A flush that fails leaves no doubt if it can be helped: after the first one
// nothing was written; after the second one the entry is there, and a further
// commit settles it; if that fails too, the outcome is unknown and says so.
func TestFlushFails(t *testing.T) {
	for _, test := range []struct {
		name, when string
		kind       Kind
		entries    int
	}{
		{"the pages", "1", KindIO, 1},
		{"the meta page", "2", "", 2},
		{"the meta page and the disk from then on", "2+", KindUnknown, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			j := open(t, Options{Preallocate: 8 << 20})
			fillRing(t, j, 1)
			out, err := strace(t, j, "-o", os.DevNull, "-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO:when="+test.when)
			if (err != nil) != (test.kind != "") || !strings.Contains(out, kindLine(test.kind)) {
				t.Errorf("got %v: %s; want kind %q", err, out, test.kind)
			}
			if got := len(mustEntries(t, j, "kube1", Query{})); got != test.entries {
				t.Errorf("%d entries, want %d", got, test.entries)
			}
		})
	}
}

func kindLine(k Kind) string {
	if k == "" {
		return "traced-0\n" // the id it prints when the journal answered for it
	}
	return fmt.Sprintf("kind %q\n", k)
}

// strace runs one append of another process under strace.
func strace(t *testing.T, j *Journal, options ...string) (string, error) {
	t.Helper()
	path, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("needs strace")
	}
	if out, err := exec.Command(path, "-o", os.DevNull, "true").CombinedOutput(); err != nil {
		t.Skipf("needs the right to trace processes: %v: %s", err, out)
	}
	args := append([]string{"-f", "-q"}, options...)
	cmd := exec.CommandContext(t.Context(), path, append(args, os.Args[0], j.dir, "traced", "1")...)
	cmd.Env = append(os.Environ(), childRole+"=append", "GOMAXPROCS=1")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// A read-only file system stops appending, with a word that says so, but not
// reading.
func TestReadOnlyFileSystem(t *testing.T) {
	j := open(t, Options{})
	fillRing(t, j, 3)
	run := func(args ...string) string {
		return playMounted(t, "read-only", append([]string{j.dir}, args...)...)
	}
	if out := run("read"); out != "3 entries\n" {
		t.Errorf("reading: %s", out)
	}
	if out := run("append", "x", "1"); !strings.Contains(out, `kind "read-only"`) || !strings.Contains(out, "remount it read-write") {
		t.Errorf("appending: %s", out)
	}
	// The lock file is not what makes it readable.
	if err := os.Remove(j.lockPath); err != nil {
		t.Fatal(err)
	}
	if out := run("read"); out != "3 entries\n" {
		t.Errorf("reading without a lock file: %s", out)
	}
}

// playMounted runs a role that may mount what it likes, for itself alone.
func playMounted(t *testing.T, role string, args ...string) string {
	t.Helper()
	cmd := child(t.Context(), role, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if uid := os.Geteuid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, fs.ErrPermission) || bytes.Contains(out, []byte("cannot mount")) {
		t.Skipf("needs the right to mount: %v: %s", err, out)
	}
	return string(out)
}

// wantLines fails the test unless out has all those lines.
func wantLines(t *testing.T, out string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains("\n"+out, "\n"+line) {
			t.Errorf("no line %q in:\n%s", line, out)
		}
	}
}

// A disk that is full stops appending, with a word that says so, and costs
// nothing that was answered for.
func TestFullDisk(t *testing.T) {
	out := playMounted(t, "full-disk", t.TempDir())
	wantLines(t, out, `failed "no-space"`, "append to the journal", "file journal.db\nfile journal.lock\nentries ")
	var acked, entries int
	_, ackedErr := fmt.Sscanf(out, "acked %d", &acked)
	_, entriesErr := fmt.Sscanf(out[strings.LastIndex(out, "entries"):], "entries %d\n", &entries)
	if errors.Join(ackedErr, entriesErr) != nil || acked < 100 || entries != acked || !strings.Contains(out, "free space") {
		t.Errorf("%d appends were answered for, %d entries are there:\n%s", acked, entries, out)
	}
}

// A journal that was preallocated does not need the disk any more.
func TestFullDisk_Preallocated(t *testing.T) {
	wantLines(t, playMounted(t, "full-later", t.TempDir()), "file ballast\n", "entries 1000\n")
}

// Another user can neither read nor append, and learns why.
func TestPermission(t *testing.T) {
	j := open(t, Options{})
	fillRing(t, j, 1)
	for _, role := range [][]string{{"read"}, {"append", "x", "1"}} {
		var err error
		var out string
		if os.Geteuid() == 0 {
			var text []byte
			text, err = child(t.Context(), "stranger", append([]string{j.dir, role[0]}, role[1:]...)...).CombinedOutput()
			out = string(text)
		} else {
			if err := os.Chmod(j.dir, 0o000); err != nil {
				t.Fatal(err)
			}
			var text []byte
			text, err = child(t.Context(), role[0], append([]string{j.dir}, role[1:]...)...).CombinedOutput()
			out = string(text)
			if err := os.Chmod(j.dir, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err == nil || !strings.Contains(out, `kind "permission"`) || !strings.Contains(out, "run as the owner") {
			t.Errorf("%s: %v: %s", role[0], err, out)
		}
	}
}

// Who waits for the lock learns who holds it, and nothing is done.
func TestLocked(t *testing.T) {
	j := open(t, Options{})
	j.opts.Holder.Phase = "post-start"
	fillRing(t, j, 1)
	mustAppend(t, j, func(*Tx) error {
		for _, wait := range []func(context.Context) error{
			func(ctx context.Context) error { return appendOne(ctx, j, "kube1") },
			func(ctx context.Context) error { return j.View(ctx, func(*View) error { return nil }) },
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			err := wait(ctx)
			cancel()
			wantKind(t, err, KindLocked, j.lockPath, fmt.Sprintf("pid %d (post-start) since 20", os.Getpid()), "ps -fp")
			if !errors.Is(err, context.DeadlineExceeded) || strings.Count(err.Error(), j.lockPath) != 1 {
				t.Errorf("got %v", err)
			}
		}
		return nil
	})
	if got := mustHead(t, j, "kube1").Seq; got != 1 {
		t.Errorf("the last entry is %d, want 1", got)
	}
}

func TestContextOver(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	j := New(filepath.Join(t.TempDir(), "none"), Options{})
	if err := appendOne(ctx, j, "kube1"); !errors.Is(err, context.Canceled) || KindOf(err) != "" {
		t.Errorf("got %v", err)
	}
	if _, err := os.Lstat(j.dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it made a directory all the same: %v", err)
	}
	j = open(t, Options{})
	fillRing(t, j, 1)
	if err := j.View(ctx, func(*View) error { return nil }); !errors.Is(err, context.Canceled) || KindOf(err) != "" {
		t.Errorf("got %v", err)
	}
}
