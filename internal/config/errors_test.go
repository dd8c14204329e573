package config

import (
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestLoad_Errors holds what people get to read. The position is that of the
// key for a key and that of the value for a value.
func TestLoad_Errors(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		// Text and syntax.
		{"NUL", "a: \x00", "1:4: control character U+0000 is not allowed"},
		{"escape", "# ü\nversion: 1 # \x1b[31m", "2:14: control character U+001B is not allowed"},
		{"C1", "\u009b", "1:1: control character U+009B is not allowed"},
		{"lone CR", "a: 1\rb", "1:5: control character U+000D is not allowed"},
		{"UTF-8", "é: \xff", "1:4: not valid UTF-8 (byte 0xff)"},
		{"bracket", "engine: {wait: 2m", "1:9: could not find flow mapping end token '}'"},
		{"quote", "a: \"b\n", "1:4: could not find end character of double-quoted text"},
		{"colon", "a: b: c\n", "1:4: mapping value is not allowed in this context"},
		{"depth", "a: " + strings.Repeat("[", 40000), "1:20: nested too deeply"},
		{"dashes", "- - -\n" + strings.Repeat("- ", 30000), "2:33: nested too deeply"},
		{"second", "version: 1\n---\nversion: 1\n", "2:1: a second YAML document begins here; only one is read, so join them"},
		{"second, empty", "version: 1\n---\n", "2:1: a second YAML document begins here; only one is read, so join them"},
		{"second, no start", "version: 1\n...\nversion: 1\n", "3:1: a second YAML document begins here; only one is read, so join them"},
		{"directive", "%YAML 1.2\n---\nversion: 1\n", "1:1: YAML directives are not supported; remove the line"},
		{"tag", "state_dir: !!str /x\n", "1:12: state_dir: tags such as !!str are not supported; remove it"},

		// Keys.
		{"unknown", "enginee: 1\n", `1:1: enginee: unknown key; the nearest is "engine"`},
		{"swapped", "engine:\n  wiat: 1m\n", `2:3: engine.wiat: unknown key; the nearest is "wait"`},
		{"camel case", "stateDir: /x", `1:1: stateDir: unknown key; the nearest is "state_dir"`},
		{"hyphen", "timeouts: {after-start: 1m}", `1:12: timeouts.after-start: unknown key; the nearest is "after_start"`},
		{"misplaced", "slots:\n  kube1:\n    image: x\n", "3:5: slots.kube1.image: unknown key here; it belongs to slots.SLOT.container.image"},
		{"misplaced probe", "exec: [x]", "1:1: exec: unknown key here; it belongs to slots.SLOT.ready[].exec"},
		{"far off", "journal: {retention: 5}", "1:11: journal.retention: unknown key; known here: keep"},
		{"not printable", "journal: {\"\\e[1m\": 5}", "1:11: \"journal.\\x1b[1m\": holds the control character U+001B, which is not allowed"},
		{"twice", "slots:\n  kube1: {}\n  kube2: {}\n  'kube1': {}\n", "4:3: slots.kube1: is given twice, first at 2:3"},
		{"twice at the top", "version: 1\nversion: 1\n", "2:1: version: is given twice, first at 1:1"},
		{"number as key", "slots: {1: {}}", "1:9: slots: a key must be plain text"},
		{"list at the top", "- version: 1\n", "1:1: must be a mapping (KEY: VALUE), not a list"},

		// Types.
		{"text for mapping", "engine: docker", "1:9: engine: must be a mapping (KEY: VALUE), not text"},
		{"mapping for text", "state_dir: {a: b}", "1:12: state_dir: must be text, not a mapping; quote it if it is meant as text"},
		{"number for text", "slots: {kube1: {container: {image: 1.34}}}", "1:36: slots.kube1.container.image: must be text, not a number; quote it if it is meant as text"},
		{"boolean for text", "state_dir: true", "1:12: state_dir: must be text, not a boolean; quote it if it is meant as text"},
		{"mapping for list", "slots:\n  kube1:\n    after_start:\n      a: b\n", "4:7: slots.kube1.after_start: must be a list ([A, B]), not a mapping"},
		{"text for list", "slots: {kube1: {after_start: /bin/x}}", "1:30: slots.kube1.after_start: must be a list ([A, B]), not text"},
		{"list in list", "slots: {kube1: {after_start: [[a]]}}", "1:31: slots.kube1.after_start[0]: must be text, not a list"},
		{"null", "state_dir:\n", "1:1: state_dir: has no value; write one or remove the key"},
		{"null item", "slots: {kube1: {after_start: [a, ~]}}", "1:34: slots.kube1.after_start[1]: must be text, not an empty value"},
		{"list for duration", "timeouts: {ready: [1m]}", "1:19: timeouts.ready: must be a duration such as 60s, 2m or 1h30m, not a list"},
		{"list for number", "journal: {keep: [1]}", "1:17: journal.keep: must be a whole number, not a list"},
		{"list for size", "slots: {kube1: {container: {discard_limit: []}}}", "1:44: slots.kube1.container.discard_limit: must be a size such as 64MiB, not a list"},
		{"list for boolean", "slots: {kube1: {container: {tty: []}}}", "1:34: slots.kube1.container.tty: must be true or false, not a list"},
		{"yes", "slots: {kube1: {container: {tty: yes}}}", `1:34: slots.kube1.container.tty: must be true or false, not "yes"`},
		{"fraction", "journal: {keep: 1.5}", `1:17: journal.keep: must be a whole number, not "1.5"`},
		{"null in env", "slots: {kube1: {container: {env: {A: }}}}", "1:37: slots.kube1.container.env.A: must be text, not an empty value"},
		{"lines", "state_dir: |\n  /a\n  /b\n", "1:12: state_dir: must be one line of text"},
		{"escaped NUL", `state_dir: "/a\0"`, "1:12: state_dir: holds the control character U+0000, which is not allowed"},
		{"escape in a list", `slots: {kube1: {container: {command: ["\e"]}}}`, "1:39: slots.kube1.container.command[0]: holds the control character U+001B, which is not allowed"},

		// Durations, sizes, numbers.
		{"no unit", "engine: {wait: 120}", "1:16: engine.wait: 120 has no unit; for seconds write 120s"},
		{"zero without unit", "engine: {wait: 0}", "1:16: engine.wait: 0 has no unit; for seconds write 0s"},
		{"zero", "engine: {wait: 0s}", "1:16: engine.wait: must be longer than zero"},
		{"negative", "timeouts: {ready: -1m}", "1:19: timeouts.ready: must be longer than zero"},
		{"too long", "timeouts: {pull: 25h}", "1:18: timeouts.pull: must not be longer than 24h"},
		{"spelt out", "timeouts: {lock: 2 minutes}", `1:18: timeouts.lock: must be a duration such as 60s, 2m or 1h30m, not "2 minutes"`},
		{"busy poll", "timeouts: {poll: 1ms}", "1:18: timeouts.poll: must be at least 10ms"},
		{"idle poll", "timeouts: {poll: 3m}", "1:18: timeouts.poll: must not be longer than timeouts.ready (2m)"},
		{"size", "slots: {kube1: {container: {discard_limit: 64 MeB}}}", `1:44: slots.kube1.container.discard_limit: must be a size such as 64MiB or 1GiB, not "64 MeB"`},
		{"negative size", "slots: {kube1: {container: {discard_limit: -1}}}", `1:44: slots.kube1.container.discard_limit: must be a size such as 64MiB or 1GiB, not "-1"`},
		{"exponent", "slots: {kube1: {container: {discard_limit: 1e3}}}", `1:44: slots.kube1.container.discard_limit: must be a size such as 64MiB or 1GiB, not "1e3"`},
		{"huge size", "slots: {kube1: {container: {discard_limit: 9999999999999999PiB}}}", "1:44: slots.kube1.container.discard_limit: 9999999999999999PiB is more than 1 PiB"},
		{"large size", "slots: {kube1: {container: {discard_limit: 2PiB}}}", "1:44: slots.kube1.container.discard_limit: 2PiB is more than 1 PiB"},
		{"keep", "journal: {keep: 0}", "1:17: journal.keep: must be between 1 and 1000000 entries, not 0"},

		// General values.
		{"version", "version: 2", "1:10: version: version 2 is not known to this release, which knows only 1"},
		{"relative", "state_dir: var/lib", `1:12: state_dir: must be an absolute path, not "var/lib"`},
		{"root", "state_dir: /var/..", "1:12: state_dir: must not be the root directory"},
		{"socket URL", "engine: {socket: 'unix:///run/docker.sock'}", "1:18: engine.socket: must be a path, without unix://"},
		{"socket", "engine: {socket: docker.sock}", `1:18: engine.socket: must be an absolute path, not "docker.sock"`},
		{"parent", "state_dir: /srv/../x", `1:12: state_dir: must be a path without .., which leads elsewhere behind a symbolic link, not "/srv/../x"`},
		{"control character", `state_dir: "/srv/\u0085"`, `1:12: state_dir: holds the control character U+0085, which is not allowed`},
		{"space at the end", `state_dir: "/srv/x\u2003"`, `1:12: state_dir: "/srv/x\u2003" ends with a space`},
		{"path length", "state_dir: /" + strings.Repeat("x", 900), "1:12: state_dir: is longer than 900 bytes"},
		{"engine unit", "engine: {unit: docker}", `1:16: engine.unit: "docker" is no unit: the name must end in .service or another of systemd's types`},
		{"empty unit", "engine: {unit: ''}", "1:16: engine.unit: needs the name of a unit"},

		// Slots and peers.
		{"slot case", "slots: {Kube1: {}}", `1:9: slots.Kube1: "Kube1" cannot be a slot's name: 1 to 31 of a-z, 0-9 and -, beginning with a letter, not ending in -`},
		{"slot path", "slots:\n  a/../b: {}", `2:3: slots.a/../b: "a/../b" cannot be a slot's name: 1 to 31 of a-z, 0-9 and -, beginning with a letter, not ending in -`},
		{"slot hyphen", "slots: {kube-: {}}", `1:9: slots.kube-: "kube-" cannot be a slot's name: 1 to 31 of a-z, 0-9 and -, beginning with a letter, not ending in -`},
		{"slot length", "slots: {a" + strings.Repeat("b", 31) + ": {}}", `1:9: slots.a` + strings.Repeat("b", 31) + `: "a` + strings.Repeat("b", 31) + `" cannot be a slot's name: 1 to 31 of a-z, 0-9 and -, beginning with a letter, not ending in -`},
		{"unknown peer", "slots:\n  blue: {peer: gren}\n  green: {peer: blue}\n", "2:16: slots.blue.peer: there is no slot \"gren\"; the nearest is \"green\"\nFILE:3:17: slots.green.peer: peers must name each other: the peer of green is \"blue\", but the peer of blue is \"gren\""},
		{"no such peer", "slots: {blue: {peer: other}}", `1:22: slots.blue.peer: there is no slot "other"; configured are blue`},
		{"own peer", "slots: {blue: {peer: blue}}", "1:22: slots.blue.peer: a slot cannot be its own peer"},
		{"one-sided", "slots:\n  kube1: {peer: ''}\n  kube2: {}\n", `3:3: slots.kube2.peer: peers must name each other: the peer of kube2 is "kube1", but the peer of kube1 is none`},
		{"three, one open", "slots: {a: {peer: b}, b: {peer: a}, c: {}}", `1:37: slots.c.peer: with more than two slots each must name its peer, or "" for none`},
		{"one unit", "slots:\n  kube1: {unit: x.service}\n  kube2: {unit: x.service}\n", "3:17: slots.kube2.unit: x.service is already the unit of slot kube1"},
		{"unit of the other slot", "slots:\n  kube1: {unit: a@kube2.service}\n",
			"2:17: slots.kube1.unit: the hooks of a@kube2.service act on slot kube2, since that is its instance, and not on kube1; name a@kube1.service"},
		{"engine's unit", "slots: {kube1: {unit: docker.service}}", "1:23: slots.kube1.unit: docker.service is the engine's unit (engine.unit)"},
		{"one container", "slots: {kube2: {container: {name: node-kube1}}}", "1:35: slots.kube2.container.name: node-kube1 is already the container of slot kube1"},
		{"socket as unit", "slots: {kube1: {unit: x.socket}}", `1:23: slots.kube1.unit: "x.socket" must be a service`},
		{"template", "slots: {kube1: {unit: x@.service}}", `1:23: slots.kube1.unit: "x@.service" is a template; name an instance, such as x@NAME.service`},
		{"specifier", "slots: {kube1: {unit: 'x@%i.service'}}", `1:23: slots.kube1.unit: "x@%i.service" holds a specifier (%), which only systemd can expand; write the unit's full name`},
		{"unit characters", "slots: {kube1: {unit: x y.service}}", `1:23: slots.kube1.unit: "x y.service" is no unit: systemd allows letters, digits and : - _ . \ @ in a name`},
		{"unit length", "slots: {kube1: {unit: " + strings.Repeat("x", 248) + ".service}}", "1:23: slots.kube1.unit: is longer than systemd's limit of 255 characters"},
		{"gpu", "slots: {kube1: {gpu: auto}}", `1:22: slots.kube1.gpu: GPU wiring is not available in this version; set it to "off"`},
		{"gpu word", "slots: {kube1: {gpu: all}}", `1:22: slots.kube1.gpu: must be off, the only value yet, not "all"`},

		// Probes.
		{"two probes in one", "slots: {kube1: {ready: [{http: 'http://a/', exec: [b]}]}}", "1:25: slots.kube1.ready[0]: each probe needs exactly one of units, http and exec, this one has 2"},
		{"no probe", "slots: {kube1: {ready: [{exec: [a]}, {}]}}", "1:38: slots.kube1.ready[1]: each probe needs exactly one of units, http and exec, this one has 0"},
		{"unknown probe", "slots: {kube1: {ready: [{tcp: 1}]}}", "1:26: slots.kube1.ready[0].tcp: unknown key; known here: units, http, exec"},
		{"scheme", "slots: {kube1: {ready: [{http: 'ftp://a/'}]}}", `1:32: slots.kube1.ready[0].http: must be a URL such as http://127.0.0.1:10248/healthz, not "ftp://a/"`},
		{"no program", "slots: {kube1: {ready: [{exec: []}]}}", "1:32: slots.kube1.ready[0].exec: needs the name of a program"},
		{"no units", "slots: {kube1: {ready: [{units: []}]}}", "1:33: slots.kube1.ready[0].units: needs at least one unit"},
		{"probe unit", "slots: {kube1: {ready: [{units: [a.service, kubelet]}]}}", `1:45: slots.kube1.ready[0].units[1]: "kubelet" is no unit: the name must end in .service or another of systemd's types`},

		// Containers.
		{"container name", "slots: {kube1: {container: {name: a}}}", `1:35: slots.kube1.container.name: "a" cannot be a container's name: at least two of a-z, A-Z, 0-9, _ . and -, beginning with a letter or digit`},
		{"container length", "slots: {kube1: {container: {name: " + strings.Repeat("a", 201) + "}}}", "1:35: slots.kube1.container.name: is longer than 200 characters"},
		{"set aside", "slots: {kube1: {container: {name: a.kept-1}}}", `1:35: slots.kube1.container.name: must not contain ".kept-", which marks containers that were set aside`},
		{"image", "slots: {kube1: {container: {image: '--rm x'}}}", `1:36: slots.kube1.container.image: "--rm x" is no image reference`},
		{"pull", "slots: {kube1: {container: {pull: always}}}", `1:35: slots.kube1.container.pull: must be missing or never, not "always"`},
		{"command", "slots: {kube1: {container: {command: ['']}}}", "1:38: slots.kube1.container.command: needs the name of a program"},
		{"after start", "slots: {kube1: {after_start: ['']}}", "1:30: slots.kube1.after_start: needs the name of a program"},
		{"variable", "slots: {kube1: {container: {env: {'A=B': c}}}}", "1:42: slots.kube1.container.env.A=B: is no name for an environment variable"},
		{"network", "slots: {kube1: {container: {network: a b}}}", `1:38: slots.kube1.container.network: "a b" is no network; write host, bridge, none or the name of one`},
		{"cgroupns", "slots: {kube1: {container: {cgroupns: shared}}}", `1:39: slots.kube1.container.cgroupns: must be private or host, not "shared"`},
		{"tmpfs", "slots: {kube1: {container: {tmpfs: [run]}}}", `1:37: slots.kube1.container.tmpfs[0]: "run" must be an absolute path inside the container, below /`},
		{"security option", "slots: {kube1: {container: {security_opt: ['']}}}", "1:44: slots.kube1.container.security_opt[0]: must be an option such as seccomp=unconfined"},
		{"capability", "slots: {kube1: {container: {capabilities: [sys_admin]}}}", `1:44: slots.kube1.container.capabilities[0]: "sys_admin" is no capability; write it like SYS_ADMIN`},
		{"both", "slots: {kube1: {container: {privileged: true, capabilities: [ALL]}}}", "1:61: slots.kube1.container.capabilities: a privileged container has every capability; give capabilities or privileged, not both"},
		{"device", "slots: {kube1: {container: {devices: [/dev/fuse, fuse]}}}", `1:50: slots.kube1.container.devices[1]: "fuse" is no device; write it like /dev/fuse or /dev/fuse:/dev/fuse:rwm`},
		{"device mode", "slots: {kube1: {container: {devices: ['/dev/a:/dev/a:x']}}}", `1:39: slots.kube1.container.devices[0]: "/dev/a:/dev/a:x" is no device; write it like /dev/fuse or /dev/fuse:/dev/fuse:rwm`},
		{"volume", "slots: {kube1: {container: {volumes: [/a]}}}", `1:39: slots.kube1.container.volumes[0]: "/a" is no volume; write it like /var/lib/data:/data or /var/lib/data:/data:ro`},
		{"volume at root", "slots: {kube1: {container: {volumes: ['/a:/']}}}", `1:39: slots.kube1.container.volumes[0]: "/" must be an absolute path inside the container, below /`},
		{"signal", "slots: {kube1: {container: {stop: {signal: SIGHELP}}}}", `1:44: slots.kube1.container.stop.signal: "SIGHELP" is no signal; write it like SIGTERM or SIGRTMIN+3`},
		{"grace", "slots: {kube1: {container: {stop: {grace: 1500ms}}}}", "1:43: slots.kube1.container.stop.grace: must be whole seconds, as engines count it in seconds"},
		{"no grace", "slots: {kube1: {container: {stop: {grace: 0s}}}}", "1:43: slots.kube1.container.stop.grace: must be longer than zero"},

		// Aliases.
		{"no anchor", "slots: {kube1: *x, kube2: &x {}}", "1:16: slots.kube1: the alias *x has no anchor &x before it"},
		{"two anchors", "slots: {kube1: &x {}, kube2: &x {}}", "1:30: the anchor &x is defined twice"},
		{"circle", "slots: &x {kube1: {<<: *x}}", "1:12: slots.kube1.kube1: unknown key; known here: peer, unit, container, ready, after_start, gpu"},
		{"merge circle", "slots:\n  kube1: &x {<<: *x}\n", "2:18: slots.kube1: merge keys (<<) are nested too deeply"},
		{"anchored alias", "slots: {kube1: {gpu: &x *x}}", "1:25: unexpected scalar value type"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := tree(t, map[string]string{"config.yaml": tc.text})
			c, err := Load(Options{Path: path})
			if err == nil {
				t.Fatalf("accepted as %+v", c)
			}
			if got := strings.ReplaceAll(err.Error(), path, "FILE"); got != "FILE:"+tc.want {
				t.Errorf("\n got %s\nwant FILE:%s", got, tc.want)
			}
			var m interface{ Misconfigured() bool }
			if !errors.As(err, &m) || !m.Misconfigured() {
				t.Errorf("%v is no misconfiguration", err)
			}
		})
	}
}

