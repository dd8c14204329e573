package config

import (
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// validateSlot judges what concerns one slot alone.
func (c *Config) validateSlot(name string, bad reporter) {
	s := c.Slots[name]
	check := func(key, msg string) {
		if msg != "" {
			bad(slotKey(name, key), "%s", msg)
		}
	}
	msg := unitFault(s.Unit)
	if msg == "" && !strings.HasSuffix(s.Unit, ".service") {
		msg = fmt.Sprintf("%q must be a service", s.Unit)
	}
	check("unit", msg)
	check("gpu", gpuFault(s.GPU))
	for i, probe := range s.Ready {
		c.validateProbe(probe, "slots."+name+".ready["+strconv.Itoa(i)+"]", bad)
	}
	if len(s.AfterStart) > 0 {
		check("after_start", commandFault(s.AfterStart))
	}
	validateContainer(s.Container, check)
}

func gpuFault(value string) string {
	switch value {
	case GPUOff:
		return ""
	case GPUAuto, GPURequired:
		return fmt.Sprintf("GPU wiring is not available in this version; set it to %q", GPUOff)
	default:
		return fmt.Sprintf("must be %s, the only value yet, not %q", GPUOff, value)
	}
}

// validateProbe checks that a probe says exactly one thing.
func (c *Config) validateProbe(probe Probe, key string, bad reporter) {
	given := 0
	for _, k := range []string{"units", "http", "exec"} {
		if c.has(key + "." + k) {
			given++
		}
	}
	if given != 1 {
		bad(key, "each probe needs exactly one of units, http and exec, this one has %d", given)
		return
	}
	switch {
	case c.has(key + ".http"):
		if msg := urlFault(probe.HTTP); msg != "" {
			bad(key+".http", "%s", msg)
		}
	case c.has(key + ".exec"):
		if msg := commandFault(probe.Exec); msg != "" {
			bad(key+".exec", "%s", msg)
		}
	default:
		if len(probe.Units) == 0 {
			bad(key+".units", "needs at least one unit")
		}
		for i, unit := range probe.Units {
			if msg := unitFault(unit); msg != "" {
				bad(key+".units["+strconv.Itoa(i)+"]", "%s", msg)
			}
		}
	}
}

func urlFault(text string) string {
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" {
		return fmt.Sprintf("must be a URL such as http://127.0.0.1:10248/healthz, not %q", text)
	}
	return ""
}

func commandFault(argv []string) string {
	if len(argv) == 0 || argv[0] == "" {
		return "needs the name of a program"
	}
	return ""
}

// validateContainer judges a container; what it does not know, the engine
// judges at create.
func validateContainer(k Container, check func(key, msg string)) {
	check("container.name", containerFault(k.Name))
	check("container.image", imageFault(k.Image))
	check("container.pull", oneOf(k.Pull, PullMissing, PullNever))
	if len(k.Command) > 0 {
		check("container.command", commandFault(k.Command))
	}
	for _, name := range slices.Sorted(maps.Keys(k.Env)) {
		if !spelt(name, letters+"_", alnum+"_.-") {
			check("container.env."+name, "is no name for an environment variable")
		}
	}
	if k.Network != "" && !spelt(k.Network, alnum, alnum+"_.:-") {
		check("container.network", fmt.Sprintf("%q is no network; write host, bridge, none or the name of one", k.Network))
	}
	if k.CgroupNS != "" {
		check("container.cgroupns", oneOf(k.CgroupNS, "private", "host"))
	}
	checkList(k.Tmpfs, "container.tmpfs", check, func(item string) string {
		where, _, _ := strings.Cut(item, ":")
		return insideFault(where)
	})
	checkList(k.SecurityOpt, "container.security_opt", check, func(item string) string {
		if item == "" || strings.HasPrefix(item, "=") {
			return "must be an option such as seccomp=unconfined"
		}
		return ""
	})
	checkList(k.Capabilities, "container.capabilities", check, func(item string) string {
		if !spelt(item, upper, upper+digits+"_") {
			return fmt.Sprintf("%q is no capability; write it like SYS_ADMIN", item)
		}
		return ""
	})
	if k.Privileged && len(k.Capabilities) > 0 {
		check("container.capabilities", "a privileged container has every capability; give capabilities or privileged, not both")
	}
	checkList(k.Devices, "container.devices", check, deviceFault)
	checkList(k.Volumes, "container.volumes", check, volumeFault)
	if k.Stop.Signal != "" {
		check("container.stop.signal", signalFault(k.Stop.Signal))
	}
	check("container.stop.grace", graceFault(k.Stop.Grace))
}

func checkList(items []string, key string, check func(key, msg string), fault func(string) string) {
	for i, item := range items {
		check(key+"["+strconv.Itoa(i)+"]", fault(item))
	}
}

func oneOf(value string, allowed ...string) string {
	if slices.Contains(allowed, value) {
		return ""
	}
	return fmt.Sprintf("must be %s, not %q", strings.Join(allowed, " or "), value)
}

// imageFault allows what references are made of; the engine knows the rest.
func imageFault(image string) string {
	if image != "" && !spelt(image, alnum, alnum+"_./:@-") {
		return fmt.Sprintf("%q is no image reference", image)
	}
	return ""
}

// insideFault returns why where is no place inside a container.
func insideFault(where string) string {
	if !path.IsAbs(where) || path.Clean(where) == "/" {
		return fmt.Sprintf("%q must be an absolute path inside the container, below /", where)
	}
	return ""
}

// deviceFault judges PATH[:INSIDE[:MODE]] and the name of a CDI device.
func deviceFault(item string) string {
	parts := strings.Split(item, ":")
	switch {
	case isCDIDevice(item):
		return ""
	case len(parts) > 3 || !path.IsAbs(parts[0]),
		len(parts) > 1 && !path.IsAbs(parts[1]) && !(len(parts) == 2 && isDeviceMode(parts[1])),
		len(parts) == 3 && !isDeviceMode(parts[2]):
		return fmt.Sprintf("%q is no device; write it like /dev/fuse or /dev/fuse:/dev/fuse:rwm", item)
	}
	return ""
}

func isDeviceMode(mode string) bool { return len(mode) <= 3 && spelt(mode, "rwm", "rwm") }

// isCDIDevice reports whether item is VENDOR/CLASS=NAME.
func isCDIDevice(item string) bool {
	kind, name, _ := strings.Cut(item, "=")
	vendor, class, _ := strings.Cut(kind, "/")
	return spelt(vendor, alnum, alnum+".-") && spelt(class, alnum, alnum+"_.-") && spelt(name, alnum, alnum+"_.:-")
}

// volumeFault judges SOURCE:INSIDE[:OPTIONS], SOURCE being an absolute path or
// the name of a volume.
func volumeFault(item string) string {
	parts := strings.Split(item, ":")
	if len(parts) < 2 || len(parts) > 3 || (!path.IsAbs(parts[0]) && !spelt(parts[0], alnum, alnum+"_.-")) {
		return fmt.Sprintf("%q is no volume; write it like /var/lib/data:/data or /var/lib/data:/data:ro", item)
	}
	return insideFault(parts[1])
}

// graceFault also refuses parts of a second, which engines would round.
func graceFault(grace time.Duration) string {
	if msg := durationFault(grace); msg != "" {
		return msg
	}
	if grace%time.Second != 0 {
		return "must be whole seconds, as engines count it in seconds"
	}
	return ""
}
