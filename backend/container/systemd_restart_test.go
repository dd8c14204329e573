package container

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/godbus/dbus/v5"
)

// unitWith returns the properties of a running unit, changed.
func unitWith(activation string, changed busProps) busProps {
	p := activeUnit(activation)
	maps.Copy(p, changed)
	return p
}

// downUnit are the properties of a unit whose last activation ended like that.
func downUnit(activation, active, sub, result string) busProps {
	return unitWith(activation, busProps{"ActiveState": active, "SubState": sub, "Result": result, "MainPID": uint32(0)})
}

// Every way in which systemd was seen to end a restart. What the job's result says and what became of the unit are two
// things; only a running unit in a new activation is a success.
func TestBusRestart(t *testing.T) {
	for _, tt := range []struct {
		name string
		work func(f *fakeSystemd, job uint32) // what the job does
		want string                           // the reason in the error; "": success
		took time.Duration
	}{
		{name: "done", work: func(f *fakeSystemd, job uint32) {
			f.set(fakeUnit, busProps{"ActiveState": "deactivating", "SubState": "stop"})
			time.Sleep(30 * time.Second)
			f.set(fakeUnit, unitWith("22", busProps{"ActiveState": "activating", "SubState": "start-pre"}))
			time.Sleep(4*time.Minute - 100*time.Millisecond)
			f.finish(job, "done", activeUnit("22"))
		}, took: 4*time.Minute + 30900*time.Millisecond},
		{name: "done, and skipped by ExecCondition=", work: func(f *fakeSystemd, job uint32) {
			f.finish(job, "done", downUnit("22", "inactive", "dead", "exec-condition"))
		}, want: "ended before the start: ExecCondition= skipped it (now inactive/dead, result exec-condition)"},
		{name: "done, and a condition does not hold", work: func(f *fakeSystemd, job uint32) {
			f.finish(job, "done", downUnit("11", "inactive", "dead", "success"))
		}, want: "left the unit down: ExecCondition= or another condition said no, or it ended at once (now inactive/dead)"},
		{name: "done, and the main process died right after", work: func(f *fakeSystemd, job uint32) {
			f.finish(job, "done", unitWith("22", busProps{"ActiveState": "deactivating", "SubState": "stop-post", "Result": "exit-code"}))
			time.Sleep(1500 * time.Millisecond)
			f.set(fakeUnit, downUnit("22", "failed", "failed", "exit-code"))
		}, want: "ended, and the unit failed right after (now failed/failed, result exit-code)", took: 2 * time.Second},
		{name: "done, and the main process dies in the next moment", work: func(f *fakeSystemd, job uint32) {
			f.finish(job, "done", activeUnit("22"))
			time.Sleep(200 * time.Millisecond)
			f.set(fakeUnit, downUnit("22", "failed", "failed", "exit-code"))
		}, want: "ended, and the unit failed right after (now failed/failed, result exit-code)", took: time.Second},
		{name: "done, and it waits for the next start", work: func(f *fakeSystemd, job uint32) {
			f.finish(job, "done", downUnit("22", "activating", "auto-restart", "exit-code"))
		}, want: "ended, and the unit failed right after (now activating/auto-restart, result exit-code, systemd will start it again)"},
		{name: "done, and somebody else restarts it once more", work: func(f *fakeSystemd, job uint32) {
			f.finish(job, "done", unitWith("33", busProps{"ActiveState": "activating", "SubState": "start-pre"}))
			next := f.enqueue(fakeUnit, "start")
			time.Sleep(4900 * time.Millisecond)
			f.finish(next, "done", activeUnit("33"))
		}, took: 6 * time.Second},
		{name: "done, without a restart", work: func(f *fakeSystemd, job uint32) {
			f.finish(job, "done", activeUnit("11"))
		}, want: "did not take place: it is still the activation from before (now active/running)", took: time.Second},
		{name: "failed", work: func(f *fakeSystemd, job uint32) {
			f.finish(job, "failed", downUnit("22", "failed", "failed", "timeout"))
		}, want: "failed (now failed/failed, result timeout)"},
		{name: "failed, and it waits for the next start", work: func(f *fakeSystemd, job uint32) {
			f.finish(job, "failed", downUnit("22", "activating", "auto-restart", "exit-code"))
		}, want: "failed (now activating/auto-restart, result exit-code, systemd will start it again)"},
		{name: "failed by the start limit", work: func(f *fakeSystemd, job uint32) {
			f.finish(job, "failed", downUnit("11", "failed", "failed", "start-limit-hit"))
		}, want: "was refused by the unit's start limit, after the stop (now failed/failed, result start-limit-hit)"},
		{name: "canceled by a stop", work: func(f *fakeSystemd, job uint32) {
			f.finish(job, "canceled", unitWith("22", busProps{"ActiveState": "deactivating", "SubState": "stop-sigterm"}))
		}, want: "was canceled by another job, such as a stop (now deactivating/stop-sigterm)"},
		{name: "dependency", work: func(f *fakeSystemd, job uint32) {
			f.finish(job, "dependency", downUnit("11", "inactive", "dead", "success"))
		}, want: "failed because a unit it requires could not be started (now inactive/dead)"},
		{name: "skipped", work: func(f *fakeSystemd, job uint32) {
			f.finish(job, "skipped", activeUnit("11"))
		}, want: "was skipped by systemd (now active/running)"},
		{name: "timeout of the job, and the start succeeds", work: func(f *fakeSystemd, job uint32) {
			f.finish(job, "timeout", unitWith("22", busProps{"ActiveState": "activating", "SubState": "start-post"}))
			time.Sleep(9900 * time.Millisecond)
			f.set(fakeUnit, activeUnit("22"))
		}, took: 11 * time.Second},
		{name: "timeout of the job, and the start fails", work: func(f *fakeSystemd, job uint32) {
			f.finish(job, "timeout", unitWith("22", busProps{"ActiveState": "activating", "SubState": "start-post"}))
			time.Sleep(9900 * time.Millisecond)
			f.set(fakeUnit, downUnit("22", "failed", "failed", "exit-code"))
		}, want: "took longer than the job may, and the start failed (now failed/failed, result exit-code)", took: 10 * time.Second},
		{name: "result lost, restarted", work: func(f *fakeSystemd, job uint32) {
			f.deaf = true
			time.Sleep(9900 * time.Millisecond)
			f.finish(job, "done", activeUnit("22"))
		}, took: 11 * time.Second},
		{name: "result lost, failed", work: func(f *fakeSystemd, job uint32) {
			f.deaf = true
			f.finish(job, "failed", downUnit("22", "failed", "failed", "exit-code"))
		}, want: "ended, and the unit failed right after (now failed/failed, result exit-code)", took: 2 * time.Second},
		{name: "bus lost, and away for a while", work: func(f *fakeSystemd, job uint32) {
			f.refuse(errNoSocket)
			f.hangUp()
			f.finish(job, "done", activeUnit("22"))
			time.Sleep(19900 * time.Millisecond)
			f.refuse(nil)
		}, took: 21 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, b := newFakeBus(t)
				f.onRestart(func(job uint32) { tt.work(f, job) })
				began := time.Now()
				err := b.Restart(t.Context(), fakeUnit)
				if took := time.Since(began); took != tt.took {
					t.Errorf("took %v", took)
				}
				if tt.want == "" {
					if err != nil {
						t.Error(err)
					}
					return
				}
				var failure *RestartError
				want := "restart of unit " + fakeUnit + " " + tt.want + "; see `journalctl -u " + fakeUnit + "`"
				if !errors.As(err, &failure) || err.Error() != want || failure.Unit != fakeUnit {
					t.Errorf("got  %v\nwant %s", err, want)
				}
			})
		})
	}
}

