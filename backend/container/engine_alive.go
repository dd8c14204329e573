package container

import (
	"context"
	"fmt"
	"strings"
)

// Alive reports whether anything of the slot's stack lives: a container that
// is labelled as the slot's or carries one of its names and is running,
// restarting, paused, or being removed while it still has a process. The
// detail names the container and its state, for people.
func (c *Controller) Alive(ctx context.Context, slot string) (alive bool, detail string, err error) {
	s, err := c.slot(slot)
	if err != nil {
		return false, "", err
	}
	if s.Container == "" {
		return c.unitAlive(ctx, s)
	}
	objs, err := c.objects(ctx, s)
	if err != nil {
		return false, "", err
	}
	var states []string
	for _, o := range objs {
		lives, state, err := o.alive()
		if err != nil {
			return false, "", err
		}
		if lives {
			c.sawAlive(o)
			return true, "container " + o.label() + " is " + state, nil
		}
		states = append(states, "container "+o.label()+" is "+state)
	}
	if len(states) == 0 {
		return false, "there is no container " + s.Container, nil
	}
	return false, strings.Join(states, "; "), nil
}

// Died reports whether the container of the current start has exited. One that
// is absent, or created and not started yet, has not died, and neither has the
// container of an earlier activation that nobody has cleared away.
//
// The current start is the one labelled with the unit's activation, or one
// that this Controller has seen alive.
func (c *Controller) Died(ctx context.Context, slot string) (died bool, detail string, err error) {
	s, err := c.slot(slot)
	if err != nil {
		return false, "", err
	}
	if s.Container == "" {
		return c.unitDied(ctx, s)
	}
	objs, err := c.objects(ctx, s)
	if err != nil || len(objs) == 0 {
		return false, "there is no container " + s.Container, err
	}
	o := objs[0]
	lives, state, err := o.alive()
	if err != nil {
		return false, "", err
	}
	detail = "container " + o.label() + " is " + state
	if lives {
		c.sawAlive(o)
		return false, detail, nil
	}
	if !o.started() {
		return false, detail, nil
	}
	current, err := c.isCurrent(ctx, s, o)
	if err != nil {
		return false, "", err
	}
	if !current {
		return false, detail + ", left over from an earlier start", nil
	}
	return true, "container " + o.label() + " " + state, nil
}

// isCurrent reports whether o belongs to the start that is under way.
func (c *Controller) isCurrent(ctx context.Context, s Slot, o object) (bool, error) {
	if c.wasAlive(o) {
		return true, nil
	}
	if !o.ours(s) || isKept(s.Container, o.name) || s.Unit == "" {
		return false, nil
	}
	unit, err := c.Unit(ctx, s.Name)
	if err != nil {
		return false, fmt.Errorf("whether container %s is of the current start: %w", o.label(), err)
	}
	return o.labels()[LabelActivation] == unit.Activation, nil
}
