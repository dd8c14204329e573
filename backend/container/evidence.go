package container

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

const (
	evidenceVersion = 1
	evidenceMax     = 64 << 10 // of the whole, as JSON
	evidenceOutput  = 16 << 10 // of the container's output
	evidenceLines   = "1000"   // that are asked for
	evidenceText    = 1 << 10  // of any other text that somebody else wrote
	evidenceList    = 64       // entries of a list that somebody else wrote
	evidenceEntry   = 256      // of one such entry
	othersKept      = 8        // further containers of the slot
	healthKept      = 5        // results of the engine's health check
)

// evidence is what Evidence returns, as JSON. Fields are only ever added.
type evidence struct {
	Version   int                `json:"v"`
	Slot      string             `json:"slot"`
	Time      time.Time          `json:"time"`
	Container *containerEvidence `json:"container,omitempty"`
	Output    string             `json:"output,omitempty"` // the last lines
	OutputCut bool               `json:"output_cut,omitempty"`
	Unit      *unitEvidence      `json:"unit,omitempty"`
	Probe     *probeEvidence     `json:"probe,omitempty"`
	Missing   map[string]string  `json:"missing,omitempty"` // part -> why it is not there
}

type containerEvidence struct {
	ID         string            `json:"id"`
	Name       string            `json:"name"`
	Ours       bool              `json:"ours"`
	Labels     map[string]string `json:"labels,omitempty"` // ours only
	Image      string            `json:"image,omitempty"`
	ImageID    string            `json:"image_id,omitempty"`
	Command    []string          `json:"command,omitempty"`
	Env        []string          `json:"env,omitempty"`
	State      string            `json:"state"`
	ExitCode   int               `json:"exit_code"`
	OOMKilled  bool              `json:"oom_killed,omitempty"`
	Error      string            `json:"error,omitempty"`
	PID        int               `json:"pid,omitempty"`
	Restarts   int               `json:"restarts,omitempty"`
	CreatedAt  string            `json:"created_at,omitempty"`
	StartedAt  string            `json:"started_at,omitempty"`
	FinishedAt string            `json:"finished_at,omitempty"`
	Health     string            `json:"health,omitempty"`
	HealthLog  []healthEvidence  `json:"health_log,omitempty"`
	Others     []string          `json:"others,omitempty"` // further containers of the slot
}

type healthEvidence struct {
	End      time.Time `json:"end"`
	ExitCode int       `json:"exit_code"`
	Output   string    `json:"output,omitempty"`
}

type unitEvidence struct {
	Name       string `json:"name"`
	Load       string `json:"load"`
	Active     string `json:"active"`
	Sub        string `json:"sub"`
	Result     string `json:"result,omitempty"`
	Activation string `json:"activation,omitempty"`
	JobID      uint32 `json:"job_id,omitempty"`
	JobType    string `json:"job_type,omitempty"`
	MainPID    int    `json:"main_pid,omitempty"`
	MainExited bool   `json:"main_exited,omitempty"`
	MainCode   int    `json:"main_code,omitempty"`
	MainStatus int    `json:"main_status,omitempty"`
	Restarts   int    `json:"restarts,omitempty"`
	Status     string `json:"status,omitempty"` // what a hook or the main process said last
}

type probeEvidence struct {
	Answer string    `json:"answer"`
	Time   time.Time `json:"time"`
}

// Evidence captures what can be known about the slot's stack right now, as a
// JSON object of at most 64 KiB: the container's state and last output, the
// unit, and what Running said last in this process. Whatever cannot be had is
// listed under "missing" with the reason, so the only errors are a slot that
// is not configured and a bug. Secrets in the environment and in flags of the
// command are replaced, in the output too.
func (c *Controller) Evidence(ctx context.Context, slot string) ([]byte, error) {
	s, err := c.slot(slot)
	if err != nil {
		return nil, err
	}
	e := &evidence{Version: evidenceVersion, Slot: slot, Time: time.Now().UTC(), Missing: make(map[string]string)}
	var unit UnitStatus
	var unitErr error
	var asking sync.WaitGroup
	asking.Go(func() { unit, unitErr = c.Unit(ctx, slot) })
	c.containerEvidence(ctx, s, e)
	asking.Wait()
	if unitErr != nil {
		e.Missing["unit"] = clip(unitErr.Error(), evidenceText)
	} else {
		e.Unit = describeUnit(unit)
	}
	c.mu.Lock()
	last, asked := c.answers[slot]
	c.mu.Unlock()
	if asked {
		e.Probe = &probeEvidence{Answer: clip(last.detail, evidenceText), Time: last.at.UTC()}
	} else {
		e.Missing["probe"] = "this process has not asked whether the stack is ready"
	}
	return e.marshal()
}

// containerEvidence fills in what the engine knows.
func (c *Controller) containerEvidence(ctx context.Context, s Slot, e *evidence) {
	const gone = "there is no container"
	miss := func(why string) { e.Missing["container"], e.Missing["output"] = why, why }
	if s.Container == "" {
		miss("the slot has no container")
		return
	}
	objs, err := c.objects(ctx, s)
	if err != nil {
		miss(clip(err.Error(), evidenceText))
		return
	}
	if len(objs) == 0 {
		miss(gone)
		return
	}
	o := objs[0]
	r := newRedactor(o.environment(), o.commandLine())
	e.Container = describe(s, o, r)
	for _, other := range objs[1:min(len(objs), 1+othersKept)] {
		e.Container.Others = append(e.Container.Others, clip(other.label()+" is "+string(other.State.Status), evidenceEntry))
	}
	output, cut, err := c.lastOutput(ctx, o)
	if err != nil {
		e.Missing["output"] = clip(err.Error(), evidenceText)
	}
	e.Output, e.OutputCut = r.text(output), cut
}

