package container

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/moby/moby/client"
)

// outputTail is how much of a command's output an ExecError quotes.
const outputTail = 2 << 10

// exec runs a command inside a container and returns its exit code. When ctx
// ends first, the command is killed as far as the engine tells which process
// it is; its children, if it has any, are out of reach.
func (c *Controller) exec(ctx context.Context, o object, command []string, stdout, stderr io.Writer) (code int, err error) {
	op := fmt.Sprintf("run %q in container %s", command[0], o.label())
	created, err := call(ctx, c.engine, op, c.opts.CallTimeout,
		func(ctx context.Context, cli *client.Client) (client.ExecCreateResult, error) {
			return cli.ExecCreate(ctx, o.ID, client.ExecCreateOptions{
				Cmd: command, AttachStdout: true, AttachStderr: true,
			})
		})
	if err != nil {
		return 0, err
	}
	streamErr := c.execOutput(ctx, op, created.ID, stdout, stderr)
	if ctx.Err() == nil {
		code, err = c.execCode(ctx, op, created.ID, streamErr)
	}
	if ctx.Err() != nil {
		return 0, c.abandon(ctx, op, created.ID, o)
	}
	return code, err
}

// execOutput starts a created command and copies what it prints until both its
// streams are closed or ctx ends.
func (c *Controller) execOutput(ctx context.Context, op, id string, stdout, stderr io.Writer) error {
	attached, stop, err := open(ctx, c.engine, op, c.opts.CallTimeout,
		func(ctx context.Context, cli *client.Client) (client.ExecAttachResult, error) {
			return cli.ExecAttach(ctx, id, client.ExecAttachOptions{})
		})
	if err != nil {
		return err
	}
	defer stop()
	defer attached.Close()
	defer context.AfterFunc(ctx, attached.Close)()
	return copyFrames(stdout, stderr, attached.Reader)
}

// execCode waits until a command is over and returns its exit code. The end of
// its output is no sign of that: the connection may have broken, and a command
// may close its output and go on.
func (c *Controller) execCode(ctx context.Context, op, id string, streamErr error) (int, error) {
	for {
		state, err := c.execState(ctx, op, id)
		switch {
		case isNotFound(err):
			return 0, failed(op, errors.Join(errors.New("the engine has forgotten how it ended"), streamErr))
		case err != nil:
			return 0, errors.Join(err, streamErr)
		case !state.Running && state.PID == 0 && streamErr != nil:
			return 0, failed(op, streamErr) // it has not even begun
		case !state.Running:
			return state.ExitCode, nil
		}
		if !pause(ctx, min(c.opts.PollInterval, 100*time.Millisecond)) {
			return 0, ended(ctx)
		}
	}
}

func (c *Controller) execState(ctx context.Context, op, id string) (client.ExecInspectResult, error) {
	return call(ctx, c.engine, op, c.opts.CallTimeout,
		func(ctx context.Context, cli *client.Client) (client.ExecInspectResult, error) {
			return cli.ExecInspect(ctx, id, client.ExecInspectOptions{})
		})
}

// abandon kills a command whose time is over. The engine's API has no request
// for that, but it tells the process.
func (c *Controller) abandon(ctx context.Context, op, id string, o object) error {
	cause := ended(ctx)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(c.opts.CallTimeout, time.Second))
	defer cancel()
	state, err := c.execState(ctx, op, id)
	if err == nil && state.Running && state.PID > 0 {
		err = c.host.kill(state.PID, o.ID)
	}
	if err != nil {
		return failed(op, fmt.Errorf("%w; it may still run: %w", cause, err))
	}
	return failed(op, cause)
}

// AfterStart runs the slot's AfterStart command inside its container, bounded
// by ctx alone. No command is success. An exit code other than 0 is an
// *ExecError; when ctx ends the command is killed and the error holds the end
// of its output.
func (c *Controller) AfterStart(ctx context.Context, slot string) error {
	s, err := c.slot(slot)
	if err != nil || len(s.AfterStart) == 0 {
		return err
	}
	op := fmt.Sprintf("run the after_start command of slot %s", slot)
	if s, err = c.contained(slot, op); err != nil {
		return err
	}
	objs, err := c.objects(ctx, s)
	if err != nil {
		return err
	}
	if len(objs) == 0 || !objs[0].lives() {
		return failed(op, fmt.Errorf("container %s does not run", s.Container))
	}
	output := &tailBuffer{max: outputTail}
	code, err := c.exec(ctx, objs[0], s.AfterStart, output, output)
	switch {
	case err != nil && len(output.bytes()) > 0:
		return fmt.Errorf("%w; it printed: %s", err, output)
	case err != nil:
		return err
	case code != 0:
		return &ExecError{Container: objs[0].name, Command: s.AfterStart, ExitCode: code, Output: output.String()}
	}
	return nil
}
