package timespec

import (
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the tests need one zone with summer time everywhere

	"pgregory.net/rapid"
)

// berlin is a zone with summer time; there the clocks went back on 25 October
// 2026 at 3:00 and forward on 29 March 2026 at 2:00.
func berlin(t testing.TB) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

func TestParse(t *testing.T) {
	now := time.Date(2026, 12, 1, 15, 4, 5, 678_000_000, berlin(t))
	for _, tc := range []struct{ text, want string }{
		// journalctl's absolute forms.
		{"2012-10-30 18:17:16", "2012-10-30T18:17:16+01:00"},
		{"2012-10-30 18:17", "2012-10-30T18:17:00+01:00"},
		{"2012-10-30", "2012-10-30T00:00:00+01:00"},
		{"2012-7-3 8:07", "2012-07-03T08:07:00+02:00"},
		{"18:17", "2026-12-01T18:17:00+01:00"},
		{"8:17:16", "2026-12-01T08:17:16+01:00"},
		{"18:17:16.25", "2026-12-01T18:17:16.25+01:00"},
		{"2012-10-30 18:17:16,000000001", "2012-10-30T18:17:16.000000001+01:00"},
		{"  2012-10-30   18:17  ", "2012-10-30T18:17:00+01:00"},
		{"2012-02-29", "2012-02-29T00:00:00+01:00"},

		// Words.
		{"now", "2026-12-01T15:04:05.678+01:00"},
		{"today", "2026-12-01T00:00:00+01:00"},
		{"Yesterday", "2026-11-30T00:00:00+01:00"},
		{"tomorrow", "2026-12-02T00:00:00+01:00"},
		{"yesterday 18:17", "2026-11-30T18:17:00+01:00"},

		// Relative ones.
		{"-1h", "2026-12-01T14:04:05.678+01:00"},
		{"- 1 h", "2026-12-01T14:04:05.678+01:00"},
		{"+1h30min", "2026-12-01T16:34:05.678+01:00"},
		{"1h ago", "2026-12-01T14:04:05.678+01:00"},
		{"5min 20s ago", "2026-12-01T14:58:45.678+01:00"},
		{"2 days ago", "2026-11-29T15:04:05.678+01:00"},
		{"90 minutes AGO", "2026-12-01T13:34:05.678+01:00"},
		{"10s left", "2026-12-01T15:04:15.678+01:00"},
		{"1h30m", "2026-12-01T13:34:05.678+01:00"},
		{"1.5h", "2026-12-01T13:34:05.678+01:00"},
		{".5s", "2026-12-01T15:04:05.178+01:00"},
		{"678ms ago", "2026-12-01T15:04:05+01:00"},
		{"1w", "2026-11-24T15:04:05.678+01:00"},
		{"1M ago", "2026-11-01T04:34:05.678+01:00"},
		{"1y ago", "2025-12-01T09:04:05.678+01:00"},
		{"37d ago", "2026-10-25T15:04:05.678+01:00"},
		// A day has 24 hours, whatever the clocks did meanwhile.
		{"38d ago", "2026-10-24T16:04:05.678+02:00"},

		// RFC 3339 and other zones.
		{"2012-10-30T18:17:16Z", "2012-10-30T18:17:16Z"},
		{"2012-10-30t18:17:16.5z", "2012-10-30T18:17:16.5Z"},
		{"2012-10-30T18:17:16-07:30", "2012-10-30T18:17:16-07:30"},
		{"2012-10-30 18:17 +0200", "2012-10-30T18:17:00+02:00"},
		{"2012-10-30 18:17+00:00", "2012-10-30T18:17:00Z"},
		{"2012-10-30 18:17:16 UTC", "2012-10-30T18:17:16Z"},
		{"2012-10-30 GMT", "2012-10-30T00:00:00Z"},
		{"today UTC", "2026-12-01T00:00:00Z"},
		{"18:17 UTC", "2026-12-01T18:17:00Z"},
		{"01:00 +14:00", "2026-12-02T01:00:00+14:00"}, // there it is the 2nd already
		{"2012-10-30 18:17 CET", "2012-10-30T18:17:00+01:00"},
		{"2012-07-30 18:17 CEST", "2012-07-30T18:17:00+02:00"},

		// What systemctl prints.
		{"Tue 2012-10-30 18:17:16 CET", "2012-10-30T18:17:16+01:00"},
		{"tuesday, 2012-10-30", "2012-10-30T00:00:00+01:00"},

		// Clocks that jump.
		{"2026-10-25 02:30", "2026-10-25T02:30:00+02:00"}, // happens twice: the first
		{"2026-10-25 02:30 CET", "2026-10-25T02:30:00+01:00"},
		{"2026-10-25 02:30 CEST", "2026-10-25T02:30:00+02:00"},
		{"2026-03-29 02:30", "2026-03-29T03:30:00+02:00"}, // never happens

		{"@0", "1970-01-01T01:00:00+01:00"},
		{"@1351617436", "2012-10-30T18:17:16+01:00"},
		{"@1351617436.25", "2012-10-30T18:17:16.25+01:00"},
	} {
		got, err := Parse(tc.text, now)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		if got := got.Format(time.RFC3339Nano); got != tc.want {
			t.Errorf("%q is %s, want %s", tc.text, got, tc.want)
		}
	}
}

