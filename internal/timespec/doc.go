// Package timespec reads the points in time that people type and writes the
// durations that they read.
//
// Parse takes what journalctl takes for --since and --until, and the few forms
// that people of this field type by habit: Go and Docker durations, RFC 3339,
// and what our own output and systemctl's prints. The local time zone is that
// of the moment passed as now; nothing here reads a clock, so everything is a
// pure function and safe for concurrent use.
//
// # Points in time
//
//	2012-10-30 18:17:16    also with a fraction, or T instead of the space
//	2012-10-30 18:17       seconds are 0
//	2012-10-30             midnight
//	18:17, 18:17:16        today
//	today, yesterday       midnight; also tomorrow, and all three with a time behind
//	now
//	-1h, +5min             relative to now
//	1h ago, 5min 20s ago   relative to now
//	1h30m                  the same as 1h30m ago
//	@1351617436            seconds since 1970, also with a fraction
//
// Dates and times may be followed by UTC, Z or an offset such as +01:00, and
// preceded by their day of the week. A local time that the clocks show twice
// is the first of the two, one that they leave out is moved on by the gap.
//
// # Spans
//
// A span is a sum of numbers with units: us, ms, s, m or min, h, d, w, M or
// month, y, each also written out (seconds, minutes, hours, days, weeks,
// months, years). As in systemd a month has 30.44 days and a year 365.25, and
// a day always has 24 hours.
package timespec
