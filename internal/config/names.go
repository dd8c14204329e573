package config

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Characters that names are made of. Names are judged by hand: each hook loads
// the configuration, and compiling expressions would take longer than that.
const (
	lower   = "abcdefghijklmnopqrstuvwxyz"
	upper   = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits  = "0123456789"
	letters = lower + upper
	alnum   = letters + digits

	// unitChars is what systemd allows before the last dot of a unit's name.
	unitChars = alnum + `:-_.\`
)

// spelt reports whether s begins with one of first and goes on with nothing
// but rest.
func spelt(s, first, rest string) bool {
	if s == "" || strings.IndexByte(first, s[0]) < 0 {
		return false
	}
	for i := 1; i < len(s); i++ {
		if strings.IndexByte(rest, s[i]) < 0 {
			return false
		}
	}
	return true
}

const (
	maxSlotName = 31
	// maxUnitName is systemd's limit.
	maxUnitName = 255
	// maxContainerName leaves room for the suffixes of what is set aside.
	maxContainerName = 200
)

// unitTypes are the kinds of unit, each the last part of a unit's name.
var unitTypes = map[string]bool{
	"automount": true, "device": true, "mount": true, "path": true, "scope": true, "service": true,
	"slice": true, "socket": true, "swap": true, "target": true, "timer": true,
}

// setAside are the suffixes that mark containers which were put out of the
// way; a slot's own name must not look like one.
var setAside = []string{".nl-fenced", ".stale-", ".kept-"}

// slotNameFault returns why name cannot be a slot's, "" if it can. The name
// goes into unit names, file names and container names unchanged.
func slotNameFault(name string) string {
	if spelt(name, lower, lower+digits+"-") && len(name) <= maxSlotName && !strings.HasSuffix(name, "-") {
		return ""
	}
	return fmt.Sprintf("%q cannot be a slot's name: 1 to 31 of a-z, 0-9 and -, beginning with a letter, not ending in -", name)
}

// unitFault returns why name is no unit that can be started, "" if it is.
func unitFault(name string) string {
	prefix, kind, _ := cutLast(name, ".")
	switch {
	case name == "":
		return "needs the name of a unit"
	case strings.Contains(name, "%"):
		return fmt.Sprintf("%q holds a specifier (%%), which only systemd can expand; write the unit's full name", name)
	case !unitTypes[kind]:
		return fmt.Sprintf("%q is no unit: the name must end in .service or another of systemd's types", name)
	case strings.HasSuffix(prefix, "@"):
		return fmt.Sprintf("%q is a template; name an instance, such as %s", name, prefix+"NAME."+kind)
	case !spelt(prefix, unitChars, unitChars+"@"):
		return fmt.Sprintf("%q is no unit: systemd allows letters, digits and : - _ . \\ @ in a name", name)
	case len(name) > maxUnitName:
		return fmt.Sprintf("is longer than systemd's limit of %d characters", maxUnitName)
	}
	return ""
}

// cutLast cuts s around the last sep.
func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// containerFault returns why name cannot be a slot's container, "" if it can.
// What it may be made of is Docker's own rule.
func containerFault(name string) string {
	if len(name) < 2 || !spelt(name, alnum, alnum+"_.-") {
		return fmt.Sprintf("%q cannot be a container's name: at least two of a-z, A-Z, 0-9, _ . and -, beginning with a letter or digit", name)
	}
	if len(name) > maxContainerName {
		return fmt.Sprintf("is longer than %d characters", maxContainerName)
	}
	for _, suffix := range setAside {
		if strings.Contains(name, suffix) {
			return fmt.Sprintf("must not contain %q, which marks containers that were set aside", suffix)
		}
	}
	return ""
}

// signalFault returns why text names no signal that an engine can send, "" if
// it does. Engines know the real-time signals relative to either end.
func signalFault(text string) string {
	name := strings.TrimPrefix(text, "SIG")
	if n, err := strconv.Atoi(text); err == nil && n >= 1 && n <= 64 && spelt(text, digits, digits) {
		return ""
	}
	if unix.SignalNum("SIG"+name) != 0 || name == "RTMIN" || name == "RTMAX" ||
		realtime(name, "RTMIN+", 15) || realtime(name, "RTMAX-", 14) {
		return ""
	}
	return fmt.Sprintf("%q is no signal; write it like SIGTERM or SIGRTMIN+3", text)
}

// realtime reports whether name is prefix and a number from 1 to limit.
func realtime(name, prefix string, limit int) bool {
	distance, ok := strings.CutPrefix(name, prefix)
	if !ok || !spelt(distance, digits, digits) {
		return false
	}
	n, err := strconv.Atoi(distance)
	return err == nil && n >= 1 && n <= limit
}
