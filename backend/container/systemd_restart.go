package container

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	sd "github.com/coreos/go-systemd/v22/dbus"
)

// Restart restarts the unit, or starts it if it is down, and returns nil only when the unit is active, without a job,
// in another activation than before, in two looks a poll interval apart. Everything else that systemd made of the request is a [RestartError]; it names the
// job's result and the unit's status afterwards. When ctx ends first the job goes on without us, and the RestartError
// wraps the context's error.
//
// The result of a job can be lost, with the connection or in a reload, so the unit is looked at every poll interval as
// well; a lost connection is made again. A caller inside the unit is refused with [ErrOwnUnit]: it would wait for its
// own end.
func (b *Bus) Restart(ctx context.Context, unit string) error {
	before, err := b.read(ctx, unit)
	if err != nil {
		return err
	}
	if before.status.LoadState != "loaded" {
		return before.loadError()
	}
	if err := b.refuseOwnUnit(before.status); err != nil {
		return err
	}
	// The buffer keeps the library's dispatcher from blocking on a result nobody waits for any more.
	results := make(chan string, 1)
	unanswered, err := b.once(ctx, busCallLimit, func(ctx context.Context, c *sd.Conn) error {
		_, err := c.RestartUnitContext(ctx, unit, "replace", results)
		return err
	})
	if err != nil && (!unanswered || ctx.Err() != nil) {
		return busFailure(ctx, "restart unit "+unit, err)
	}
	w := restartWait{before: before.status, last: before.status, accepted: err == nil, cause: err}
	return w.run(ctx, b, results)
}

// restartWait follows one restart to its end.
type restartWait struct {
	before, last UnitStatus
	result       string // of the job; "" until it is known
	accepted     bool   // systemd has the job, or had it
	cause        error  // why nobody knows whether it has
	looks        int    // in a row at a unit that has settled
}

// run waits for the job's result and for the unit to settle.
func (w *restartWait) run(ctx context.Context, b *Bus, results <-chan string) error {
	ticker := time.NewTicker(b.poll)
	defer ticker.Stop()
	var unread error
	for {
		select {
		case <-ctx.Done():
			if unread != nil && !errors.Is(unread, ctx.Err()) {
				return w.fail(fmt.Errorf("%w (%w)", ctx.Err(), unread))
			}
			return w.fail(ctx.Err())
		case w.result = <-results:
			w.looks = 0 // what was seen before belongs to a job that had not ended
			ticker.Reset(b.poll)
		case <-ticker.C:
		}
		status, err := b.Unit(ctx, w.before.Name)
		if err != nil {
			if ctx.Err() == nil && !isUnreachable(err) {
				return w.fail(err)
			}
			unread = err // the job goes on without us
			continue
		}
		unread = nil
		if done, err := w.judge(status); done {
			return err
		}
	}
}

// judge decides, after a look at the unit, whether the restart is over and how.
func (w *restartWait) judge(now UnitStatus) (done bool, err error) {
	w.last = now
	renewed := now.Activation != w.before.Activation || now.Activation == ""
	if !w.accepted {
		w.accepted = w.result != "" || now.JobID != 0 || renewed || now.ActiveState != w.before.ActiveState
	}
	switch w.result {
	case "failed", "canceled", "dependency", "skipped":
		return true, w.fail(nil)
	}
	// "done" is said of a start whose main process dies in the next moment, and "timeout" ends the job and not the
	// start; the result may also be on its way, or lost. The unit has the last word, when it has said it twice.
	if !now.settled() {
		w.looks = 0
		return false, nil
	}
	if w.looks++; w.looks < 2 && (w.result == "" || now.running()) {
		return false, nil
	}
	if !w.accepted {
		return true, &Error{
			Op: "restart unit " + now.Name, kind: kindUnreachable, Hint: "ask again",
			Err: fmt.Errorf("the connection broke before systemd took the request, and the unit did not restart: %w", w.cause),
		}
	}
	if now.running() && renewed {
		return true, nil
	}
	return true, w.fail(nil)
}

