package config

import (
	"time"
)

// The slots that exist when the configuration names none.
const (
	builtinSlotA = "kube1"
	builtinSlotB = "kube2"
)

// Defaults of single values. A container's defaults are those that a systemd
// inside a container needs; what only the operator can know (image, volumes,
// readiness) has none.
const (
	defaultStateDir     = "/var/lib/node-lifecycle"
	defaultSocket       = "/run/docker.sock"
	defaultEngineUnit   = "docker.service"
	defaultEngineWait   = 2 * time.Minute
	defaultReady        = 2 * time.Minute
	defaultAfterStart   = 3 * time.Minute
	defaultPull         = 10 * time.Minute
	defaultPoll         = time.Second
	defaultLock         = 10 * time.Second
	defaultKeep         = 4000
	defaultGrace        = 60 * time.Second
	defaultDiscardLimit = Size(64 << 20)
)

// setDefault sets *dst to value unless somebody gave the key.
func setDefault[T any](c *Config, key string, dst *T, value T) {
	if !c.has(key) {
		*dst = value
	}
}

// fillDefaults completes what the layers left open.
func (c *Config) fillDefaults(p *problems) {
	setDefault(c, "version", &c.Version, SchemaVersion)
	setDefault(c, "state_dir", &c.StateDir, defaultStateDir)
	setDefault(c, "engine.socket", &c.Engine.Socket, defaultSocket)
	setDefault(c, "engine.unit", &c.Engine.Unit, defaultEngineUnit)
	setDefault(c, "engine.wait", &c.Engine.Wait, defaultEngineWait)
	setDefault(c, "timeouts.ready", &c.Timeouts.Ready, defaultReady)
	setDefault(c, "timeouts.after_start", &c.Timeouts.AfterStart, defaultAfterStart)
	setDefault(c, "timeouts.pull", &c.Timeouts.Pull, defaultPull)
	setDefault(c, "timeouts.poll", &c.Timeouts.Poll, defaultPoll)
	setDefault(c, "timeouts.lock", &c.Timeouts.Lock, defaultLock)
	setDefault(c, "journal.keep", &c.Journal.Keep, defaultKeep)

	c.addBuiltinSlots()
	for _, name := range c.SlotNames() {
		s := c.Slots[name]
		c.fillSlot(name, &s)
		peer, ok := c.defaultPeer(name)
		if key := slotKey(name, "peer"); !c.has(key) && !ok {
			p.add(c.fault(key, "with more than two slots each must name its peer, or \"\" for none"))
		} else {
			setDefault(c, key, &s.Peer, peer)
		}
		c.Slots[name] = s
	}
}

// addBuiltinSlots adds kube1 and kube2 where no slot of another name is
// configured. Naming one of them alone keeps the other, unless the named one
// says that its peer is something else: a slot must not lose its peer, and so
// the guard against two stacks, because a drop-in refines it.
func (c *Config) addBuiltinSlots() {
	if c.Slots == nil {
		c.Slots = map[string]Slot{}
	}
	for name := range c.Slots {
		other := builtinPartner(name)
		if other == "" {
			return
		}
		if key := slotKey(name, "peer"); c.has(key) && c.Slots[name].Peer != other {
			return
		}
	}
	for _, name := range []string{builtinSlotA, builtinSlotB} {
		if _, ok := c.Slots[name]; !ok {
			c.Slots[name] = Slot{}
		}
	}
}

// builtinPartner returns the other built-in slot, "" if name is not one.
func builtinPartner(name string) string {
	switch name {
	case builtinSlotA:
		return builtinSlotB
	case builtinSlotB:
		return builtinSlotA
	default:
		return ""
	}
}

// defaultPeer returns the peer of a slot that does not name one: the other of
// the built-in pair, or the other one of exactly two slots; none if the slot is
// alone. With more slots there is no safe guess.
func (c *Config) defaultPeer(name string) (peer string, ok bool) {
	if other := builtinPartner(name); other != "" {
		if _, ok := c.Slots[other]; ok {
			return other, true
		}
	}
	switch len(c.Slots) {
	case 1:
		return "", true
	case 2:
		for other := range c.Slots {
			if other != name {
				return other, true
			}
		}
	}
	return "", false
}

func (c *Config) fillSlot(name string, s *Slot) {
	key := func(k string) string { return slotKey(name, k) }
	setDefault(c, key("unit"), &s.Unit, "node-stack@"+name+".service")
	setDefault(c, key("gpu"), &s.GPU, GPUOff)
	setDefault(c, key("ready"), &s.Ready, []Probe{})
	setDefault(c, key("after_start"), &s.AfterStart, []string{})

	k := &s.Container
	setDefault(c, key("container.name"), &k.Name, "node-"+name)
	setDefault(c, key("container.pull"), &k.Pull, PullMissing)
	setDefault(c, key("container.command"), &k.Command, []string{})
	setDefault(c, key("container.tty"), &k.TTY, true)
	setDefault(c, key("container.network"), &k.Network, "host")
	setDefault(c, key("container.cgroupns"), &k.CgroupNS, "private")
	setDefault(c, key("container.tmpfs"), &k.Tmpfs, []string{"/run", "/run/lock", "/tmp"})
	setDefault(c, key("container.security_opt"), &k.SecurityOpt, []string{"seccomp=unconfined"})
	setDefault(c, key("container.devices"), &k.Devices, []string{})
	setDefault(c, key("container.volumes"), &k.Volumes, []string{})
	setDefault(c, key("container.stop.grace"), &k.Stop.Grace, defaultGrace)
	setDefault(c, key("container.discard_limit"), &k.DiscardLimit, defaultDiscardLimit)

	// A privileged container has every capability.
	capabilities := []string{"SYS_ADMIN"}
	if k.Privileged {
		capabilities = []string{}
	}
	setDefault(c, key("container.capabilities"), &k.Capabilities, capabilities)

	// systemd finds out by this variable that it runs in a container. Like
	// every mapping, env is merged with its default.
	if k.Env == nil {
		k.Env = map[string]string{}
	}
	if !c.has(key("container.env.container")) {
		k.Env["container"] = "docker"
	}
}

// slotKey returns the full key of a slot's member.
func slotKey(slot, key string) string { return "slots." + slot + "." + key }
