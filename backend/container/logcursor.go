package container

import (
	"hash/maphash"
	"time"
)

const (
	// logOverlap is how far back a log is read again when its stream is opened
	// anew. It covers the engines that know time only to the second, and lines
	// of the two streams that were stored out of order.
	logOverlap = 2 * time.Second
	// logMemory bounds how many lines are remembered for that.
	logMemory = 1 << 16
)

// logKey identifies one line of a log. Lines that are equal in all of this are
// told apart by their number.
type logKey struct {
	at     int64 // the engine's time stamp, in nanoseconds
	stream byte
	hash   uint64
}

// logClock tells the time of day, and how far it was set back, or has fallen
// behind, since some fixed moment.
type logClock func() (now time.Time, behind time.Duration)

// newLogClock returns the real clock.
func newLogClock() logClock {
	start := time.Now()
	return func() (time.Time, time.Duration) {
		now := time.Now()
		// The first difference is of the monotonic clock, the second is not.
		return now, now.Sub(start) - now.Round(0).Sub(start.Round(0))
	}
}

// logCursor decides, line by line, which lines of a log that is read again and
// again are new. It remembers the lines of the last moments and, each time the
// log is opened anew from a little earlier on, lets each of them pass by once.
//
// Engines find the place to read from by time stamps, so a time of day that is
// set back needs care: what was printed after that has earlier stamps than what
// was read before. Then the log is read from that much earlier on, and
// everything is old until the first line that is remembered. What may go unseen
// is a time that is set twice, in both directions, between two reads.
type logCursor struct {
	clock logClock
	seed  maphash.Seed

	recent []logKey // the lines read last, in the order of the log
	last   int64    // time of the very last one
	floor  int64    // lines before this are forgotten
	least  time.Duration

	replay   map[logKey]int // lines that may be told again, and how often
	skipping bool
}

func newLogCursor(clock logClock) *logCursor {
	return &logCursor{clock: clock, seed: maphash.MakeSeed()}
}

func (l *logCursor) key(at time.Time, stream byte, text []byte) logKey {
	return logKey{at: at.UnixNano(), stream: stream, hash: maphash.Bytes(l.seed, text)}
}

// horizon is the time from which on lines are remembered: a whole second, so
// that it means the same for an engine that knows nothing finer.
func (l *logCursor) horizon() int64 {
	second := int64(time.Second)
	return max((l.last-int64(logOverlap))/second*second, l.floor)
}

// reopen prepares for the log being read again and returns the time to read it
// from, in nanoseconds since 1970; 0 is the beginning.
func (l *logCursor) reopen() int64 {
	if l.last == 0 {
		return 0
	}
	l.replay = make(map[logKey]int, len(l.recent))
	for _, k := range l.recent {
		l.replay[k]++
	}
	_, behind := l.clock()
	back := behind - l.least
	if back < logOverlap/2 {
		l.skipping = false // nothing but a clock that is being adjusted
		return l.horizon()
	}
	l.skipping = true
	return max(1, l.horizon()-int64(back))
}

// isNew reports whether a line was not read before, and remembers it.
func (l *logCursor) isNew(k logKey) bool {
	if n := l.replay[k]; n > 0 {
		l.skipping = false
		l.replay[k] = n - 1
		return false
	}
	if l.skipping {
		return false
	}
	l.remember(k)
	return true
}

func (l *logCursor) remember(k logKey) {
	now, behind := l.clock()
	// A line from the future was printed before the time was set back.
	ahead := max(0, k.at-now.UnixNano())
	l.least = min(l.least, behind-time.Duration(ahead))
	if k.at < l.last-int64(logOverlap) {
		l.recent, l.floor = l.recent[:0], 0 // these look younger than they are
	}
	l.last = k.at
	l.recent = append(l.recent, k)
	l.floor = l.horizon() // from here on nothing before it is known
	drop := 0
	for l.recent[drop].at < l.floor {
		drop++
	}
	if excess := len(l.recent) - drop - logMemory; excess > 0 {
		drop += excess
		l.floor = l.recent[drop-1].at + 1
	}
	// Moving the rest is worth it only when much is dropped.
	if drop > len(l.recent)/2 {
		l.recent = append(l.recent[:0], l.recent[drop:]...)
	}
}
