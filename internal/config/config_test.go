package config

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestConfig_Slots(t *testing.T) {
	c := load(t, "slots: {zeta: {peer: alpha}, alpha: {peer: zeta}, solo: {peer: ''}}")
	if diff := cmp.Diff([]string{"alpha", "solo", "zeta"}, c.SlotNames()); diff != "" {
		t.Error(diff)
	}
	for slot, want := range map[string][2]string{
		"alpha": {"zeta", "alpha+zeta"}, "zeta": {"alpha", "alpha+zeta"}, "solo": {"", "solo"}, "other": {"", "other"},
	} {
		if got := [2]string{c.Peer(slot), c.Pair(slot)}; got != want {
			t.Errorf("peer and pair of %s are %q, want %q", slot, got, want)
		}
	}
	if s, ok := c.Slot("solo"); !ok || s.Unit != "node-stack@solo.service" {
		t.Errorf("slot solo: %+v, %v", s, ok)
	}
	if _, ok := c.Slot("other"); ok {
		t.Error("there is no slot other")
	}
}

// Which slots exist and who is whose peer when little is said.
func TestConfig_DefaultPeers(t *testing.T) {
	for text, want := range map[string]string{
		"{}":                             "kube1:kube2 kube2:kube1",
		"{kube1: }":                      "kube1:kube2 kube2:kube1",
		"{kube2: {peer: kube1}}":         "kube1:kube2 kube2:kube1",
		"{kube1: {peer: ''}}":            "kube1:",
		"{only: {}}":                     "only:",
		"{blue: {}, green: {}}":          "blue:green green:blue",
		"{blue: {peer: green}, green: }": "blue:green green:blue",
		"{kube1: {}, blue: {}}":          "blue:kube1 kube1:blue",
		"{kube1: {}, kube2: {}, blue: {peer: ''}}": "blue: kube1:kube2 kube2:kube1",
	} {
		c := load(t, "slots: "+text)
		var got []string
		for _, name := range c.SlotNames() {
			got = append(got, name+":"+c.Peer(name))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

func TestLoad_Aliases(t *testing.T) {
	c := load(t, `slots:
  kube1:
    container: &base
      image: &image localhost/node:1
      env: &env {A: x}
      tmpfs: &dirs [/run]
      stop: {grace: 5s}
  kube2:
    after_start: [*image]
    container:
      <<: *base
      name: other
      volumes: ["a1:/a"]
      env:
        <<: [{A: y, B: y}, {B: z, C: z}]
        D: d
`)
	k := c.Slots["kube2"].Container
	if diff := cmp.Diff(map[string]string{"A": "y", "B": "y", "C": "z", "D": "d", "container": "docker"}, k.Env); diff != "" {
		t.Error(diff)
	}
	if k.Image != "localhost/node:1" || k.Name != "other" || k.Stop.Grace != 5*time.Second || len(k.Tmpfs) != 1 {
		t.Errorf("merged badly: %+v", k)
	}
	if got := c.Slots["kube2"].AfterStart; len(got) != 1 || got[0] != "localhost/node:1" {
		t.Errorf("after_start is %q", got)
	}
	if o := c.Origin("slots.kube2.container.image"); o.Line != 4 {
		t.Errorf("the origin of a merged value is where it is written, line 4, not %d", o.Line)
	}
}

// A small file must not unfold into a large one.
func TestLoad_AliasBomb(t *testing.T) {
	text := "slots:\n  a0:\n    peer: ''\n    container:\n      tmpfs: &x [" + strings.Repeat("/a, ", 5000) + "/a]\n"
	for i := range 300 {
		text += fmt.Sprintf("  a%d: {peer: '', container: {tmpfs: *x}}\n", i+1)
	}
	_, err := Load(Options{Path: tree(t, map[string]string{"config.yaml": text})})
	if err == nil || !strings.Contains(err.Error(), "the file holds too many values, counting each use of an alias") {
		t.Errorf("got %v", err)
	}
}

func TestNearest(t *testing.T) {
	keys := []string{"ready", "after_start", "pull", "poll", "lock"}
	for name, want := range map[string]string{
		"redy": "ready", "raedy": "ready", "afterStart": "after_start", "AFTER-START": "after_start", "pul": "pull",
		"pole": "poll", "clock": "lock", "zzz": "", "": "", strings.Repeat("ready", 1000): "",
	} {
		if got := nearest(name, keys); got != want {
			t.Errorf("nearest to %.20q is %q, want %q", name, got, want)
		}
	}
}

func TestNames(t *testing.T) {
	for _, tc := range []struct {
		fault func(string) string
		good  []string
		bad   []string
	}{
		{slotNameFault, []string{"a", "kube1", "a-b-c", "a23456789012345678901234567890x"}, []string{"", "1a", "a_b", "a.b", "-a", "a-", "ä", "a\n", "a b"}},
		{unitFault, []string{"a.service", `dev-disk-by\x2did.device`, "a@b@c.service", "a.b.service", "a:b.socket"},
			[]string{"", "service", ".service", "@x.service", "a@.service", "a/b.service", "a.servic", "a%i.service", "ä.service", "a.service\n"}},
		{containerFault, []string{"ab", "node-kube1", "A.b_c-0"}, []string{"", "a", "-ab", "a b", "a/b", "ab.nl-fenced", "ab.stale-1", "äb"}},
		{signalFault, []string{"TERM", "SIGTERM", "9", "64", "SIGRTMIN", "SIGRTMIN+3", "RTMIN+15", "SIGRTMAX-14"},
			[]string{"", "0", "65", "-1", "term", "SIGSIGTERM", "SIGRTMIN+16", "SIGRTMIN+0", "RTMAX-15", "SIGRTMIN-1"}},
		{imageFault, []string{"", "node", "localhost:5000/node:1.34", "node@sha256:00ff"}, []string{" ", "-v", "a b", "a;b", "http://$x"}},
		{deviceFault, []string{"/dev/fuse", "/dev/fuse:r", "/dev/a:/dev/b", "/dev/a:/dev/b:mrw", "nvidia.com/gpu=0:1"},
			[]string{"", "fuse", "/dev/a:b", "/dev/a:/dev/b:rwmx", "/dev/a:/dev/b:r:w", "nvidia.com/gpu"}},
		{volumeFault, []string{"/a:/b", "/a:/b:ro,Z", "data:/b"}, []string{"", "/a", "a b:/c", "/a:b", "/a:/", "/a:/b:ro:x", ":/b"}},
		{urlFault, []string{"http://h", "https://[::1]:8/x?y"}, []string{"", "h", "http://", "http:///x", "file:///x", "http://h\x7f"}},
	} {
		for _, name := range tc.good {
			if msg := tc.fault(name); msg != "" {
				t.Errorf("%q: %s", name, msg)
			}
		}
		for _, name := range tc.bad {
			if tc.fault(name) == "" {
				t.Errorf("%q is accepted", name)
			}
		}
	}
}

func TestSize(t *testing.T) {
	for text, want := range map[string]Size{
		"0": 0, "1": 1, "512b": 512, "1k": 1024, "1KB": 1024, "1KiB": 1024, "64MiB": 64 << 20, "1.5 GiB": 3 << 29, "1PiB": 1 << 50,
	} {
		if got, msg := parseSize(text); msg != "" || got != want {
			t.Errorf("%s is %d %s, want %d", text, got, msg, want)
		}
	}
	for size, want := range map[Size]string{0: "0", 1000: "1000", 1024: "1KiB", 64 << 20: "64MiB", 3 << 30: "3GiB", 1<<30 + 1: "1073741825"} {
		if got := size.String(); got != want {
			t.Errorf("%d is written %s, want %s", int64(size), got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		size := Size(rapid.Int64Range(0, int64(maxSize)).Draw(t, "size"))
		if back, msg := parseSize(size.String()); msg != "" || back != size {
			t.Fatalf("%d is written %s, read back as %d %s", int64(size), size, int64(back), msg)
		}
	})
}

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", time.Second: "1s", 90 * time.Second: "1m30s", 2 * time.Minute: "2m", time.Hour: "1h", 90 * time.Minute: "1h30m",
		time.Hour + time.Second: "1h0m1s", 500 * time.Millisecond: "500ms", 10 * time.Second: "10s", 10 * time.Minute: "10m",
	} {
		if got := formatDuration(d); got != want {
			t.Errorf("%v is written %s, want %s", d, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64().Draw(t, "d"))
		if back, msg := parseDuration(formatDuration(d)); msg != "" || back != d {
			t.Fatalf("%v is written %s, read back as %v %s", d, formatDuration(d), back, msg)
		}
	})
}
