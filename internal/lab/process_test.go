package lab

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestProcessIdentity(t *testing.T) {
	self, err := findProcess(os.Getpid())
	if err != nil || !self.alive() {
		t.Fatalf("this process: %+v, %v", self, err)
	}
	other := process{PID: self.PID, Start: self.Start + 1}
	if other.alive() {
		t.Error("a process that took over the pid passes for the one before")
	}
	if err := other.signal(unix.SIGKILL); err != nil { // or the test ends here
		t.Errorf("signal a process that is gone: %v", err)
	}
	if (process{}).alive() {
		t.Error("no process at all is alive")
	}
	if err := (process{}).wait(t.Context()); err != nil {
		t.Errorf("wait for no process at all: %v", err)
	}
}

func TestProcessWait(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := findProcess(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := p.wait(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "to exit") {
		t.Errorf("wait for a living process: %v", err)
	}
	if err := p.signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := p.wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p.alive() { // nobody has reaped it yet
		t.Error("a zombie is alive")
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the killed process ended well")
	}
}

func TestWaitForSaysWhatItSaw(t *testing.T) {
	looks := 0
	err := WaitFor(t.Context(), "the third look", func(context.Context) (bool, string) {
		looks++
		return looks == 3, "not yet"
	})
	if err != nil || looks != 3 {
		t.Errorf("after %d looks: %v", looks, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	err = WaitFor(ctx, "rain", func(context.Context) (bool, string) { return false, "sunshine" })
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "for rain, last seen: sunshine") {
		t.Errorf("a wait in vain: %v", err)
	}
}

func TestNewBootIDIsARandomUUID(t *testing.T) {
	pattern := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-a[0-9a-f]{3}-[0-9a-f]{12}$`)
	first, second := newBootID(), newBootID()
	if !pattern.MatchString(first) || first == second {
		t.Errorf("boot ids %s and %s", first, second)
	}
}

func TestRunQuietlyShowsTheEndOfTheOutput(t *testing.T) {
	err := runQuietly(command(t.Context(), "sh", "-c", "seq 1 10000; echo the reason >&2; exit 3"))
	if err == nil || !strings.HasSuffix(err.Error(), "the reason") || len(err.Error()) > 2200 {
		t.Errorf("a failed command: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	if err := runQuietly(command(ctx, "sh", "-c", "sleep 600 & sleep 600")); err == nil || time.Since(began) > 30*time.Second {
		t.Errorf("a command that outlives its context: %v after %v", err, time.Since(began))
	}
}

// The first thread must stay as it is: it is what /proc/self shows.
func TestOnOwnThread(t *testing.T) {
	for range 50 {
		err := onOwnThread(func() error {
			if unix.Gettid() == unix.Getpid() {
				return errors.New("on the first thread")
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
