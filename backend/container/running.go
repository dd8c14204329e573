package container

import (
	"context"
	"fmt"
	"time"

	"github.com/moby/moby/api/types/container"
)

// Running reports whether the slot's stack is ready: its container runs, is
// not restarting or paused, has a process, is the same start over two looks or
// answers a probe asked inside it, and passes every probe of the slot. If not,
// the detail names the first thing that is missing.
//
// The engine's own health counts only where it is younger than the start: it
// freezes when the engine stops checking. A call may wait one poll interval,
// and one call timeout for each probe.
func (c *Controller) Running(ctx context.Context, slot string) (running bool, detail string, err error) {
	s, err := c.slot(slot)
	if err != nil {
		return false, "", err
	}
	if s.Container == "" {
		running, detail, err = c.unitRunning(ctx, s)
	} else {
		running, detail, err = c.containerRunning(ctx, s)
	}
	if err == nil {
		c.mu.Lock()
		c.answers[slot] = answer{detail: detail, at: time.Now()}
		c.mu.Unlock()
	}
	return running, detail, err
}

func (c *Controller) containerRunning(ctx context.Context, s Slot) (bool, string, error) {
	objs, err := c.objects(ctx, s)
	if err != nil {
		return false, "", err
	}
	if len(objs) == 0 {
		return false, "container " + s.Container + " does not exist", nil
	}
	o := objs[0]
	if missing := o.notUp(); missing != "" {
		return false, missing, nil
	}
	if len(objs) > 1 && objs[1].lives() {
		return false, fmt.Sprintf("containers %s and %s are both alive", o.label(), objs[1].label()), nil
	}
	c.sawAlive(o)
	healthy, missing := health(o, time.Now())
	if missing != "" {
		return false, missing, nil
	}
	inside, missing, err := c.probe(ctx, s, &o)
	if err != nil || missing != "" {
		return false, missing, err
	}
	missing, err = c.unsteady(ctx, s, o, healthy || inside)
	if err != nil || missing != "" {
		return false, missing, err
	}
	return true, fmt.Sprintf("container %s runs since %s, pid %d", o.label(), humanTime(o.State.StartedAt), o.State.Pid), nil
}

// notUp says why the container is not up, or nothing if it is.
func (o object) notUp() string {
	st := o.State
	name := "container " + o.label()
	switch {
	case st.Restarting:
		return fmt.Sprintf("%s is restarting (%d)", name, o.RestartCount)
	case st.Paused:
		return name + " is paused"
	case st.Running && st.Status == container.StateRunning && st.Pid > 0:
		return ""
	case st.Running:
		return fmt.Sprintf("%s is %s without a process", name, st.Status)
	}
	_, state, err := o.alive()
	if err != nil {
		return fmt.Sprintf("%s is %s", name, st.Status)
	}
	return name + " is " + state
}

// unsteady compares the container with an earlier look, and takes a second one
// where there was none: an engine that restarts a container in a loop calls it
// running. sure tells that a probe inside has shown its process already.
func (c *Controller) unsteady(ctx context.Context, s Slot, o object, sure bool) (missing string, err error) {
	interval := min(c.opts.PollInterval, time.Second)
	now := lookAt(o)
	c.mu.Lock()
	before := c.looks[s.Name]
	c.looks[s.Name] = now
	c.mu.Unlock()
	if sure || before.same(now) && now.at.Sub(before.at) >= interval/2 {
		return "", nil
	}
	if !pause(ctx, interval) {
		return "", failed("look at container "+o.label()+" again", ended(ctx))
	}
	again, found, err := c.inspect(ctx, o.ID)
	switch {
	case err != nil:
		return "", err
	case !found:
		return "container " + o.label() + " is gone", nil
	}
	if missing := again.notUp(); missing != "" {
		return missing, nil
	}
	if !lookAt(again).same(now) {
		return fmt.Sprintf("container %s restarted between two looks (%d)", o.label(), again.RestartCount), nil
	}
	return "", nil
}

func lookAt(o object) look {
	return look{id: o.ID, startedAt: o.State.StartedAt, restarts: o.RestartCount, at: time.Now()}
}

// same reports whether two looks saw the same start of the same container.
func (l look) same(m look) bool {
	return l.id == m.id && l.startedAt == m.startedAt && l.restarts == m.restarts
}

// health reads the engine's own health check. passed means that it is young
// enough to count and good, missing that it is young enough and not good.
func health(o object, now time.Time) (passed bool, missing string) {
	h := o.State.Health
	if h == nil || h.Status == "" || h.Status == container.NoHealthcheck {
		return false, ""
	}
	started := parseTime(o.State.StartedAt)
	var last *container.HealthcheckResult
	for _, result := range h.Log {
		if result != nil && !result.End.Before(started) && (last == nil || result.End.After(last.End)) {
			last = result
		}
	}
	seen := started
	if last != nil {
		seen = last.End
	}
	if now.Sub(seen) > patience(o) {
		return false, "" // the engine has stopped checking
	}
	switch {
	case h.Status == container.Starting:
		return false, "engine health check: starting" + said(last)
	case last == nil:
		return false, "" // what it says is about an earlier start
	case h.Status == container.Healthy:
		return true, ""
	default:
		return false, fmt.Sprintf("engine health check: %s%s", h.Status, said(last))
	}
}

// patience is how long a health check may stay silent before it counts as
// frozen.
func patience(o object) time.Duration {
	interval, timeout, start := 30*time.Second, 30*time.Second, time.Duration(0)
	if o.Config != nil && o.Config.Healthcheck != nil {
		h := o.Config.Healthcheck
		if h.Interval > 0 {
			interval = h.Interval
		}
		if h.Timeout > 0 {
			timeout = h.Timeout
		}
		start = h.StartPeriod
	}
	return start + 3*(interval+timeout)
}

func said(result *container.HealthcheckResult) string {
	if result == nil || firstLine(result.Output) == "" {
		return ""
	}
	return ": " + firstLine(result.Output)
}
