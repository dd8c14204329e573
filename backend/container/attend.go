package container

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/moby/moby/client"
)

const (
	// recheck is how many call timeouts an engine may be silent while a
	// container is waited for, before the container is looked at again.
	recheck = 6
	// settle is how long the output of a container that has exited may keep
	// coming by itself, before what is left of it is fetched.
	settle = time.Second
	// reopenPause is the shortest pause before a broken stream is opened again.
	reopenPause = 100 * time.Millisecond
)

// attendance is one call of Attend.
type attendance struct {
	*Controller
	slot    string
	first   object  // as it was found at the beginning
	process process // its first process; zero if it cannot be seen from here
	out     io.Writer
	cursor  *logCursor
	mute    bool // out does not take any more
}

// Attend streams what the container prints to out, without loss or doubling,
// until it exits, and returns its exit code. Lines of both its streams go to
// out in the order the engine stored them, each with one Write or, if it is
// long, a few.
//
// Attend survives restarts of the engine for as long as the container's first
// process lives; where that cannot be seen, or is gone, it waits about two
// minutes for an engine that is away. It ends with an error, and an exit code
// of -1, when ctx ends, when nobody can tell any more how the container ended,
// and when somebody else has started the container again. It never stops the
// container. Errors of out are logged and end the output, nothing else.
func (c *Controller) Attend(ctx context.Context, slot, id string, out io.Writer) (exit int, err error) {
	op := "attend to container " + short(id)
	if _, err := c.contained(slot, op); err != nil {
		return -1, err
	}
	a := &attendance{Controller: c, slot: slot, out: out, cursor: newLogCursor(newLogClock())}
	var found bool
	err = c.patiently(ctx, func() (err error) {
		a.first, found, err = c.inspect(ctx, id)
		return err
	})
	switch {
	case err != nil:
		return -1, err
	case !found:
		return -1, failed(op, errors.New("there is no such container"))
	case !a.first.started():
		return -1, failed(op, errors.New("it was never started"))
	}
	c.sawAlive(a.first)
	a.process, _ = c.host.process(a.first.State.Pid)

	reading, stopReading := context.WithCancel(ctx)
	defer stopReading()
	following, stopFollowing := context.WithCancel(reading)
	defer stopFollowing()
	over, drained := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(drained)
		whole := a.follow(following, over)
		if reading.Err() == nil && !whole {
			<-over
			a.rest(reading)
		}
	}()
	exit, err = a.wait(ctx)
	if err != nil {
		stopReading() // nobody is there to tell the rest
	}
	close(over)
	a.drain(stopFollowing, drained)
	return exit, err
}

// drain gives the output the time to come to its end. If out itself blocks,
// nobody can help that, and the exit code must not wait for it.
func (a *attendance) drain(stopFollowing context.CancelFunc, drained <-chan struct{}) {
	late := time.AfterFunc(settle, stopFollowing)
	defer late.Stop()
	limit := time.NewTimer(settle + 3*a.opts.CallTimeout)
	defer limit.Stop()
	select {
	case <-drained:
	case <-limit.C:
	}
}

// follow copies the log until the container is over or ctx ends, opening the
// stream again whenever it breaks. whole tells that nothing can be missing: the
// stream has come to its own end, and the container to its.
func (a *attendance) follow(ctx context.Context, over <-chan struct{}) (whole bool) {
	wait := reopenPause
	for {
		before := a.cursor.last
		err := a.copyLog(ctx, true)
		ended := err == nil && a.endsWithContainer()
		select {
		case <-over:
			return ended
		default:
		}
		if ended {
			wait = settle // the engine is about to tell that the container has exited
		} else if err != nil && ctx.Err() == nil {
			a.log.DebugContext(ctx, "the container's output will be opened again", "slot", a.slot, "because", err)
		}
		if a.cursor.last != before && !ended {
			wait = reopenPause
		}
		if a.mute {
			return true
		}
		timer := time.NewTimer(wait)
		select {
		case <-over:
			timer.Stop()
			return ended
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-timer.C:
		}
		wait = min(2*wait, max(a.opts.PollInterval, reopenPause))
	}
}

// endsWithContainer reports whether a log that is followed ends when the
// container does, and not earlier. Podman's journald driver breaks that.
func (a *attendance) endsWithContainer() bool {
	if a.first.HostConfig == nil {
		return false
	}
	switch a.first.HostConfig.LogConfig.Type {
	case "json-file", "local", "k8s-file":
		return true
	}
	return false
}

// rest copies what the followed stream has not brought.
func (a *attendance) rest(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*a.opts.CallTimeout)
	defer cancel()
	for {
		err := a.copyLog(ctx, false)
		if err == nil || isNotFound(err) || a.mute || errors.Is(ctx.Err(), context.Canceled) {
			return
		}
		if answered(err) || !pause(ctx, reopenPause) {
			a.log.WarnContext(ctx, "the end of the container's output may be missing", "slot", a.slot, "because", err)
			return
		}
	}
}

