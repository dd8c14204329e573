package timespec

import (
	"math"
	"strconv"
	"time"
)

// longTime is where hours stop to matter beside days.
const longTime = 100 * oneDay

// Duration writes a duration for people: two units at most, cut off rather
// than rounded, so that nothing seems to have lasted longer than it did. Two
// units are joined ("2h 14min"), one stands apart ("34 s", "820 ms", "5 d").
// Parse reads any of them back as that long ago.
func Duration(d time.Duration) string {
	if d < 0 {
		// The most negative duration has no positive counterpart.
		return "-" + Duration(-max(d, -math.MaxInt64))
	}
	switch {
	case d == 0:
		return "0 s"
	case d < time.Microsecond:
		return one(d, time.Nanosecond, "ns")
	case d < time.Millisecond:
		return one(d, time.Microsecond, "µs")
	case d < time.Second:
		return one(d, time.Millisecond, "ms")
	case d < 10*time.Second:
		return tenths(d)
	case d < time.Minute:
		return one(d, time.Second, "s")
	case d < time.Hour:
		return two(d, time.Minute, "min", time.Second, "s")
	case d < oneDay:
		return two(d, time.Hour, "h", time.Minute, "min")
	case d < longTime:
		return two(d, oneDay, "d", time.Hour, "h")
	default:
		return one(d, oneDay, "d")
	}
}

func one(d, unit time.Duration, name string) string {
	return strconv.FormatInt(int64(d/unit), 10) + " " + name
}

// tenths writes seconds with one decimal, unless that is 0.
func tenths(d time.Duration) string {
	const tenth = time.Second / 10
	if d%time.Second < tenth {
		return one(d, time.Second, "s")
	}
	return strconv.FormatInt(int64(d/time.Second), 10) + "." + strconv.FormatInt(int64(d%time.Second/tenth), 10) + " s"
}

// two writes a large unit and what is left in a small one, unless that is 0.
func two(d, large time.Duration, largeName string, small time.Duration, smallName string) string {
	rest := d % large / small
	if rest == 0 {
		return one(d, large, largeName)
	}
	return strconv.FormatInt(int64(d/large), 10) + largeName + " " + strconv.FormatInt(int64(rest), 10) + smallName
}

// Ago says how long before now t was: "2h 14min ago", "just now" within a
// second, "in 5 min" if it is still to come.
func Ago(t, now time.Time) string {
	switch d := now.Sub(t); {
	case d <= -time.Second:
		return "in " + Duration(-max(d, -math.MaxInt64))
	case d < time.Second:
		return "just now"
	default:
		return Duration(d) + " ago"
	}
}
