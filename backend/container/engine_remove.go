package container

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/docker/go-units"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
)

// removeTries is how often a removal is asked for when the connection breaks.
const removeTries = 3

// Remove removes the slot's own stopped containers, up to the given epoch (0:
// whatever their epoch), or keeps one that holds more than may be discarded
// under another name. Somebody else's container is left alone. A living one of
// ours is an error, of type *AliveError. The detail says what was thrown away
// or kept; it is empty if there was nothing.
func (c *Controller) Remove(ctx context.Context, slot string, epoch uint64) (detail string, err error) {
	s, err := c.slot(slot)
	if err != nil {
		return "", err
	}
	if s.Container == "" {
		return "", nil
	}
	objs, err := c.objects(ctx, s)
	if err != nil {
		return "", err
	}
	var done []string
	for _, o := range objs {
		switch {
		case !o.ours(s), isKept(s.Container, o.name):
		case epoch != 0 && epochOf(o.labels()) > epoch:
			done = append(done, fmt.Sprintf("left container %s alone, it is of epoch %d", o.label(), epochOf(o.labels())))
		default:
			did, err := c.dispose(ctx, s, o)
			if err != nil {
				return strings.Join(done, "; "), err
			}
			done = append(done, did)
		}
	}
	return strings.Join(done, "; "), nil
}

// dispose gets a stopped container of ours out of the way: it removes it, or
// keeps it under another name if it holds more than may be discarded.
func (c *Controller) dispose(ctx context.Context, s Slot, o object) (detail string, err error) {
	alive, state, err := o.alive()
	if err != nil {
		return "", err
	}
	if alive {
		return "", &AliveError{Slot: s.Name, Name: o.name, ID: o.ID, Detail: state}
	}
	held := ""
	if o.started() && s.DiscardLimit >= 0 && !o.removing() {
		size, err := c.written(ctx, o)
		switch {
		case err != nil:
			return c.retain(ctx, s, o, "what it holds cannot be measured: "+err.Error())
		case size > s.DiscardLimit:
			return c.retain(ctx, s, o, fmt.Sprintf("it holds %s, more than %s",
				units.BytesSize(float64(size)), units.BytesSize(float64(s.DiscardLimit))))
		}
		held = ", discarding " + units.BytesSize(float64(size))
	}
	if err := c.remove(ctx, s, o); err != nil {
		return "", err
	}
	return "removed container " + o.label() + held + leftVolumes(o), nil
}

// written measures the writable layer of a container, in bytes.
func (c *Controller) written(ctx context.Context, o object) (int64, error) {
	measured, found, err := c.inspectWithin(ctx, o.ID, c.engine.slow(), client.ContainerInspectOptions{Size: true})
	switch {
	case err != nil:
		return 0, err
	case !found:
		return 0, nil
	case measured.SizeRw == nil:
		return 0, errors.New("the engine does not tell its size")
	default:
		return *measured.SizeRw, nil
	}
}

// leftVolumes names the anonymous volumes of a container that is removed. They
// may hold a stack's data, so they are never removed with it.
func leftVolumes(o object) string {
	var left []string
	for _, m := range o.Mounts {
		if m.Type == mount.TypeVolume && len(m.Name) == 64 {
			left = append(left, short(m.Name)+" ("+m.Destination+")")
		}
	}
	if len(left) == 0 {
		return ""
	}
	return ", leaving anonymous volume " + strings.Join(left, ", ") + " behind"
}

// retain keeps a stopped container of ours under a name of its own, and
// removes the one that was kept before it.
func (c *Controller) retain(ctx context.Context, s Slot, o object, why string) (detail string, err error) {
	if err := c.disarm(ctx, o); err != nil {
		return "", err
	}
	name := keptName(s.Container, epochOf(o.labels()))
	if err := c.rename(ctx, o, name); err != nil {
		_, taken, look := c.inspectNamed(ctx, name)
		if look != nil || !taken {
			return "", err
		}
		name += "-" + short(o.ID)
		if err := c.rename(ctx, o, name); err != nil {
			return "", err
		}
	}
	detail = fmt.Sprintf("kept container %s as %s, because %s", o.label(), name, why)
	objs, err := c.objects(ctx, s)
	if err != nil {
		return detail, nil // the older one goes another time
	}
	for _, old := range objs {
		if old.ID == o.ID || !old.ours(s) || !isKept(s.Container, old.name) {
			continue
		}
		if err := c.remove(ctx, s, old); err == nil {
			detail += "; removed the older " + old.label()
		}
	}
	return detail, nil
}

// disarm takes a restart policy off a container that is going to stay, so that
// no restart of the engine brings it back to life.
func (c *Controller) disarm(ctx context.Context, o object) error {
	if !restarts(o) {
		return nil
	}
	_, err := call(ctx, c.engine, "take the restart policy off container "+o.label(), c.opts.CallTimeout,
		func(ctx context.Context, cli *client.Client) (client.ContainerUpdateResult, error) {
			return cli.ContainerUpdate(ctx, o.ID, client.ContainerUpdateOptions{
				RestartPolicy: &container.RestartPolicy{Name: container.RestartPolicyDisabled},
			})
		})
	return err
}

// restarts reports whether the engine would start the container by itself.
func restarts(o object) bool { return o.HostConfig != nil && !o.HostConfig.RestartPolicy.IsNone() }

// remove removes a stopped container without force, which races correctly with
// a start: exactly one of them wins. After any answer but success or "no such
// container" the container itself tells what happened.
func (c *Controller) remove(ctx context.Context, s Slot, o object) error {
	for try := 1; ; try++ {
		_, err := call(ctx, c.engine, "remove container "+o.label(), c.engine.slow(),
			func(ctx context.Context, cli *client.Client) (client.ContainerRemoveResult, error) {
				return cli.ContainerRemove(ctx, o.ID, client.ContainerRemoveOptions{})
			})
		if err == nil || isNotFound(err) {
			return nil
		}
		now, found, look := c.untilRemoved(ctx, o.ID)
		switch {
		case look != nil:
			return fmt.Errorf("%w (asked because: %w)", look, err)
		case !found:
			return nil
		}
		alive, state, look := now.alive()
		switch {
		case look != nil:
			return look
		case alive:
			return &AliveError{Slot: s.Name, Name: now.name, ID: now.ID, Detail: state}
		case answered(err) || try == removeTries || !pause(ctx, c.opts.PollInterval):
			return err
		}
	}
}

// untilRemoved looks at a container until it is gone or not in the middle of
// being removed, for as long as a slow request may take.
func (c *Controller) untilRemoved(ctx context.Context, id string) (o object, found bool, err error) {
	deadline := time.Now().Add(c.engine.slow())
	for {
		o, found, err = c.inspect(ctx, id)
		if err != nil || !found || !o.removing() {
			return o, found, err
		}
		if time.Until(deadline) <= 0 || !pause(ctx, c.opts.PollInterval) {
			return o, found, failed("wait until container "+o.label()+" is removed", errors.New("its removal does not end"))
		}
	}
}