// copyLog reads the log once, from a little before where it stopped last.
func (a *attendance) copyLog(ctx context.Context, follow bool) error {
	if a.mute {
		return nil
	}
	options := client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Timestamps: true, Follow: follow}
	if since := a.cursor.reopen(); since != 0 {
		options.Since = unixSeconds(since)
	}
	// A log may be longer than any answer, and after the clock was set back much of it
	// must be read before something new comes.
	var own *client.Client
	defer func() {
		if own != nil {
			_ = own.Close() // only closes idle connections; cannot fail
		}
	}()
	// No limit: Podman may send the first byte only with the first line.
	stream, stop, err := open(ctx, a.engine, "read the output of container "+a.first.label(), 0,
		func(ctx context.Context, cli *client.Client) (_ client.ContainerLogsResult, err error) {
			if own, err = a.engine.unmetered(cli); err != nil {
				return nil, err
			}
			return own.ContainerLogs(ctx, a.first.ID, options)
		})
	if err != nil {
		return err
	}
	defer stop()
	defer stream.Close()
	if a.first.Config != nil && a.first.Config.Tty {
		return readLines(stream, !follow, a.emit)
	}
	return readFrames(stream, a.emit)
}

// emit writes a line unless it was written before.
func (a *attendance) emit(line logLine) error {
	if !line.at.IsZero() && !a.cursor.isNew(a.cursor.key(line.at, line.stream, line.text)) {
		return nil
	}
	_, err := a.out.Write(line.text)
	if err != nil {
		a.mute = true
		a.log.Warn("the container's output cannot be written any more", "slot", a.slot, "because", err)
	}
	return err
}

// wait returns the exit code of the start that was found at the beginning.
func (a *attendance) wait(ctx context.Context) (int, error) {
	op := "attend to container " + a.first.label()
	away := time.Time{} // since when nobody knows anything
	for {
		code, told := a.waitOnce(ctx)
		if told {
			return code, nil
		}
		if ctx.Err() != nil {
			return -1, failed(op, ended(ctx))
		}
		now, found, err := a.inspect(ctx, a.first.ID)
		switch {
		case err != nil:
			if a.process.pid == 0 || !a.host.runs(a.process) {
				if away.IsZero() {
					away = time.Now()
				}
				if time.Since(away) > a.away {
					return -1, err
				}
			}
			pause(ctx, a.opts.PollInterval)
			continue
		case !found:
			return -1, failed(op, errors.New("it was removed before its exit code could be read"))
		case now.startKey() != a.first.startKey():
			return -1, failed(op, fmt.Errorf("somebody else started it again at %s", humanTime(now.State.StartedAt)))
		case !now.lives():
			return now.State.ExitCode, nil
		}
		away = time.Time{}
		pause(ctx, reopenPause)
	}
}

// waitOnce waits until the engine tells that the container has exited. told is
// false when anything else has ended the wait, and the container must be looked
// at: the stream, the engine's silence, or the container's process.
func (a *attendance) waitOnce(ctx context.Context) (code int, told bool) {
	answer, stop, err := open(ctx, a.engine, "wait for container "+a.first.label(), a.opts.CallTimeout,
		func(ctx context.Context, cli *client.Client) (client.ContainerWaitResult, error) {
			return cli.ContainerWait(ctx, a.first.ID, client.ContainerWaitOptions{}), nil
		})
	if err != nil {
		return 0, false
	}
	silence := time.NewTimer(recheck * a.opts.CallTimeout)
	defer silence.Stop()
	look := time.NewTicker(max(a.opts.PollInterval, reopenPause))
	defer look.Stop()
	for {
		select {
		case res := <-answer.Result:
			stop()
			return int(res.StatusCode), res.Error == nil
		case <-answer.Error:
			stop()
			return 0, false
		case <-look.C:
			if a.process.pid == 0 || a.host.runs(a.process) {
				continue
			}
			// The process is gone; the engine is about to say so, or hangs.
			if code, told, heard := hear(answer, a.opts.CallTimeout/2); heard {
				stop()
				return code, told
			}
		case <-silence.C:
		case <-ctx.Done():
		}
		stop()
		// The client hands its answer over even if nobody waits any more.
		go hear(answer, 0)
		return 0, false
	}
}

// hear takes the answer of a wait; with a limit of 0 it waits until there is
// one, which the end of the wait's context brings about.
func hear(answer client.ContainerWaitResult, limit time.Duration) (code int, told, heard bool) {
	var late <-chan time.Time
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case res := <-answer.Result:
		return int(res.StatusCode), res.Error == nil, true
	case <-answer.Error:
		return 0, false, true
	case <-late:
		return 0, false, false
	}
}
