package container

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"
)

const (
	// killWait is how many call timeouts a killed container gets to be gone.
	killWait = 6
	// awayLimit is how many call timeouts an engine may stay away before a
	// method that waits for a container gives up.
	awayLimit = 24

	exitKilled = 128 + 9 // of a process that KILL ended
)

// Stop stops whatever of the slot's stack lives: signal, grace, KILL, and wait
// until it is not running any more. nil means that this was seen; nothing being
// there is fine. While the engine is away it is asked again, for about two
// minutes.
//
// Where run starts the slot's containers, one under its name that run did not
// start is somebody else's: it is left alone, and an error says so. Where
// somebody else's unit starts them, all of them are the stack.
//
// If ctx leaves less than the grace, the grace is cut so that the KILL still
// falls within it. The detail says which signal did it.
func (c *Controller) Stop(ctx context.Context, slot string) (detail string, err error) {
	s, err := c.slot(slot)
	if err != nil {
		return "", err
	}
	if s.Container == "" {
		return c.unitStopped(ctx, s)
	}
	var objs []object
	err = c.patiently(ctx, func() (err error) {
		objs, err = c.objects(ctx, s)
		return err
	})
	if err != nil {
		return "", err
	}
	var done []string
	for _, o := range objs {
		alive, state, err := o.alive()
		if err != nil {
			return strings.Join(done, "; "), err
		}
		if !alive {
			if !isKept(s.Container, o.name) {
				done = append(done, "container "+o.label()+" is "+state)
			}
			continue
		}
		if s.Image != "" && !o.ours(s) {
			return strings.Join(done, "; "), &Error{
				Op: "stop the stack", Hint: "stop it, or rename it", kind: kindMisconfigured,
				Err: &AliveError{Slot: s.Name, Name: o.name, ID: o.ID, Detail: state + ", and it is not ours"},
			}
		}
		did, err := c.stop(ctx, s, o)
		if err != nil {
			return strings.Join(done, "; "), err
		}
		done = append(done, did)
	}
	if len(done) == 0 {
		return "there is no container " + s.Container, nil
	}
	return strings.Join(done, "; "), nil
}

// patiently repeats ask while the engine cannot be reached.
func (c *Controller) patiently(ctx context.Context, ask func() error) error {
	deadline := time.Now().Add(c.away)
	var last error
	for {
		err := ask()
		switch {
		case err == nil || !isUnreachable(err):
			return err
		case last != nil && ctx.Err() != nil:
			return givenUp{last, ended(ctx)} // which says more
		case time.Until(deadline) <= 0 || !pause(ctx, c.opts.PollInterval):
			return err
		}
		last = err
	}
}

// stop stops one container and proves it.
func (c *Controller) stop(ctx context.Context, s Slot, o object) (string, error) {
	began := time.Now()
	grace := c.graceWithin(ctx, s)
	signal := o.stopSignal()
	if o.State.Paused {
		// Podman refuses to stop a paused container, and a frozen process
		// would not see the signal. If this fails, the KILL below is left.
		_ = c.unpause(ctx, o)
	}
	if s.StopSignal != "" && signalName(s.StopSignal) != signal {
		signal = signalName(s.StopSignal)
		c.signal(ctx, o, signal, grace)
		grace = 0
	}
	stopErr := c.askToStop(ctx, o, grace)
	now, found, err := c.untilDown(ctx, o, 2*c.opts.CallTimeout)
	if err != nil || found && now.lives() {
		killErr := c.kill(ctx, o, "SIGKILL")
		now, found, err = c.untilDown(ctx, o, killWait*c.opts.CallTimeout)
		if err == nil && found && now.lives() {
			err = failed("stop container "+o.label(), errors.New("it still lives after a KILL"))
		}
		if err != nil {
			return "", errors.Join(err, killErr, stopErr)
		}
	}
	took := time.Since(began).Round(100 * time.Millisecond)
	switch {
	case !found:
		return fmt.Sprintf("container %s stopped in %s and is gone", o.label(), took), nil
	case now.State.ExitCode == exitKilled:
		return fmt.Sprintf("container %s did not stop on %s within %s and was killed", o.label(), signal, took), nil
	default:
		return fmt.Sprintf("container %s stopped on %s in %s, %s", o.label(), signal, took, now.exit()), nil
	}
}

