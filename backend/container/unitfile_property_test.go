package container

import (
	"bytes"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-systemd/v22/unit"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// parseDirectives reads a unit file with a parser that is not ours.
func parseDirectives(t interface {
	Helper()
	Fatalf(string, ...any)
}, content []byte) map[string][]string {
	t.Helper()
	options, err := unit.DeserializeOptions(bytes.NewReader(content))
	if err != nil {
		t.Fatalf("%v\n%s", err, content)
	}
	found := make(map[string][]string)
	for _, o := range options {
		name := o.Section + "." + o.Name
		found[name] = append(found[name], o.Value)
	}
	return found
}

// systemdWords reads a value as systemd does: words, quotes, backslashes, specifiers and, in a command, variables. It
// returns false if something in it is none of the file's literal text and not the one specifier %i.
func systemdWords(value string, command bool) (words []string, ok bool) {
	var word strings.Builder
	inWord, quoted, script := false, false, false
	for i := 0; i < len(value); i++ {
		next := byte(0)
		if i+1 < len(value) {
			next = value[i+1]
		}
		switch c := value[i]; {
		case c == '\'' && !quoted && (script || !inWord && next == '"'):
			script = !script // the only text in single quotes is the condition's script
		case c == '"' && script, c == ' ' && script, c == ';' && script:
			word.WriteByte(c)
		case c == ' ' && !quoted:
			if inWord {
				words = append(words, word.String())
			}
			word.Reset()
			inWord = false
			continue
		case c == '"':
			quoted = !quoted
		case c == '\'' && !quoted, c == ';' && !inWord:
			return nil, false
		case c == '\\':
			if next != '\\' && next != '"' {
				return nil, false
			}
			word.WriteByte(next)
			i++
		case c == '%' && next == 'i':
			word.WriteString("<instance>")
			i++
		case c == '%' && next != '%', c == '$' && command && next != '$':
			return nil, false
		case c == '%', c == '$' && command:
			word.WriteByte(c)
			i++
		default:
			word.WriteByte(c)
		}
		inWord = true
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, !quoted && !script
}

type testFailer interface {
	Helper()
	Errorf(string, ...any)
	Fatalf(string, ...any)
}

// plainScript is the condition's script as the shell gets it.
const plainScript = `"$0" "$@"; case $? in 0) exit 0;; 76) exit 76;; esac; exit 255`

// checkRendered renders all units and, unless the parameters were refused, compares what a parser finds in them with
// what is meant: the same directives whatever was configured, and every configured value as it was.
func checkRendered(t testFailer, p UnitParams) {
	t.Helper()
	files, err := RenderUnits(p)
	if err != nil {
		if !isMisconfigured(err) || strings.ContainsAny(err.Error(), "\n\r\x00") {
			t.Errorf("error %q", err)
		}
		return
	}
	if len(files) != 4 {
		t.Fatalf("%d files", len(files))
	}
	p, _ = p.prepared()
	hooks := map[string]string{"ExecCondition": "peer-check", "ExecStartPre": "pre-start", "ExecStart": "run",
		"ExecStartPost": "post-start", "ExecStop": "stop", "ExecStopPost": "post-stop"}
	template := parseDirectives(t, files[0].Content)
	want := []string{"Unit.Description", "Unit.Documentation", "Unit.Wants", "Unit.After", "Unit.StartLimitIntervalSec",
		"Unit.StartLimitBurst", "Unit.RequiresMountsFor", "Service.Type", "Service.NotifyAccess", "Service.SyslogIdentifier",
		"Service.TimeoutStartSec", "Service.TimeoutStopSec", "Service.KillMode", "Service.Delegate", "Service.Restart", "Service.RestartSec", "Install.WantedBy"}
	for name, command := range hooks {
		want = append(want, "Service."+name)
		words := []string{p.Binary, command, "<instance>"}
		if name == "ExecCondition" {
			words = append([]string{"/bin/sh", "-c", plainScript}, words...)
		}
		checkWords(t, template, "Service."+name, true, words...)
	}
	checkNames(t, template, p, want...)
	checkWords(t, template, "Unit.Wants", false, p.EngineUnit, "network-online.target")
	checkWords(t, template, "Unit.RequiresMountsFor", false, p.StateDir)

	resume := parseDirectives(t, files[1].Content)
	checkNames(t, resume, p, "Unit.Description", "Unit.Documentation", "Unit.RequiresMountsFor", "Unit.ConditionPathExists", "Unit.Wants",
		"Unit.After", "Service.Type", "Service.ExecStart", "Service.TimeoutStartSec", "Install.WantedBy")
	checkWords(t, resume, "Service.ExecStart", true, p.Binary, "resume")
	if got := resume["Unit.ConditionPathExists"][0]; strings.ReplaceAll(got, "%%", "%") != path.Join(p.StateDir, "journal.db") ||
		strings.Count(got, "%")%2 != 0 {
		t.Errorf("condition %q for %q", got, p.StateDir)
	}

	reconcile := parseDirectives(t, files[2].Content)
	checkNames(t, reconcile, p, "Unit.Description", "Unit.Documentation", "Unit.After", "Unit.RequiresMountsFor", "Service.Type",
		"Service.ExecStart", "Service.TimeoutStartSec")
	checkWords(t, reconcile, "Service.ExecStart", true,
		append(append([]string{p.Binary, "reconcile"}, p.ReconcileArgs...), "<instance>")...)
	checkWords(t, reconcile, "Unit.After", false, strings.Replace(p.UnitTemplate, "@", "@<instance>", 1))

	timer := parseDirectives(t, files[3].Content)
	p.Config = ""
	checkNames(t, timer, p, "Unit.Description", "Unit.Documentation", "Timer.OnActiveSec", "Timer.OnUnitInactiveSec",
		"Timer.RandomizedDelaySec", "Install.WantedBy")
}

// checkNames compares the directives' names: each once, and none else.
func checkNames(t testFailer, found map[string][]string, p UnitParams, want ...string) {
	t.Helper()
	if p.Config != "" {
		want = append(want, "Service.Environment")
		checkWords(t, found, "Service.Environment", false, "NODE_LIFECYCLE_CONFIG="+p.Config)
	}
	once := make(map[string]int)
	for _, name := range want {
		once[name] = 1
	}
	got := make(map[string]int)
	for name, values := range found {
		got[name] = len(values)
	}
	if diff := cmp.Diff(once, got); diff != "" {
		t.Errorf("directives:\n%s", diff)
	}
}

func checkWords(t testFailer, found map[string][]string, name string, command bool, want ...string) {
	t.Helper()
	if len(found[name]) != 1 {
		t.Errorf("%s: %d times", name, len(found[name]))
		return
	}
	value := found[name][0]
	if !command && name != "Service.Environment" && name != "Unit.RequiresMountsFor" {
		// Unit names keep their backslashes.
		value = strings.ReplaceAll(value, `\`, `\\`)
	}
	if got, ok := systemdWords(value, command); !ok || !cmp.Equal(got, want) {
		t.Errorf("%s: %s\nis read as %q\nwant       %q", name, found[name][0], got, want)
	}
}

// hostileText generates texts that try to be more than one value.
func hostileText() *rapid.Generator[string] {
	piece := rapid.OneOf(
		rapid.SampledFrom([]string{"\n", "\r\n", "\nExecStartPre=/bin/evil", "\n[Service]\n", "\x00", "\xff", "\u2028", "\u00a0",
			"%", "%i", "%%", "$", "$HOME", "${HOME}", "\\", "\\\n", `\x0a`, `"`, "'", " ", "\t", ";", " ; ", "#", "=", "@", "ü"}),
		rapid.StringMatching(`[a-z0-9./_-]{0,8}`),
		rapid.StringN(0, 4, 16),
	)
	return rapid.Map(rapid.SliceOfN(piece, 0, 6), func(pieces []string) string { return strings.Join(pieces, "") })
}

func TestRenderedDirectivesAreTheIntendedOnes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := hostileText()
		optional := func(label, prefix, suffix string) string {
			if !rapid.Bool().Draw(t, label+" set") {
				return ""
			}
			return prefix + text.Draw(t, label) + suffix
		}
		checkRendered(t, UnitParams{
			Binary:            optional("binary", "/", ""),
			Config:            optional("config", "/", ""),
			StateDir:          optional("state", rapid.SampledFrom([]string{"/", "/var/lib/"}).Draw(t, "below"), ""),
			EngineUnit:        optional("engine", "", ".service"),
			UnitTemplate:      optional("template", "", "@.service"),
			ReconcileArgs:     rapid.SliceOfN(text, 0, 3).Draw(t, "args"),
			ReconcileInterval: time.Duration(rapid.Int64Range(1, int64(Infinity)).Draw(t, "interval")),
			EngineWait:        time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "wait")),
		})
	})
}

