package container

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Defaults of the zero values in Options and Slot.
const (
	DefaultSocket       = "/run/docker.sock"
	DefaultRuntimeDir   = "/run/node-lifecycle"
	DefaultCallTimeout  = 5 * time.Second
	DefaultPollInterval = time.Second
	DefaultPullTimeout  = 10 * time.Minute
	DefaultStopGrace    = time.Minute
	DefaultDiscardLimit = 64 << 20
)

// Systemd is what the controller needs of the service manager. Every method
// blocks until it has an answer or ctx ends, and may be called from several
// goroutines at once. An error means "unknown", never "no".
type Systemd interface {
	// Unit reads the state of a unit, all of it in one request.
	Unit(ctx context.Context, unit string) (UnitStatus, error)
	// Restart restarts the unit and returns when its job is over. That says
	// nothing about whether the unit runs: read Unit again.
	Restart(ctx context.Context, unit string) error
	// ResetFailed clears the unit's failed state and its start counter.
	ResetFailed(ctx context.Context, unit string) error
	// Reload makes systemd read all unit files again.
	Reload(ctx context.Context) error
	// CheckLoaded returns an error that says why if the unit does not load.
	CheckLoaded(ctx context.Context, unit string) error
	// Wake returns a channel that gets a value when something about the unit
	// may have changed. It is closed when ctx ends or the source is lost.
	Wake(ctx context.Context, unit string) (<-chan struct{}, error)
	// Close drops the connection.
	Close() error
}

// Options configure a Controller. The zero value of a field means its default.
type Options struct {
	Socket       string          // path of the engine's socket; DOCKER_HOST is never looked at
	EngineUnit   string          // the engine's unit, such as docker.service; only named in messages
	RuntimeDir   string          // on tmpfs; holds SLOT/container.json
	UnitDir      string          // where drop-ins are written; empty: none are
	CallTimeout  time.Duration   // the longest wait for one answer of the engine
	PollInterval time.Duration   // pause between two looks where nothing wakes us
	Slots        map[string]Slot // by slot name
	Log          *slog.Logger    // nil: silent
	Systemd      Systemd         // nil: the system bus, dialled when first needed
}

// Slot describes one slot's unit and container.
type Slot struct {
	Name, Pair   string
	Unit         string // the supervising unit; empty: none, and what needs one is an error
	Container    string // the container's name; empty: the stack is a plain process of Unit
	Image        string // empty: somebody else creates the container, Start refuses
	Pull         string // "missing" (also "") or "never"
	PullTimeout  time.Duration
	Command      []string // empty: the image's
	TTY          bool
	Privileged   bool
	Env          map[string]string
	Network      string   // as in docker run --network
	CgroupNS     string   // "", "private" or "host"
	Tmpfs        []string // PATH or PATH:OPTIONS
	SecurityOpt  []string // as in docker run --security-opt
	Capabilities []string // added ones, with or without CAP_
	Devices      []string // HOST, HOST:CONTAINER or HOST:CONTAINER:rwm
	Volumes      []string // SOURCE:PATH or SOURCE:PATH:OPTIONS
	StopSignal   string   // empty: the image's, or what fits the command
	StopGrace    time.Duration
	DiscardLimit int64   // bytes a removed container may have written; 0: DefaultDiscardLimit, negative: any
	Ready        []Probe // all must pass, in this order; none: running is ready
	AfterStart   []string
	DropIn       DropIn // the zero value: no drop-in is managed
}

// Probe is one question that tells whether a stack is ready. Exactly one field
// is set.
type Probe struct {
	Units []string // units inside the container that must be active
	HTTP  string   // URL that must answer with a status of 200 to 399, asked from the host
	Exec  []string // command inside the container that must end with 0
}

// Controller drives the stacks of all configured slots through a container
// engine and systemd. Use New.
//
// All methods are safe for concurrent use and bounded by their ctx. A method
// that returns an error has not found out: no caller may read it as "no".
type Controller struct {
	opts   Options
	engine *engine
	log    *slog.Logger

	mu      sync.Mutex
	systemd Systemd
	owned   bool            // systemd was made here, so Close closes it
	looks   map[string]look // by slot: what Running saw last
	seen    map[string]bool // container id and start that were seen alive
	answers map[string]answer

	host host          // what is read of the host itself; replaced in tests
	away time.Duration // how long an engine may stay away while a container is waited for
}

// look is what one look at a running container saw.
type look struct {
	id, startedAt string
	restarts      int
	at            time.Time
}

// answer is the last thing Running said about a slot.
type answer struct {
	detail string
	at     time.Time
}

// New returns a Controller. It does no I/O: the engine and systemd are dialled
// when they are first needed.
func New(o Options) *Controller {
	if o.Socket == "" {
		o.Socket = DefaultSocket
	}
	if o.RuntimeDir == "" {
		o.RuntimeDir = DefaultRuntimeDir
	}
	if o.CallTimeout <= 0 {
		o.CallTimeout = DefaultCallTimeout
	}
	if o.PollInterval <= 0 {
		o.PollInterval = DefaultPollInterval
	}
	log := o.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Controller{
		opts:    o,
		engine:  newEngine(o.Socket, o.EngineUnit, o.CallTimeout),
		log:     log,
		systemd: o.Systemd,
		looks:   make(map[string]look),
		seen:    make(map[string]bool),
		answers: make(map[string]answer),
		host:    newHost(),
		away:    awayLimit * o.CallTimeout,
	}
}

// Close drops the connections to the engine and, unless it was given in
// Options, to systemd. Requests that are under way are not waited for.
func (c *Controller) Close() error {
	c.engine.close()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.systemd == nil || !c.owned {
		return nil
	}
	err := c.systemd.Close()
	c.systemd, c.owned = nil, false
	return err
}

// manager returns the connection to systemd, which may not be open yet.
func (c *Controller) manager() Systemd {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.systemd == nil {
		c.systemd, c.owned = NewSystemd(c.opts.PollInterval), true
	}
	return c.systemd
}

// slot returns the configuration of a slot, with defaults filled in.
func (c *Controller) slot(name string) (Slot, error) {
	s, ok := c.opts.Slots[name]
	if !ok {
		return Slot{}, misconfigured("", "see the slots section of the configuration", "slot %s is not configured", name)
	}
	s.Name = name
	if s.PullTimeout <= 0 {
		s.PullTimeout = DefaultPullTimeout
	}
	if s.StopGrace <= 0 {
		s.StopGrace = DefaultStopGrace
	}
	if s.DiscardLimit == 0 {
		s.DiscardLimit = DefaultDiscardLimit
	}
	return s, nil
}

// contained returns the slot's configuration, or an error if its stack does
// not run in a container.
func (c *Controller) contained(name, op string) (Slot, error) {
	s, err := c.slot(name)
	if err != nil {
		return s, err
	}
	if s.Container == "" {
		return s, misconfigured(op, "set container.name of the slot", "slot %s has no container", name)
	}
	return s, nil
}

// pause waits for d, or less if ctx ends, and reports whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
