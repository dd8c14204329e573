package container

import (
	"context"
	"errors"
	"fmt"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"
)

// errPullTimeout is the cause of a pull that ran into Slot.PullTimeout.
var errPullTimeout = errors.New("the pull ran out of time")

// imageInfo is what a specification needs to know of its image.
type imageInfo struct {
	id, stopSignal string
	command        []string // entry point and command
}

// image looks at an image on this host. found is false if there is none.
func (c *Controller) image(ctx context.Context, ref string) (info imageInfo, found bool, err error) {
	res, err := call(ctx, c.engine, "look at image "+ref, c.opts.CallTimeout,
		func(ctx context.Context, cli *client.Client) (client.ImageInspectResult, error) {
			return cli.ImageInspect(ctx, ref)
		})
	if isNotFound(err) {
		return imageInfo{}, false, nil
	}
	if err != nil {
		return imageInfo{}, false, err
	}
	info.id = res.ID
	if cfg := res.Config; cfg != nil {
		info.stopSignal = cfg.StopSignal
		info.command = append(append(info.command, cfg.Entrypoint...), cfg.Cmd...)
	}
	return info, true, nil
}

// ensureImage makes sure that the slot's image is on this host.
func (c *Controller) ensureImage(ctx context.Context, s Slot) (imageInfo, error) {
	op := "make sure of image " + s.Image
	if s.Pull != "" && s.Pull != "missing" && s.Pull != "never" {
		return imageInfo{}, misconfigured(op, `use "missing" or "never"`, "pull policy %q is not known", s.Pull)
	}
	info, found, err := c.image(ctx, s.Image)
	if err != nil || found {
		return info, err
	}
	if s.Pull == "never" {
		return imageInfo{}, misconfigured(op, "load it, or let the slot pull what is missing",
			"it is not on this host and the slot never pulls")
	}
	pullErr := c.pull(ctx, s)
	// The stream of a pull may break at its very end, and a pull by somebody
	// else may have won: only the image itself tells.
	info, found, err = c.image(ctx, s.Image)
	switch {
	case err == nil && found:
		return info, nil
	case pullErr != nil:
		return imageInfo{}, pullErr
	case err != nil:
		return imageInfo{}, err
	default:
		return imageInfo{}, failed(op, errors.New("the engine pulled it and still has no such image"))
	}
}

// pull fetches the slot's image within its PullTimeout.
func (c *Controller) pull(ctx context.Context, s Slot) error {
	op := "pull image " + s.Image
	bounded, cancel := context.WithTimeoutCause(ctx, s.PullTimeout, errPullTimeout)
	defer cancel()
	err := c.pullOnce(bounded, op, s.Image)
	for long := new(longAnswerError); errors.As(err, &long) && pause(bounded, c.opts.PollInterval); {
		err = c.pullOnce(bounded, op, s.Image) // the engine goes on where it was
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return failed(op, ended(ctx))
	case bounded.Err() != nil:
		return &Error{Op: op, Err: fmt.Errorf("%w after %s", errPullTimeout, s.PullTimeout),
			Hint: "pull it by hand, or raise timeouts.pull"}
	case cerrdefs.IsInvalidArgument(err), strings.Contains(err.Error(), "invalid reference format"):
		return &Error{Op: op, Err: errors.New("its name cannot be used"), Hint: "correct the slot's image", kind: kindMisconfigured}
	}
	var known *Error
	if !errors.As(err, &known) {
		known = &Error{Op: op, Err: err}
	}
	if known.Hint == "" {
		known.Hint = "see whether the host can pull it by hand, or load it"
	}
	return known
}

// pullOnce asks the engine to fetch an image and follows how it does.
func (c *Controller) pullOnce(ctx context.Context, op, image string) error {
	stream, stop, err := open(ctx, c.engine, op, 0,
		func(ctx context.Context, cli *client.Client) (client.ImagePullResponse, error) {
			return cli.ImagePull(ctx, image, client.ImagePullOptions{})
		})
	defer stop()
	if err != nil {
		return err
	}
	return stream.Wait(ctx)
}
