package container

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"
)

// Start creates the slot's container for the given epoch, boot and activation
// and starts it by id. It returns the container's full id, and says what of
// somebody else's it moved out of the way. Nothing else starts a container of
// ours, and no container is started twice.
//
// What stands in the way is dealt with first: stopped containers of ours are
// removed (or kept, see Remove), somebody else's stopped one is renamed
// NAME.stale-TIME. One that lives, or that the engine would start by itself,
// is an error that Misconfigured or an *AliveError.
//
// After an answer that leaves it open whether the container runs, the
// container is looked at; if it does not run it is removed before Start
// returns, so that it cannot come to life later.
func (c *Controller) Start(ctx context.Context, slot string, epoch uint64, boot, activation string) (id, moved string, err error) {
	s, err := c.contained(slot, "start slot "+slot)
	if err != nil {
		return "", moved, err
	}
	if s.Image == "" {
		return "", "", misconfigured("start container "+s.Container, "set container.image of the slot", "slot %s has no image", slot)
	}
	spec, err := c.specFor(ctx, s)
	if err != nil {
		return "", moved, err
	}
	if moved, err = c.clear(ctx, s); err != nil {
		return "", moved, err
	}
	labels := labelsFor(s, epoch, spec.Digest, boot, activation)
	id, err = c.create(ctx, s, spec, labels)
	if err != nil {
		return "", moved, err
	}
	if err := c.startByID(ctx, s, id); err != nil {
		return "", moved, err
	}
	return id, moved, nil
}

// Owns reports whether Start creates the slot's containers. Without an image somebody
// else's unit does, or there are none.
func (c *Controller) Owns(slot string) bool {
	s, err := c.slot(slot)
	return err == nil && s.Container != "" && s.Image != ""
}

// specFor renders the specification to start from. It should be the one that
// Regenerate wrote; if the host or the configuration has changed since, it is
// written again.
func (c *Controller) specFor(ctx context.Context, s Slot) (*specification, error) {
	spec, err := c.renderNow(ctx, s)
	if err != nil {
		return nil, err
	}
	if stored, err := c.storedSpec(s); err == nil && stored.Digest == spec.Digest {
		return spec, nil
	}
	c.log.InfoContext(ctx, "the container's specification has changed since it was written", "slot", s.Name)
	return spec, c.storeSpec(s, spec)
}

// clear gets everything that carries the slot's label or name out of the way,
// and says what of somebody else's it moved.
func (c *Controller) clear(ctx context.Context, s Slot) (moved string, err error) {
	objs, err := c.objects(ctx, s)
	if err != nil {
		return "", err
	}
	var all []string
	for _, o := range objs {
		moved, err := c.clearOne(ctx, s, o)
		if err != nil {
			return strings.Join(all, "; "), err
		}
		if moved != "" {
			all = append(all, moved)
		}
	}
	return strings.Join(all, "; "), nil
}

func (c *Controller) clearOne(ctx context.Context, s Slot, o object) (moved string, err error) {
	op := "start container " + s.Container
	alive, state, err := o.alive()
	switch {
	case err != nil:
		return "", err
	case alive && o.ours(s), alive && o.name != s.Container:
		return "", failed(op, &AliveError{Slot: s.Name, Name: o.name, ID: o.ID, Detail: state})
	case alive:
		cure := "stop it, or rename it"
		if restarts(o) {
			cure = "docker update --restart=no " + o.name + ", then stop it"
		}
		return "", &Error{
			Op: op, Err: &AliveError{Slot: s.Name, Name: o.name, ID: o.ID, Detail: state + ", and it is not ours"},
			Hint: cure, kind: kindMisconfigured,
		}
	case o.ours(s) && isKept(s.Container, o.name):
		return "", nil
	case o.ours(s):
		did, err := c.dispose(ctx, s, o)
		if err == nil {
			c.log.InfoContext(ctx, did, "slot", s.Name)
		}
		return "", err
	case o.name != s.Container:
		return "", nil
	case o.removing():
		_, _, err := c.untilRemoved(ctx, o.ID)
		return "", err
	case restarts(o):
		return "", misconfigured(op, "docker update --restart=no "+o.name, "container %s is not ours and has restart policy %q",
			o.label(), o.HostConfig.RestartPolicy.Name)
	default:
		return c.setAside(ctx, s, o)
	}
}

