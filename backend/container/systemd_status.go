package container

import (
	"bytes"
	"context"
	"encoding/hex"
	"math"
	"strings"
	"time"

	sd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
)

// Infinity is how a [UnitStatus] and the unit files here say that there is no limit, systemd's "infinity".
const Infinity = time.Duration(math.MaxInt64)

// unitReads bounds the reads of a unit whose job ends between the read of the unit and that of the job.
const unitReads = 3

// UnitStatus is what systemd knows about a unit. All of it but JobType comes from one answer, so ActiveState and JobID
// belong together: read apart, they could show a unit as down between the end of one job and the start of the next.
type UnitStatus struct {
	Name        string // as asked for; systemd may know the unit by another name
	LoadState   string // loaded, not-found, bad-setting, error, masked; not-found reads like inactive otherwise
	ActiveState string // active, reloading, inactive, failed, activating, deactivating, maintenance
	SubState    string // of a service: running, dead, condition, start-pre, start-post, auto-restart, …
	Result      string // of a service's last activation: success, exit-code, timeout, exec-condition, …
	Activation  string // INVOCATION_ID, 32 hexadecimal digits; "" if the unit never started

	JobID   uint32 // 0: no job is queued or running
	JobType string // start, stop, restart, …; "" without a job

	MainPID    int  // 0: no main process
	ControlPID int  // the running hook; 0: none
	MainExited bool // the main process of this activation has started and has exited; false during auto-restart
	MainCode   int  // how it exited, as in siginfo's si_code (1 exited, 2 killed, 3 dumped); 0 unless MainExited
	MainStatus int  // its exit code, or its signal; 0 unless MainExited
	NRestarts  int  // automatic restarts in a row

	StartLimitInterval time.Duration // 0: no start limit
	StartLimitBurst    int
	TimeoutStart       time.Duration // Infinity: none
	TimeoutStop        time.Duration // Infinity: none

	Cgroup       string   // path below the cgroup root; "" while nothing runs
	DropInPaths  []string // as loaded, in systemd's order
	FragmentPath string   // the unit file as loaded
	NeedReload   bool     // a file changed since; false proves nothing, see the drop-ins
	StatusText   string   // what a hook or the main process said last with STATUS=
}

// Down reports whether nothing of the unit runs or is about to: it is inactive or failed and has no job. A unit that
// does not exist is down too; LoadState tells.
func (s UnitStatus) Down() bool {
	return (s.ActiveState == "inactive" || s.ActiveState == "failed") && s.JobID == 0
}

// running reports whether the unit has started and has not stopped.
func (s UnitStatus) running() bool { return s.ActiveState == "active" || s.ActiveState == "reloading" }

// retrying reports whether the unit waits for its automatic restart. No job is queued then.
func (s UnitStatus) retrying() bool { return strings.HasPrefix(s.SubState, "auto-restart") }

// settled reports whether the unit stays as it is unless somebody asks for something else, or systemd tries again by
// itself: whatever was asked for before is over.
func (s UnitStatus) settled() bool { return s.Down() || s.JobID == 0 && (s.running() || s.retrying()) }

// Unit reads the unit's status. A unit that does not exist is no error, LoadState says so. An error means that the
// status is unknown, never that the unit is down.
func (b *Bus) Unit(ctx context.Context, unit string) (UnitStatus, error) {
	read, err := b.read(ctx, unit)
	return read.status, err
}

// unitRead is one answer of systemd about a unit.
type unitRead struct {
	status              UnitStatus
	loadName, loadCause string // the two parts of LoadError
}

// loadError returns nil if the unit is loaded and systemd has nothing to say against it.
func (r unitRead) loadError() error {
	if r.status.LoadState == "loaded" && r.loadName == "" && r.loadCause == "" {
		return nil
	}
	return &UnitLoadError{Unit: r.status.Name, LoadState: r.status.LoadState, Name: r.loadName, Message: r.loadCause}
}

// read fetches a unit and, if it has a job, the type of that job. The type is in another object, so the job may be gone
// by then; the unit is read again in that case.
func (b *Bus) read(ctx context.Context, unit string) (unitRead, error) {
	if err := CheckUnitName(unit); err != nil {
		return unitRead{}, err
	}
	op := "read unit " + unit
	for try := 1; ; try++ {
		var props map[string]any
		err := b.call(ctx, op, busCallLimit, func(ctx context.Context, c *sd.Conn) (err error) {
			props, err = c.GetAllPropertiesContext(ctx, unit)
			return err
		})
		if err != nil {
			return unitRead{}, err
		}
		read, err := parseUnit(unit, props)
		if err != nil {
			return unitRead{}, failed(op, err)
		}
		if read.status.JobID == 0 {
			return read, nil
		}
		read.status.JobType, err = b.jobType(ctx, unit, read.status.JobID)
		if err != nil || read.status.JobType != "" || try == unitReads {
			return read, err
		}
	}
}

