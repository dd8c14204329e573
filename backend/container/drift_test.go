package container

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/node-lifecycle/node-lifecycle/backend/container/enginetest"
)

func TestDrifted(t *testing.T) {
	device := func(t *testing.T, target string) string {
		t.Helper()
		name := filepath.Join(t.TempDir(), "device")
		if err := os.Symlink(target, name); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for name, test := range map[string]struct {
		change  func(t *testing.T, b *bench, s *Slot)
		drifted bool
		detail  string
		class   string // of an error; "-": none
	}{
		"nothing":     {func(*testing.T, *bench, *Slot) {}, false, "is up to date", "-"},
		"empty lists": {func(_ *testing.T, _ *bench, s *Slot) { s.Volumes = []string{} }, false, "is up to date", "-"},
		"command and volume": {func(_ *testing.T, _ *bench, s *Slot) {
			s.Command, s.Volumes = []string{"x"}, []string{"/a:/b"}
		}, true, "differs in Cmd, Binds", "-"},
		"device number": {func(t *testing.T, _ *bench, s *Slot) {
			name := s.Devices[0]
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("/dev/zero", name); err != nil {
				t.Fatal(err)
			}
		}, true, "differs in device", "-"},
		"device gone": {func(t *testing.T, _ *bench, s *Slot) {
			if err := os.Remove(s.Devices[0]); err != nil {
				t.Fatal(err)
			}
		}, true, "which is gone", "-"},
		"new image": {func(_ *testing.T, b *bench, s *Slot) {
			b.engine.AddImage(enginetest.Image{Name: "localhost/node:1.35"})
			s.Image = "localhost/node:1.35"
		}, true, "the image, Image", "-"},
		"image gone": {func(_ *testing.T, _ *bench, s *Slot) { s.Image = "localhost/no:1" }, false, "not on this host", ""},
		"bad value":  {func(_ *testing.T, _ *bench, s *Slot) { s.Tmpfs = []string{"x"} }, false, "tmpfs", "misconfigured"},
		"specification lost": {func(t *testing.T, b *bench, s *Slot) {
			s.Command = []string{"x"}
			if err := os.Remove(b.specPath()); err != nil {
				t.Fatal(err)
			}
		}, true, "differs in its specification", "-"},
		"specification of another start": {func(t *testing.T, b *bench, s *Slot) {
			s.Command = []string{"x"}
			if err := os.WriteFile(b.specPath(), []byte("{}"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, true, "differs in its specification", "-"},
		"stopped":         {func(_ *testing.T, b *bench, _ *Slot) { b.engine.Kill(testContainer) }, false, "no container of ours lives", "-"},
		"no image at all": {func(_ *testing.T, _ *bench, s *Slot) { s.Image = "" }, false, "has no container that is created here", "-"},
		"engine away":     {func(_ *testing.T, b *bench, _ *Slot) { b.engine.Stop() }, false, "nobody listens", "unreachable"},
	} {
		t.Run(name, func(t *testing.T) {
			flavors(t, func(t *testing.T, flavor enginetest.Flavor) {
				b := newBench(t, flavor, func(_ *Options, s *Slot) { s.Devices = []string{device(t, "/dev/null")} })
				b.start(t, 1)
				s := b.opts.Slots[testSlot]
				test.change(t, b, &s)
				b.opts.Slots[testSlot] = s
				drifted, detail, err := b.Drifted(t.Context(), testSlot)
				if test.class != "-" {
					wantError(t, err, test.class, test.detail)
					return
				}
				if err != nil || drifted != test.drifted {
					t.Errorf("Drifted = %v, %v; want %v", drifted, err, test.drifted)
				}
				wantText(t, detail, test.detail)
			})
		})
	}
}
