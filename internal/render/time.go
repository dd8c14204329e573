package render

import "time"

// How times are written: in some zone, always with its offset, so that two of
// them can be compared across a change of the clocks. Both read back with the
// parser for points in time.
const (
	TimeLayout      = "2006-01-02 15:04:05 -07:00"
	TimeMilliLayout = "2006-01-02 15:04:05.000 -07:00"
)

// Time writes a time in a zone (nil: UTC) to the second; "-" for the zero
// time.
func Time(t time.Time, zone *time.Location) string { return format(t, zone, TimeLayout) }

// TimeMilli is Time to the millisecond.
func TimeMilli(t time.Time, zone *time.Location) string { return format(t, zone, TimeMilliLayout) }

func format(t time.Time, zone *time.Location, layout string) string {
	if t.IsZero() {
		return "-"
	}
	if zone == nil {
		zone = time.UTC
	}
	return t.In(zone).Format(layout)
}
