package container

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/godbus/dbus/v5"
)

var errNoSocket = errors.New("dial unix /run/dbus/system_bus_socket: connect: no such file or directory")

func TestBusConnectsLate(t *testing.T) {
	f, b := newFakeBus(t)
	f.refuse(errNoSocket)
	_, err := b.Unit(t.Context(), fakeUnit)
	if !isUnreachable(err) || !errors.Is(err, errNoSocket) {
		t.Fatalf("%v", err)
	}
	want := "read unit node-stack@kube1.service: dial unix /run/dbus/system_bus_socket: connect: no such file or directory; " +
		"check that systemd is PID 1 and that dbus.service or /run/systemd/private answers"
	if err.Error() != want {
		t.Errorf("error text:\n%s", err)
	}
	f.refuse(nil)
	if _, err := b.Unit(t.Context(), fakeUnit); err != nil {
		t.Error(err)
	}
}

// The bus daemon was restarted: the next call finds a dead connection and must not fail for it.
func TestBusConnectsAgain(t *testing.T) {
	f, b := newFakeBus(t)
	if _, err := b.Unit(t.Context(), fakeUnit); err != nil {
		t.Fatal(err)
	}
	f.hangUp()
	if err := b.CheckLoaded(t.Context(), fakeUnit); err != nil {
		t.Error(err)
	}
	f.on("GetAll", func(*dbus.Message) fakeAnswer { f.hangUp(); return fakeAnswer{silent: true} })
	if _, err := b.Unit(t.Context(), fakeUnit); !isUnreachable(err) {
		t.Errorf("a bus that always hangs up: %v", err)
	}
	if n := f.called("GetAll"); n != 4 {
		t.Errorf("%d reads, want 2 that worked, 1 that failed and 1 repetition", n)
	}
}

func TestBusGivesUpOnASilentSystemd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := newFakeBus(t)
		f.on("GetAll", func(*dbus.Message) fakeAnswer { return fakeAnswer{silent: true} })
		began := time.Now()
		_, err := b.Unit(t.Context(), fakeUnit)
		if !isUnreachable(err) || !errors.Is(err, errNoReply) || time.Since(began) != busCallLimit {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		f.on("GetAll", nil)
		if _, err := b.Unit(t.Context(), fakeUnit); err != nil {
			t.Errorf("the next call: %v", err)
		}
	})
}

// When the caller's own time is over, nothing is said against systemd.
func TestBusCallEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := newFakeBus(t)
		f.on("GetAll", func(*dbus.Message) fakeAnswer { return fakeAnswer{silent: true} })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := b.Unit(ctx, fakeUnit)
		if !errors.Is(err, context.DeadlineExceeded) || isUnreachable(err) {
			t.Error(err)
		}
		f.on("GetAll", nil)
		if _, err := b.Unit(t.Context(), fakeUnit); err != nil || f.called("Hello") != 2 {
			t.Errorf("one caller's hurry cost the others their connection: %v", err)
		}
		f.refuse(errNoSocket)
		f.hangUp()
		_, err = b.Unit(ctx, fakeUnit)
		if !errors.Is(err, context.DeadlineExceeded) || isUnreachable(err) {
			t.Error(err)
		}
	})
}

// A peer that accepts and then says nothing must not hold a caller longer than the caller's context.
func TestBusDialEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := newFakeBus(t)
		f.on("Hello", func(*dbus.Message) fakeAnswer { return fakeAnswer{silent: true} })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		dialling := make(chan error)
		go func() {
			_, err := b.Unit(ctx, fakeUnit)
			dialling <- err
		}()
		synctest.Wait()
		soon, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := b.Unit(soon, fakeUnit); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("waiting for another caller's dial: %v", err)
		}
		if _, err := b.Wake(soon, fakeUnit); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("waiting for another caller's dial, to wake: %v", err)
		}
		if err := <-dialling; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("dialling: %v", err)
		}
		f.on("Hello", nil)
		if _, err := b.Unit(t.Context(), fakeUnit); err != nil {
			t.Errorf("the next caller: %v", err)
		}
	})
}

