package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// tree writes files below a new directory and returns the path of config.yaml
// in it. Names are relative to the directory.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "config.yaml")
}

// load reads one file with that text and fails the test on error.
func load(t *testing.T, text string) *Config {
	t.Helper()
	c, err := Load(Options{Path: tree(t, map[string]string{"config.yaml": text})})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// values compares configurations without where they come from.
var values = cmpopts.IgnoreUnexported(Config{})

func builtin() *Config {
	slot := func(name, peer string) Slot {
		return Slot{
			Peer: peer,
			Unit: "node-stack@" + name + ".service",
			Container: Container{
				Name:         "node-" + name,
				Pull:         "missing",
				Command:      []string{},
				TTY:          true,
				Env:          map[string]string{"container": "docker"},
				Network:      "host",
				CgroupNS:     "private",
				Tmpfs:        []string{"/run", "/run/lock", "/tmp"},
				SecurityOpt:  []string{"seccomp=unconfined"},
				Capabilities: []string{"SYS_ADMIN"},
				Devices:      []string{},
				Volumes:      []string{},
				Stop:         Stop{Grace: time.Minute},
				DiscardLimit: 64 << 20,
			},
			Ready:      []Probe{},
			AfterStart: []string{},
			GPU:        "off",
		}
	}
	return &Config{
		Version:  1,
		StateDir: "/var/lib/node-lifecycle",
		Engine:   Engine{Socket: "/run/docker.sock", Unit: "docker.service", Wait: 2 * time.Minute},
		Timeouts: Timeouts{Ready: 2 * time.Minute, AfterStart: 3 * time.Minute, Pull: 10 * time.Minute, Poll: time.Second, Lock: 10 * time.Second},
		Slots:    map[string]Slot{"kube1": slot("kube1", "kube2"), "kube2": slot("kube2", "kube1")},
		Journal:  Journal{Keep: 4000},
	}
}

// Everything that says nothing means the built-in defaults.
// What means nothing in a path is not told apart: there is one journal, not two.
func TestLoad_CleanStateDir(t *testing.T) {
	for given, want := range map[string]string{"/srv/x/": "/srv/x", "//srv///x": "/srv/x", "/srv/./x/.": "/srv/x", "/srv/x": "/srv/x"} {
		for name, o := range map[string]Options{
			"file": {Path: tree(t, map[string]string{"config.yaml": "state_dir: " + given + "\n"})},
			"flag": {Path: os.DevNull, Overrides: []Override{{Key: "state_dir", Value: given, Flag: "--state-dir"}}},
		} {
			if c, err := Load(o); err != nil || c.StateDir != want {
				t.Errorf("%s from a %s: %v, %v", given, name, c, err)
			}
		}
	}
}

// The path of the configuration goes into the units, where it must stay one value.
func TestLoad_PathForUnits(t *testing.T) {
	for _, path := range []string{"/tmp/a\nb.yaml", "/tmp/\xff.yaml", "/tmp/x.yaml ", "/" + strings.Repeat("x", 900)} {
		if _, err := Load(Options{Path: path, Required: true}); err == nil || !strings.Contains(err.Error(), "cannot be the configuration: its path ") {
			t.Errorf("%.30q: %v", path, err)
		}
	}
}

func TestLoad_Defaults(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"no file":      {},
		"empty":        {"config.yaml": ""},
		"comments":     {"config.yaml": "# version: 1\n\n"},
		"null":         {"config.yaml": "---\nnull\n...\n"},
		"empty keys":   {"config.yaml": "engine:\ntimeouts: {}\nslots:\n"},
		"byte order":   {"config.yaml": "\ufeffversion: 1\r\njournal:\r\n  keep: 4000\r\n"},
		"other files":  {"conf.d/README": "not: [yaml", "conf.d/.hidden.yaml": "not: [yaml"},
		"empty slot":   {"config.yaml": "slots: {kube2: }\n"},
		"one's peer":   {"config.yaml": "slots: {kube1: {peer: kube2}}\n"},
		"from drop-in": {"conf.d/10.yaml": "slots:\n  kube1:\n    container:\n"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Load(Options{Path: tree(t, files)})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(builtin(), c, values); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// example uses every key of the schema.
const example = `# everything
version: 1
state_dir: /srv/state
engine: {socket: /run/podman/podman.sock, unit: podman.socket, wait: 90s}
timeouts: {ready: 5m, after_start: 1h30m, pull: 20m, poll: 500ms, lock: 3s}
slots:
  blue:
    peer: green
    unit: stack-blue.service
    container:
      name: blue
      image: localhost/node:1.34
      pull: never
      command: [/lib/systemd/systemd, --log-level, 7, 1.50]
      tty: false
      env:
        FOO: 1
        BAR: "a b"
      network: bridge
      cgroupns: host
      tmpfs:
        - /run:exec
      security_opt: []
      capabilities: [NET_ADMIN, CAP_BPF]
      devices: [/dev/fuse, "/dev/a:/dev/b:rw", nvidia.com/gpu=all]
      volumes: ["/var/lib/node/blue:/var/lib/containerd", "data:/data:ro"]
      stop: {signal: SIGRTMIN+3, grace: 30s}
      discard_limit: 1.5GiB
    ready:
      - units: [containerd.service, kubelet.service]
      - http: http://127.0.0.1:10248/healthz
      - exec: [test, -e, /run/ready]
    after_start: [/usr/local/bin/after, "--all"]
    gpu: off
  green:
    container: {privileged: true}
journal: {keep: 100}
`

func TestLoad_EveryKey(t *testing.T) {
	c := load(t, example)

	want := builtin()
	want.StateDir = "/srv/state"
	want.Engine = Engine{Socket: "/run/podman/podman.sock", Unit: "podman.socket", Wait: 90 * time.Second}
	want.Timeouts = Timeouts{Ready: 5 * time.Minute, AfterStart: 90 * time.Minute, Pull: 20 * time.Minute, Poll: 500 * time.Millisecond, Lock: 3 * time.Second}
	want.Journal.Keep = 100

	green := want.Slots["kube2"]
	green.Peer, green.Unit = "blue", "node-stack@green.service"
	green.Container.Name = "node-green"
	green.Container.Privileged, green.Container.Capabilities = true, []string{}
	want.Slots = map[string]Slot{
		"green": green,
		"blue": {
			Peer: "green",
			Unit: "stack-blue.service",
			Container: Container{
				Name: "blue", Image: "localhost/node:1.34", Pull: "never",
				Command:      []string{"/lib/systemd/systemd", "--log-level", "7", "1.50"},
				Env:          map[string]string{"FOO": "1", "BAR": "a b", "container": "docker"},
				Network:      "bridge",
				CgroupNS:     "host",
				Tmpfs:        []string{"/run:exec"},
				SecurityOpt:  []string{},
				Capabilities: []string{"NET_ADMIN", "CAP_BPF"},
				Devices:      []string{"/dev/fuse", "/dev/a:/dev/b:rw", "nvidia.com/gpu=all"},
				Volumes:      []string{"/var/lib/node/blue:/var/lib/containerd", "data:/data:ro"},
				Stop:         Stop{Signal: "SIGRTMIN+3", Grace: 30 * time.Second},
				DiscardLimit: 3 << 29,
			},
			Ready: []Probe{
				{Units: []string{"containerd.service", "kubelet.service"}},
				{HTTP: "http://127.0.0.1:10248/healthz"},
				{Exec: []string{"test", "-e", "/run/ready"}},
			},
			AfterStart: []string{"/usr/local/bin/after", "--all"},
			GPU:        "off",
		},
	}
	if diff := cmp.Diff(want, c, values); diff != "" {
		t.Error(diff)
	}
}

// Mappings are merged, lists and single values replaced; each value knows the
// layer that gave it.
func TestLoad_Layers(t *testing.T) {
	path := tree(t, map[string]string{
		"config.yaml": `state_dir: /srv/main
engine: {wait: 10s}
timeouts:
  ready: 1m
  poll: 2s
slots:
  kube1:
    container:
      image: one
      tmpfs: [/a, /b]
      env: {A: main, B: main}
    ready:
      - http: http://main/
      - units: [a.service]
`,
		"conf.d/20-b.yaml": "slots: {kube1: {container: {image: three}}}\n",
		"conf.d/10-a.yaml": `timeouts: {ready: 2m}
slots:
  kube1:
    container:
      image: two
      tmpfs: [/c]
      env: {B: drop-in}
    ready: [{exec: [true]}]
`,
	})
	env := map[string]string{
		"NODE_LIFECYCLE_TIMEOUTS_POLL": "3s", "NODE_LIFECYCLE_ENGINE_WAIT": "20s", "NODE_LIFECYCLE_STATE_DIR": "",
		"NODE_LIFECYCLE_JOURNAL_KEEP": "7",
	}
	c, err := Load(Options{Path: path, Getenv: func(k string) string { return env[k] }, Overrides: []Override{
		{Key: "engine.wait", Value: "30s", Flag: "--engine-wait"},
		{Key: "timeouts.lock", Value: "1s", Flag: "--lock"},
		{Key: "timeouts.lock", Value: "2s", Flag: "--lock-timeout"},
	}})
	if err != nil {
		t.Fatal(err)
	}

	want := builtin()
	want.StateDir, want.Engine.Wait, want.Journal.Keep = "/srv/main", 30*time.Second, 7
	want.Timeouts.Ready, want.Timeouts.Poll, want.Timeouts.Lock = 2*time.Minute, 3*time.Second, 2*time.Second
	s := want.Slots["kube1"]
	s.Container.Image, s.Container.Tmpfs = "three", []string{"/c"}
	s.Container.Env = map[string]string{"A": "main", "B": "drop-in", "container": "docker"}
	s.Ready = []Probe{{Exec: []string{"true"}}}
	want.Slots["kube1"] = s
	if diff := cmp.Diff(want, c, values); diff != "" {
		t.Error(diff)
	}

	dir := filepath.Dir(path)
	for key, want := range map[string]string{
		"state_dir":                       dir + "/config.yaml:1",
		"timeouts.ready":                  dir + "/conf.d/10-a.yaml:1",
		"timeouts.poll":                   "NODE_LIFECYCLE_TIMEOUTS_POLL",
		"timeouts.lock":                   "--lock-timeout",
		"timeouts.pull":                   "default",
		"engine.wait":                     "--engine-wait",
		"slots.kube1.container.image":     dir + "/conf.d/20-b.yaml:1",
		"slots.kube1.container.tmpfs":     dir + "/conf.d/10-a.yaml:6",
		"slots.kube1.container.env.A":     dir + "/config.yaml:11",
		"slots.kube1.container.env.B":     dir + "/conf.d/10-a.yaml:7",
		"slots.kube1.ready":               dir + "/conf.d/10-a.yaml:8",
		"slots.kube1.ready[0].http":       "default",
		"slots.kube2.container.env.A":     "default",
		"slots.kube2.container.image":     "default",
		"slots.kube1.container.stop.wait": "default",
	} {
		if got := c.Origin(key).String(); got != want {
			t.Errorf("origin of %s: %s, want %s", key, got, want)
		}
	}
	if diff := cmp.Diff([]string{path, dir + "/conf.d/10-a.yaml", dir + "/conf.d/20-b.yaml"}, c.Files()); diff != "" {
		t.Error(diff)
	}
	if o := c.Origin("slots.kube1.container.image"); o.Kind != OriginFile || o.Column != 36 {
		t.Errorf("origin is %+v", o)
	}
}

func TestLoad_Files(t *testing.T) {
	check := func(name string, o Options, want string) {
		t.Helper()
		c, err := Load(o)
		if err == nil {
			t.Fatalf("%s: no error but %+v", name, c)
		}
		got := strings.ReplaceAll(err.Error(), filepath.Dir(o.Path), "DIR")
		if got != want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, want)
		}
		var e *Error
		if !errors.As(err, &e) || !e.Misconfigured() || e.Denied() {
			t.Errorf("%s: %#v is not a misconfiguration", name, err)
		}
	}
	missing := tree(t, nil)
	check("missing but asked for", Options{Path: missing, Required: true}, "DIR/config.yaml: cannot be read: no such file or directory")
	if _, err := Load(Options{Path: missing, Required: true}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the cause is lost in %v", err)
	}

	check("directory", Options{Path: filepath.Dir(tree(t, map[string]string{"config.yaml/x": ""})) + "/config.yaml"},
		"DIR/config.yaml: is not a file")
	check("too large", Options{Path: tree(t, map[string]string{"config.yaml": strings.Repeat("#", 64<<10+1)})},
		"DIR/config.yaml: is larger than 64 KiB, too large for a configuration")
	check("wrong ending", Options{Path: tree(t, map[string]string{"conf.d/a.yml": ""})},
		"DIR/conf.d/a.yml: drop-ins end in .yaml; rename the file")
	check("conf.d is a file", Options{Path: tree(t, map[string]string{"conf.d": ""})},
		"DIR/conf.d: cannot be read: not a directory")

	dangling := tree(t, map[string]string{"conf.d/b.yaml": "bad", "conf.d/c.yaml": ""})
	if err := os.Symlink("nowhere", filepath.Dir(dangling)+"/conf.d/a.yaml"); err != nil {
		t.Fatal(err)
	}
	check("every file is tried", Options{Path: dangling}, "DIR/conf.d/a.yaml: cannot be read: no such file or directory\n"+
		"DIR/conf.d/b.yaml:1:1: must be a mapping (KEY: VALUE), not text")

	if full := tree(t, map[string]string{"config.yaml": strings.Repeat("#", 64<<10)}); true {
		if _, err := Load(Options{Path: full}); err != nil {
			t.Errorf("64 KiB are allowed: %v", err)
		}
	}
	if _, err := Load(Options{Path: "/dev/null", Required: true}); err != nil {
		t.Errorf("/dev/null is an empty file: %v", err)
	}
}

// Want of permission is told apart, since editing the file does not cure it.
func TestError_Denied(t *testing.T) {
	var err error = unreadable("/etc/x", &fs.PathError{Op: "open", Path: "/etc/x", Err: fs.ErrPermission})
	var e *Error
	if !errors.As(err, &e) || !e.Denied() || e.Misconfigured() {
		t.Errorf("%v is not seen as denied", err)
	}
	if got := err.Error(); got != "/etc/x: cannot be read: permission denied" {
		t.Error(got)
	}
}

func TestLoad_EnvironmentAndFlags(t *testing.T) {
	env := map[string]string{"NODE_LIFECYCLE_ENGINE_WAIT": "60", "NODE_LIFECYCLE_STATE_DIR": "a\x00b", "NODE_LIFECYCLE_JOURNAL_KEEP": "many"}
	_, err := Load(Options{Path: tree(t, nil), Getenv: func(k string) string { return env[k] }, Overrides: []Override{
		{Key: "slots.kube1.peer", Value: "", Flag: "--peer"},
		{Key: "engine", Value: "x", Flag: "--engine"},
		{Key: "timeouts.ready", Value: "-", Flag: "--ready-timeout"},
	}})
	want := `NODE_LIFECYCLE_STATE_DIR: state_dir: holds the control character U+0000, which is not allowed
NODE_LIFECYCLE_ENGINE_WAIT: engine.wait: 60 has no unit; for seconds write 60s
NODE_LIFECYCLE_JOURNAL_KEEP: journal.keep: must be a whole number, not "many"
--peer: slots.kube1.peer: is not a key that can be set from here
--engine: engine: is not a key that can be set from here
--ready-timeout: timeouts.ready: must be a duration such as 60s, 2m or 1h30m, not "-"`
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}

	// What validation finds points at the flag as well.
	_, err = Load(Options{Path: tree(t, nil), Overrides: []Override{{Key: "state_dir", Value: "x", Flag: "--state-dir"}}})
	if want := `--state-dir: state_dir: must be an absolute path, not "x"`; err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}

func TestEnvVars(t *testing.T) {
	want := []EnvVar{
		{"NODE_LIFECYCLE_STATE_DIR", "state_dir"},
		{"NODE_LIFECYCLE_ENGINE_SOCKET", "engine.socket"},
		{"NODE_LIFECYCLE_ENGINE_UNIT", "engine.unit"},
		{"NODE_LIFECYCLE_ENGINE_WAIT", "engine.wait"},
		{"NODE_LIFECYCLE_TIMEOUTS_READY", "timeouts.ready"},
		{"NODE_LIFECYCLE_TIMEOUTS_AFTER_START", "timeouts.after_start"},
		{"NODE_LIFECYCLE_TIMEOUTS_PULL", "timeouts.pull"},
		{"NODE_LIFECYCLE_TIMEOUTS_POLL", "timeouts.poll"},
		{"NODE_LIFECYCLE_TIMEOUTS_LOCK", "timeouts.lock"},
		{"NODE_LIFECYCLE_JOURNAL_KEEP", "journal.keep"},
	}
	if diff := cmp.Diff(want, EnvVars()); diff != "" {
		t.Error(diff)
	}
}
