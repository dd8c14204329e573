package timespec

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                                "0 s",
		1:                                "1 ns",
		1500:                             "1 µs",
		820 * time.Millisecond:           "820 ms",
		time.Second - 1:                  "999 ms",
		time.Second:                      "1 s",
		4260 * time.Millisecond:          "4.2 s",
		4099 * time.Millisecond:          "4 s",
		10*time.Second - 1:               "9.9 s",
		34*time.Second + 9e8:             "34 s",
		time.Minute:                      "1 min",
		5*time.Minute + 20*time.Second:   "5min 20s",
		time.Hour - 1:                    "59min 59s",
		2*time.Hour + 14*time.Minute:     "2h 14min",
		3 * time.Hour:                    "3 h",
		25*time.Hour + time.Minute:       "1d 1h",
		99*24*time.Hour + 59*time.Minute: "99 d",
		400 * 24 * time.Hour:             "400 d",
		math.MaxInt64:                    "106751 d",
		math.MinInt64:                    "-106751 d",
		-90 * time.Second:                "-1min 30s",
	} {
		if got := Duration(d); got != want {
			t.Errorf("%v is written %q, want %q", d, got, want)
		}
	}
}

// What is written reads back, as no more than the truth and at least half of
// it: 1.9 µs is the worst.
func TestDuration_RoundTrip(t *testing.T) {
	now := time.Date(2026, 12, 1, 15, 4, 5, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "d"))
		at, err := Parse(Duration(d)+" ago", now)
		if err != nil {
			t.Fatalf("%v: %v", d, err)
		}
		if back := now.Sub(at); back > d || back < d/2 {
			t.Fatalf("%v is written %q, read back as %v", d, Duration(d), back)
		}
	})
}

func TestAgo(t *testing.T) {
	now := time.Date(2026, 12, 1, 15, 4, 5, 0, time.UTC)
	for d, want := range map[time.Duration]string{
		-2*time.Hour - 14*time.Minute: "2h 14min ago",
		-time.Second:                  "1 s ago",
		-time.Second + 1:              "just now",
		0:                             "just now",
		time.Second - 1:               "just now",
		5 * time.Minute:               "in 5 min",
		math.MaxInt64:                 "in 106751 d",
	} {
		if got := Ago(now.Add(d), now); got != want {
			t.Errorf("%v from now is %q, want %q", d, got, want)
		}
	}
	if got := Ago(time.Time{}, now); got != "106751 d ago" {
		t.Errorf("the zero time is %q", got)
	}
}
