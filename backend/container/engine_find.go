package container

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// object is one container as an inspection by id found it.
type object struct {
	container.InspectResponse
	name string // without the leading slash
}

// inspect looks at a container by id or name. found is false if the engine
// says that there is none.
func (c *Controller) inspect(ctx context.Context, ref string) (o object, found bool, err error) {
	return c.inspectWithin(ctx, ref, c.opts.CallTimeout, client.ContainerInspectOptions{})
}

func (c *Controller) inspectWithin(ctx context.Context, ref string, limit time.Duration,
	o client.ContainerInspectOptions,
) (object, bool, error) {
	res, err := call(ctx, c.engine, "inspect container "+refName(ref), limit,
		func(ctx context.Context, cli *client.Client) (client.ContainerInspectResult, error) {
			return cli.ContainerInspect(ctx, ref, o)
		})
	switch {
	case isNotFound(err):
		return object{}, false, nil
	case err != nil:
		return object{}, false, err
	case res.Container.State == nil || res.Container.ID == "":
		return object{}, false, failed("inspect container "+refName(ref), fmt.Errorf("the answer lacks the container's state"))
	}
	return object{InspectResponse: res.Container, name: strings.TrimPrefix(res.Container.Name, "/")}, true, nil
}

// inspectNamed looks at the container of exactly this name. Engines also take
// the name for the beginning of an id, so the answer is checked.
func (c *Controller) inspectNamed(ctx context.Context, name string) (object, bool, error) {
	o, found, err := c.inspect(ctx, name)
	return o, found && o.name == name, err
}

// objects finds every container that belongs to the slot: those labelled so,
// whatever their name, and those that carry one of the slot's names. The one
// that stands for the slot's stack comes first.
func (c *Controller) objects(ctx context.Context, s Slot) ([]object, error) {
	list, err := call(ctx, c.engine, "list the containers of slot "+s.Name, c.opts.CallTimeout,
		func(ctx context.Context, cli *client.Client) (client.ContainerListResult, error) {
			return cli.ContainerList(ctx, client.ContainerListOptions{
				All:     true,
				Filters: make(client.Filters).Add("label", LabelSlot+"="+s.Name),
			})
		})
	if err != nil {
		return nil, err
	}
	byID := make(map[string]object)
	for _, item := range list.Items {
		o, found, err := c.inspect(ctx, item.ID)
		if err != nil {
			return nil, err
		}
		if !found || !o.ours(s) {
			continue
		}
		if o.name != s.Container && !isKept(s.Container, o.name) {
			inherited, err := c.inherited(ctx, o)
			if err != nil {
				return nil, err
			}
			if inherited {
				continue
			}
		}
		byID[o.ID] = o
	}
	for _, name := range []string{s.Container, s.Container + fencedSuffix} {
		o, found, err := c.inspectNamed(ctx, name)
		if err != nil {
			return nil, err
		}
		if found {
			byID[o.ID] = o
		}
	}
	return ranked(s, byID), nil
}

// ranked sorts the containers of a slot: living ones first, then ours before
// somebody else's, then by epoch and name, kept and fenced ones last.
func ranked(s Slot, byID map[string]object) []object {
	objs := make([]object, 0, len(byID))
	for _, o := range byID {
		objs = append(objs, o)
	}
	weight := func(o object) int {
		w := 0
		if alive, _, err := o.alive(); alive || err != nil {
			w -= 8
		}
		if o.name != s.Container {
			w++
		}
		if isKept(s.Container, o.name) || o.name == s.Container+fencedSuffix {
			w += 4
		}
		if !o.ours(s) {
			w += 2
		}
		return w
	}
	slices.SortFunc(objs, func(a, b object) int {
		return cmp.Or(
			cmp.Compare(weight(a), weight(b)),
			cmp.Compare(epochOf(b.labels()), epochOf(a.labels())),
			cmp.Compare(a.ID, b.ID),
		)
	})
	return objs
}

func (o object) labels() map[string]string {
	if o.Config == nil {
		return nil
	}
	return o.Config.Labels
}

// ours reports whether Start created the container for this slot.
func (o object) ours(s Slot) bool {
	slot, ok := o.labels()[LabelSlot]
	return ok && slot == s.Name
}

// refName is how messages name a container of which only a name or id is known.
func refName(ref string) string {
	if len(ref) == 64 && strings.Trim(ref, "0123456789abcdef") == "" {
		return short(ref)
	}
	return ref
}

// label is how messages name the container.
func (o object) label() string { return fmt.Sprintf("%s (%s)", o.name, short(o.ID)) }

// started reports whether the container has ever been started. Podman calls
// one "created" again after a power cut, but keeps the time of its start.
func (o object) started() bool { return !parseTime(o.State.StartedAt).IsZero() }

// alive reports whether anything of the container lives, and its state for
// people. A state that nobody knows is an error, never "no".
func (o object) alive() (bool, string, error) {
	st := o.State
	switch {
	case st.Restarting:
		return true, fmt.Sprintf("restarting (%d)", o.RestartCount), nil
	case st.Paused:
		return true, fmt.Sprintf("paused, pid %d", st.Pid), nil
	case st.Running:
		return true, fmt.Sprintf("running since %s, pid %d", humanTime(st.StartedAt), st.Pid), nil
	case st.Pid != 0:
		return true, fmt.Sprintf("%s, but pid %d is still set", st.Status, st.Pid), nil
	}
	switch st.Status {
	case container.StateRunning, container.StatePaused, container.StateRestarting:
		return true, string(st.Status), nil
	case container.StateCreated, "configured", "initialized":
		if o.started() {
			return false, "stopped, nobody saw how", nil
		}
		return false, "created, never started", nil
	case container.StateExited, "stopped":
		return false, o.exit(), nil
	case container.StateDead, container.StateRemoving:
		return false, string(st.Status), nil
	default:
		return false, "", failed("inspect container "+o.label(), fmt.Errorf("state %q is not known to this version", st.Status))
	}
}

// removing reports whether the engine is in the middle of removing it.
func (o object) removing() bool { return o.State.Status == container.StateRemoving }

// dead reports whether the engine has failed to remove it. It cannot be
// started any more.
func (o object) dead() bool { return o.State.Status == container.StateDead }

// exit describes how a container ended.
func (o object) exit() string {
	text := fmt.Sprintf("exited with code %d", o.State.ExitCode)
	if o.State.OOMKilled {
		text += ", killed for lack of memory"
	}
	if o.State.Error != "" {
		text += " (" + o.State.Error + ")"
	}
	return text
}

// parseTime reads a time of the engine; the zero time stands for none.
func parseTime(text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || t.Year() <= 1 {
		return time.Time{}
	}
	return t
}

// humanTime writes a time of the engine as people read it, in this host's zone.
func humanTime(text string) string {
	t := parseTime(text)
	if t.IsZero() {
		return text
	}
	return t.Local().Format("2006-01-02 15:04:05 -07:00")
}

// startKey identifies one start of one container.
func (o object) startKey() string { return o.ID + "@" + o.State.StartedAt }

// sawAlive remembers that this very start was seen alive.
func (c *Controller) sawAlive(o object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[o.startKey()] = true
}

func (c *Controller) wasAlive(o object) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen[o.startKey()]
}