func (w *restartWait) fail(err error) error {
	return &RestartError{Unit: w.before.Name, Result: w.result, Status: w.last, Err: err,
		same: w.last.Activation == w.before.Activation}
}

// RestartError is a restart that did not end in a running unit.
type RestartError struct {
	Unit   string
	Result string     // of the job: done, failed, canceled, timeout, dependency, skipped; "" if it is unknown
	Status UnitStatus // of the unit, read after the result
	Err    error      // why the wait ended before the restart did; nil if it did not

	same bool // the unit is still in the activation it had before
}

func (e *RestartError) Error() string {
	return fmt.Sprintf("restart of unit %s %s (now %s); see `journalctl -u %s`", e.Unit, e.reason(), e.state(), e.Unit)
}

func (e *RestartError) Unwrap() error { return e.Err }

// reason says in words what became of the restart.
func (e *RestartError) reason() string {
	switch {
	case e.Err != nil:
		return fmt.Sprintf("was not followed to its end: %v", e.Err)
	case e.Status.Result == "start-limit-hit":
		return "was refused by the unit's start limit, after the stop"
	case e.Status.Result == "exec-condition" && e.Status.ActiveState == "inactive":
		return "ended before the start: ExecCondition= skipped it"
	}
	switch e.Result {
	case "failed":
		return "failed"
	case "canceled":
		return "was canceled by another job, such as a stop"
	case "dependency":
		return "failed because a unit it requires could not be started"
	case "skipped":
		return "was skipped by systemd"
	case "timeout":
		return "took longer than the job may, and the start failed"
	}
	switch {
	case e.Status.running() && e.same:
		return "did not take place: it is still the activation from before"
	case e.Status.ActiveState == "inactive":
		return "left the unit down: ExecCondition= or another condition said no, or it ended at once"
	default:
		return "ended, and the unit failed right after"
	}
}

// state describes the unit as it was found.
func (e *RestartError) state() string {
	s := e.Status
	text := s.ActiveState + "/" + s.SubState
	if s.Result != "" && s.Result != "success" {
		text += ", result " + s.Result
	}
	if s.JobID != 0 {
		text += fmt.Sprintf(", job %d %s", s.JobID, s.JobType)
	}
	if s.retrying() {
		text += ", systemd will start it again"
	}
	return text
}

// ErrOwnUnit refuses to restart the unit that the caller runs in.
var ErrOwnUnit = errors.New("this process runs inside the unit and would wait for its own end; restart it from outside")

// refuseOwnUnit compares control groups: a hook that restarts its own unit is killed by the stop it asked for, and its
// successor does the same again.
func (b *Bus) refuseOwnUnit(s UnitStatus) error {
	if s.Cgroup == "" || s.Cgroup == "/" {
		return nil
	}
	content, err := b.ownCgroup()
	if err != nil {
		return fmt.Errorf("restart unit %s: cannot tell whether this process runs in it: %w", s.Name, err)
	}
	for _, own := range systemdCgroups(string(content)) {
		if own == s.Cgroup || strings.HasPrefix(own, s.Cgroup+"/") {
			return fmt.Errorf("restart unit %s: %w", s.Name, ErrOwnUnit)
		}
	}
	return nil
}

func readOwnCgroup() ([]byte, error) { return os.ReadFile("/proc/self/cgroup") }

// systemdCgroups picks from the content of /proc/PID/cgroup where the process is in the two hierarchies that systemd may
// keep its units in: the unified one and the one named after it. Which of them counts depends on the host; the other is
// absent or shows no unit.
func systemdCgroups(content string) []string {
	var paths []string
	for line := range strings.Lines(content) {
		line = strings.TrimSuffix(line, "\n")
		path, ok := strings.CutPrefix(line, "0::")
		if !ok {
			_, path, ok = strings.Cut(line, ":name=systemd:")
		}
		if ok {
			paths = append(paths, path)
		}
	}
	return paths
}
