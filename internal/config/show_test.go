package config

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "rewrite golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Error(diff)
	}
}

func show(t interface{ Fatal(...any) }, c *Config, origins bool) string {
	var b bytes.Buffer
	if err := c.Show(&b, origins); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestConfig_Show(t *testing.T) {
	golden(t, "defaults.yaml", show(t, load(t, ""), false))
	golden(t, "example.yaml", show(t, load(t, example), false))
}

func TestConfig_Show_Origins(t *testing.T) {
	path := tree(t, map[string]string{
		"config.yaml":      "state_dir: /srv\nslots: {kube1: {ready: [{exec: [a]}]}}\n",
		"conf.d/a b.yaml":  "journal: {keep: 9}\n",
		"conf.d/c\nd.yaml": "slots:\n  kube1: {container: {env: {A: " + strings.Repeat("long ", 20) + "}}}\n",
	})
	c, err := Load(Options{
		Path:      path,
		Getenv:    func(k string) string { return map[string]string{"NODE_LIFECYCLE_TIMEOUTS_PULL": "1m"}[k] },
		Overrides: []Override{{Key: "timeouts.lock", Value: "1s", Flag: "--lock"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	text := show(t, c, true)
	golden(t, "origins.yaml", strings.ReplaceAll(text, filepath.Dir(path), "/etc/node-lifecycle"))
	if diff := cmp.Diff(c, load(t, text), values); diff != "" {
		t.Errorf("with origins it is another configuration:\n%s", diff)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestConfig_Show_WriteError(t *testing.T) {
	if err := load(t, "").Show(brokenWriter{}, true); !errors.Is(err, os.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

// genConfig draws valid configurations with awkward texts in them.
func genConfig(t *rapid.T) *Config {
	text := rapid.StringOfN(rapid.OneOf(
		rapid.RuneFrom([]rune(`abz019 :#'"[]{},&*!|>%@-_=~?\/.ü€`)), rapid.Rune()), 1, 12, -1).
		Filter(func(s string) bool { return textFault(s) == "" })
	texts := rapid.SliceOfN(text, 0, 4)
	list := func(label string, g *rapid.Generator[string]) []string {
		return append([]string{}, rapid.SliceOfN(g, 0, 3).Draw(t, label)...)
	}
	seconds := func(label string) time.Duration {
		return time.Duration(rapid.IntRange(1, 86400).Draw(t, label)) * time.Second
	}

	c := builtin()
	c.StateDir = rapid.Map(text, func(s string) string { return cleanPath("/" + s + "x") }).
		Filter(func(path string) bool { return unitPathFault(path) == "" }).Draw(t, "state")
	c.Engine.Wait, c.Timeouts.Ready, c.Timeouts.Lock = seconds("wait"), seconds("ready"), seconds("lock")
	c.Journal.Keep = rapid.IntRange(1, maxKeep).Draw(t, "keep")
	s := c.Slots["kube1"]
	s.AfterStart = append([]string{}, texts.Draw(t, "after")...)
	s.Ready = []Probe{}
	for range rapid.IntRange(0, 3).Draw(t, "probes") {
		s.Ready = append(s.Ready, rapid.OneOf(
			rapid.Just(Probe{HTTP: "http://127.0.0.1:10248/healthz"}),
			rapid.Custom(func(t *rapid.T) Probe { return Probe{Exec: rapid.SliceOfN(text, 1, 3).Draw(t, "exec")} }),
			rapid.Just(Probe{Units: []string{"a.service", `b\x2d.socket`}}),
		).Draw(t, "probe"))
	}
	k := &s.Container
	k.Image = rapid.SampledFrom([]string{"", "node:1.34", "null", "1.5", "localhost:5000/a@sha256:0"}).Draw(t, "image")
	k.Pull = rapid.SampledFrom([]string{PullMissing, PullNever}).Draw(t, "pull")
	k.Command = append([]string{}, texts.Draw(t, "command")...)
	k.TTY = rapid.Bool().Draw(t, "tty")
	if k.Privileged = rapid.Bool().Draw(t, "privileged"); k.Privileged {
		k.Capabilities = []string{}
	}
	for _, name := range list("names", rapid.StringMatching(`[A-Za-z_][A-Za-z0-9_.-]{0,8}`)) {
		k.Env[name] = rapid.OneOf(text, rapid.SampledFrom([]string{"", "true", "No", "0x1F", "~", "null", "1e3", ".inf", "-", "---", "2001-01-01", "<<", "="})).Draw(t, "value")
	}
	k.Network = rapid.SampledFrom([]string{"", "none", "host", "container:x"}).Draw(t, "network")
	k.CgroupNS = rapid.SampledFrom([]string{"", "host", "private"}).Draw(t, "cgroupns")
	k.Tmpfs = list("tmpfs", rapid.SampledFrom([]string{"/run", "/tmp:size=64m,exec", "/a b"}))
	k.Devices = list("devices", rapid.SampledFrom([]string{"/dev/fuse", "/dev/kvm:/dev/kvm:rwm", "nvidia.com/gpu=all"}))
	k.Volumes = list("volumes", rapid.SampledFrom([]string{"/srv/x:/var/lib/containerd", "named:/data:ro", "/a #b:/c"}))
	if !k.Privileged {
		k.Capabilities = list("capabilities", rapid.SampledFrom([]string{"SYS_ADMIN", "NET_ADMIN"}))
	}
	k.SecurityOpt = list("security", text.Filter(func(s string) bool { return s[0] != '=' }))
	k.Stop = Stop{Signal: rapid.SampledFrom([]string{"", "9", "SIGRTMIN+3"}).Draw(t, "signal"), Grace: seconds("grace")}
	k.DiscardLimit = Size(rapid.Int64Range(0, int64(maxSize)).Draw(t, "discard"))
	c.Slots["kube1"] = s
	genSlots(t, c)
	return c
}

// genSlots draws which slots there are: the built-in pair, a pair of other names, one
// slot alone, or the pair and one that has no peer.
func genSlots(t *rapid.T, c *Config) {
	one, two := c.Slots["kube1"], c.Slots["kube2"]
	switch rapid.SampledFrom([]string{"kube", "colours", "one", "three"}).Draw(t, "slots") {
	case "colours":
		one.Peer, two.Peer = "green", "blue"
		c.Slots = map[string]Slot{"blue": one, "green": two}
	case "one":
		one.Peer = ""
		c.Slots = map[string]Slot{"kube1": one}
	case "three":
		alone := two
		alone.Peer, alone.Unit, alone.Container.Name = "", "alone.service", "alone"
		c.Slots["alone"] = alone
	}
}

// What Show prints reads back as the same configuration, and prints the same.
func TestConfig_Show_RoundTrip(t *testing.T) {
	path := tree(t, map[string]string{"config.yaml": ""})
	rapid.Check(t, func(rt *rapid.T) {
		want := genConfig(rt)
		text := show(rt, want, rapid.Bool().Draw(rt, "origins"))
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			rt.Fatal(err)
		}
		got, err := Load(Options{Path: path})
		if err != nil {
			rt.Fatalf("%v\n%s", err, text)
		}
		if diff := cmp.Diff(want, got, values); diff != "" {
			rt.Fatalf("%s\n%s", diff, text)
		}
		if again, first := show(rt, got, false), show(rt, want, false); again != first {
			rt.Fatalf("printed again it differs:\n%s", cmp.Diff(first, again))
		}
	})
}

// FuzzLoad holds that no file, however broken, makes Load panic, and that
// whatever it accepts can be shown and read back.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(example))
	f.Add([]byte("slots: {a: &x {peer: ''}, b: {<<: *x}}"))
	f.Add([]byte("a: [1, {b: \"\\x00\"}]\n---\n? x\n: - y\n"))
	f.Add([]byte("%TAG ! x\n--- !!map\n&a *a: |+\n  x\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := fromBytes(data)
		if err != nil {
			return
		}
		text := show(t, c, true)
		again, err := fromBytes([]byte(text))
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if diff := cmp.Diff(c, again, values); diff != "" {
			t.Errorf("%s\n%s", diff, text)
		}
	})
}

// fromBytes is Load without the file system.
func fromBytes(data []byte) (*Config, error) {
	body, err := parse("f", data)
	if err != nil {
		return nil, err
	}
	c := &Config{origins: map[string]Origin{}}
	if err := decode(c, "f", body); err != nil {
		return nil, err
	}
	var p problems
	c.fillDefaults(&p)
	c.validate(&p)
	return c, p.err()
}
