package container

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Fence makes a late start of the slot's container fail. nil means that it
// would; any error means that nobody may rely on it, and an *AliveError that
// the container lives.
//
// One of ours that was created and never started is removed without force, so
// that a start on its way either wins, which is seen, or fails. One of ours
// that has been started before cannot be started again by its slot, which
// starts each container exactly once; it is removed, or kept under another
// name for what it holds. Somebody else's is never removed, only renamed: then
// weak is true, because a start by id would still succeed.
func (c *Controller) Fence(ctx context.Context, slot string) (detail string, weak bool, err error) {
	s, err := c.slot(slot)
	if err != nil {
		return "", false, err
	}
	if s.Container == "" {
		return "slot " + slot + " has no container that could be fenced", false, nil
	}
	objs, err := c.objects(ctx, s)
	if err != nil {
		return "", false, err
	}
	var done []string
	for _, o := range objs {
		did, renamed, err := c.fence(ctx, s, o)
		if err != nil {
			return strings.Join(done, "; "), weak, err
		}
		weak = weak || renamed
		if did != "" {
			done = append(done, did)
		}
	}
	if len(done) == 0 {
		return "there is no container to fence", false, nil
	}
	return strings.Join(done, "; "), weak, nil
}

// fence fences one container.
func (c *Controller) fence(ctx context.Context, s Slot, o object) (detail string, weak bool, err error) {
	alive, state, err := o.alive()
	switch {
	case err != nil:
		return "", false, err
	case alive:
		return "", false, &AliveError{Slot: s.Name, Name: o.name, ID: o.ID, Detail: state}
	case o.ours(s) && isKept(s.Container, o.name):
		return "", false, c.disarm(ctx, o)
	case o.ours(s):
		detail, err = c.dispose(ctx, s, o)
		if err != nil && o.dead() {
			return fmt.Sprintf("container %s cannot be started any more, nor removed (%v)", o.label(), err), false, nil
		}
		return detail, false, err
	case o.removing(), o.dead():
		return "container " + o.label() + " cannot be started any more, it is " + state, false, nil
	case restarts(o):
		return "", false, misconfigured("fence container "+o.label(),
			"docker update --restart=no "+o.name, "it has restart policy %q, so the engine may start it at any time",
			o.HostConfig.RestartPolicy.Name)
	case o.name == s.Container+fencedSuffix:
		return "container " + o.label() + " is fenced by its name already", true, nil
	default:
		detail, err = c.fenceByName(ctx, s, o)
		return detail, true, err
	}
}

// fenceByName renames somebody else's stopped container, so that a start by
// name fails. A start that was on its way still succeeds, so the container is
// looked at afterwards and gets its name back if it lives.
func (c *Controller) fenceByName(ctx context.Context, s Slot, o object) (string, error) {
	name := s.Container + fencedSuffix
	if err := c.rename(ctx, o, name); err != nil {
		if other, taken, look := c.inspectNamed(ctx, name); look == nil && taken && other.ID != o.ID {
			return "", misconfigured("fence container "+o.label(), "remove one of the two",
				"the name %s is taken by another container (%s)", name, short(other.ID))
		}
		return "", err
	}
	now, found, err := c.inspect(ctx, o.ID)
	if err == nil && !found {
		return "container " + o.label() + " is gone", nil
	}
	alive, state := false, ""
	if err == nil {
		alive, state, err = now.alive()
	}
	if err == nil && !alive {
		return fmt.Sprintf("renamed container %s to %s, it is not ours", o.label(), name), nil
	}
	return "", errors.Join(c.aliveOr(s, o, state, err), c.renameBack(ctx, o))
}

// aliveOr is err, or the error of a container that lives.
func (c *Controller) aliveOr(s Slot, o object, state string, err error) error {
	if err != nil {
		return err
	}
	return &AliveError{Slot: s.Name, Name: o.name, ID: o.ID, Detail: state}
}

// renameBack undoes a rename even if the caller's time is over: a container
// that lives must answer to its name.
func (c *Controller) renameBack(ctx context.Context, o object) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	return c.rename(ctx, o, o.name)
}
