package render

import "time"

// timeMilliLayout always has the offset, so that two times can be compared across a change
// of the clocks. It reads back with the parser for points in time.
const timeMilliLayout = "2006-01-02 15:04:05.000 -07:00"

// TimeMilli writes a time in a zone (nil: UTC) to the millisecond; "-" for the zero time.
func TimeMilli(t time.Time, zone *time.Location) string {
	if t.IsZero() {
		return "-"
	}
	if zone == nil {
		zone = time.UTC
	}
	return t.In(zone).Format(timeMilliLayout)
}
