package config

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestBudgets_Defaults(t *testing.T) {
	want := Budgets{
		PeerCheck:          2*time.Minute + 30*time.Second,
		PreStart:           15*time.Minute + 30*time.Second,
		PostStart:          5 * time.Minute,
		Stop:               2*time.Minute + 30*time.Second,
		TimeoutStart:       16 * time.Minute,
		TimeoutStop:        3 * time.Minute,
		RestartDelay:       20 * time.Second,
		StartLimitInterval: 15 * time.Minute,
		StartLimitBurst:    6,
		ReconcileLimit:     5,
	}
	if diff := cmp.Diff(want, load(t, "").Budgets("kube1")); diff != "" {
		t.Error(diff)
	}
}

func TestBudgets_FollowTheConfiguration(t *testing.T) {
	c := load(t, `engine: {wait: 1500ms}
timeouts: {ready: 1h, after_start: 2h, pull: 1m}
slots:
  kube1: {container: {pull: never, stop: {grace: 5m}}}
`)
	b := c.Budgets("kube1")
	if b.PostStart != 3*time.Hour || b.TimeoutStart != 3*time.Hour+30*time.Second {
		t.Errorf("post-start has %v of %v", b.PostStart, b.TimeoutStart)
	}
	if b.Stop != 6*time.Minute+30*time.Second || b.TimeoutStop != 7*time.Minute {
		t.Errorf("stop has %v of %v", b.Stop, b.TimeoutStop)
	}
	if b.PreStart != b.Stop+time.Minute+1500*time.Millisecond {
		t.Errorf("an image that is never fetched must not count: pre-start has %v", b.PreStart)
	}
	if other := c.Budgets("kube2"); other.PreStart <= other.Stop+time.Minute+1500*time.Millisecond {
		t.Errorf("fetching the image must count: pre-start has %v", other.PreStart)
	}
	if got := c.Budgets("none"); got != (Budgets{}) {
		t.Errorf("no such slot, but %+v", got)
	}
}

// startsUntilLimit runs systemd's rate limit: how many starts, each given by
// its distance from the one before, happen until one is refused. The window
// begins with the first start and again with the first one after it has passed.
func startsUntilLimit(b Budgets, period time.Duration, during time.Duration) (starts int, refused bool) {
	var begin time.Duration
	count := 0
	for now := time.Duration(0); now < during; now += period {
		if now-begin > b.StartLimitInterval {
			begin, count = now, 0
		}
		if count++; count > b.StartLimitBurst {
			return starts, true
		}
		starts++
	}
	return starts, false
}

// Whatever engine.wait is, an engine that is away for ten minutes at boot must
// not run the unit into its limit, and a start that fails at once must.
func TestBudgets_StartLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := builtin()
		c.Engine.Wait = time.Duration(rapid.Int64Range(1, int64(24*time.Hour)).Draw(t, "wait"))
		b := c.Budgets("kube1")

		period := c.Engine.Wait + b.RestartDelay
		if n, refused := startsUntilLimit(b, period, EngineAbsence+period); refused {
			t.Fatalf("limit of %d hit after %d starts while the engine was away", b.StartLimitBurst, n)
		}
		if n, refused := startsUntilLimit(b, b.RestartDelay, time.Hour); !refused {
			t.Fatalf("a start that fails at once was tried %d times in an hour", n)
		}
		if b.ReconcileLimit >= b.StartLimitBurst || b.ReconcileLimit < 1 {
			t.Fatalf("reconcile may start %d times, the unit %d times", b.ReconcileLimit, b.StartLimitBurst)
		}
	})
	if b := builtin().Budgets("kube1"); b.StartLimitBurst > 7 {
		t.Errorf("%d starts are more than a handful", b.StartLimitBurst)
	}
}

// Unit timeouts never undercut a phase, and are what systemd can express.
func TestBudgets_TimeoutsCoverPhases(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := builtin()
		draw := func(label string) time.Duration {
			return time.Duration(rapid.Int64Range(1, int64(maxDuration)).Draw(t, label))
		}
		c.Engine.Wait, c.Timeouts.Ready, c.Timeouts.AfterStart, c.Timeouts.Pull = draw("wait"), draw("ready"), draw("after"), draw("pull")
		s := c.Slots["kube1"]
		s.Container.Stop.Grace = draw("grace").Round(time.Second)
		c.Slots["kube1"] = s

		b := c.Budgets("kube1")
		if longest := max(b.PeerCheck, b.PreStart, b.PostStart); b.TimeoutStart < longest+unitSlack || b.TimeoutStart%time.Second != 0 {
			t.Fatalf("TimeoutStartSec %v for a phase of %v", b.TimeoutStart, longest)
		}
		if b.TimeoutStop < b.Stop+unitSlack || b.Stop < s.Container.Stop.Grace+killSlack || b.TimeoutStop%time.Second != 0 {
			t.Fatalf("TimeoutStopSec %v for a stop of %v with a grace of %v", b.TimeoutStop, b.Stop, s.Container.Stop.Grace)
		}
	})
}