func TestParse_Errors(t *testing.T) {
	now := time.Date(2026, 12, 1, 15, 4, 5, 0, berlin(t))
	for text, reason := range map[string]string{
		"":                               "is empty",
		" ":                              "is empty",
		"soon":                           "is not understood",
		"5":                              "has a number without a unit",
		"20121030":                       "has a number without a unit",
		"-":                              "has no number",
		"-5":                             "has a number without a unit",
		"ago":                            "is not understood",
		"5 bananas ago":                  `has the unknown unit "bananas"`,
		"-1h ago":                        "is not understood",
		"1h -5m":                         "is not understood",
		"Tuesday":                        "is not understood",
		"2012-13-01":                     "is a day that does not exist",
		"2012-00-01":                     "is a day that does not exist",
		"2011-02-29":                     "is a day that does not exist",
		"24:00":                          "is a time of day that does not exist",
		"12:60":                          "is a time of day that does not exist",
		"12:00:60":                       "is a time of day that does not exist",
		"2012-10-30 soon":                "has no valid time of day behind the date",
		"2012-10-30 18":                  "has no valid time of day behind the date",
		"2012-10-30 18:17:16.0000000001": "has no valid time of day behind the date",
		"18:17 +25:00":                   "has an impossible offset",
		"Mon 2012-10-30":                 "names the wrong day of the week, that day is a Tuesday",
		"Mon soon":                       "has neither a date nor a time of day",
		"2012-10-30 18:17 PST":           "names a time zone that is not the local one; write an offset such as +01:00",
		"2012-07-30 18:17 CET":           "names a time zone that is not the local one; write an offset such as +01:00",
		"1h UTC":                         "is not understood",
		"@":                              "is no number of seconds since 1970",
		"@-5":                            "is no number of seconds since 1970",
		"@5.1234567890":                  "is no number of seconds since 1970",
		"@5.x":                           "is no number of seconds since 1970",
		"@999999999999":                  "is no number of seconds since 1970",
		"@270000000000":                  "is out of range",
		"0000-01-01":                     "is out of range",
		"300y ago":                       "is out of range",
		"99999999999999999999s":          "is out of range",
		"9999999999.5y":                  "is out of range",
		"290y 290y":                      "is out of range",
		"\x1b[31m":                       "is not understood",
	} {
		got, err := Parse(text, now)
		if err == nil {
			t.Errorf("%q is read as %v", text, got)
			continue
		}
		if !strings.Contains(err.Error(), " "+reason+"; allowed are ") {
			t.Errorf("%q: %v, want %s", text, err, reason)
		}
	}
}

// One message in full, as people see it, and a long text cut short in it.
func TestParse_ErrorText(t *testing.T) {
	_, err := Parse("last \x1bweek", time.Now())
	want := `time "last \x1bweek" is not understood; allowed are "2012-10-30 18:17:16", 2012-10-30, 18:17, today, yesterday, now, -1h, "5min 20s ago", RFC 3339 and @SECONDS, a date or time also with UTC or +01:00 behind`
	if err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	_, err = Parse(strings.Repeat("x", 1000), time.Now())
	if err == nil || len(err.Error()) > 400 || !strings.Contains(err.Error(), `xxx..." is too long`) {
		t.Errorf("got %v", err)
	}
}

// What RFC 3339 can write, Parse reads back to the nanosecond.
func TestParse_RoundTrip(t *testing.T) {
	now := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		zone := time.FixedZone("", rapid.IntRange(-14*60, 14*60).Draw(t, "offset")*60)
		want := time.Unix(rapid.Int64Range(-62_000_000_000, 253_000_000_000).Draw(t, "s"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns")).In(zone)
		for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999 -0700", "Mon 2006-01-02 15:04:05.999999999 -07:00"} {
			got, err := Parse(want.Format(layout), now)
			if err != nil || !got.Equal(want) {
				t.Fatalf("%s: got %v, %v", want.Format(layout), got, err)
			}
		}
	})
}

// FuzzParse holds that no text makes Parse panic, that what it returns can be
// written as RFC 3339, and that the answer depends on text and now alone.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"2012-10-30 18:17:16.5 UTC", "Tue 2012-10-30T18:17 CET", "5min 20s ago", "yesterday 18:17 +01:00", "@5.5", "1.5h", "µ", "-", "+9223372036854775807ns"} {
		f.Add(s)
	}
	now := time.Date(2026, 12, 1, 15, 4, 5, 0, berlin(f))
	f.Fuzz(func(t *testing.T, text string) {
		got, err := Parse(text, now)
		if err != nil {
			if !strings.Contains(err.Error(), "; allowed are ") || strings.ContainsAny(err.Error(), "\x00\x1b\n") {
				t.Errorf("%q: unhelpful or unsafe error %q", text, err)
			}
			return
		}
		back, err := Parse(got.Format(time.RFC3339Nano), now)
		if err != nil {
			// An offset of minutes and seconds, as zones had before 1900.
			if _, offset := got.Zone(); offset%60 == 0 {
				t.Errorf("%q gives %v, which reads back as %v", text, got, err)
			}
			return
		}
		if _, offset := got.Zone(); offset%60 == 0 && !back.Equal(got) {
			t.Errorf("%q gives %v, which reads back as %v", text, got, back)
		}
	})
}

// The clocks of Lord Howe Island go back by half an hour; whichever of the two
// moments the library returns, both are found.
func TestOccurrences(t *testing.T) {
	zone, err := time.LoadLocation("Australia/Lord_Howe")
	if err != nil {
		t.Fatal(err)
	}
	first := time.Date(2026, 4, 4, 14, 45, 0, 0, time.UTC).In(zone)
	for _, at := range []time.Time{first, first.Add(30 * time.Minute)} {
		got := occurrences(at)
		if len(got) != 2 || !got[0].Equal(first) || !got[1].Equal(first.Add(30*time.Minute)) {
			t.Errorf("%v occurs at %v", at, got)
		}
	}
	if got := occurrences(first.Add(time.Hour)); len(got) != 1 {
		t.Errorf("%v occurs at %v", first.Add(time.Hour), got)
	}
}