// The caller's time is over before the restart: systemd goes on without us, and the error says how far it was.
func TestBusRestartEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := newFakeBus(t)
		f.onRestart(func(uint32) {
			f.set(fakeUnit, unitWith("22", busProps{"ActiveState": "activating", "SubState": "start-post", "Job": fakeJob{1, "/org/freedesktop/systemd1/job/1"}}))
		})
		ctx, cancel := context.WithTimeout(t.Context(), 10500*time.Millisecond)
		defer cancel()
		err := b.Restart(ctx, fakeUnit)
		var failure *RestartError
		if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &failure) || failure.Status.JobType != "restart" {
			t.Fatalf("%v", err)
		}
		want := "restart of unit node-stack@kube1.service was not followed to its end: context deadline exceeded " +
			"(now activating/start-post, job 1 restart); see `journalctl -u node-stack@kube1.service`"
		if err.Error() != want {
			t.Errorf("error text:\n%v", err)
		}
	})
}

func TestBusRestartEndsWithItsContextWithoutABus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := newFakeBus(t)
		f.onRestart(func(uint32) {
			f.refuse(errNoSocket)
			f.hangUp()
		})
		ctx, cancel := context.WithTimeout(t.Context(), 10500*time.Millisecond)
		defer cancel()
		err := b.Restart(ctx, fakeUnit)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errNoSocket) {
			t.Errorf("the error hides one of its two causes: %v", err)
		}
	})
}

