package journal

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxEvidence is how many bytes one capture of evidence may have.
const maxEvidence = 64 << 10

// minText is how many bytes of each text are worth keeping. If there are so many
// attributes that less would be left for each, they are dropped instead.
const minText = 48

// fitEntry encodes e. If that takes more than limit bytes, it first cuts the
// texts of e, the longest ones and no more than needed, and says so where it
// cut. It fails only if the identifiers and unknown members alone are too long.
func fitEntry(e *Entry, limit int) ([]byte, error) {
	e.Cause, e.Error, e.Detail = toUTF8(e.Cause), toUTF8(e.Error), toUTF8(e.Detail)
	e.Attrs = attrsToUTF8(e.Attrs)
	for dropped := false; ; {
		payload, err := e.MarshalJSON()
		if err != nil || len(payload) <= limit {
			return payload, err
		}
		level := cutLevel(e, len(payload)-limit)
		switch {
		case level >= minText:
			cutTexts(e, level)
		case len(e.Attrs) > 0 && !dropped:
			dropped = true
			e.Attrs = map[string]string{"cut": fmt.Sprintf("%d attributes", len(e.Attrs))}
		case level > 0:
			cutTexts(e, level)
		default:
			return nil, fmt.Errorf("it takes %d bytes without any text, at most %d are allowed", len(payload)-textSize(e), limit)
		}
	}
}

// texts returns the texts of e that may be cut.
func texts(e *Entry) []string {
	all := []string{e.Cause, e.Error, e.Detail}
	for _, v := range e.Attrs {
		all = append(all, v)
	}
	return all
}

func textSize(e *Entry) int {
	total := 0
	for _, s := range texts(e) {
		total += jsonSize(s)
	}
	return total
}

// cutLevel returns the length to which the texts of e have to be cut for them to
// become shorter by excess bytes in all: short texts stay whole, the long ones
// share evenly what is left.
func cutLevel(e *Entry, excess int) int {
	sizes := []int{}
	for _, s := range texts(e) {
		sizes = append(sizes, jsonSize(s))
	}
	slices.Sort(sizes)
	room := textSize(e) - excess
	for i, size := range sizes {
		if level := room / (len(sizes) - i); size > level {
			return level
		}
		room -= size
	}
	return 0
}

func cutTexts(e *Entry, level int) {
	e.Cause, e.Error, e.Detail = cutText(e.Cause, level), cutText(e.Error, level), cutText(e.Detail, level)
	for k, v := range e.Attrs {
		e.Attrs[k] = cutText(v, level)
	}
}

// cutText returns s, or as much of it as takes level bytes in JSON together with
// a mark that says how much is missing. It cuts between runes. A level too small
// for the mark gives "".
func cutText(s string, level int) string {
	if jsonSize(s) <= level {
		return s
	}
	room := level - len(cutMark(len(s)))
	if room < 0 {
		return ""
	}
	kept := 0
	for i, r := range s {
		if room -= jsonRuneSize(r); room < 0 {
			kept = i
			break
		}
	}
	return s[:kept] + cutMark(len(s)-kept)
}

func cutMark(n int) string {
	return "… [" + strconv.Itoa(n) + " bytes cut]"
}

// jsonSize is the length of s as encodeJSON writes it, without the quotes.
func jsonSize(s string) int {
	n := 0
	for _, r := range s {
		n += jsonRuneSize(r)
	}
	return n
}

func jsonRuneSize(r rune) int {
	switch {
	case r == '"', r == '\\', r == '\n', r == '\r', r == '\t', r == '\b', r == '\f':
		return 2
	case r < ' ', r == '\u2028', r == '\u2029':
		return 6
	default:
		return utf8.RuneLen(r)
	}
}

// toUTF8 makes s text, as encoding it would, so that what is returned to the
// writer is what a reader gets.
func toUTF8(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// attrsToUTF8 copies attrs, because it may be cut later and belongs to the
// caller.
func attrsToUTF8(attrs map[string]string) map[string]string {
	if len(attrs) == 0 {
		return nil
	}
	clean := make(map[string]string, len(attrs))
	for k, v := range attrs {
		clean[toUTF8(k)] = toUTF8(v)
	}
	return clean
}

// cutEvidence returns evidence, or as much of it as is kept, with the same mark.
func cutEvidence(evidence []byte) []byte {
	if len(evidence) <= maxEvidence {
		return evidence
	}
	kept := maxEvidence - len(cutMark(len(evidence)))
	for back := 0; back < utf8.UTFMax && !utf8.RuneStart(evidence[kept]); back++ {
		kept--
	}
	return append(slices.Clip(evidence[:kept]), cutMark(len(evidence)-kept)...)
}
