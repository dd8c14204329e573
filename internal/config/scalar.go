package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	units "github.com/docker/go-units"
)

// maxSize is beyond any disk, and exact in the floating point that sizes pass
// through.
const maxSize = Size(units.PiB)

// setScalar sets v, one of the scalar types of the schema, from text. It
// returns what is wrong with the text, "" if nothing is.
func setScalar(v reflect.Value, text string) string {
	switch dst := v.Addr().Interface().(type) {
	case *string:
		if msg := textFault(text); msg != "" {
			return msg
		}
		*dst = text
	case *bool:
		switch text {
		case "true", "True", "TRUE":
			*dst = true
		case "false", "False", "FALSE":
			*dst = false
		default:
			return fmt.Sprintf("must be true or false, not %q", text)
		}
	case *int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Sprintf("must be a whole number, not %q", text)
		}
		*dst = n
	case *time.Duration:
		d, msg := parseDuration(text)
		if msg != "" {
			return msg
		}
		*dst = d
	case *Size:
		n, msg := parseSize(text)
		if msg != "" {
			return msg
		}
		*dst = n
	}
	return ""
}

// wanted says what setScalar expects for v.
func wanted(v reflect.Value) string {
	switch v.Addr().Interface().(type) {
	case *bool:
		return "true or false"
	case *int:
		return "a whole number"
	case *time.Duration:
		return "a duration such as 60s, 2m or 1h30m"
	case *Size:
		return "a size such as 64MiB"
	default:
		return "text"
	}
}

// parseDuration reads Go's syntax. A bare number is refused, since the next
// reader takes it for milliseconds.
func parseDuration(text string) (time.Duration, string) {
	d, err := time.ParseDuration(text)
	switch {
	case err == nil && text != "0":
		return d, ""
	case isNumber(text):
		return 0, fmt.Sprintf("%s has no unit; for seconds write %ss", text, text)
	default:
		return 0, fmt.Sprintf("must be a duration such as 60s, 2m or 1h30m, not %q", text)
	}
}

// parseSize reads a number of bytes with an optional unit; as on Docker's
// command line, every unit is a power of 1024, written KiB or KB.
func parseSize(text string) (Size, string) {
	number := strings.TrimRight(text, letters+" ")
	// The library alone would also take signs and exponents.
	if !spelt(number, digits, digits+".") {
		return 0, sizeFault(text)
	}
	n, err := units.RAMInBytes(text)
	if err != nil {
		return 0, sizeFault(text)
	}
	if n < 0 || Size(n) > maxSize { // below zero it is an overflow
		return 0, fmt.Sprintf("%s is more than 1 PiB", text)
	}
	return Size(n), ""
}

func sizeFault(text string) string {
	return fmt.Sprintf("must be a size such as 64MiB or 1GiB, not %q", text)
}

func isNumber(text string) bool {
	_, err := strconv.ParseFloat(text, 64)
	return err == nil
}

// textFault returns why text may not be a value anywhere, "" if it may.
func textFault(text string) string {
	if !utf8.ValidString(text) {
		return "is not valid UTF-8"
	}
	i := strings.IndexFunc(text, unicode.IsControl)
	if i < 0 {
		return ""
	}
	r, _ := utf8.DecodeRuneInString(text[i:])
	if r == '\n' {
		return "must be one line of text"
	}
	return fmt.Sprintf("holds the control character U+%04X, which is not allowed", r)
}

// formatDuration writes a duration without the zeros that Go appends; it
// parses back to the same value.
func formatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// formatSize writes a size in the largest unit that holds it exactly.
func formatSize(n Size) string {
	for _, u := range []struct {
		size Size
		name string
	}{{units.GiB, "GiB"}, {units.MiB, "MiB"}, {units.KiB, "KiB"}} {
		if n >= u.size && n%u.size == 0 {
			return strconv.FormatInt(int64(n/u.size), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(n), 10)
}

// String gives the size in the form that the configuration is written in.
func (s Size) String() string { return formatSize(s) }
