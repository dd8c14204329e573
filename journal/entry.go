package journal

import (
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"
)

// KindTransition is the Entry.Kind of an edge of the state machine. Every other
// kind is a note, which changes no state.
const KindTransition = "transition"

// EntryVersion is the version of an entry's JSON that this package writes.
const EntryVersion = 1

// maxEntry is how many bytes an entry may take as stored. It stays below 4 KiB
// so that one entry with its key and headers fits one page of the database.
const maxEntry = 4000

// maxIdent is how many bytes an identifier may have. Identifiers are never cut,
// because half of one identifies nothing.
const maxIdent = 128

// Entry is one record of the journal: a transition or a note. The journal fills
// V, Seq, Slot, EvidenceSize and Prev; everything else is its user's.
type Entry struct {
	// V is the version of this JSON.
	V int `json:"v"`
	// ID names the entry before it is written, so that an append whose outcome
	// was in doubt can be told from one that never happened.
	ID string `json:"id"`
	// Seq is its place in its slot's order; the first entry has 1.
	Seq uint64 `json:"seq"`
	// Slot is whose entry it is.
	Slot string `json:"slot"`
	// Run, Phase and Step say which process wrote it doing what.
	Run   string `json:"run,omitempty"`
	Phase string `json:"phase,omitempty"`
	Step  string `json:"step,omitempty"`
	// Kind is KindTransition or the name of a note.
	Kind string `json:"kind"`
	// Event, From and To are those of a transition.
	Event string `json:"event,omitempty"`
	From  string `json:"from,omitempty"`
	To    string `json:"to,omitempty"`
	// Cause, Error, Detail and the values of Attrs are text for people. They
	// are cut, visibly, if the entry would become too long.
	Cause  string            `json:"cause,omitempty"`
	Error  string            `json:"error,omitempty"`
	Detail string            `json:"detail,omitempty"`
	Attrs  map[string]string `json:"attrs,omitempty"`
	// Time is the wall clock. It orders nothing.
	Time time.Time `json:"time"`
	// Boot is the boot id, Boottime the time since that boot (nanoseconds).
	Boot     string        `json:"boot,omitempty"`
	Boottime time.Duration `json:"boottime,omitempty"`
	// Activation is the unit's activation.
	Activation string `json:"activation,omitempty"`
	// PID and Version say who wrote it.
	PID     int    `json:"pid,omitempty"`
	Version string `json:"version,omitempty"`
	// Deadline is when the step of an intent has to be over.
	Deadline time.Time `json:"deadline,omitzero"`
	// Exit is the exit code of a run that is over.
	Exit *int `json:"exit,omitempty"`
	// EvidenceSize is how many bytes of evidence were captured with it. The
	// evidence itself may be gone by now.
	EvidenceSize int `json:"evidence_size,omitempty"`
	// Prev links it to the entry before it: the hash of that entry as stored.
	Prev string `json:"prev,omitempty"`
	// Extra is what a newer version wrote beyond these fields.
	Extra Extra `json:"-"`
}

// entryFields is Entry without its methods.
type entryFields Entry

// MarshalJSON writes the fields, then the members of Extra.
func (e Entry) MarshalJSON() ([]byte, error) {
	return encodeKeeping(entryFields(e), e.Extra)
}

// UnmarshalJSON reads the fields, and into Extra the members that are none.
func (e *Entry) UnmarshalJSON(data []byte) error {
	fields, extra, err := decodeKeeping[entryFields](data)
	if err != nil {
		return err
	}
	*e = Entry(fields)
	e.Extra = extra
	return nil
}

// encodeEntry returns e as stored, cut to maxEntry bytes, and changes e to what
// a reader will get.
func encodeEntry(e *Entry) ([]byte, error) {
	if err := e.check(); err != nil {
		return nil, err
	}
	e.Time, e.Deadline = e.Time.Round(0), e.Deadline.Round(0)
	payload, err := fitEntry(e, maxEntry-checksumSize)
	if err != nil {
		return nil, err
	}
	return frame(entryKey(e.Seq), payload), nil
}

// check refuses what cannot be stored faithfully and cannot be cut either.
func (e *Entry) check() error {
	if e.ID == "" || e.Kind == "" {
		return fmt.Errorf("an entry needs an id and a kind, got id %q and kind %q", e.ID, e.Kind)
	}
	for _, ident := range []struct{ name, text string }{
		{"id", e.ID}, {"run", e.Run}, {"phase", e.Phase}, {"step", e.Step}, {"kind", e.Kind},
		{"event", e.Event}, {"from", e.From}, {"to", e.To},
		{"boot", e.Boot}, {"activation", e.Activation}, {"version", e.Version},
	} {
		if err := checkIdent(ident.name, ident.text); err != nil {
			return err
		}
	}
	return nil
}

// checkIdent refuses an identifier that is too long or no text.
func checkIdent(name, text string) error {
	if len(text) > maxIdent {
		return fmt.Errorf("%s has %d bytes, at most %d are allowed", name, len(text), maxIdent)
	}
	if !utf8.ValidString(text) {
		return fmt.Errorf("%s %q is not UTF-8", name, text)
	}
	return nil
}

// checkName is checkIdent for the name of a slot or pair, which must not be
// empty.
func checkName(name, text string) error {
	if text == "" {
		return fmt.Errorf("the name of the %s is empty", name)
	}
	return checkIdent(name, text)
}

// decodeEntry reads the entry stored under key in the bucket of slot.
func decodeEntry(slot string, key, value []byte) (Entry, error) {
	seq, err := keySeq(key)
	if err != nil {
		return Entry{}, err
	}
	payload, err := unframe(key, value)
	if err != nil {
		return Entry{}, err
	}
	var e Entry
	if err := e.UnmarshalJSON(payload); err != nil {
		if isNewer(payload) {
			return Entry{}, errNewer
		}
		return Entry{}, err
	}
	if e.Seq != seq || e.Slot != slot {
		return Entry{}, fmt.Errorf("it says that it is entry %d of %q", e.Seq, e.Slot)
	}
	return e, nil
}

// isNewer reports whether payload carries a version above ours, which explains
// why it cannot be read.
func isNewer(payload []byte) bool {
	var version struct{ V int }
	return json.Unmarshal(payload, &version) == nil && version.V > EntryVersion
}
