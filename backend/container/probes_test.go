package container

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/node-lifecycle/node-lifecycle/backend/container/enginetest"
)

// inside is a node's inside: what systemctl and other commands say there.
func inside(answer func(p *enginetest.Process) int) func(*enginetest.Engine) {
	return func(e *enginetest.Engine) {
		e.AddImage(enginetest.Image{Name: testImage, Exec: answer})
	}
}

// probed is a running container with one probe.
func probed(t *testing.T, probe Probe, answer func(p *enginetest.Process) int, change ...func(*Options, *Slot)) *bench {
	t.Helper()
	e := enginetest.New(t, enginetest.Docker)
	inside(answer)(e)
	b := newBenchOn(t, e, append(change, func(_ *Options, s *Slot) { s.Ready = []Probe{probe} })...)
	b.start(t, 1)
	return b
}

// show answers systemctl show for units given as "load active sub".
func show(states ...string) func(p *enginetest.Process) int {
	return func(p *enginetest.Process) int {
		for i, state := range states {
			f := strings.Fields(state)
			if i > 0 {
				p.Println("")
			}
			p.Print(fmt.Sprintf("Id=unit-%d\nLoadState=%s\nActiveState=%s\nSubState=%s\n", i, f[0], f[1], f[2]))
		}
		return 0
	}
}

func TestRunning_Units(t *testing.T) {
	t.Parallel()
	units := Probe{Units: []string{"containerd.service", "kubelet.service"}}
	for name, test := range map[string]struct {
		answer  func(p *enginetest.Process) int
		running bool
		detail  string
	}{
		"active":          {show("loaded active running", "loaded active running"), true, "runs since"},
		"reloading":       {show("loaded active running", "loaded reloading reload"), true, "runs since"},
		"second starts":   {show("loaded active running", "loaded activating auto-restart"), false, "kubelet.service: activating (auto-restart)"},
		"first is down":   {show("loaded inactive inactive", "loaded failed failed"), false, "containerd.service: inactive"},
		"not found":       {show("loaded active running", "not-found inactive dead"), false, "kubelet.service: not-found"},
		"one is missing":  {show("loaded active running"), false, "kubelet.service: systemd in the container says nothing about it"},
		"no systemd yet":  {says(1, "", "Failed to connect to bus: No such file"), false, "does not answer yet (exit code 1): Failed to connect to bus"},
		"no systemctl":    {says(127, "OCI runtime exec failed: not found", ""), false, "(exit code 127): OCI runtime exec failed"},
		"silent systemd":  {says(1, "", ""), false, "does not answer yet (exit code 1)"},
		"nothing at all":  {says(0, "", ""), false, "containerd.service: systemd in the container says nothing"},
		"carriage return": {says(0, "ActiveState=active\r\n\r\nActiveState=active\r\n", ""), true, "runs since"},
	} {
		t.Run(name, func(t *testing.T) {
			b := probed(t, units, test.answer)
			running, detail, err := b.Running(t.Context(), testSlot)
			if running != test.running || err != nil {
				t.Errorf("Running = %v, %v; want %v", running, err, test.running)
			}
			wantText(t, detail, test.detail)
		})
	}
}

// says prints and exits.
func says(code int, stdout, stderr string) func(p *enginetest.Process) int {
	return func(p *enginetest.Process) int {
		p.Print(stdout)
		if stderr != "" {
			p.Errorln(stderr)
		}
		return code
	}
}

func TestRunning_UnitsAsksOneQuestion(t *testing.T) {
	t.Parallel()
	var args atomic.Value
	b := probed(t, Probe{Units: []string{"a.service", "b.service"}}, func(p *enginetest.Process) int {
		args.Store(strings.Join(p.Args, " "))
		return show("loaded active running", "loaded active running")(p)
	})
	if running, _, err := b.Running(t.Context(), testSlot); !running || err != nil {
		t.Fatalf("Running = %v, %v", running, err)
	}
	want := "systemctl show --no-pager --property=Id,LoadState,ActiveState,SubState -- a.service b.service"
	if got := args.Load(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestRunning_Exec(t *testing.T) {
	t.Parallel()
	probe := Probe{Exec: []string{"/bin/ready", "-q"}}
	for name, test := range map[string]struct {
		answer  func(p *enginetest.Process) int
		running bool
		detail  string
	}{
		"passes":           {says(0, "fine", ""), true, "runs since"},
		"fails":            {says(3, "", "no route"), false, "/bin/ready: exit code 3: no route"},
		"fails in silence": {says(3, "", ""), false, "/bin/ready: exit code 3"},
	} {
		t.Run(name, func(t *testing.T) {
			b := probed(t, probe, test.answer)
			running, detail, err := b.Running(t.Context(), testSlot)
			if running != test.running || err != nil {
				t.Errorf("Running = %v, %v; want %v", running, err, test.running)
			}
			wantText(t, detail, test.detail)
		})
	}
}

func TestRunning_ProbeThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		probe Probe
		want  string
	}{
		"units": {Probe{Units: []string{"a.service"}}, "systemd in the container: no answer within 300ms"},
		"exec":  {Probe{Exec: []string{"hang"}}, "hang: not over within 300ms"},
	} {
		t.Run(name, func(t *testing.T) {
			b := probed(t, test.probe, enginetest.Deaf)
			b.hurry(t, 300*time.Millisecond)
			running, detail, err := b.Running(t.Context(), testSlot)
			if running || err != nil {
				t.Errorf("Running = %v, %v", running, err)
			}
			wantText(t, detail, test.want)
		})
	}
}

