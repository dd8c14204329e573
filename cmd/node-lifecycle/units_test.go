package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/node-lifecycle/node-lifecycle/phases"
)

// What config check accepts can be made into units: whoever installs learns nothing new.
func TestUnitsRefuseNothingThatCheckAccepts(t *testing.T) {
	base, accepted, refused := t.TempDir(), 0, 0
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.OneOf(
			rapid.SampledFrom([]string{"/", "//", "/x/.", "/x/..", "/../x", "@", "@.", "%i", "$HOME", "\\", `"`, "'", " ", ";", "\n", "\r", "\u0085", "\u00a0", "\u2028", "\xff", "ü"}),
			rapid.StringMatching(`[a-z0-9:_-]{1,6}`), rapid.Just(strings.Repeat("x", 240)),
		)
		odd := rapid.Map(rapid.SliceOfN(piece, 0, 5), func(pieces []string) string { return strings.Join(pieces, "") })
		// One value at a time is odd, or others would be refused for it.
		suspect := rapid.SampledFrom([]string{"state", "state", "engine", "unit", "file"}).Draw(t, "suspect")
		text := func(label, plain string) string {
			if label != suspect {
				return plain
			}
			return odd.Draw(t, label)
		}
		var config strings.Builder
		optional := func(label, format string, value func() any) {
			if label == suspect || rapid.Bool().Draw(t, label+" set") {
				fmt.Fprintf(&config, format, value())
			}
		}
		seconds := func(label string, most int) func() any {
			return func() any { return rapid.IntRange(1, most).Draw(t, label) }
		}
		optional("state", "state_dir: %q\n", func() any { return "/" + text("state", "srv/x") })
		config.WriteString("engine:\n  socket: /run/docker.sock\n")
		optional("engine", "  unit: %q\n", func() any {
			return text("engine", "podman") + rapid.SampledFrom([]string{".service", ".socket", "@x.service"}).Draw(t, "kind")
		})
		optional("wait", "  wait: %ds\n", seconds("wait", 86400))
		config.WriteString("timeouts:\n  lock: 1s\n")
		optional("ready", "  ready: %ds\n", seconds("ready", 86400))
		optional("after", "  after_start: %ds\n", seconds("after", 86400))
		optional("pull", "  pull: %ds\n", seconds("pull", 86400))
		config.WriteString("slots:\n  kube1:\n    peer: kube2\n")
		optional("unit", "    unit: %q\n", func() any { return text("unit", "node@kube1") + ".service" })
		optional("grace", "    container: {stop: {grace: %ds}}\n", seconds("grace", 86400))
		name := strings.ReplaceAll(text("file", "x"), "/", "_")
		path := filepath.Join(base, "c"+name[:min(len(name), 200)])
		if err := os.WriteFile(path, []byte(config.String()), 0o600); err != nil {
			t.Skip(err) // no such name can be
		}
		defer os.Remove(path)
		run := func(args ...string) (int, string) {
			var stdout, stderr bytes.Buffer
			code := Main(t.Context(), testEnvironment(append(args, "--config", path), func(string) string { return "" }, &stdout, &stderr))
			return code, stderr.String()
		}
		switch code, said := run("config", "check"); code {
		case 0:
			accepted++
			if code, said := run("units"); code != 0 {
				t.Fatalf("config check accepts what units refuses with %d: %s\n%s", code, said, config.String())
			}
		case phases.ExitConfig:
			refused++
		default:
			t.Fatalf("config check: exit code %d: %s", code, said)
		}
	})
	if accepted < 5 || refused < 5 {
		t.Errorf("%d configurations were accepted, %d refused: too few to learn from", accepted, refused)
	}
}
