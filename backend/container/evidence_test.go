package container

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/moby/api/types/container"
	"pgregory.net/rapid"

	"github.com/node-lifecycle/node-lifecycle/backend/container/enginetest"
)

// evidenceOf captures evidence and checks what holds for all of it.
func evidenceOf(t *testing.T, b *bench) evidence {
	t.Helper()
	text, err := b.Evidence(t.Context(), testSlot)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > evidenceMax {
		t.Errorf("%d bytes", len(text))
	}
	var e evidence
	if err := json.Unmarshal(text, &e); err != nil {
		t.Fatal(err)
	}
	if e.Version != 1 || e.Slot != testSlot || e.Time.IsZero() {
		t.Errorf("evidence %+v", e)
	}
	return e
}

func TestEvidence_Everything(t *testing.T) {
	flavors(t, func(t *testing.T, flavor enginetest.Flavor) {
		b := newBench(t, flavor, func(_ *Options, s *Slot) {
			s.Env = map[string]string{"NODE_TOKEN": "s3cr3t-t0ken", "container": "docker"}
			s.Command = []string{"/sbin/init", "--password=hunter22"}
		})
		id := b.start(t, 7)
		b.engine.Log(id, time.Now(), 1, "joining with s3cr3t-t0ken")
		b.engine.Log(id, time.Now(), 2, "kernel panic")
		b.engine.Add(enginetest.Spec{Name: "old", Labels: ourLabels(3), Ended: true})
		if _, _, err := b.Running(t.Context(), testSlot); err != nil {
			t.Fatal(err)
		}
		b.engine.SetHealth(id, container.Unhealthy, nil, &container.HealthcheckResult{ExitCode: 1, Output: "refused"})
		b.engine.Kill(id)
		b.engine.Change(id, func(info *container.InspectResponse) { info.State.OOMKilled = true })
		e := evidenceOf(t, b)

		c := e.Container
		if c == nil || c.ID != id || c.State != "exited" || c.ExitCode != 137 || !c.OOMKilled || !c.Ours {
			t.Fatalf("container %+v", c)
		}
		if c.Labels["epoch"] != "7" || c.Labels["slot"] != testSlot || c.Image != testImage {
			t.Errorf("labels %v of image %s", c.Labels, c.Image)
		}
		if diff := cmp.Diff([]string{"NODE_TOKEN=[redacted]", "container=docker"}, c.Env); diff != "" {
			t.Errorf("env (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"/sbin/init", "--password=[redacted]"}, c.Command); diff != "" {
			t.Errorf("command (-want +got):\n%s", diff)
		}
		if c.Health != "unhealthy" || len(c.HealthLog) != 1 || c.HealthLog[0].Output != "refused" {
			t.Errorf("health %s, %+v", c.Health, c.HealthLog)
		}
		if len(c.Others) != 1 || !strings.HasPrefix(c.Others[0], "old (") {
			t.Errorf("others %v", c.Others)
		}
		if want := "joining with [redacted]\nkernel panic"; e.Output != want || e.OutputCut {
			t.Errorf("output %q, want %q", e.Output, want)
		}
		if e.Unit == nil || e.Unit.Active != "active" || e.Unit.Activation != "act-1" {
			t.Errorf("unit %+v", e.Unit)
		}
		if e.Probe == nil || !strings.Contains(e.Probe.Answer, "runs since") {
			t.Errorf("probe %+v", e.Probe)
		}
		if len(e.Missing) > 0 {
			t.Errorf("missing %v", e.Missing)
		}
	})
}

// TestEvidence_Missing checks that each part that cannot be had says why.
func TestEvidence_Missing(t *testing.T) {
	t.Parallel()
	t.Run("no container, no bus, no probe", func(t *testing.T) {
		b := newBench(t, enginetest.Docker)
		b.systemd.fail(errors.New("no bus"))
		e := evidenceOf(t, b)
		want := map[string]string{
			"container": "there is no container", "output": "there is no container", "unit": "no bus",
			"probe": "this process has not asked whether the stack is ready",
		}
		if diff := cmp.Diff(want, e.Missing); diff != "" {
			t.Errorf("missing (-want +got):\n%s", diff)
		}
	})
	t.Run("no engine", func(t *testing.T) {
		b := newBench(t, enginetest.Docker)
		b.engine.Stop()
		e := evidenceOf(t, b)
		wantText(t, e.Missing["container"], "nobody listens")
		if e.Unit == nil {
			t.Error("the unit is missing too")
		}
	})
	t.Run("engine hangs", func(t *testing.T) {
		b := newBench(t, enginetest.Docker, func(o *Options, _ *Slot) { o.CallTimeout = 50 * time.Millisecond })
		b.engine.Intercept(func(enginetest.Call) enginetest.Action { return enginetest.Action{Hang: true} })
		wantText(t, evidenceOf(t, b).Missing["output"], "no answer of the engine")
	})
	t.Run("time is over", func(t *testing.T) {
		b := newBench(t, enginetest.Docker)
		b.engine.Intercept(func(enginetest.Call) enginetest.Action { return enginetest.Action{Hang: true} })
		text, err := b.Evidence(within(t, 30*time.Millisecond), testSlot)
		if err != nil {
			t.Fatal(err)
		}
		wantText(t, string(text), "no answer of the engine", `"unit":{`)
	})
	t.Run("output hangs", func(t *testing.T) {
		b := newBench(t, enginetest.Docker)
		id := b.engine.Add(enginetest.Spec{Name: testContainer, TTY: true, Ended: true})
		b.engine.Log(id, time.Now(), 1, "so far")
		b.engine.On(enginetest.OpLogs, enginetest.Action{CutAfter: 31 + len("so far\n")})
		e := evidenceOf(t, b)
		if e.Output != "so far" || e.Container == nil {
			t.Errorf("output %q", e.Output)
		}
	})
	t.Run("output cannot be read", func(t *testing.T) {
		b := newBench(t, enginetest.Docker)
		b.engine.Add(enginetest.Spec{Name: testContainer, Ended: true})
		b.engine.On(enginetest.OpLogs, enginetest.Action{Status: 501, Message: "no reading"})
		e := evidenceOf(t, b)
		wantText(t, e.Missing["output"], "no reading")
		if e.Container == nil || e.Container.Ours {
			t.Errorf("container %+v", e.Container)
		}
	})
	t.Run("no container configured", func(t *testing.T) {
		b := newBench(t, enginetest.Docker, func(_ *Options, s *Slot) { s.Container = "" })
		wantText(t, evidenceOf(t, b).Missing["container"], "the slot has no container")
	})
}

func TestEvidence_KeepsTheEndOfALongOutput(t *testing.T) {
	t.Parallel()
	b := newBench(t, enginetest.Docker)
	id := b.engine.Add(enginetest.Spec{Name: testContainer, Ended: true})
	for i := range 900 {
		b.engine.Log(id, time.Now(), 1, fmt.Sprintf("line %d %s", i, strings.Repeat("x", 100)))
	}
	e := evidenceOf(t, b)
	if !e.OutputCut || len(e.Output) > evidenceOutput || !strings.HasPrefix(e.Output, "line ") || !strings.Contains(e.Output, "line 899 ") {
		t.Errorf("%d bytes, cut %v: %.40q…", len(e.Output), e.OutputCut, e.Output)
	}
}

// Whatever stands in the evidence, it fits.
func TestEvidence_AlwaysFits(t *testing.T) {
	t.Parallel()
	texts := rapid.SampledFrom([]string{"", "a", "\x1b\x00", "é", strings.Repeat("\x01", 900), strings.Repeat("<", 5000)})
	rapid.Check(t, func(t *rapid.T) {
		s := Slot{Name: testSlot}
		o := object{InspectResponse: container.InspectResponse{
			State:  &container.State{Error: texts.Draw(t, "error"), Health: &container.Health{Status: "unhealthy"}},
			Config: &container.Config{Labels: map[string]string{LabelSlot: texts.Draw(t, "label")}},
		}}
		for range rapid.IntRange(0, 200).Draw(t, "entries") {
			text := texts.Draw(t, "text")
			o.Config.Env = append(o.Config.Env, text)
			o.Config.Cmd = append(o.Config.Cmd, text)
			o.State.Health.Log = append(o.State.Health.Log, &container.HealthcheckResult{Output: text})
		}
		e := &evidence{
			Slot: testSlot, Container: describe(s, o, newRedactor(o.Config.Env, o.Config.Cmd)),
			Output:  strings.Repeat(texts.Draw(t, "output"), rapid.IntRange(0, 16).Draw(t, "times")),
			Unit:    describeUnit(UnitStatus{StatusText: texts.Draw(t, "status")}),
			Missing: map[string]string{},
		}
		text, err := e.marshal()
		if err != nil || len(text) > evidenceMax || !json.Valid(text) {
			t.Fatalf("%d bytes, %v", len(text), err)
		}
	})
}

func TestEvidence_DropsWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	huge := strings.Repeat("x", 2*evidenceMax)
	e := &evidence{Container: &containerEvidence{Error: huge, Env: []string{"a"}}, Unit: &unitEvidence{Name: huge}, Missing: map[string]string{}}
	text, err := e.marshal()
	if err != nil || len(text) > evidenceMax {
		t.Fatalf("%d bytes, %v", len(text), err)
	}
	wantText(t, string(text), "there is no room")
}