// jobType returns the type of the unit's job, or "" if there is no such job any more.
func (b *Bus) jobType(ctx context.Context, unit string, id uint32) (string, error) {
	var jobs []sd.JobStatus
	err := b.call(ctx, "read the job of unit "+unit, busCallLimit, func(ctx context.Context, c *sd.Conn) (err error) {
		jobs, err = c.ListJobsContext(ctx)
		return err
	})
	for _, job := range jobs {
		if job.Id == id {
			return job.JobType, nil
		}
	}
	return "", err
}

// parseUnit turns the properties of a unit into its status. The properties that decide whether a unit is down are
// demanded; a unit that is no service lacks most of the others.
func parseUnit(unit string, props map[string]any) (unitRead, error) {
	p := unitProps{props: props}
	s := UnitStatus{
		Name:               unit,
		LoadState:          demand[string](&p, "LoadState"),
		ActiveState:        demand[string](&p, "ActiveState"),
		SubState:           demand[string](&p, "SubState"),
		JobID:              p.jobID(),
		Result:             prop[string](&p, "Result"),
		Activation:         p.activation(),
		MainPID:            int(prop[uint32](&p, "MainPID")),
		ControlPID:         int(prop[uint32](&p, "ControlPID")),
		NRestarts:          int(prop[uint32](&p, "NRestarts")),
		StartLimitInterval: p.span("StartLimitIntervalUSec"),
		StartLimitBurst:    int(prop[uint32](&p, "StartLimitBurst")),
		TimeoutStart:       p.span("TimeoutStartUSec"),
		TimeoutStop:        p.span("TimeoutStopUSec"),
		Cgroup:             prop[string](&p, "ControlGroup"),
		DropInPaths:        prop[[]string](&p, "DropInPaths"),
		FragmentPath:       prop[string](&p, "FragmentPath"),
		NeedReload:         prop[bool](&p, "NeedDaemonReload"),
		StatusText:         prop[string](&p, "StatusText"),
	}
	if s.MainExited = p.mainExited(); s.MainExited {
		s.MainCode = int(prop[int32](&p, "ExecMainCode"))
		s.MainStatus = int(prop[int32](&p, "ExecMainStatus"))
	}
	read := unitRead{status: s}
	read.loadName, read.loadCause = p.loadError()
	return read, p.err
}

// unitProps reads typed properties and keeps the first error.
type unitProps struct {
	props map[string]any
	err   error
}

// prop returns a property, or the zero value if the unit has none of that name.
func prop[T any](p *unitProps, name string) T {
	value, ok := p.props[name].(T)
	if raw := p.props[name]; raw != nil && !ok {
		p.fail(name, raw)
	}
	return value
}

// demand is prop for a property that every unit has.
func demand[T any](p *unitProps, name string) T {
	if p.props[name] == nil {
		p.fail(name, nil)
	}
	return prop[T](p, name)
}

func (p *unitProps) fail(name string, value any) {
	if p.err == nil {
		p.err = &UnitStatusError{Property: name, Value: value}
	}
}

// jobID reads Job, a pair of the job's number and its object path.
func (p *unitProps) jobID() uint32 {
	pair := demand[[]any](p, "Job")
	if len(pair) == 2 {
		if id, ok := pair[0].(uint32); ok {
			return id
		}
	}
	p.fail("Job", pair)
	return 0
}

// loadError reads LoadError, a pair of an error name and a text, both empty when all is well.
func (p *unitProps) loadError() (name, text string) {
	pair := prop[[]any](p, "LoadError")
	if len(pair) == 2 {
		name, _ = pair[0].(string)
		text, _ = pair[1].(string)
	}
	return name, text
}

// activation reads InvocationID, which is empty or all zeroes before the first start.
func (p *unitProps) activation() string {
	id := prop[[]byte](p, "InvocationID")
	if bytes.Count(id, []byte{0}) == len(id) {
		return ""
	}
	return hex.EncodeToString(id)
}

// mainExited reports whether the main process of the current activation is over. Until the next main process starts,
// systemd shows the exit of the one before, so the exit must be younger than the activation. (The start need not be: of
// a unit without commands before it, the main process is older than the activation by some microseconds.) While the
// unit waits for its automatic restart the answer is no.
func (p *unitProps) mainExited() bool {
	exited := prop[uint64](p, "ExecMainExitTimestampMonotonic")
	return exited != 0 && exited > prop[uint64](p, "InactiveExitTimestampMonotonic")
}

// span reads a time span in microseconds, of which the largest number means that there is no limit.
func (p *unitProps) span(name string) time.Duration {
	usec := prop[uint64](p, name)
	if usec > uint64(Infinity/time.Microsecond) {
		return Infinity
	}
	return time.Duration(usec) * time.Microsecond
}

// unitObject is the path of the unit's object on the bus.
func unitObject(unit string) dbus.ObjectPath {
	return dbus.ObjectPath("/org/freedesktop/systemd1/unit/" + sd.PathBusEscape(unit))
}