func TestBusErrorsByName(t *testing.T) {
	for name, want := range map[string]kind{
		"org.freedesktop.DBus.Error.AccessDenied":   kindDenied,
		"org.freedesktop.DBus.Error.ServiceUnknown": kindUnreachable,
		"org.freedesktop.systemd1.UnitMasked":       kindMisconfigured,
		"org.freedesktop.DBus.Error.InvalidArgs":    kindPlain,
	} {
		f, b := newFakeBus(t)
		f.on("ResetFailedUnit", func(*dbus.Message) fakeAnswer {
			return fakeAnswer{err: dbus.NewError(name, []any{"as systemd says"})}
		})
		err := b.ResetFailed(t.Context(), fakeUnit)
		got := map[kind]bool{kindDenied: isDenied(err), kindUnreachable: isUnreachable(err), kindMisconfigured: isMisconfigured(err)}
		for k, is := range got {
			if is != (k == want) {
				t.Errorf("%s: kind %d is %v: %v", name, k, is, err)
			}
		}
		if !strings.Contains(err.Error(), "as systemd says") || !strings.Contains(err.Error(), fakeUnit) {
			t.Errorf("the error does not say what and why: %v", err)
		}
	}
	if kind := busKind(fmt.Errorf("dial: %w", &fs.PathError{Op: "connect", Err: fs.ErrPermission})); kind != kindDenied {
		t.Errorf("a socket without permission is kind %d", kind)
	}
	if name, ok := dbusErrorName(dbus.NewError("a.b", nil)); !ok || name != "a.b" {
		t.Error("a pointer to a D-Bus error is not recognised")
	}
}

func TestBusResetFailed(t *testing.T) {
	f, b := newFakeBus(t)
	if err := b.ResetFailed(t.Context(), fakeUnit); err != nil || f.called("ResetFailedUnit") != 1 {
		t.Error(err)
	}
	f.on("ResetFailedUnit", func(*dbus.Message) fakeAnswer {
		return fakeAnswer{err: dbus.NewError(noSuchUnit, []any{"Unit x not loaded."})}
	})
	if err := b.ResetFailed(t.Context(), fakeUnit); err != nil {
		t.Errorf("a unit that is not loaded: %v", err)
	}
	if err := b.ResetFailed(t.Context(), "kube1"); !isMisconfigured(err) {
		t.Errorf("impossible name: %v", err)
	}
}

func TestBusReload(t *testing.T) {
	refused := func() fakeAnswer {
		return fakeAnswer{err: dbus.NewError(limitsExceeded, []any{"Reloading request rejected due to rate limit."})}
	}
	for _, tt := range []struct {
		name   string
		answer func(f *fakeSystemd, call int) fakeAnswer
		calls  int
		took   time.Duration
		check  func(error) bool
	}{
		{"at once", func(*fakeSystemd, int) fakeAnswer { return fakeAnswer{} }, 1, 0,
			func(err error) bool { return err == nil }},
		{"too many reloads, then free", func(_ *fakeSystemd, call int) fakeAnswer {
			if call < 3 {
				return refused()
			}
			return fakeAnswer{}
		}, 3, 3 * time.Second, func(err error) bool { return err == nil }},
		{"too many reloads for long", func(*fakeSystemd, int) fakeAnswer { return refused() }, 5, 15 * time.Second,
			func(err error) bool { return strings.Contains(err.Error(), "rate limit") }},
		{"connection lost twice", func(f *fakeSystemd, call int) fakeAnswer {
			if call < 3 {
				f.hangUp()
				return fakeAnswer{silent: true}
			}
			return fakeAnswer{}
		}, 3, time.Second, func(err error) bool { return err == nil }},
		{"denied", func(*fakeSystemd, int) fakeAnswer {
			return fakeAnswer{err: dbus.NewError("org.freedesktop.DBus.Error.AccessDenied", []any{"no"})}
		}, 1, 0, isDenied},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, b := newFakeBus(t)
				f.on("Reload", func(*dbus.Message) fakeAnswer { return tt.answer(f, f.called("Reload")) })
				began := time.Now()
				if err := b.Reload(t.Context()); !tt.check(err) {
					t.Error(err)
				}
				if n := f.called("Reload"); n != tt.calls || time.Since(began) != tt.took {
					t.Errorf("%d calls in %v", n, time.Since(began))
				}
			})
		})
	}
}