// The fields of an error are what its text says.
func TestError_Fields(t *testing.T) {
	path := tree(t, map[string]string{"conf.d/a.yaml": "engine:\n  # unit\n  unitt: x\n"})
	_, err := Load(Options{Path: path})
	var e *Error
	if !errors.As(err, &e) {
		t.Fatal(err)
	}
	want := Error{
		File: filepath.Dir(path) + "/conf.d/a.yaml", Line: 3, Column: 3,
		Key: "engine.unitt", Message: `unknown key; the nearest is "unit"`,
	}
	if *e != want {
		t.Errorf("got %#v\nwant %#v", *e, want)
	}
}

// All problems of a file come together, but not without end.
func TestLoad_ManyErrors(t *testing.T) {
	path := tree(t, map[string]string{"config.yaml": "a: 1\nversion: x\n\"\\n\": x\nslots: {X: 1, y: 2}\n"})
	_, err := Load(Options{Path: path})
	want := []string{
		"1:1: a: unknown key; known here: version, state_dir, engine, timeouts, slots, journal",
		`2:10: version: must be a whole number, not "x"`,
		`3:1: "\n": must be one line of text`,
		`4:9: slots.X: "X" cannot be a slot's name: 1 to 31 of a-z, 0-9 and -, beginning with a letter, not ending in -`,
		"4:18: slots.y: must be a mapping (KEY: VALUE), not a number",
	}
	if got := strings.ReplaceAll(err.Error(), path+":", ""); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s", got)
	}

	var keys []string
	for i := range 100 {
		keys = append(keys, "X"+strconv.Itoa(i))
	}
	long := tree(t, map[string]string{"config.yaml": "slots: {" + strings.Join(keys, ": 1, ") + ": 1}\n"})
	_, err = Load(Options{Path: long})
	if n := strings.Count(err.Error(), "\n") + 1; n != maxProblems {
		t.Errorf("%d problems are reported, want %d", n, maxProblems)
	}
}
