package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	// maxDuration keeps sums of durations far from overflow; more than a day
	// is a mistake everywhere.
	maxDuration = 24 * time.Hour
	// minPoll keeps the safety net from turning into a busy loop.
	minPoll = 10 * time.Millisecond
	// maxKeep is where the journal's limit in bytes has long taken over.
	maxKeep = 1_000_000
)

// validate judges the complete configuration.
func (c *Config) validate(p *problems) {
	bad := func(key, format string, args ...any) { p.add(c.fault(key, fmt.Sprintf(format, args...))) }

	if c.Version != SchemaVersion {
		bad("version", "version %d is not known to this release, which knows only %d", c.Version, SchemaVersion)
	}
	if msg := unitPathFault(c.StateDir); msg != "" {
		bad("state_dir", "%s", msg)
	}
	if strings.HasPrefix(c.Engine.Socket, "unix:") {
		bad("engine.socket", "must be a path, without unix://")
	} else if msg := pathFault(c.Engine.Socket); msg != "" {
		bad("engine.socket", "%s", msg)
	}
	if msg := unitFault(c.Engine.Unit); msg != "" {
		bad("engine.unit", "%s", msg)
	}
	c.validateDurations(bad)
	if k := c.Journal.Keep; k < 1 || k > maxKeep {
		bad("journal.keep", "must be between 1 and %d entries, not %d", maxKeep, k)
	}
	for _, name := range c.SlotNames() {
		c.validateSlot(name, bad)
	}
	c.validatePeers(bad)
	c.validateUnique(bad)
}

// reporter adds a problem of a key.
type reporter func(key, format string, args ...any)

func (c *Config) validateDurations(bad reporter) {
	for _, d := range []struct {
		key   string
		value time.Duration
	}{
		{"engine.wait", c.Engine.Wait},
		{"timeouts.ready", c.Timeouts.Ready},
		{"timeouts.after_start", c.Timeouts.AfterStart},
		{"timeouts.pull", c.Timeouts.Pull},
		{"timeouts.poll", c.Timeouts.Poll},
		{"timeouts.lock", c.Timeouts.Lock},
	} {
		if msg := durationFault(d.value); msg != "" {
			bad(d.key, "%s", msg)
		}
	}
	switch poll := c.Timeouts.Poll; {
	case poll > 0 && poll < minPoll:
		bad("timeouts.poll", "must be at least %s", formatDuration(minPoll))
	case poll > c.Timeouts.Ready && c.Timeouts.Ready > 0:
		bad("timeouts.poll", "must not be longer than timeouts.ready (%s)", formatDuration(c.Timeouts.Ready))
	}
}

// durationFault returns why a budget cannot have this length, "" if it can.
func durationFault(d time.Duration) string {
	switch {
	case d <= 0:
		return "must be longer than zero"
	case d > maxDuration:
		return "must not be longer than " + formatDuration(maxDuration)
	default:
		return ""
	}
}

// pathFault returns why path is no absolute path of something, "" if it is.
func pathFault(path string) string {
	switch {
	case !filepath.IsAbs(path):
		return fmt.Sprintf("must be an absolute path, not %q", path)
	case filepath.Clean(path) == "/":
		return "must not be the root directory"
	default:
		return ""
	}
}

// maxUnitPath is how long a path may be that goes into a unit file, in bytes.
const maxUnitPath = 900

// unitPathFault is pathFault for a path that goes into unit files, where each must stay one
// line and one value.
func unitPathFault(path string) string {
	if msg := pathFault(path); msg != "" {
		return msg
	}
	last, _ := utf8.DecodeLastRuneInString(path)
	switch {
	case slices.Contains(strings.Split(path, "/"), ".."):
		return fmt.Sprintf("must be a path without .., which leads elsewhere behind a symbolic link, not %q", path)
	case !utf8.ValidString(path):
		return fmt.Sprintf("%q is not valid UTF-8", path)
	case strings.ContainsFunc(path, unicode.IsControl):
		return fmt.Sprintf("%q holds a control character", path)
	case unicode.IsSpace(last):
		return fmt.Sprintf("%q ends with a space", path)
	case len(path) > maxUnitPath:
		return fmt.Sprintf("is longer than %d bytes", maxUnitPath)
	default:
		return ""
	}
}

// cleanPath takes out of a path what means nothing: doubled slashes, one at the end.
func cleanPath(path string) string {
	if !filepath.IsAbs(path) || slices.Contains(strings.Split(path, "/"), "..") {
		return path
	}
	return filepath.Clean(path)
}

// validatePeers checks that peers exist and point at each other. Otherwise a
// slot would guard itself against one that does not guard itself against it.
func (c *Config) validatePeers(bad reporter) {
	for _, name := range c.SlotNames() {
		key, peer := slotKey(name, "peer"), c.Slots[name].Peer
		other, known := c.Slots[peer]
		switch {
		case peer == "":
		case peer == name:
			bad(key, "a slot cannot be its own peer")
		case !known:
			hint := "configured are " + strings.Join(c.SlotNames(), ", ")
			others := slices.DeleteFunc(c.SlotNames(), func(other string) bool { return other == name })
			if near := nearest(peer, others); near != "" {
				hint = fmt.Sprintf("the nearest is %q", near)
			}
			bad(key, "there is no slot %q; %s", peer, hint)
		case other.Peer != name:
			says := fmt.Sprintf("%q", other.Peer)
			if other.Peer == "" {
				says = "none"
			}
			bad(key, "peers must name each other: the peer of %s is %q, but the peer of %s is %s", name, peer, peer, says)
		}
	}
}

// validateUnique checks that no two slots share what only one can own.
func (c *Config) validateUnique(bad reporter) {
	units, containers := map[string]string{}, map[string]string{}
	for _, name := range c.SlotNames() {
		s := c.Slots[name]
		if first, ok := units[s.Unit]; ok {
			bad(slotKey(name, "unit"), "%s is already the unit of slot %s", s.Unit, first)
		} else {
			units[s.Unit] = name
		}
		_, instance, _ := strings.Cut(strings.TrimSuffix(s.Unit, ".service"), "@")
		if _, other := c.Slots[instance]; other && instance != name {
			bad(slotKey(name, "unit"), "the hooks of %s act on slot %s, since that is its instance, and not on %s; name %s",
				s.Unit, instance, name, strings.Replace(s.Unit, "@"+instance, "@"+name, 1))
		}
		if s.Unit == c.Engine.Unit {
			bad(slotKey(name, "unit"), "%s is the engine's unit (engine.unit)", s.Unit)
		}
		if first, ok := containers[s.Container.Name]; ok {
			bad(slotKey(name, "container.name"), "%s is already the container of slot %s", s.Container.Name, first)
		} else {
			containers[s.Container.Name] = name
		}
	}
}