func TestBusCheckLoaded(t *testing.T) {
	for _, tt := range []struct {
		name, state string
		cause       [2]string
		want        string
	}{
		{"loaded", "loaded", [2]string{}, ""},
		{"no such unit", "not-found", [2]string{"org.freedesktop.systemd1.NoSuchUnit", "Unit x not found."},
			"systemd cannot load unit node-stack@kube1.service (not-found): Unit x not found; " + busHints[kindMisconfigured]},
		{"bad drop-in", "bad-setting", [2]string{"org.freedesktop.systemd1.BadUnitSetting", "Unit x has a bad unit file setting."},
			"systemd cannot load unit node-stack@kube1.service (bad-setting): Unit x has a bad unit file setting; see `systemd-analyze verify node-stack@kube1.service`"},
		{"loaded, with a complaint", "loaded", [2]string{"org.example.Odd", ""},
			"systemd cannot load unit node-stack@kube1.service (loaded): org.example.Odd; see `systemd-analyze verify node-stack@kube1.service`"},
	} {
		f, b := newFakeBus(t)
		f.set(fakeUnit, busProps{"LoadState": tt.state, "LoadError": tt.cause})
		err := b.CheckLoaded(t.Context(), fakeUnit)
		switch {
		case tt.want == "" && err != nil, tt.want != "" && (err == nil || err.Error() != tt.want || !isMisconfigured(err)):
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	f, b := newFakeBus(t)
	f.refuse(errNoSocket)
	if err := b.CheckLoaded(t.Context(), fakeUnit); !isUnreachable(err) || isMisconfigured(err) {
		t.Errorf("no bus: %v", err)
	}
}

func TestBusClosedStaysClosed(t *testing.T) {
	_, b := newFakeBus(t)
	woken, err := b.Wake(t.Context(), fakeUnit)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Unit(t.Context(), fakeUnit); err != nil {
		t.Fatal(err)
	}
	b.Close()
	for range woken { // until it is closed
	}
	if _, err := b.Unit(t.Context(), fakeUnit); !errors.Is(err, errBusClosed) || isUnreachable(err) {
		t.Errorf("read: %v", err)
	}
	if _, err := b.Wake(t.Context(), fakeUnit); !errors.Is(err, errBusClosed) {
		t.Errorf("wake: %v", err)
	}
	b.Close()
}

// dialer is tested on real sockets, because addresses and credentials are its business.
func TestDialer(t *testing.T) {
	bus, direct := newFakeSystemd(), newFakeSystemd()
	direct.direct = true
	nowhere := "unix:path=" + t.TempDir() + "/none"
	root, user := func() int { return 0 }, func() int { return 1000 }
	for _, tt := range []struct {
		name             string
		system, private  string
		euid             func() int
		wantBus, wantOwn bool
	}{
		{"system bus", bus.listen(t), nowhere, user, true, false},
		{"no system bus, root", nowhere, direct.listen(t), root, false, true},
		{"no system bus, somebody else", nowhere, direct.listen(t), user, false, false},
		{"bus without a driver, root", direct.listen(t), direct.listen(t), root, false, true},
		{"nothing answers", nowhere, nowhere, root, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", tt.system)
			hellos := bus.called("Hello")
			conn, err := dialer{private: tt.private, euid: tt.euid}.dial(t.Context())
			if (err == nil) != (tt.wantBus || tt.wantOwn) {
				t.Fatal(err)
			}
			if (bus.called("Hello") > hellos) != tt.wantBus {
				t.Error("Hello is for a bus alone")
			}
			if err != nil {
				if !errors.Is(err, fs.ErrNotExist) || tt.euid() == 0 != strings.Contains(err.Error(), "own socket") {
					t.Error(err)
				}
				return
			}
			if err := conn.Object(systemdName, systemdPath).Call("org.freedesktop.systemd1.Manager.Subscribe", 0).Err; err != nil {
				t.Error(err)
			}
			conn.Close()
		})
	}
}

// Without any bus, root still restarts a unit and learns the result.
func TestBusOverSystemdsOwnSocket(t *testing.T) {
	f := newFakeSystemd()
	f.direct = true
	f.set(fakeUnit, activeUnit("11"))
	f.onRestart(func(job uint32) { f.finish(job, "done", activeUnit("22")) })
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path="+t.TempDir()+"/none")
	b := NewSystemd(0)
	defer b.Close()
	b.dial = dialer{private: f.listen(t), euid: func() int { return 0 }}.dial
	if err := b.Restart(t.Context(), fakeUnit); err != nil {
		t.Error(err)
	}
	if b.poll != defaultBusPoll {
		t.Errorf("poll %v", b.poll)
	}
	if d := newDialer(); d.private != systemdPrivate || d.euid() != os.Geteuid() {
		t.Errorf("%+v", d)
	}
}
