package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestUnready(t *testing.T) {
	for _, test := range []struct {
		mode    string
		up      time.Duration
		request int64
		want    string // part of the reason; "" means ready
	}{
		{mode: "ready", request: 1},
		{mode: " ready\n", request: 2},
		{mode: "never", up: time.Hour, request: 1, want: "never will be"},
		{mode: "late 2", up: 1500 * time.Millisecond, request: 1, want: "another 500ms"},
		{mode: "late 2", up: 2 * time.Second, request: 1},
		{mode: "late 0.25", up: 250 * time.Millisecond, request: 1},
		{mode: "late soon", request: 1, want: `"soon" is not a number`},
		{mode: "late -1", request: 1, want: "not a number"},
		{mode: "late", request: 1, want: "none of ready"},
		{mode: "flapping", request: 1},
		{mode: "flapping", request: 2, want: "this time"},
		{mode: "flapping", request: 3},
		{mode: "", request: 1, want: "none of ready"},
		{mode: "redy", request: 1, want: `"redy" is none of`},
	} {
		got := unready(test.mode, test.up, test.request)
		if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("unready(%q, %v, %d) = %q, want %q in it", test.mode, test.up, test.request, got, test.want)
		}
	}
}

// The file is read at every request, so a test changes its mind while the
// stand-in runs.
func TestHealthReadsTheModeEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "mode")
		h := newHealth(file)
		ask := func() int {
			answer := httptest.NewRecorder()
			h.ServeHTTP(answer, httptest.NewRequest("GET", "/healthz", nil))
			return answer.Code
		}
		write := func(mode string) {
			if err := os.WriteFile(file, []byte(mode), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		expect := func(when string, want int) {
			t.Helper()
			if got := ask(); got != want {
				t.Errorf("%s: status %d, want %d", when, got, want)
			}
		}
		expect("without a file", http.StatusOK)
		write("late 10")
		expect("late, at once", http.StatusServiceUnavailable)
		time.Sleep(10 * time.Second) // in the bubble's time
		expect("late, in time", http.StatusOK)
		write("never")
		expect("never", http.StatusServiceUnavailable)
		write("flapping")
		if first, second := ask(), ask(); first == second {
			t.Errorf("flapping: twice the same status %d", first)
		}
	})
}

func TestServeStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- serve(ctx, "127.0.0.1:0", filepath.Join(t.TempDir(), "mode")) }()
	cancel()
	if err := <-done; err != nil {
		t.Errorf("serve after the end of its context: %v", err)
	}
}

func TestServeNamesAnAddressInUse(t *testing.T) {
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	err := serve(t.Context(), other.Listener.Addr().String(), "")
	if err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("serve on a taken address: %v", err)
	}
}
