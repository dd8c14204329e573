package container

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/godbus/dbus/v5"
)

// wokenOnce takes one wake-up, once everything that is under way has been done.
func wokenOnce(c <-chan struct{}) bool {
	synctest.Wait()
	select {
	case _, open := <-c:
		return open
	default:
		return false
	}
}

func TestBusWake(t *testing.T) {
	for _, direct := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f, b := newFakeBus(t)
			f.direct = direct
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c, err := b.Wake(ctx, fakeUnit)
			if err != nil {
				t.Fatal(err)
			}
			if !wokenOnce(c) {
				t.Error("not woken for what happened before it listened")
			}
			if wokenOnce(c) {
				t.Error("woken for nothing")
			}
			f.set("other.service", busProps{"ActiveState": "failed"})
			if wokenOnce(c) {
				t.Error("woken by another unit")
			}
			f.set(fakeUnit, busProps{"MainPID": uint32(0)})
			if !wokenOnce(c) {
				t.Error("not woken by the exit of the main process")
			}
			for range 100 {
				f.set(fakeUnit, busProps{"StatusText": "busy"})
			}
			if !wokenOnce(c) || wokenOnce(c) {
				t.Error("many changes must come as one wake-up")
			}
			cancel()
			synctest.Wait()
			if _, open := <-c; open {
				t.Error("the channel outlives its context")
			}
		})
	}
}

// The bus daemon goes away for a while. Nothing can be seen meanwhile, so there is one wake-up when it goes and one
// when it is back, and none for vain attempts.
func TestBusWakeSurvivesTheBus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := newFakeBus(t)
		f.refuse(errNoSocket)
		c, err := b.Wake(t.Context(), fakeUnit)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * b.poll)
		if wokenOnce(c) {
			t.Error("woken by a bus that was never there")
		}
		f.refuse(nil)
		time.Sleep(b.poll)
		if !wokenOnce(c) {
			t.Error("not woken when the bus came")
		}
		f.refuse(errNoSocket)
		f.hangUp()
		if !wokenOnce(c) {
			t.Error("not woken when the bus was lost")
		}
		time.Sleep(10 * b.poll)
		if wokenOnce(c) {
			t.Error("woken without a bus")
		}
		f.refuse(nil)
		time.Sleep(b.poll)
		if !wokenOnce(c) {
			t.Error("not woken when the bus was back")
		}
		f.set(fakeUnit, busProps{"SubState": "stop"})
		if !wokenOnce(c) {
			t.Error("deaf after the bus was back")
		}
	})
}

// A bus that refuses the subscription, or does not answer it, is tried again.
func TestBusWakeSubscribesAgain(t *testing.T) {
	for name, answer := range map[string]fakeAnswer{
		"refused": {err: dbus.NewError("org.freedesktop.DBus.Error.NoReply", []any{"no"})},
		"silent":  {silent: true},
	} {
		for _, member := range []string{"Subscribe", "AddMatch"} {
			if name == "refused" && member == "AddMatch" {
				continue // PID 1's own socket does so, and sends everything
			}
			synctest.Test(t, func(t *testing.T) {
				f, b := newFakeBus(t)
				f.on(member, func(*dbus.Message) fakeAnswer { return answer })
				c, err := b.Wake(t.Context(), fakeUnit)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(busCallLimit - time.Second)
				if wokenOnce(c) {
					t.Errorf("%s %s: woken without a subscription", member, name)
				}
				f.on(member, nil)
				time.Sleep(2 * time.Second)
				time.Sleep(b.poll)
				if !wokenOnce(c) {
					t.Errorf("%s %s: not tried again", member, name)
				}
			})
		}
	}
}

func TestBusWakeRefusesImpossibleNames(t *testing.T) {
	_, b := newFakeBus(t)
	if _, err := b.Wake(t.Context(), "kube1\n"); !isMisconfigured(err) || !strings.Contains(err.Error(), `"kube1\n"`) {
		t.Error(err)
	}
}
