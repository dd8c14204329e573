package container

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/node-lifecycle/node-lifecycle/backend/container/enginetest"
)

func (b *bench) specPath() string { return filepath.Join(b.opts.RuntimeDir, testSlot, specFile) }

func TestRegenerate_WritesTheSpecification(t *testing.T) {
	flavors(t, func(t *testing.T, flavor enginetest.Flavor) {
		b := newBench(t, flavor, func(_ *Options, s *Slot) { s.Devices = []string{"/dev/null"} })
		if err := b.Regenerate(t.Context(), testSlot); err != nil {
			t.Fatal(err)
		}
		s, _ := b.slot(testSlot)
		spec, err := b.storedSpec(s)
		if err != nil {
			t.Fatal(err)
		}
		if len(spec.Devices) != 1 || spec.Devices[0] != (deviceNode{Path: "/dev/null", Type: "c", Major: 1, Minor: 3}) {
			t.Errorf("devices %v", spec.Devices)
		}
		if got, want := spec.HostConfig.LogConfig.Type == "k8s-file", flavor == enginetest.Podman; got != want {
			t.Errorf("log driver %s", spec.HostConfig.LogConfig.Type)
		}
		for name, want := range map[string]fs.FileMode{b.specPath(): 0o600, filepath.Dir(b.specPath()): 0o700 | fs.ModeDir} {
			if info, err := os.Stat(name); err != nil || info.Mode() != want {
				t.Errorf("%s: mode %v, %v; want %v", name, info.Mode(), err, want)
			}
		}
		left, _ := filepath.Glob(filepath.Join(filepath.Dir(b.specPath()), ".*"))
		if len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
}

func TestRegenerate_GivesAFencedNameBack(t *testing.T) {
	flavors(t, func(t *testing.T, flavor enginetest.Flavor) {
		b := newBench(t, flavor)
		id := b.engine.Add(enginetest.Spec{Name: testContainer, Ended: true})
		if _, _, err := b.Fence(t.Context(), testSlot); err != nil {
			t.Fatal(err)
		}
		if err := b.Regenerate(t.Context(), testSlot); err != nil {
			t.Fatal(err)
		}
		if got := b.one(t, id).Name; got != testContainer {
			t.Errorf("its name is %s", got)
		}
	})
}

func TestRegenerate_FencedNameIsTaken(t *testing.T) {
	t.Parallel()
	b := newBench(t, enginetest.Docker)
	fenced := b.engine.Add(enginetest.Spec{Name: testContainer + ".nl-fenced", Ended: true})
	b.engine.Add(enginetest.Spec{Name: testContainer, Ended: true})
	if err := b.Regenerate(t.Context(), testSlot); err != nil {
		t.Fatal(err)
	}
	if got := b.one(t, fenced).Name; got != testContainer+".nl-fenced" {
		t.Errorf("its name is %s", got)
	}
	wantText(t, b.logged.String(), "stays fenced")
}

func TestRegenerate_WithoutImage(t *testing.T) {
	t.Parallel()
	b := newBench(t, enginetest.Docker, func(_ *Options, s *Slot) { s.Image = "" })
	if err := b.Regenerate(t.Context(), testSlot); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(b.specPath()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a specification was written: %v", err)
	}
}

func TestRegenerate_Image(t *testing.T) {
	const absent = "localhost/absent:2"
	for name, test := range map[string]struct {
		pull    string
		publish *enginetest.Image
		actions []enginetest.Action // of the pull
		timeout time.Duration
		class   string // "ok": no error
		text    string
	}{
		"missing":           {"missing", &enginetest.Image{Name: absent}, nil, 0, "ok", ""},
		"default":           {"", &enginetest.Image{Name: absent}, nil, 0, "ok", ""},
		"never":             {"never", &enginetest.Image{Name: absent}, nil, 0, "misconfigured", "never pulls; load it"},
		"not published":     {"missing", nil, nil, 0, "", "manifest unknown"},
		"unknown policy":    {"always", nil, nil, 0, "misconfigured", `pull policy "always"`},
		"fails at its end":  {"missing", &enginetest.Image{Name: absent, PullError: "no space left"}, nil, 0, "", "no space left"},
		"link breaks late":  {"missing", &enginetest.Image{Name: absent}, []enginetest.Action{{Break: true, Do: true}}, 0, "ok", ""},
		"link breaks early": {"missing", &enginetest.Image{Name: absent}, []enginetest.Action{{Break: true}}, 0, "unreachable", "broke"},
		"takes too long":    {"missing", nil, []enginetest.Action{{Hang: true}}, 30 * time.Millisecond, "", "ran out of time after 30ms"},
	} {
		t.Run(name, func(t *testing.T) {
			flavors(t, func(t *testing.T, flavor enginetest.Flavor) {
				b := newBench(t, flavor, func(_ *Options, s *Slot) {
					s.Image, s.Pull = absent, test.pull
					if test.timeout > 0 {
						s.PullTimeout = test.timeout
					}
				})
				if test.publish != nil {
					b.engine.Publish(*test.publish)
				}
				b.engine.On(enginetest.OpPull, test.actions...)
				err := b.Regenerate(t.Context(), testSlot)
				if test.class == "ok" {
					if err != nil {
						t.Error(err)
					}
					return
				}
				wantError(t, err, test.class, absent, test.text)
			})
		})
	}
}

// An image that does not say what to run is found out before anything has been begun.
func TestRegenerate_NoCommand(t *testing.T) {
	t.Parallel()
	change := func(command ...string) func(*Options, *Slot) {
		return func(_ *Options, s *Slot) { s.Image, s.Command = "localhost/bare:1", command }
	}
	bare := enginetest.Image{Name: "localhost/bare:1", Command: []string{}}
	b := newBench(t, enginetest.Docker, change())
	b.engine.AddImage(bare)
	wantError(t, b.Regenerate(t.Context(), testSlot), "misconfigured", "neither the image nor the slot", "set container.command")

	b = newBench(t, enginetest.Docker, change("/sbin/init"))
	b.engine.AddImage(bare)
	if err := b.Regenerate(t.Context(), testSlot); err != nil {
		t.Error(err)
	}
}

func TestRegenerate_PulledButAbsent(t *testing.T) {
	t.Parallel()
	b := newBench(t, enginetest.Docker, func(_ *Options, s *Slot) { s.Image = "localhost/absent:2" })
	b.engine.Publish(enginetest.Image{Name: "localhost/absent:2"})
	gone := enginetest.Action{Status: 404, Message: "No such image"}
	b.engine.On(enginetest.OpImage, gone, gone)
	wantError(t, b.Regenerate(t.Context(), testSlot), "", "still has no such image")
}

func TestRegenerate_BadImageName(t *testing.T) {
	t.Parallel()
	b := newBench(t, enginetest.Docker, func(_ *Options, s *Slot) { s.Image = "Node:1" })
	err := b.Regenerate(t.Context(), testSlot)
	wantError(t, err, "misconfigured", "pull image Node:1: its name cannot be used; correct the slot's image")
}

func TestRegenerate_PullIsCancelled(t *testing.T) {
	t.Parallel()
	b := newBench(t, enginetest.Docker, func(_ *Options, s *Slot) { s.Image = "localhost/absent:2" })
	b.engine.On(enginetest.OpPull, enginetest.Action{Hang: true})
	if err := b.Regenerate(within(t, 30*time.Millisecond), testSlot); err == nil {
		t.Error("no error")
	}
}

func TestRegenerate_Devices(t *testing.T) {
	t.Parallel()
	t.Run("appears late", func(t *testing.T) {
		late := filepath.Join(t.TempDir(), "late")
		b := newBench(t, enginetest.Docker, func(_ *Options, s *Slot) { s.Devices = []string{late} })
		time.AfterFunc(50*time.Millisecond, func() { _ = os.Symlink("/dev/null", late) })
		if err := b.Regenerate(t.Context(), testSlot); err != nil {
			t.Error(err)
		}
	})
	t.Run("never appears", func(t *testing.T) {
		never := filepath.Join(t.TempDir(), "never")
		b := newBench(t, enginetest.Docker, func(_ *Options, s *Slot) { s.Devices = []string{never} })
		s, _ := b.slot(testSlot)
		_, err := b.devices(within(t, 50*time.Millisecond), s)
		wantError(t, err, "", "wait for the devices of slot kube1", never)
	})
	t.Run("is a file", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		b := newBench(t, enginetest.Docker, func(_ *Options, s *Slot) { s.Devices = []string{file} })
		wantError(t, b.Regenerate(t.Context(), testSlot), "misconfigured", "it is not a device")
	})
	t.Run("is a directory", func(t *testing.T) {
		nodes, err := readDevice("/dev")
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(nodes, deviceNode{Path: "/dev/zero", Type: "c", Major: 1, Minor: 5}) {
			t.Errorf("/dev/zero is not among %v", nodes)
		}
	})
}

func TestStoredSpec_CannotBeUsed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spoil func(text string) string
		want  string
	}{
		"absent":  {nil, "no such file"},
		"no JSON": {func(text string) string { return text[:20] }, "unexpected end"},
		"changed": {func(text string) string { return strings.Replace(text, "SIGRTMIN+3", "SIGTERM", 1) }, "damaged"},
		"newer":   {func(text string) string { return strings.Replace(text, `"version": 1`, `"version": 2`, 1) }, "another version"},
		"empty":   {func(string) string { return "{}" }, "damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, enginetest.Docker)
			if err := b.Regenerate(t.Context(), testSlot); err != nil {
				t.Fatal(err)
			}
			s, _ := b.slot(testSlot)
			text, err := os.ReadFile(b.specPath())
			if err != nil {
				t.Fatal(err)
			}
			if test.spoil == nil {
				err = os.Remove(b.specPath())
			} else {
				err = os.WriteFile(b.specPath(), []byte(test.spoil(string(text))), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err = b.storedSpec(s); err == nil {
				t.Fatal("no error")
			}
			wantText(t, err.Error(), test.want)
		})
	}
}

