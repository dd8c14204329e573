package config

import "time"

// What surrounds the configured parts of a phase. Each covers its work on a
// busy machine several times over: a budget that is too long delays a report,
// one that is too short kills a healthy start.
const (
	// lockSlack is what a hook may wait for the slot's and the host's lock
	// while another run ends; those are held for seconds.
	lockSlack = 30 * time.Second
	// evidenceSlack covers the questions to engine and systemd, each with a
	// deadline of a few seconds, and one restart of the engine meanwhile.
	evidenceSlack = 30 * time.Second
	// reloadSlack covers rendering the host-side configuration, systemd's
	// daemon-reload and the check that the unit still loads.
	reloadSlack = 30 * time.Second
	// killSlack is what follows an expired grace: SIGKILL, the proof that
	// nothing of the stack lives, measuring and removing the container.
	killSlack = 30 * time.Second
	// unitSlack lies between a phase's budget and the unit's timeout, so that
	// the phase ends itself, with its reason in the journal, and is not killed.
	unitSlack = 30 * time.Second
)

const (
	// RestartDelay is the unit's RestartSec: long enough for an engine that
	// restarts, short enough for a node that is missed.
	RestartDelay = 20 * time.Second
	// StartLimitInterval is the window in which systemd counts starts.
	StartLimitInterval = 15 * time.Minute
	// EngineAbsence is how long an engine may stay away at boot without the
	// unit running into its start limit.
	EngineAbsence = 10 * time.Minute

	// minStartBurst lets a start that fails at once be tried a handful of
	// times before systemd gives up.
	minStartBurst = 5
	// maxReconcileStarts bounds what reconcile adds to a restless unit.
	maxReconcileStarts = 5
)

// Budgets are the times that have to agree with each other: what each phase of
// a slot may take, and the settings of its unit that follow from it.
type Budgets struct {
	// PeerCheck, PreStart, PostStart and Stop bound one run of the phase; Stop
	// holds for stop and post-stop each.
	PeerCheck, PreStart, PostStart, Stop time.Duration
	// TimeoutStart and TimeoutStop are the unit's TimeoutStartSec and
	// TimeoutStopSec, in whole seconds. systemd applies them to each command
	// of the unit, but at a daemon-reload counts from the first one on.
	TimeoutStart, TimeoutStop time.Duration
	// RestartDelay and StartLimitInterval are the constants of that name.
	RestartDelay, StartLimitInterval time.Duration
	// StartLimitBurst is how many starts systemd allows in the interval.
	StartLimitBurst int
	// ReconcileLimit is how many starts reconcile allows in the interval; it
	// is below StartLimitBurst, since running into that stops a healthy unit.
	ReconcileLimit int
}

// Budgets derives a slot's budgets. For a slot that is not configured it
// returns the zero Budgets.
func (c *Config) Budgets(slot string) Budgets {
	s, ok := c.Slots[slot]
	if !ok {
		return Budgets{}
	}
	b := Budgets{
		// Wait for the engine, then look at the peer.
		PeerCheck: c.Engine.Wait + evidenceSlack,
		// The stack may take all of its grace, then it is killed; before that
		// evidence is captured, perhaps after waiting for another run.
		Stop: lockSlack + evidenceSlack + s.Container.Stop.Grace + killSlack,
		// Each part bounds its own action alone.
		PostStart:          c.Timeouts.Ready + c.Timeouts.AfterStart,
		RestartDelay:       RestartDelay,
		StartLimitInterval: StartLimitInterval,
	}
	// Wait for the engine, stop what an earlier run left alive, judge the
	// peer, fetch the image, regenerate and reload.
	b.PreStart = c.Engine.Wait + b.Stop + evidenceSlack + reloadSlack
	if s.Container.Pull != PullNever {
		b.PreStart += c.Timeouts.Pull
	}

	b.TimeoutStart = wholeSeconds(max(b.PeerCheck, b.PreStart, b.PostStart) + unitSlack)
	b.TimeoutStop = wholeSeconds(b.Stop + unitSlack)
	b.StartLimitBurst = startLimitBurst(c.Engine.Wait)
	b.ReconcileLimit = min(b.StartLimitBurst-1, maxReconcileStarts)
	return b
}

// startLimitBurst returns how many starts the unit needs within
// StartLimitInterval. While the engine is away, peer-check waits for it, fails,
// and systemd tries again after RestartDelay: the starts of EngineAbsence come
// at 0, 1, 2 ... times that period, and the last of them is still waiting when
// the engine comes. One more is for that start failing once on an engine that
// is barely up. A start that fails at once comes every RestartDelay, so the
// limit still stops it as long as the burst is below
// StartLimitInterval / RestartDelay, which holds for any wait.
func startLimitBurst(engineWait time.Duration) int {
	attempts := int(EngineAbsence/(engineWait+RestartDelay)) + 1
	return max(attempts+1, minStartBurst)
}

// wholeSeconds rounds up.
func wholeSeconds(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}
