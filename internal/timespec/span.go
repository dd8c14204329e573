package timespec

import (
	"math"
	"strconv"
	"time"
)

const (
	oneDay   = 24 * time.Hour
	oneWeek  = 7 * oneDay
	oneMonth = 2629800 * time.Second
	oneYear  = 31557600 * time.Second
)

// unitLengths are systemd's units, and Go's where they differ in spelling.
var unitLengths = map[string]time.Duration{
	"ns": time.Nanosecond, "nsec": time.Nanosecond,
	"us": time.Microsecond, "usec": time.Microsecond, "µs": time.Microsecond, "μs": time.Microsecond,
	"ms": time.Millisecond, "msec": time.Millisecond,
	"s": time.Second, "sec": time.Second, "second": time.Second, "seconds": time.Second,
	"m": time.Minute, "min": time.Minute, "minute": time.Minute, "minutes": time.Minute,
	"h": time.Hour, "hr": time.Hour, "hour": time.Hour, "hours": time.Hour,
	"d": oneDay, "day": oneDay, "days": oneDay,
	"w": oneWeek, "week": oneWeek, "weeks": oneWeek,
	"M": oneMonth, "month": oneMonth, "months": oneMonth,
	"y": oneYear, "year": oneYear, "years": oneYear,
}

var spanPart = lazy(`^(\d+(?:\.\d*)?|\.\d+) *([a-zA-Zµμ]+) *`)

// parseSpan adds up the parts of a span such as "5min 20s"; the result is not
// negative. Otherwise it returns the reason.
func parseSpan(text string) (total time.Duration, reason string) {
	if text == "" {
		return 0, "has no number"
	}
	for text != "" {
		m := spanPart().FindStringSubmatch(text)
		if m == nil {
			if _, err := strconv.ParseFloat(text, 64); err == nil {
				return 0, "has a number without a unit"
			}
			return 0, "is not understood"
		}
		text = text[len(m[0]):]
		unit, ok := unitLengths[m[2]]
		if !ok {
			return 0, "has the unknown unit " + strconv.Quote(m[2])
		}
		d, ok := scale(m[1], unit)
		if !ok || total > math.MaxInt64-d {
			return 0, "is out of range"
		}
		total += d
	}
	return total, ""
}

// scale multiplies a decimal number by a unit: exactly if it is whole, to the
// precision of floating point otherwise.
func scale(number string, unit time.Duration) (time.Duration, bool) {
	if n, err := strconv.ParseInt(number, 10, 64); err == nil {
		if n > int64(math.MaxInt64/unit) {
			return 0, false
		}
		return time.Duration(n) * unit, true
	}
	f, err := strconv.ParseFloat(number, 64)
	f *= float64(unit)
	if err != nil || f >= math.MaxInt64 {
		return 0, false
	}
	return time.Duration(math.Round(f)), true
}
