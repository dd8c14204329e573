package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestFillShowsOnlyWhatIsComplete(t *testing.T) {
	c := newTestCache(t)
	calls := 0
	create := func(_ context.Context, dir string) error {
		calls++
		if c.has("thing") {
			t.Error("the name exists before it is complete")
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
			t.Errorf("the directory to fill: %v, %v", entries, err)
		}
		if err := os.WriteFile(filepath.Join(dir, "part"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if calls == 1 {
			return errors.New("half-way")
		}
		return nil
	}
	if _, err := c.fill(t.Context(), "thing", create); err == nil || !strings.Contains(err.Error(), "build thing: half-way") {
		t.Errorf("a failed build: %v", err)
	}
	// An interrupted build cannot clean up after itself.
	if err := os.MkdirAll(c.path(buildingPrefix+"thing/left"), 0o700); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		path, err := c.fill(t.Context(), "thing", create)
		if err != nil || path != c.path("thing") {
			t.Errorf("fill: %q, %v", path, err)
		}
	}
	if calls != 2 {
		t.Errorf("built %d times, want twice", calls)
	}
}

func TestOpenCacheNamesWhatIsWrong(t *testing.T) {
	t.Setenv("LAB_CACHE", t.TempDir()+"/with:colon")
	if _, err := openCache(); err == nil || !strings.Contains(err.Error(), "set LAB_CACHE") {
		t.Errorf("a directory that overlayfs cannot mount: %v", err)
	}
	base := t.TempDir()
	t.Setenv("LAB_CACHE", "")
	t.Setenv("XDG_CACHE_HOME", base)
	if c, err := openCache(); err != nil || string(c) != base+"/node-lifecycle/lab" {
		t.Errorf("the default cache directory: %q, %v", c, err)
	}
}

func TestCleanKeepsWhatIsInUse(t *testing.T) {
	c := newTestCache(t)
	used := c.path("root-of-a-host")
	for _, name := range []string{rootName(), "root-old", "root-of-a-host", "engines-old", "tools-old", "building-x", "foreign"} {
		if err := os.Mkdir(c.path(name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	host := filepath.Join(c.hosts(), "a")
	if err := os.Mkdir(host, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := (hostState{ID: "a", Persistent: true, Root: used, Init: "/x/labinit"}).write(host); err != nil {
		t.Fatal(err)
	}
	removed, err := Clean(t.Context())
	if got := strings.Join(removed, " "); err != nil || got != "building-x engines-old root-old tools-old" {
		t.Errorf("removed %q, %v", got, err)
	}
	for _, kept := range []string{used, c.path(rootName()), c.path("foreign"), host} {
		if _, err := os.Stat(kept); err != nil {
			t.Errorf("removed what was to stay: %v", err)
		}
	}
	hosts, err := List()
	if err != nil || len(hosts) != 1 || hosts[0] != (HostInfo{ID: "a", Persistent: true}) {
		t.Errorf("the hosts: %+v, %v", hosts, err)
	}
}

// A host belongs to the process that holds its directory's lock.
func TestReapSparesTheLiving(t *testing.T) {
	c := newTestCache(t)
	create := func(id string, s *hostState) string {
		dir := filepath.Join(c.hosts(), id)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if s != nil {
			if err := s.write(dir); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	gone := filepath.Join(t.TempDir(), "no-such-cgroup")
	alive := create("alive.1", &hostState{ID: "alive.1", Cgroup: gone})
	dead := create("dead.1", &hostState{ID: "dead.1", Cgroup: gone, Process: process{PID: noSuchPID, Start: 1}})
	halfMade := create("half.1", nil)
	persistent := create("kept", &hostState{ID: "kept", Persistent: true, Made: true})
	neverBooted := create("never", &hostState{ID: "never", Persistent: true, Cgroup: gone})
	lock, err := lockDirectory(t.Context(), alive)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := c.reap(t.Context()); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]bool{alive: true, dead: false, halfMade: false, persistent: true, neverBooted: false} {
		_, err := os.Stat(dir)
		if exists := !errors.Is(err, fs.ErrNotExist); exists != want {
			t.Errorf("%s exists: %v, want %v", filepath.Base(dir), exists, want)
		}
	}
}

func TestLockDirectory(t *testing.T) {
	dir := t.TempDir()
	first, err := lockDirectory(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if second, err := tryLockDirectory(dir); second != nil || err != nil {
		t.Errorf("a try while it is locked: %v, %v", second, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := lockDirectory(ctx, dir); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), dir) {
		t.Errorf("a wait that ends with its context: %v", err)
	}
	first.Close()
	// Whoever gave up gives the lock back as soon as it gets it.
	third, err := lockDirectory(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	third.Close()
	if _, err := lockDirectory(t.Context(), dir+"/absent"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that does not exist: %v", err)
	}
}

func TestOpenNamesWhatIsMissing(t *testing.T) {
	c := newTestCache(t)
	if _, err := Open(t.Context(), "absent"); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "lab up absent") {
		t.Errorf("open a host that does not exist: %v", err)
	}
	dir := filepath.Join(c.hosts(), "test.1")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := (hostState{ID: "test.1"}).write(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), "test.1"); !errors.Is(err, ErrNotFound) {
		t.Errorf("open the host of a test: %v", err)
	}
}

func TestNewHostChecksItsName(t *testing.T) {
	c := newTestCache(t)
	for _, name := range []string{"A", "-a", "a-", "a.b", "a/b", "..", strings.Repeat("a", 33)} {
		if _, err := newHost(t.Context(), c, artefacts{}, Options{Name: name}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", name)) {
			t.Errorf("host name %q: %v", name, err)
		}
	}
}

func newTestCache(t *testing.T) cache {
	t.Helper()
	t.Setenv("LAB_CACHE", t.TempDir())
	c, err := openCache()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// noSuchPID is above the kernel's highest.
const noSuchPID = 1 << 30