func TestRedactor(t *testing.T) {
	t.Parallel()
	r := newRedactor(
		[]string{"DB_PASSWORD=long-password", "API_KEY=short", "PATH=/bin", "MONKEY=banana7", "EMPTY_TOKEN=", "odd"},
		[]string{"kubelet", "--bootstrap-token", "abcdef.0123456789", "--token=zyxwvu.9876543210", "--v=4", "--key", "keyfile"},
	)
	for text, want := range map[string]string{
		"got long-password here":            "got [redacted] here",
		"abcdef.0123456789/zyxwvu.98765432": "[redacted]/zyxwvu.98765432",
		"https://user:pw@host/path":         "https://[redacted]@host/path",
		"short banana7 /bin":                "short banana7 /bin",
	} {
		if got := r.text(text); got != want {
			t.Errorf("text(%q) = %q, want %q", text, got, want)
		}
	}
	env := r.env([]string{"API_KEY=short", "URL=http://u:p@h", "X=long-password", "EMPTY_TOKEN=", "odd"})
	if diff := cmp.Diff([]string{"API_KEY=[redacted]", "URL=http://[redacted]@h", "X=[redacted]", "EMPTY_TOKEN=", "odd"}, env); diff != "" {
		t.Errorf("env (-want +got):\n%s", diff)
	}
	command := r.command([]string{"x", "--token=abc", "--secret", "q", "--v=4", "-p"})
	if diff := cmp.Diff([]string{"x", "--token=[redacted]", "--secret", "[redacted]", "--v=4", "-p"}, command); diff != "" {
		t.Errorf("command (-want +got):\n%s", diff)
	}
}

