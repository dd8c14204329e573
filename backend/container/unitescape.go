package container

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/coreos/go-systemd/v22/unit"
)

const (
	// unitNameMax is systemd's limit for the name of a unit, suffix included.
	unitNameMax = 255
	// unitPathMax keeps every line of a unit file below 2048 bytes, where some parsers cut it, even if each byte of
	// a path has to be doubled.
	unitPathMax = 900

	unitNameChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:-_.\\@"
)

// unitSuffixes are the unit types that systemd knows.
var unitSuffixes = []string{".service", ".socket", ".target", ".device", ".mount", ".automount", ".swap", ".timer",
	".path", ".slice", ".scope"}

// UnitValueError is a configured value that cannot stand in a unit file or be a unit's name. It is Misconfigured.
type UnitValueError struct {
	Field  string // what the value is for, such as "Binary"
	Value  string
	Reason string // what is wrong and what is expected
}

func (e *UnitValueError) Error() string {
	value := e.Value
	if len(value) > unitNameMax {
		value = value[:unitNameMax] + "…"
	}
	return fmt.Sprintf("%s %q %s", e.Field, value, e.Reason)
}

// Misconfigured is always true: the value must be corrected.
func (e *UnitValueError) Misconfigured() bool { return true }

// EscapeInstance turns any text into the instance part of a unit name, as systemd-escape does: "a/b-c" becomes
// "a-b\x2dc". It returns a [UnitValueError] for an empty text and for one with control characters or invalid UTF-8,
// which can only be mistakes.
func EscapeInstance(instance string) (string, error) {
	if instance == "" {
		return "", &UnitValueError{"instance", instance, "is empty"}
	}
	if err := checkText("instance", instance); err != nil {
		return "", err
	}
	return unit.UnitNameEscape(instance), nil
}

// UnitName returns the name of a template's instance: "node-stack@.service" and "kube1" give
// "node-stack@kube1.service". The instance is escaped. It returns a [UnitValueError] if the template is none or the
// name is longer than systemd allows.
func UnitName(template, instance string) (string, error) {
	prefix, suffix, err := splitTemplate("unit template", template)
	if err != nil {
		return "", err
	}
	escaped, err := EscapeInstance(instance)
	if err != nil {
		return "", err
	}
	name := prefix + "@" + escaped + suffix
	return name, CheckUnitName(name)
}

// splitTemplate cuts the name of a template before its @ and after it.
func splitTemplate(field, template string) (prefix, suffix string, err error) {
	if err := checkUnitName(field, template); err != nil {
		return "", "", err
	}
	prefix, suffix, _ = strings.Cut(template, "@")
	if !slices.Contains(unitSuffixes, suffix) {
		return "", "", &UnitValueError{field, template, "is no template; it must end like name@.service"}
	}
	return prefix, suffix, nil
}

// CheckUnitName returns a [UnitValueError] if systemd would not accept the name for a unit.
func CheckUnitName(name string) error { return checkUnitName("unit name", name) }

func checkUnitName(field, name string) error {
	reason := ""
	at := strings.IndexByte(name, '@')
	switch suffix := path.Ext(name); {
	case name == "":
		reason = "is empty"
	case len(name) > unitNameMax:
		reason = fmt.Sprintf("is longer than the %d bytes systemd allows", unitNameMax)
	case strings.Trim(name, unitNameChars) != "" || strings.ContainsFunc(name, notInUnitName):
		reason = "has a character that no unit name may have; escape it with systemd-escape"
	case !slices.Contains(unitSuffixes, suffix):
		reason = "does not end in a unit type such as .service"
	case len(suffix) == len(name) || at == 0:
		reason = "has nothing before its unit type or its @"
	default:
		return nil
	}
	return &UnitValueError{field, name, reason}
}

func notInUnitName(r rune) bool { return !strings.ContainsRune(unitNameChars, r) }

// checkText refuses what has no business in a configured value: with a newline in it, one value would become two
// directives.
func checkText(field, value string) error {
	reason := ""
	first, _ := utf8.DecodeRuneInString(value)
	last, _ := utf8.DecodeLastRuneInString(value)
	switch {
	case !utf8.ValidString(value):
		reason = "is not valid UTF-8"
	case strings.ContainsFunc(value, unicode.IsControl):
		reason = "has a control character, such as a newline"
	case unicode.IsSpace(first) || unicode.IsSpace(last):
		reason = "begins or ends with a space"
	default:
		return nil
	}
	return &UnitValueError{field, value, reason}
}

// checkPath demands a clean absolute path.
func checkPath(field, value string) error {
	if err := checkText(field, value); err != nil {
		return err
	}
	reason := ""
	switch {
	case !path.IsAbs(value) || path.Clean(value) != value || value == "/":
		reason = "is not an absolute path without trailing slash, // or .."
	case len(value) > unitPathMax:
		reason = fmt.Sprintf("is longer than %d bytes", unitPathMax)
	default:
		return nil
	}
	return &UnitValueError{field, value, reason}
}

// checkExecutable is checkPath for the first word of an Exec line, where systemd takes quotes and backslashes for a
// mistake and expands variables in argv[0] but not in the file it executes.
func checkExecutable(field, value string) error {
	if err := checkPath(field, value); err != nil {
		return err
	}
	if strings.ContainsAny(value, `"'\$`) {
		return &UnitValueError{field, value, `has one of " ' \ $, which systemd does not accept in an executable`}
	}
	return nil
}

// literalPercent keeps systemd from reading specifiers into a value.
func literalPercent(value string) string { return strings.ReplaceAll(value, "%", "%%") }

// execWord renders a literal word of an Exec line: no specifier, no variable, no second word.
func execWord(value string) string {
	return quotedWord(strings.ReplaceAll(value, "$", "$$"))
}

// quotedWord renders one literal word of a directive that takes a list of words.
func quotedWord(value string) string {
	word := literalPercent(value)
	if word != "" && !strings.ContainsFunc(word, needsQuotes) {
		return word
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(word) + `"`
}

func needsQuotes(r rune) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		return false
	default:
		return !strings.ContainsRune("/_-.,=+:@%$", r)
	}
}

// timeSpan renders a duration as systemd writes it, such as "1min 30s". What is finer than a microsecond is rounded up:
// a limit may be longer than asked for, never shorter.
func timeSpan(d time.Duration) string {
	if d == Infinity {
		return "infinity"
	}
	usec := int64(d / time.Microsecond)
	if d%time.Microsecond > 0 {
		usec++
	}
	var parts []string
	for _, unit := range []struct {
		name string
		usec int64
	}{{"h", 3_600_000_000}, {"min", 60_000_000}, {"s", 1_000_000}, {"ms", 1_000}, {"us", 1}} {
		if n := usec / unit.usec; n > 0 {
			parts = append(parts, fmt.Sprintf("%d%s", n, unit.name))
			usec %= unit.usec
		}
	}
	if parts == nil {
		return "0"
	}
	return strings.Join(parts, " ")
}