// The connection breaks in the very moment of the request. Only a look at the unit tells whether systemd has it.
func TestBusRestartAfterAnUnansweredRequest(t *testing.T) {
	for _, tt := range []struct {
		name string
		work func(f *fakeSystemd)
		want func(error) bool
	}{
		{"taken, and done by now", func(f *fakeSystemd) {
			f.set(fakeUnit, activeUnit("22"))
		}, func(err error) bool { return err == nil }},
		{"taken, and under way", func(f *fakeSystemd) {
			id := f.enqueue(fakeUnit, "restart")
			go func() {
				time.Sleep(10 * time.Second)
				f.finish(id, "done", activeUnit("22"))
			}()
		}, func(err error) bool { return err == nil }},
		{"taken, and skipped", func(f *fakeSystemd) {
			f.set(fakeUnit, downUnit("22", "inactive", "dead", "exec-condition"))
		}, func(err error) bool {
			var failure *RestartError
			return errors.As(err, &failure) && strings.Contains(err.Error(), "ExecCondition= skipped it")
		}},
		{"not taken", func(*fakeSystemd) {}, isUnreachable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, b := newFakeBus(t)
				f.on("RestartUnit", func(*dbus.Message) fakeAnswer {
					tt.work(f)
					f.hangUp()
					return fakeAnswer{silent: true}
				})
				if err := b.Restart(t.Context(), fakeUnit); !tt.want(err) {
					t.Error(err)
				}
				if n := f.called("RestartUnit"); n != 1 {
					t.Errorf("%d requests: a second one restarts what the first has started", n)
				}
			})
		})
	}
}

func TestBusRestartRefusals(t *testing.T) {
	for _, tt := range []struct {
		name    string
		prepare func(f *fakeSystemd, b *Bus)
		want    func(error) bool
	}{
		{"no such unit", func(f *fakeSystemd, _ *Bus) {
			f.set(fakeUnit, busProps{"LoadState": "not-found"})
		}, isMisconfigured},
		{"inside the unit", func(f *fakeSystemd, b *Bus) {
			f.set(fakeUnit, busProps{"ControlGroup": "/system.slice/x.service"})
			b.ownCgroup = func() ([]byte, error) {
				return []byte("1:name=systemd:/\n0::/system.slice/x.service/hook\n"), nil
			}
		}, func(err error) bool { return errors.Is(err, ErrOwnUnit) && strings.Contains(err.Error(), fakeUnit) }},
		{"perhaps inside the unit", func(f *fakeSystemd, b *Bus) {
			f.set(fakeUnit, busProps{"ControlGroup": "/system.slice/x.service"})
			b.ownCgroup = func() ([]byte, error) { return nil, errNoSocket }
		}, func(err error) bool { return errors.Is(err, errNoSocket) }},
		{"no bus", func(f *fakeSystemd, _ *Bus) { f.refuse(errNoSocket) }, isUnreachable},
		{"denied", func(f *fakeSystemd, _ *Bus) {
			f.on("RestartUnit", func(*dbus.Message) fakeAnswer {
				return fakeAnswer{err: dbus.NewError("org.freedesktop.DBus.Error.InteractiveAuthorizationRequired", []any{"no"})}
			})
		}, isDenied},
	} {
		f, b := newFakeBus(t)
		tt.prepare(f, b)
		if err := b.Restart(t.Context(), fakeUnit); !tt.want(err) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if n := f.called("RestartUnit"); n != 0 && tt.name != "denied" {
			t.Errorf("%s: systemd was asked", tt.name)
		}
	}
}

// The unit cannot be read any more, although the bus is there: no reason to wait.
func TestBusRestartUnreadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := newFakeBus(t)
		f.onRestart(func(uint32) { f.set(fakeUnit, busProps{"Job": "broken"}) })
		err := b.Restart(t.Context(), fakeUnit)
		var unknown *UnitStatusError
		if !errors.As(err, &unknown) {
			t.Error(err)
		}
	})
}

func TestBusRestartFromBesideTheUnit(t *testing.T) {
	f, b := newFakeBus(t)
	f.set(fakeUnit, busProps{"ControlGroup": "/system.slice/x.service"})
	b.ownCgroup = func() ([]byte, error) { return []byte("0::/system.slice/x.service2\n"), nil }
	f.onRestart(func(job uint32) { f.finish(job, "done", activeUnit("22")) })
	if err := b.Restart(t.Context(), fakeUnit); err != nil {
		t.Error(err)
	}
}

func TestSystemdCgroups(t *testing.T) {
	for content, want := range map[string][]string{
		"0::/system.slice/a.service\n":                                   {"/system.slice/a.service"},
		"2:cpu,cpuacct:/\n1:name=systemd:/system.slice/a.service\n0::/u": {"/system.slice/a.service", "/u"},
		"2:cpu:/x\n": nil,
		"":           nil,
	} {
		if got := systemdCgroups(content); !slices.Equal(got, want) {
			t.Errorf("%q: %q", content, got)
		}
	}
	if content, err := readOwnCgroup(); err != nil || len(systemdCgroups(string(content))) == 0 {
		t.Errorf("this process: %q, %v", content, err)
	}
}