func FuzzRenderUnits(f *testing.F) {
	odd := oddParams("/opt/50% off/node-lifecycle")
	f.Add("/usr/bin/node-lifecycle", "/etc/node-lifecycle/config.yaml", "/var/lib/node-lifecycle", "docker.service", "node-stack@.service", "--all")
	f.Add(odd.Binary, odd.Config, odd.StateDir, odd.EngineUnit, odd.UnitTemplate, odd.ReconcileArgs[5])
	f.Add("/a\nb", "/a\\", "/a ", "a.service b.service", "a@b.service", "\u2028")
	f.Add("", "", "", "", "", "")
	f.Fuzz(func(t *testing.T, binary, config, state, engine, template, arg string) {
		if len(arg) > unitPathMax {
			return // longer lines than the parser of this test can read
		}
		checkRendered(t, UnitParams{Binary: binary, Config: config, StateDir: state, EngineUnit: engine,
			UnitTemplate: template, ReconcileArgs: []string{arg}, ReconcileInterval: time.Hour})
	})
}

func FuzzUnitName(f *testing.F) {
	f.Add("node-stack@.service", "kube1")
	f.Add("node-stack@.service", "../a-b\\%i\xff\n")
	f.Fuzz(func(t *testing.T, template, instance string) {
		name, err := UnitName(template, instance)
		if err != nil {
			if !isMisconfigured(err) {
				t.Error(err)
			}
			return
		}
		if err := CheckUnitName(name); err != nil {
			t.Error(err)
		}
		prefix, suffix, _ := strings.Cut(template, "@")
		if !strings.HasPrefix(name, prefix+"@") || !strings.HasSuffix(name, suffix) || len(name) > unitNameMax {
			t.Errorf("%q for %q and %q", name, template, instance)
		}
	})
}