// graceWithin is the slot's grace, or what ctx leaves of it when the time for
// a KILL is taken off.
func (c *Controller) graceWithin(ctx context.Context, s Slot) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return s.StopGrace
	}
	left := time.Until(deadline) - 2*c.opts.CallTimeout
	return max(0, min(s.StopGrace, left))
}

// stopSignal is the signal that the engine stops the container with.
func (o object) stopSignal() string {
	if o.Config != nil && o.Config.StopSignal != "" {
		return signalName(o.Config.StopSignal)
	}
	return "SIGTERM"
}

// signalName writes a signal in one way: Podman tells numbers, people leave
// out the SIG.
func signalName(text string) string {
	const realTime = 34 // what libc leaves of the kernel's real-time signals
	n, err := strconv.Atoi(text)
	if err != nil {
		return "SIG" + strings.TrimPrefix(strings.ToUpper(text), "SIG")
	}
	if name := unix.SignalName(syscall.Signal(n)); name != "" {
		return name
	}
	if n >= realTime {
		return fmt.Sprintf("SIGRTMIN+%d", n-realTime)
	}
	return text
}

// lives is alive for one whose state is known to be readable.
func (o object) lives() bool {
	alive, _, err := o.alive()
	return alive || err != nil
}

// askToStop lets the engine send the container's own signal and, after the
// grace, a KILL. Whether that worked is for the container to tell.
func (c *Controller) askToStop(ctx context.Context, o object, grace time.Duration) error {
	seconds := int((grace + time.Second/2) / time.Second)
	limit := time.Duration(seconds)*time.Second + 2*c.opts.CallTimeout
	_, err := call(ctx, c.engine, "stop container "+o.label(), limit,
		func(ctx context.Context, cli *client.Client) (client.ContainerStopResult, error) {
			return cli.ContainerStop(ctx, o.ID, client.ContainerStopOptions{Timeout: &seconds})
		})
	return err
}

// signal sends a signal of our own choice and waits for it to work.
func (c *Controller) signal(ctx context.Context, o object, signal string, grace time.Duration) {
	if err := c.kill(ctx, o, signal); err == nil {
		_, _, _ = c.untilDown(ctx, o, grace) // the caller looks again
	}
}

func (c *Controller) kill(ctx context.Context, o object, signal string) error {
	_, err := call(ctx, c.engine, fmt.Sprintf("send %s to container %s", signal, o.label()), c.opts.CallTimeout,
		func(ctx context.Context, cli *client.Client) (client.ContainerKillResult, error) {
			return cli.ContainerKill(ctx, o.ID, client.ContainerKillOptions{Signal: signal})
		})
	return err
}

func (c *Controller) unpause(ctx context.Context, o object) error {
	_, err := call(ctx, c.engine, "unpause container "+o.label(), c.opts.CallTimeout,
		func(ctx context.Context, cli *client.Client) (client.ContainerUnpauseResult, error) {
			return cli.ContainerUnpause(ctx, o.ID, client.ContainerUnpauseOptions{})
		})
	return err
}

// untilDown looks at a container until it does not live any more, for limit at
// most, or longer while the engine is away. found is false once it is gone.
func (c *Controller) untilDown(ctx context.Context, o object, limit time.Duration) (now object, found bool, err error) {
	deadline := time.Now().Add(limit)
	interval := min(c.opts.PollInterval, 200*time.Millisecond)
	for {
		err = c.patiently(ctx, func() (err error) {
			now, found, err = c.inspect(ctx, o.ID)
			return err
		})
		if err != nil || !found {
			return now, found, err
		}
		if alive, _, err := now.alive(); err != nil || !alive {
			return now, found, err
		}
		if time.Until(deadline) <= 0 {
			return now, found, nil
		}
		if !pause(ctx, interval) {
			return now, found, failed("wait until container "+o.label()+" has stopped", ended(ctx))
		}
	}
}
