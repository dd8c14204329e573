package container

import (
	"context"
	"fmt"
	"slices"
)

// A slot without a container name runs its stack as a plain process of its
// unit. systemd starts and stops it; what is left to do here is to look.

// unitAlive reports whether the unit is anything but down, or processes are
// left in its cgroup. When this very process is one of the unit's hooks, the
// hooks do not count: then only the main process and leftovers do.
func (c *Controller) unitAlive(ctx context.Context, s Slot) (bool, string, error) {
	u, err := c.Unit(ctx, s.Name)
	if err != nil {
		return false, "", err
	}
	left, inside, err := c.leftovers(u)
	if err != nil {
		return false, "", failed("look into the cgroup of unit "+s.Unit, err)
	}
	state := fmt.Sprintf("unit %s is %s (%s)", s.Unit, u.ActiveState, u.SubState)
	switch {
	case len(left) > 0:
		return true, fmt.Sprintf("%s with processes %v", state, left), nil
	case !inside && !u.Down():
		return true, state, nil
	default:
		return false, state, nil
	}
}

// leftovers lists the processes of the unit that are neither this process nor
// one it descends from. inside tells whether this process is in the unit.
func (c *Controller) leftovers(u UnitStatus) (left []int, inside bool, err error) {
	if u.Cgroup == "" {
		return nil, false, nil
	}
	pids, err := c.host.pids(u.Cgroup)
	if err != nil {
		return nil, false, err
	}
	family := c.host.ancestors()
	for _, pid := range pids {
		inside = inside || family[pid]
	}
	for _, pid := range pids {
		if family[pid] || inside && pid == u.ControlPID {
			continue
		}
		left = append(left, pid)
	}
	slices.Sort(left)
	return slices.Compact(left), inside, nil
}

// unitRunning reports whether the unit has a main process and every probe
// passes.
func (c *Controller) unitRunning(ctx context.Context, s Slot) (bool, string, error) {
	u, err := c.Unit(ctx, s.Name)
	if err != nil {
		return false, "", err
	}
	if u.MainPID == 0 {
		return false, fmt.Sprintf("unit %s has no main process: %s (%s)", s.Unit, u.ActiveState, u.SubState), nil
	}
	_, missing, err := c.probe(ctx, s, nil)
	if err != nil || missing != "" {
		return false, missing, err
	}
	return true, fmt.Sprintf("unit %s runs, pid %d", s.Unit, u.MainPID), nil
}

// unitDied reports whether the unit's main process has exited.
func (c *Controller) unitDied(ctx context.Context, s Slot) (bool, string, error) {
	u, err := c.Unit(ctx, s.Name)
	if err != nil {
		return false, "", err
	}
	if !u.MainExited {
		return false, fmt.Sprintf("unit %s is %s (%s)", s.Unit, u.ActiveState, u.SubState), nil
	}
	return true, fmt.Sprintf("the main process of unit %s exited with status %d", s.Unit, u.MainStatus), nil
}

// unitStopped is Stop for a plain process: systemd has stopped it, or not.
func (c *Controller) unitStopped(ctx context.Context, s Slot) (string, error) {
	alive, detail, err := c.unitAlive(ctx, s)
	if err != nil {
		return "", err
	}
	if alive {
		return "", &Error{Op: "stop slot " + s.Name, Err: fmt.Errorf("%s", detail), Hint: "systemctl stop " + s.Unit}
	}
	return detail, nil
}