// describe turns an inspection into evidence.
func describe(s Slot, o object, r *redactor) *containerEvidence {
	st := o.State
	d := &containerEvidence{
		ID: o.ID, Name: o.name, Ours: o.ours(s), ImageID: o.Image,
		Command: clipAll(r.command(o.commandLine())), Env: clipAll(r.env(o.environment())),
		State: string(st.Status), ExitCode: st.ExitCode, OOMKilled: st.OOMKilled,
		Error: clip(r.text(st.Error), evidenceText), PID: st.Pid, Restarts: o.RestartCount,
		CreatedAt: o.Created, StartedAt: st.StartedAt, FinishedAt: st.FinishedAt,
	}
	if o.Config != nil {
		d.Image = o.Config.Image
	}
	for name, value := range o.labels() {
		if strings.HasPrefix(name, labelPrefix) {
			if d.Labels == nil {
				d.Labels = make(map[string]string)
			}
			d.Labels[strings.TrimPrefix(name, labelPrefix)] = clip(value, evidenceText)
		}
	}
	if h := st.Health; h != nil && h.Status != "" {
		d.Health = string(h.Status)
		results := slices.DeleteFunc(slices.Clone(h.Log), func(r *container.HealthcheckResult) bool { return r == nil })
		for _, result := range results[max(0, len(results)-healthKept):] {
			d.HealthLog = append(d.HealthLog, healthEvidence{
				End: result.End, ExitCode: result.ExitCode, Output: clip(r.text(result.Output), evidenceText),
			})
		}
	}
	return d
}

func describeUnit(u UnitStatus) *unitEvidence {
	return &unitEvidence{
		Name: u.Name, Load: u.LoadState, Active: u.ActiveState, Sub: u.SubState, Result: u.Result,
		Activation: u.Activation, JobID: u.JobID, JobType: u.JobType, MainPID: u.MainPID,
		MainExited: u.MainExited, MainCode: u.MainCode, MainStatus: u.MainStatus,
		Restarts: u.NRestarts, Status: clip(u.StatusText, evidenceText),
	}
}

func (o object) environment() []string {
	if o.Config == nil {
		return nil
	}
	return o.Config.Env
}

// commandLine is what the container runs. Engines without Path tell it in the
// configuration.
func (o object) commandLine() []string {
	if o.Path != "" {
		return append([]string{o.Path}, o.Args...)
	}
	if o.Config == nil {
		return nil
	}
	return append(slices.Clone(o.Config.Entrypoint), o.Config.Cmd...)
}

// lastOutput reads the end of what a container printed.
func (c *Controller) lastOutput(ctx context.Context, o object) (text string, cut bool, err error) {
	op := "read the output of container " + o.label()
	bounded, cancel := context.WithTimeoutCause(ctx, c.opts.CallTimeout, errNoAnswer)
	defer cancel()
	stream, stop, err := open(bounded, c.engine, op, c.opts.CallTimeout,
		func(ctx context.Context, cli *client.Client) (client.ContainerLogsResult, error) {
			return cli.ContainerLogs(ctx, o.ID, client.ContainerLogsOptions{
				ShowStdout: true, ShowStderr: true, Timestamps: true, Tail: evidenceLines,
			})
		})
	if err != nil {
		return "", false, err
	}
	defer stop()
	defer stream.Close()
	tail := &tailBuffer{max: evidenceOutput}
	emit := func(line logLine) error {
		_, err := tail.Write(line.text)
		return err
	}
	if o.Config != nil && o.Config.Tty {
		err = readLines(stream, true, emit)
	} else {
		err = readFrames(stream, emit)
	}
	if bounded.Err() != nil && ctx.Err() == nil {
		err = failed(op, errors.Join(errNoAnswer, err))
	}
	return tail.String(), tail.cut || len(tail.buf) > tail.max, err
}

// marshal renders the evidence, and cuts the output until it fits.
func (e *evidence) marshal() ([]byte, error) {
	for {
		var text bytes.Buffer
		enc := json.NewEncoder(&text)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(e); err != nil {
			return nil, failed("render evidence", err)
		}
		if text.Len() <= evidenceMax {
			return bytes.TrimSpace(text.Bytes()), nil
		}
		switch {
		case e.Output != "":
			// The end is what matters. Control characters take six bytes each.
			tail := &tailBuffer{max: len(e.Output) / 2}
			_, _ = io.WriteString(tail, e.Output)
			e.Output, e.OutputCut = tail.String(), true
		case e.Container != nil && (e.Container.Env != nil || e.Container.Command != nil):
			e.Container.Env, e.Container.Command = nil, nil
			e.Missing["env"], e.Missing["command"] = "there is no room", "there is no room"
		case e.Container != nil:
			e.Container = nil
			e.Missing["container"] = "there is no room"
		default:
			e.Unit, e.Missing = nil, map[string]string{"unit": "there is no room"}
		}
	}
}

// clip cuts a text to a length in bytes.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

func clipAll(list []string) []string {
	if len(list) > evidenceList {
		list = append(slices.Clone(list[:evidenceList]), "…")
	}
	for i := range list {
		list[i] = clip(list[i], evidenceEntry)
	}
	return list
}
