package config

import (
	"maps"
	"slices"
	"time"
)

// DefaultPath is the main file; its drop-ins are in conf.d beside it.
const DefaultPath = "/etc/node-lifecycle/config.yaml"

// SchemaVersion is the only value of the key version that this code knows.
const SchemaVersion = 1

// What a slot's gpu key may say. Only GPUOff passes Load for now.
const (
	GPUOff      = "off"
	GPUAuto     = "auto"
	GPURequired = "required"
)

// What a container's pull key may say.
const (
	PullMissing = "missing"
	PullNever   = "never"
)

// Size is a number of bytes.
type Size int64

// Config is the effective configuration, complete and valid. The yaml tags are
// the schema: nothing else names the keys.
type Config struct {
	Version  int             `yaml:"version"`
	StateDir string          `yaml:"state_dir"`
	Engine   Engine          `yaml:"engine"`
	Timeouts Timeouts        `yaml:"timeouts"`
	Slots    map[string]Slot `yaml:"slots"`
	Journal  Journal         `yaml:"journal"`

	files   []string
	origins map[string]Origin
}

// Engine is the container engine.
type Engine struct {
	// Socket is the path of its API socket.
	Socket string `yaml:"socket"`
	// Unit is the systemd unit that brings the socket up.
	Unit string `yaml:"unit"`
	// Wait is how long peer-check and pre-start wait for the engine to answer.
	Wait time.Duration `yaml:"wait"`
}

// Timeouts are the budgets that no engine or unit can know.
type Timeouts struct {
	// Ready bounds the wait for the stack in post-start.
	Ready time.Duration `yaml:"ready"`
	// AfterStart bounds the command after it, on its own.
	AfterStart time.Duration `yaml:"after_start"`
	// Pull bounds fetching a missing image in pre-start.
	Pull time.Duration `yaml:"pull"`
	// Poll is the interval of the safety net beneath events.
	Poll time.Duration `yaml:"poll"`
	// Lock is how long a command typed by a person waits for a lock.
	Lock time.Duration `yaml:"lock"`
}

// Slot is one place for a stack.
type Slot struct {
	// Peer is the slot that must be down while this one is up; "" for none.
	Peer string `yaml:"peer"`
	// Unit is the supervising systemd service.
	Unit string `yaml:"unit"`
	// Container is what run creates.
	Container Container `yaml:"container"`
	// Ready lists what must hold before the stack counts as running; with
	// none, a container that keeps running is enough.
	Ready []Probe `yaml:"ready"`
	// AfterStart is a command run inside the container once it is ready.
	AfterStart []string `yaml:"after_start"`
	// GPU is GPUOff.
	GPU string `yaml:"gpu"`
}

// Container describes the slot's container.
type Container struct {
	Name string `yaml:"name"`
	// Image is empty if the stack is not started by run.
	Image string `yaml:"image"`
	// Pull is PullMissing or PullNever.
	Pull string `yaml:"pull"`
	// Command replaces the image's own; empty keeps that.
	Command    []string          `yaml:"command"`
	TTY        bool              `yaml:"tty"`
	Privileged bool              `yaml:"privileged"`
	Env        map[string]string `yaml:"env"`
	// Network and CgroupNS are the engine's own default when empty.
	Network      string   `yaml:"network"`
	CgroupNS     string   `yaml:"cgroupns"`
	Tmpfs        []string `yaml:"tmpfs"`
	SecurityOpt  []string `yaml:"security_opt"`
	Capabilities []string `yaml:"capabilities"`
	Devices      []string `yaml:"devices"`
	Volumes      []string `yaml:"volumes"`
	Stop         Stop     `yaml:"stop"`
	// DiscardLimit is the size of the writable layer above which a container
	// is kept rather than removed; 0 keeps every one that wrote anything.
	DiscardLimit Size `yaml:"discard_limit"`
}

// Stop says how the stack is asked to end.
type Stop struct {
	// Signal is empty to let the image, or else the command, decide.
	Signal string `yaml:"signal"`
	// Grace is how long the stack may take before it is killed; whole seconds.
	Grace time.Duration `yaml:"grace"`
}

// Probe is one condition of readiness; exactly one member is set.
type Probe struct {
	// Units must be active inside the container.
	Units []string `yaml:"units"`
	// HTTP must answer with success.
	HTTP string `yaml:"http"`
	// Exec must exit 0 inside the container.
	Exec []string `yaml:"exec"`
}

// Journal bounds the journal.
type Journal struct {
	// Keep is how many entries each slot keeps.
	Keep int `yaml:"keep"`
}

// SlotNames returns the configured slots in the order of their names.
func (c *Config) SlotNames() []string {
	return slices.Sorted(maps.Keys(c.Slots))
}

// Slot returns a slot's configuration and whether there is such a slot.
func (c *Config) Slot(name string) (Slot, bool) {
	s, ok := c.Slots[name]
	return s, ok
}

// Peer returns the slot's peer; "" if it has none or is not configured.
func (c *Config) Peer(slot string) string { return c.Slots[slot].Peer }

// Pair returns the name under which the slot and its peer share one claim: both
// names in order, joined by "+", or the slot's own name if it has no peer. No
// slot can be named like a pair, since "+" is not allowed in the name of one.
func (c *Config) Pair(slot string) string {
	peer := c.Peer(slot)
	switch {
	case peer == "":
		return slot
	case peer < slot:
		return peer + "+" + slot
	default:
		return slot + "+" + peer
	}
}

// Files returns the files that were read, weakest first. It is empty if the
// built-in defaults are all there is.
func (c *Config) Files() []string { return slices.Clone(c.files) }