func TestTailBuffer(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tail := &tailBuffer{max: rapid.IntRange(1, 40).Draw(t, "max")}
		var all strings.Builder
		for _, text := range rapid.SliceOf(rapid.StringMatching(`[a-cé\n]{0,30}`)).Draw(t, "texts") {
			all.WriteString(text)
			if n, err := tail.Write([]byte(text)); n != len(text) || err != nil {
				t.Fatalf("Write = %d, %v", n, err)
			}
		}
		got := tail.bytes()
		if len(got) > tail.max || !strings.HasSuffix(all.String(), string(got)) || !utf8.Valid(got) {
			t.Fatalf("%q of %q with room for %d", got, all.String(), tail.max)
		}
		if all.Len() <= tail.max && string(got) != all.String() {
			t.Fatalf("%q, want all of %q", got, all.String())
		}
	})
}

func TestFirstLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                               "",
		"\n\n one \ntwo":                 "one",
		strings.Repeat("é", 150):         strings.Repeat("é", 100) + "…",
		"x" + strings.Repeat("é", 150):   "x" + strings.Repeat("é", 99) + "…",
		"bad \xff byte":                  "bad \uFFFD byte",
		strings.Repeat("y", 200) + "\nz": strings.Repeat("y", 200),
	} {
		if got := firstLine(text); got != want {
			t.Errorf("firstLine(%.20q) = %q, want %q", text, got, want)
		}
	}
}
