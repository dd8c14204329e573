package container

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/node-lifecycle/node-lifecycle/backend/container/enginetest"
)

// serve answers requests at a socket of its own, as no engine would.
func serve(t *testing.T, answer http.HandlerFunc) *Controller {
	t.Helper()
	dir, err := os.MkdirTemp("", "engine") // paths of sockets must be short
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/_ping") {
			w.Header().Set("Api-Version", "1.41")
			return
		}
		answer(w, r)
	})}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(l) // until Close
	}()
	c := New(Options{Socket: l.Addr().String(), PollInterval: 10 * time.Millisecond, Slots: map[string]Slot{
		testSlot: {Container: testContainer, Image: testImage, Pull: "missing", PullTimeout: 20 * time.Second},
	}})
	t.Cleanup(func() {
		_ = c.Close()
		_ = server.Close()
		<-served
		_ = os.RemoveAll(dir)
	})
	return c
}

// talk sends a text again and again until nobody takes it any more.
func talk(w http.ResponseWriter, text string) (sent int64) {
	text = strings.Repeat(text, 1+(64<<10)/len(text))
	for {
		n, err := fmt.Fprint(w, text)
		sent += int64(n)
		if err != nil {
			return sent
		}
	}
}

// An answer without an end costs a bounded amount of memory, and is no answer.
func TestAnswerWithoutEnd(t *testing.T) {
	t.Parallel()
	sent := make(chan int64, 1)
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, "[")
		sent <- talk(w, `{"Id":"x"},`)
	})
	c.engine.answerMax = 4 << 20
	_, _, err := c.Alive(t.Context(), testSlot)
	wantError(t, err, "unreachable", "the engine's answer is of no use: it does not end within 4194304 bytes")
	if got := <-sent; got > 8<<20 {
		t.Errorf("%d bytes were taken", got)
	}
}

func TestAnswerThatIsNoneOfTheEngine(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"not JSON": "<html>", "another type": `{"message": 1}`, "a field of another type": `[{"Id": 7}]`,
	} {
		t.Run(name, func(t *testing.T) {
			c := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, body) })
			_, _, err := c.Alive(t.Context(), testSlot)
			wantError(t, err, "unreachable", "the engine's answer cannot be understood", "is something else at its socket?")
			if strings.Contains(err.Error(), "broke") {
				t.Errorf("no connection broke: %v", err)
			}
		})
	}
}

// The limit holds from one request to the next, not for all of a connection.
func TestManyAnswersOnOneConnection(t *testing.T) {
	t.Parallel()
	b := newBench(t, enginetest.Docker)
	b.Controller.engine.answerMax = 8 << 10
	b.start(t, 1)
	for range 50 {
		if _, _, err := b.Alive(t.Context(), testSlot); err != nil {
			t.Fatal(err)
		}
	}
}

// A pull that tells much is asked for anew: the engine has kept what it fetched.
func TestPullThatTellsMuch(t *testing.T) {
	t.Parallel()
	var pulls, pulled atomic.Int32
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/images/create") && pulls.Add(1) < 3:
			talk(w, `{"status":"Downloading"}`+"\n")
		case strings.HasSuffix(r.URL.Path, "/images/create"):
			pulled.Store(1)
			_, _ = fmt.Fprintln(w, `{"status":"done"}`)
		case pulled.Load() == 0:
			http.Error(w, `{"message":"No such image"}`, http.StatusNotFound)
		default:
			_, _ = fmt.Fprint(w, `{"Id":"sha256:1"}`)
		}
	})
	c.engine.answerMax = 256 << 10
	s, err := c.slot(testSlot)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := c.ensureImage(t.Context(), s); err != nil || info.id != "sha256:1" || pulls.Load() != 3 {
		t.Errorf("after %d pulls: %+v, %v", pulls.Load(), info, err)
	}
}

// What a container prints has no limit: it comes out once, whole, over one stream.
func TestAttend_OutputLongerThanAnyAnswer(t *testing.T) {
	for _, tty := range []bool{false, true} {
		t.Run(fmt.Sprintf("tty %t", tty), func(t *testing.T) {
			t.Parallel()
			a := started(t, enginetest.Docker, tty)
			a.Controller.engine.answerMax = 16 << 10
			a.begin(t, a.out)
			var want strings.Builder
			for i := range 1500 {
				line := fmt.Sprintf("%d %s", i, strings.Repeat("x", 60))
				want.WriteString(line + "\n")
				a.say(t, line)
			}
			a.exit <- 0
			if code, err := a.ended(t); code != 0 || err != nil {
				t.Errorf("Attend = %d, %v", code, err)
			}
			if got := strings.ReplaceAll(a.out.String(), "\r\n", "\n"); got != want.String() {
				t.Errorf("%d bytes came out of %d", len(got), want.Len())
			}
			if n := a.engine.Count(enginetest.OpLogs); n != 1 {
				t.Errorf("the log was opened %d times", n)
			}
		})
	}
}

// Events that are many are listened to anew, and none that matters is lost.
func TestEvents_MoreThanAnyAnswer(t *testing.T) {
	t.Parallel()
	b := newBench(t, enginetest.Docker)
	b.Controller.engine.answerMax = 4 << 10
	b.start(t, 1)
	wait, stop := wakes(t, b)
	defer stop()
	for n := 1; n <= 3; n++ {
		for deadline := time.Now().Add(20 * time.Second); b.engine.Count(enginetest.OpEvents) <= n; {
			b.engine.SetHealth(testContainer, "healthy")
			if time.Now().After(deadline) {
				t.Fatalf("the events were listened to %d times", n)
			}
		}
		b.hears(t, wait)
	}
}

// The size of a frame is its sender's word.
func TestReadFrames_FrameThatClaimsTooMuch(t *testing.T) {
	t.Parallel()
	frame := []byte{1, 0, 0, 0, 0, 0, 0, 2, 'o', 'k', 1, 0, 0, 0}
	frame = binary.BigEndian.AppendUint32(frame, 1<<26)
	var got []string
	err := readFrames(strings.NewReader(string(frame)), func(l logLine) error {
		got = append(got, string(l.text))
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "claims to have 67108864 bytes") {
		t.Errorf("error %v after %q", err, got)
	}
}

func TestPing_NoSocket(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for socket, want := range map[string]string{
		dir: dir + " is a directory, no socket", file: file + " is a plain file, no socket", os.DevNull: "is something else",
	} {
		c := New(Options{Socket: socket, EngineUnit: "docker.service"})
		err := c.Ping(t.Context())
		wantError(t, err, "unreachable", want, "correct engine.socket")
		if strings.Contains(err.Error(), "running?") {
			t.Error(err)
		}
		_ = c.Close()
	}
}