// setAside renames somebody else's stopped container that has our name.
func (c *Controller) setAside(ctx context.Context, s Slot, o object) (moved string, err error) {
	name := s.Container + staleInfix + time.Now().UTC().Format("20060102T150405Z")
	if err = c.rename(ctx, o, name); err != nil {
		name += "-" + short(o.ID)
		err = c.rename(ctx, o, name)
	}
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("container %s is not ours and had the slot's name; it is kept as %s", o.label(), name), nil
}

// create creates the container and returns its id.
func (c *Controller) create(ctx context.Context, s Slot, spec *specification, labels map[string]string) (string, error) {
	config := *spec.Config
	config.Labels = maps.Clone(labels)
	deadline := time.Now().Add(c.engine.slow())
	for {
		res, err := call(ctx, c.engine, "create container "+s.Container, c.engine.slow(),
			func(ctx context.Context, cli *client.Client) (client.ContainerCreateResult, error) {
				return cli.ContainerCreate(ctx, client.ContainerCreateOptions{
					Config: &config, HostConfig: spec.HostConfig, Name: s.Container,
				})
			})
		if err == nil {
			c.warn(ctx, s, res.Warnings)
			return res.ID, nil
		}
		if ctx.Err() != nil {
			return "", err
		}
		id, again, err := c.afterCreate(ctx, s, labels, err)
		switch {
		case err == nil:
			return id, nil
		case !again, time.Until(deadline) <= 0, !pause(ctx, c.opts.PollInterval):
			return "", err
		}
	}
}

// afterCreate looks at who has the name after a creation that failed, or
// seemed to. again tells that it makes sense to ask once more.
func (c *Controller) afterCreate(ctx context.Context, s Slot, labels map[string]string, cause error) (id string, again bool, err error) {
	o, taken, err := c.inspectNamed(ctx, s.Container)
	switch {
	case err != nil:
		return "", isUnreachable(err), errors.Join(cause, err)
	case taken && sameStart(o.labels(), labels):
		return o.ID, false, nil // it was created after all
	case taken && o.removing():
		return "", true, failed("create container "+s.Container, fmt.Errorf("its name belongs to %s, whose removal does not end", o.label()))
	case taken:
		return "", false, misconfigured("create container "+s.Container, "remove or rename it",
			"its name has just been taken by %s", o.label())
	case !answered(cause):
		return "", true, cause
	case nameInUse(cause):
		return "", true, cause // the engine has not finished forgetting an older one
	}
	return "", false, createError(cause)
}

// nameInUse reports whether a creation failed because of the name. Docker and
// Podman agree on these words, but not on the class of the error.
func nameInUse(err error) bool { return strings.Contains(err.Error(), "already in use") }

// createError tells errors in the configuration from failures of the engine.
func createError(err error) error {
	if cerrdefs.IsInvalidArgument(err) || cerrdefs.IsNotFound(err) {
		return &Error{Err: err, Hint: "correct the slot's container section", kind: kindMisconfigured}
	}
	return err
}

func (c *Controller) warn(ctx context.Context, s Slot, warnings []string) {
	for _, w := range warnings {
		c.log.WarnContext(ctx, "the engine warns about the container", "slot", s.Name, "warning", w)
	}
}

// startByID starts the container once. If the answer leaves it open whether
// the container runs, the container is asked, and removed if it does not.
func (c *Controller) startByID(ctx context.Context, s Slot, id string) error {
	_, err := call(ctx, c.engine, fmt.Sprintf("start container %s (%s)", s.Container, short(id)), c.engine.slow(),
		func(ctx context.Context, cli *client.Client) (client.ContainerStartResult, error) {
			return cli.ContainerStart(ctx, id, client.ContainerStartOptions{})
		})
	if err == nil {
		return nil
	}
	// The caller's time may be over, but the container must not be left in a
	// state where it could come to life after everybody has gone.
	limit := c.engine.slow()
	if ctx.Err() != nil {
		limit = 2 * c.opts.CallTimeout
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	var o object
	var found bool
	look := c.patiently(ctx, func() (err error) {
		o, found, err = c.inspect(ctx, id)
		return err
	})
	switch {
	case look != nil:
		return errors.Join(err, look)
	case !found:
		return err
	case o.started():
		return nil // if it has exited already, Attend tells how
	}
	removed := c.remove(ctx, s, o) // never started, so it holds nothing
	var alive *AliveError
	if errors.As(removed, &alive) {
		return nil // the start has won after all
	}
	return errors.Join(err, removed)
}