func TestRegenerate_BadSlotName(t *testing.T) {
	t.Parallel()
	b := newBench(t, enginetest.Docker)
	for _, name := range []string{"../up", "a/b", "..", ""} {
		if _, err := b.runtimeDir(Slot{Name: name}); err == nil {
			t.Errorf("slot name %q is taken", name)
		}
	}
}

// dropInBench is a bench whose slot has a drop-in.
func dropInBench(t *testing.T) (b *bench, file string) {
	t.Helper()
	dir := t.TempDir()
	b = newBench(t, enginetest.Docker, func(o *Options, s *Slot) {
		o.UnitDir, s.Image = dir, ""
		s.DropIn = DropIn{TimeoutStart: 7 * time.Minute, TimeoutStop: 90 * time.Second, EngineUnit: "docker.service"}
	})
	return b, filepath.Join(dir, testUnit+".d", dropInFile)
}

func (b *bench) wantChanged(t *testing.T, want bool) {
	t.Helper()
	if got, err := b.Changed(t.Context(), testSlot); err != nil || got != want {
		t.Errorf("Changed = %v, %v; want %v", got, err, want)
	}
}

// TestChanged follows a drop-in from its first writing on, the way pre-start
// goes: Regenerate, Changed, Reload.
func TestChanged(t *testing.T) {
	t.Parallel()
	b, file := dropInBench(t)
	b.wantChanged(t, true) // it is not there at all
	if err := b.Regenerate(t.Context(), testSlot); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode() != 0o644 {
		t.Fatalf("drop-in: %v, %v", info, err)
	}
	b.wantChanged(t, true) // written, not loaded; systemd's NeedReload is silent about that
	if err := b.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.wantChanged(t, true) // systemd does not list it
	b.systemd.set(func(u *UnitStatus) { u.DropInPaths = []string{file} })
	b.wantChanged(t, false)

	if err := b.Regenerate(t.Context(), testSlot); err != nil {
		t.Fatal(err)
	}
	if again, err := os.Stat(file); err != nil || !os.SameFile(info, again) {
		t.Error("an unchanged drop-in was written again")
	}
	b.wantChanged(t, false)

	b.systemd.set(func(u *UnitStatus) { u.NeedReload = true })
	b.wantChanged(t, true)
	b.systemd.set(func(u *UnitStatus) { u.NeedReload = false })
	if err := os.WriteFile(file, []byte("[Service]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	b.wantChanged(t, true)
	b.systemd.fail(errors.New("no bus"))
	b.wantChanged(t, true)
}

// A process that dies between writing the drop-in and the reload leaves a mark
// for the next one.
func TestChanged_AfterACrash(t *testing.T) {
	t.Parallel()
	b, file := dropInBench(t)
	b.systemd.set(func(u *UnitStatus) { u.DropInPaths = []string{file} })
	if err := b.Regenerate(t.Context(), testSlot); err != nil {
		t.Fatal(err)
	}
	next := New(b.opts)
	defer next.Close()
	if changed, err := next.Changed(t.Context(), testSlot); !changed || err != nil {
		t.Errorf("Changed = %v, %v", changed, err)
	}
	if err := next.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.wantChanged(t, false)
}

func TestReload_KeepsAMarkThatIsNewer(t *testing.T) {
	t.Parallel()
	b, file := dropInBench(t)
	b.systemd.set(func(u *UnitStatus) { u.DropInPaths = []string{file} })
	if err := b.Regenerate(t.Context(), testSlot); err != nil {
		t.Fatal(err)
	}
	b.systemd.onReload = func() {
		if err := os.Remove(file); err != nil {
			t.Error(err)
		}
		if err := b.Regenerate(t.Context(), testSlot); err != nil {
			t.Error(err)
		}
	}
	if err := b.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.wantChanged(t, true)
}

func TestReload_FailureKeepsTheMark(t *testing.T) {
	t.Parallel()
	b, file := dropInBench(t)
	b.systemd.set(func(u *UnitStatus) { u.DropInPaths = []string{file} })
	if err := b.Regenerate(t.Context(), testSlot); err != nil {
		t.Fatal(err)
	}
	b.systemd.fail(errors.New("refused"))
	wantError(t, b.Reload(t.Context()), "", "refused")
	b.systemd.fail(nil)
	b.wantChanged(t, true)
}

func TestRegenerate_DropInCannotBeWritten(t *testing.T) {
	t.Parallel()
	b, file := dropInBench(t)
	if err := os.WriteFile(filepath.Dir(file), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wantError(t, b.Regenerate(t.Context(), testSlot), "", filepath.Dir(file))
}

func TestRegenerate_BadUnitName(t *testing.T) {
	t.Parallel()
	b := newBench(t, enginetest.Docker, func(o *Options, s *Slot) {
		o.UnitDir, s.Image, s.Unit = t.TempDir(), "", "../evil.service"
		s.DropIn = DropIn{TimeoutStart: time.Minute}
	})
	wantError(t, b.Regenerate(t.Context(), testSlot), "misconfigured", "../evil.service")
}

func TestFileError(t *testing.T) {
	t.Parallel()
	wantError(t, fileError("write x", fs.ErrPermission), "denied", "run as root")
	wantError(t, fileError("write x", &fs.PathError{Op: "open", Path: "x", Err: syscall.EROFS}), "misconfigured", "ReadWritePaths=")
	wantError(t, writeFile(filepath.Join(t.TempDir(), "no", "x"), nil, 0o600), "", "no such file")
}
