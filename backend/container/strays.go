package container

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/moby/moby/client"
)

// Stray looks for a living container of ours that the slot's stack must not run beside
// although it is not the configured peer's: one whose slot is configured no more, or one
// that was started when its slot and this one were a pair. A change of the configuration
// must not make two stacks of one.
func (c *Controller) Stray(ctx context.Context, slot string) (alive bool, detail string, err error) {
	s, err := c.slot(slot)
	if err != nil || s.Container == "" {
		return false, "", err
	}
	list, err := call(ctx, c.engine, "list the containers of all slots", c.opts.CallTimeout,
		func(ctx context.Context, cli *client.Client) (client.ContainerListResult, error) {
			return cli.ContainerList(ctx, client.ContainerListOptions{
				All: true, Filters: make(client.Filters).Add("label", LabelContract),
			})
		})
	if err != nil {
		return false, "", err
	}
	for _, item := range list.Items {
		why := c.strayed(s, item.Labels)
		if why == "" {
			continue
		}
		o, found, err := c.inspect(ctx, item.ID)
		if err != nil {
			return false, "", err
		}
		if !found {
			continue
		}
		lives, state, err := o.alive()
		if err != nil {
			return false, "", err
		}
		if !lives {
			continue
		}
		if inherited, err := c.inherited(ctx, o); err != nil || inherited {
			if err != nil {
				return false, "", err
			}
			continue
		}
		return true, fmt.Sprintf("container %s of slot %s, %s, is %s", o.label(), o.labels()[LabelSlot], why, state), nil
	}
	return false, "", nil
}

// strayed says why a container with these labels may be in the slot's way; "" if it is not.
func (c *Controller) strayed(s Slot, labels map[string]string) string {
	owner, pair := labels[LabelSlot], labels[LabelPair]
	known, configured := c.opts.Slots[owner]
	switch {
	case owner == s.Name:
		return ""
	case !configured:
		return "which is not configured any more"
	case known.Pair != pair && slices.Contains(strings.Split(pair, "+"), s.Name):
		return "which was this slot's peer when it was started"
	}
	return ""
}

// inherited reports whether a container has our labels only because it was made from an
// image that was made from a container of ours, as for a look at it after its end.
func (c *Controller) inherited(ctx context.Context, o object) (bool, error) {
	res, err := call(ctx, c.engine, "look at the image of container "+o.label(), c.opts.CallTimeout,
		func(ctx context.Context, cli *client.Client) (client.ImageInspectResult, error) {
			return cli.ImageInspect(ctx, o.Image)
		})
	switch {
	case isNotFound(err):
		return false, nil // in doubt it is what its labels say
	case err != nil:
		return false, err
	case res.Config == nil:
		return false, nil
	}
	return res.Config.Labels[LabelContract] != "", nil
}
