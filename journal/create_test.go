package journal

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A journal, its directory and the parents come into being with the right modes,
// whatever the umask, and complete.
func TestCreate(t *testing.T) {
	for _, umask := range []int{0o000, 0o022, 0o777} {
		t.Run(fmt.Sprintf("umask %04o", umask), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "var", "lib", "node-lifecycle")
			j := New(dir, Options{Preallocate: 1 << 20})
			func() {
				defer syscall.Umask(syscall.Umask(umask))
				if err := appendOne(t.Context(), j, "kube1"); err != nil {
					t.Fatal(err)
				}
			}()
			for path, want := range map[string]fs.FileMode{
				dir: fs.ModeDir | 0o700, filepath.Dir(dir): fs.ModeDir | 0o755, j.Path(): 0o600, j.lockPath: 0o600,
			} {
				if info, err := os.Stat(path); err != nil || info.Mode() != want {
					t.Errorf("%s: mode %v (%v), want %v", path, info.Mode(), err, want)
				}
			}
			info, err := os.Stat(j.Path())
			if err != nil || info.Size() != 1<<20 || info.Sys().(*syscall.Stat_t).Blocks*512 < 1<<20 {
				t.Errorf("the file has %d bytes (%v), want 1 MiB set aside", info.Size(), err)
			}
			wantFiles(t, dir)
		})
	}
}

// wantFiles fails the test if there is anything but a journal in dir.
func wantFiles(t *testing.T, dir string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil || len(list) != 2 || list[0].Name() != databaseName || list[1].Name() != lockName {
		t.Errorf("the directory holds %v (%v)", list, err)
	}
}

// What a killed creation left behind is no journal, and in nobody's way.
func TestCreate_Leftover(t *testing.T) {
	j := open(t, Options{})
	if err := os.WriteFile(j.Path()+".new", make([]byte, 8192), 0o600); err != nil {
		t.Fatal(err)
	}
	wantKind(t, j.View(t.Context(), func(*View) error { return nil }), KindNotExist)
	fillRing(t, j, 1)
	wantFiles(t, j.dir)
}

func TestCreate_Fails(t *testing.T) {
	j := New(t.TempDir(), Options{})
	if err := os.MkdirAll(j.Path()+".new/not-empty", 0o700); err != nil {
		t.Fatal(err)
	}
	err := appendOne(t.Context(), j, "kube1")
	if KindOf(err) == "" || !strings.HasPrefix(err.Error(), "create the journal "+j.Path()) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Lstat(j.Path()); err == nil {
		t.Error("there is a journal")
	}
}

// A journal that cannot be created whole is not created at all.
func TestCreate_NoSpace(t *testing.T) {
	for name, run := range map[string]func(*testing.T) string{
		"file size limit": func(t *testing.T) string {
			out, _ := child(t.Context(), "limited", t.TempDir()).CombinedOutput()
			return string(out)
		},
		"no room to set aside": func(t *testing.T) string { return playMounted(t, "tiny-disk", t.TempDir(), "2m") },
		"no room at all":       func(t *testing.T) string { return playMounted(t, "tiny-disk", t.TempDir(), "8k") },
	} {
		t.Run(name, func(t *testing.T) {
			out := run(t)
			wantLines(t, out, `failed "no-space"`, "create the journal", "file journal.lock\n", `kind "not-exist"`)
			if strings.Contains(out, "file journal.db") {
				t.Errorf("it left something behind:\n%s", out)
			}
		})
	}
}

// Where no space can be set aside the journal does without.
func TestCreate_NoFallocate(t *testing.T) {
	wantLines(t, playMounted(t, "no-fallocate", t.TempDir()), "file journal.db\nfile journal.lock\nentries 2\n")
}