func TestRunning_ContainerGoesAwayUnderTheProbe(t *testing.T) {
	t.Parallel()
	for name, probe := range map[string]Probe{"units": {Units: []string{"a.service"}}, "exec": {Exec: []string{"x"}}} {
		t.Run(name, func(t *testing.T) {
			t.Run("exits", func(t *testing.T) {
				b := probed(t, probe, nil)
				b.engine.On(enginetest.OpExecCreate, enginetest.Action{Run: func() { b.engine.Kill(testContainer) }})
				running, detail, err := b.Running(t.Context(), testSlot)
				if running || err != nil {
					t.Errorf("Running = %v, %v", running, err)
				}
				wantText(t, detail, "exited with code 137")
			})
			t.Run("vanishes", func(t *testing.T) {
				b := probed(t, probe, nil)
				b.engine.On(enginetest.OpExecCreate, enginetest.Action{Status: 404, Message: "No such container", Run: func() {
					b.engine.On(enginetest.OpInspect, enginetest.Action{Status: 404, Message: "No such container"})
				}})
				running, detail, err := b.Running(t.Context(), testSlot)
				if running || err != nil {
					t.Errorf("Running = %v, %v", running, err)
				}
				wantText(t, detail, "is gone")
			})
			t.Run("refuses", func(t *testing.T) {
				b := probed(t, probe, nil)
				b.engine.On(enginetest.OpExecCreate, enginetest.Action{Status: 500, Message: "no such shim"})
				running, detail, err := b.Running(t.Context(), testSlot)
				if running || err != nil {
					t.Errorf("Running = %v, %v", running, err)
				}
				wantText(t, detail, "no such shim")
			})
			t.Run("engine breaks", func(t *testing.T) {
				b := probed(t, probe, nil)
				b.engine.On(enginetest.OpExecCreate, enginetest.Action{Break: true})
				_, _, err := b.Running(t.Context(), testSlot)
				wantError(t, err, "unreachable", "broke")
			})
		})
	}
}

func TestRunning_HTTP(t *testing.T) {
	t.Parallel()
	handler := http.NewServeMux()
	handler.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })
	handler.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/nowhere", http.StatusFound) })
	handler.HandleFunc("/bad", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "[-]syncloop failed\nmore", http.StatusInternalServerError)
	})
	handler.HandleFunc("/empty", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	handler.HandleFunc("/hang", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	plain, secure := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for name, test := range map[string]struct {
		url     string
		running bool
		detail  string
	}{
		"passes":       {plain.URL + "/healthz", true, "runs since"},
		"any identity": {secure.URL + "/healthz", true, "runs since"},
		"redirects":    {plain.URL + "/moved", true, "runs since"},
		"fails":        {plain.URL + "/bad", false, "/bad: status 500: [-]syncloop failed"},
		"no body":      {plain.URL + "/empty", false, "/empty: status 503"},
		"no answer":    {plain.URL + "/hang", false, "/hang: no answer within 300ms"},
		"not there":    {"http://" + closed.Addr().String() + "/healthz", false, "connection refused"},
		"not HTTP":     {"ftp://127.0.0.1/", false, "unsupported protocol scheme"},
	} {
		t.Run(name, func(t *testing.T) {
			b := probed(t, Probe{HTTP: test.url}, nil)
			if name == "no answer" {
				b.hurry(t, 300*time.Millisecond)
			}
			running, detail, err := b.Running(t.Context(), testSlot)
			if running != test.running || err != nil {
				t.Errorf("Running = %v, %v; want %v", running, err, test.running)
			}
			wantText(t, detail, test.detail)
		})
	}
	t.Run("the caller's time ends", func(t *testing.T) {
		b := probed(t, Probe{HTTP: plain.URL + "/hang"}, nil)
		if _, _, err := b.Running(within(t, 300*time.Millisecond), testSlot); err == nil {
			t.Error("no error")
		}
	})
	t.Run("bad URL", func(t *testing.T) {
		b := probed(t, Probe{HTTP: "http://[::1"}, nil)
		_, _, err := b.Running(t.Context(), testSlot)
		wantError(t, err, "misconfigured", "correct the ready probe")
	})
}

// A probe from outside may be answered by somebody else, so it does not spare
// the second look at a container that is restarted in a loop.
func TestRunning_HTTPAloneNeedsTwoLooks(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(other.Close)
	b := probed(t, Probe{HTTP: other.URL}, nil)
	secondLook(b, func() { b.engine.Change(testContainer, running) })
	up, detail, err := b.Running(t.Context(), testSlot)
	if up || err != nil {
		t.Errorf("Running = %v, %v", up, err)
	}
	wantText(t, detail, "restarted between two looks")
}

func TestRunning_ProbesInOrder(t *testing.T) {
	t.Parallel()
	b := probed(t, Probe{Exec: []string{"second"}}, says(1, "", ""), func(_ *Options, s *Slot) {})
	s := b.opts.Slots[testSlot]
	s.Ready = []Probe{{Exec: []string{"first"}}, {Exec: []string{"second"}}}
	b.opts.Slots[testSlot] = s
	_, detail, err := b.Running(t.Context(), testSlot)
	if err != nil {
		t.Fatal(err)
	}
	wantText(t, detail, "first: exit code 1")
}

func TestRunning_BadProbes(t *testing.T) {
	t.Parallel()
	for _, probe := range []Probe{{}, {HTTP: "http://x", Exec: []string{"y"}}} {
		b := probed(t, probe, nil)
		_, _, err := b.Running(t.Context(), testSlot)
		wantError(t, err, "misconfigured", "one of units, http and exec")
	}
}
