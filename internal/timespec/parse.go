package timespec

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// allowed is the end of every error message.
const allowed = `allowed are "2012-10-30 18:17:16", 2012-10-30, 18:17, today, yesterday, now, ` +
	`-1h, "5min 20s ago", RFC 3339 and @SECONDS, a date or time also with UTC or +01:00 behind`

// maxLength is more than any point in time needs.
const maxLength = 80

// The years that Parse returns; RFC 3339 can write no others.
const minYear, maxYear = 1, 9999

// The expressions are compiled when first used: hooks never read a time, and
// are done sooner than that would take.
var (
	// zoneSuffix cuts a time zone off the end.
	zoneSuffix = lazy(`^(.*?)(?: ?([Zz]|[+-]\d{2}:?\d{2})| ([A-Z]{3,5}))$`)
	weekday    = lazy(`^(?i:(mon|tue|wed|thu|fri|sat|sun)[a-z]*),? +`)
	date       = lazy(`^(?:(\d{4})-(\d{1,2})-(\d{1,2})|(?i:(today|yesterday|tomorrow)))(?:[ Tt]+|$)`)
	clock      = lazy(`^(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?$`)
)

func lazy(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// Parse returns the point in time that text means at the moment now, in whose
// time zone local times are read. The result is in that zone, or in the one
// that text names. Years outside 1 to 9999 are an error. An error quotes the
// text and lists the forms that are allowed.
func Parse(text string, now time.Time) (time.Time, error) {
	t, reason := parse(strings.TrimSpace(text), now)
	if reason == "" && (t.Year() < minYear || t.Year() > maxYear) {
		reason = "is out of range"
	}
	if reason != "" {
		if len(text) > maxLength {
			text = text[:maxLength] + "..."
		}
		return time.Time{}, fmt.Errorf("time %q %s; %s", text, reason, allowed)
	}
	return t, nil
}

// parse returns the time or the reason why there is none.
func parse(text string, now time.Time) (t time.Time, reason string) {
	switch {
	case text == "":
		return t, "is empty"
	case len(text) > maxLength:
		return t, "is too long"
	case strings.EqualFold(text, "now"):
		return now, ""
	case text[0] == '@':
		return parseEpoch(text[1:], now.Location())
	case text[0] == '-' || text[0] == '+':
		return relative(text[1:], text[0] == '-', now)
	}
	if span, ok := cutWord(text, "ago"); ok {
		return relative(span, true, now)
	}
	if span, ok := cutWord(text, "left"); ok {
		return relative(span, false, now)
	}
	t, absolute, reason := parseAbsolute(text, now)
	if absolute {
		return t, reason
	}
	// A bare span is Docker's way of saying how long ago.
	return relative(text, true, now)
}

// cutWord removes a word from the end of text.
func cutWord(text, word string) (before string, found bool) {
	i := len(text) - len(word)
	if i < 1 || !strings.EqualFold(text[i:], word) || text[i-1] != ' ' {
		return text, false
	}
	return strings.TrimRight(text[:i], " "), true
}

func relative(text string, past bool, now time.Time) (time.Time, string) {
	d, reason := parseSpan(strings.TrimSpace(text))
	if reason != "" {
		return time.Time{}, reason
	}
	if past {
		d = -d
	}
	return now.Add(d), ""
}

func parseEpoch(text string, zone *time.Location) (time.Time, string) {
	whole, fraction, _ := strings.Cut(text, ".")
	seconds, err := strconv.ParseUint(whole, 10, 38) // beyond the year 9999
	nanos, ok := parseFraction(fraction)
	if err != nil || !ok {
		return time.Time{}, "is no number of seconds since 1970"
	}
	return time.Unix(int64(seconds), nanos).In(zone), ""
}

// parseFraction reads the digits behind a decimal point as nanoseconds.
func parseFraction(digits string) (nanos int64, ok bool) {
	if len(digits) > 9 {
		return 0, false
	}
	n, err := strconv.ParseUint(digits+strings.Repeat("0", 9-len(digits)), 10, 32)
	return int64(n), err == nil
}

// parseAbsolute reads dates and times of day. absolute is false if text does
// not look like one.
func parseAbsolute(text string, now time.Time) (t time.Time, absolute bool, reason string) {
	rest, zone, abbreviation, reason := cutZone(text, now.Location())
	if reason != "" {
		return t, true, reason
	}
	day := ""
	if m := weekday().FindStringSubmatch(rest); m != nil {
		day, rest = m[1], rest[len(m[0]):]
	}
	d := date().FindStringSubmatch(rest)
	if d != nil {
		rest = rest[len(d[0]):]
	}
	c := clock().FindStringSubmatch(rest)
	switch {
	case d == nil && c == nil:
		return t, abbreviation != "" || day != "", "has neither a date nor a time of day"
	case c == nil && rest != "":
		return t, true, "has no valid time of day behind the date"
	}
	t, reason = assemble(d, c, now.In(zone))
	if reason == "" && day != "" && !strings.EqualFold(t.Weekday().String()[:3], day) {
		reason = "names the wrong day of the week, that day is a " + t.Weekday().String()
	}
	if reason != "" {
		return t, true, reason
	}
	for _, t := range occurrences(t) {
		if name, _ := t.Zone(); abbreviation == "" || abbreviation == name {
			return t, true, ""
		}
	}
	return t, true, "names a time zone that is not the local one; write an offset such as +01:00"
}

// occurrences returns the moments, in order, at which the local clock shows
// what it shows at t: two where it is set back, else one.
func occurrences(t time.Time) []time.Time {
	const layout = "2006-01-02 15:04:05"
	for _, step := range []time.Duration{time.Hour, time.Hour / 2} { // half an hour on Lord Howe Island
		if twin := t.Add(-step); twin.Format(layout) == t.Format(layout) {
			return []time.Time{twin, t}
		}
		if twin := t.Add(step); twin.Format(layout) == t.Format(layout) {
			return []time.Time{t, twin}
		}
	}
	return []time.Time{t}
}

// cutZone removes a time zone from the end of text and returns it; local if
// there is none. Other names than UTC's are only returned, since a name like
// CST means several zones: the caller compares them with the local one.
func cutZone(text string, local *time.Location) (rest string, zone *time.Location, abbreviation, reason string) {
	m := zoneSuffix().FindStringSubmatch(text)
	switch {
	case m == nil:
		return text, local, "", ""
	case m[3] == "UTC" || m[3] == "GMT" || strings.EqualFold(m[2], "z"):
		return m[1], time.UTC, "", ""
	case m[3] != "":
		return m[1], local, m[3], ""
	}
	offset := strings.ReplaceAll(m[2], ":", "")
	hours, minutes := atoi(offset[1:3]), atoi(offset[3:5])
	if hours > 23 || minutes > 59 {
		return "", nil, "", "has an impossible offset"
	}
	seconds := hours*3600 + minutes*60
	if offset[0] == '-' {
		seconds = -seconds
	}
	if seconds == 0 {
		return m[1], time.UTC, "", ""
	}
	return m[1], time.FixedZone("", seconds), "", ""
}

// assemble puts a matched date and a matched time of day together; either may
// be nil, and now says the zone and what today is.
func assemble(d, c []string, now time.Time) (time.Time, string) {
	year, month, day := now.Date()
	var hour, minute, second int
	var nanos int64
	if d != nil {
		switch strings.ToLower(d[4]) {
		case "":
			year, month, day = atoi(d[1]), time.Month(atoi(d[2])), atoi(d[3])
			if back := time.Date(year, month, day, 0, 0, 0, 0, time.UTC); back.Day() != day || back.Month() != month {
				return time.Time{}, "is a day that does not exist"
			}
		case "yesterday":
			day--
		case "tomorrow":
			day++
		}
	}
	if c != nil {
		hour, minute, second = atoi(c[1]), atoi(c[2]), atoi(c[3])
		if hour > 23 || minute > 59 || second > 59 {
			return time.Time{}, "is a time of day that does not exist"
		}
		nanos, _ = parseFraction(c[4])
	}
	return time.Date(year, month, day, hour, minute, second, int(nanos), now.Location()), ""
}

// atoi reads digits that an expression has already matched; "" is 0.
func atoi(digits string) int {
	n, _ := strconv.Atoi(digits)
	return n
}
