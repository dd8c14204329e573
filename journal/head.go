package journal

import (
	"encoding/json"
	"maps"
	"time"
)

// Head is where a slot stands now. The journal keeps Seq, Hash and Ring, and on
// a transition State, Since, Boot, Activation and Run; the rest is its user's,
// by Tx.SetHead.
type Head struct {
	// State is the state the last transition led to; "" before the first.
	State string `json:"state,omitempty"`
	// Since is the wall clock of that transition; Boot, Activation and Run are
	// its boot, activation and run.
	Since      time.Time `json:"since,omitzero"`
	Boot       string    `json:"boot,omitempty"`
	Activation string    `json:"activation,omitempty"`
	Run        string    `json:"run,omitempty"`
	// Seq is the sequence number of the last entry; zero if there is none.
	Seq uint64 `json:"seq,omitempty"`
	// Hash is the hash of the last entry as stored.
	Hash string `json:"hash,omitempty"`
	// Open is the run that has begun and is not over, or nil.
	Open *Open `json:"open,omitempty"`
	// Attempts counts the attempts in a row that did not succeed.
	Attempts int `json:"attempts,omitempty"`
	// StopRequested is the activation that was asked to stop, or "".
	StopRequested string `json:"stop_requested,omitempty"`
	// FirstFailure and LastSuccess pin an entry and its evidence beyond the
	// rings; zero pins none.
	FirstFailure uint64 `json:"first_failure,omitempty"`
	LastSuccess  uint64 `json:"last_success,omitempty"`
	// Ring is what the journal needs to know to drop the oldest.
	Ring Ring `json:"ring,omitzero"`
	// Extra is what a newer version wrote beyond these fields.
	Extra Extra `json:"-"`
}

// Ring describes which entries and which evidence of a slot are kept. Pinned
// ones from before them are kept besides and not counted here.
type Ring struct {
	// Oldest is the first sequence number kept; zero before the first entry.
	Oldest uint64 `json:"oldest,omitempty"`
	// Bytes is how much the entries from Oldest on take as stored.
	Bytes int64 `json:"bytes,omitempty"`
	// OldestEvidence is the first sequence number whose evidence is kept; zero
	// if none is.
	OldestEvidence uint64 `json:"oldest_evidence,omitempty"`
	// Captures is how many captures of evidence are kept from there on.
	Captures int `json:"captures,omitempty"`
}

// Open is a run that has begun.
type Open struct {
	// Run, Phase and Step say what was begun.
	Run   string `json:"run"`
	Phase string `json:"phase"`
	Step  string `json:"step,omitempty"`
	// PID and Start (clock ticks after boot, as in /proc/PID/stat) name its
	// process beyond doubt together with Boot.
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
	Boot  string `json:"boot"`
	// Activation is the unit's activation it belongs to.
	Activation string `json:"activation,omitempty"`
	// Since is when it began, Deadline when its present step has to be over.
	Since    time.Time `json:"since,omitzero"`
	Deadline time.Time `json:"deadline,omitzero"`
	// Extra is what a newer version wrote beyond these fields.
	Extra Extra `json:"-"`
}

// Claim is a pair's right to have a stack.
type Claim struct {
	// V is the version of this JSON; SetClaim fills it.
	V int `json:"v"`
	// Holder is the slot that has the right, or "".
	Holder string `json:"holder,omitempty"`
	// Last is the slot that had it last.
	Last string `json:"last,omitempty"`
	// Epoch grows with every claim and never shrinks.
	Epoch uint64 `json:"epoch"`
	// Boot, Activation and Time say when it was claimed.
	Boot       string    `json:"boot,omitempty"`
	Activation string    `json:"activation,omitempty"`
	Time       time.Time `json:"time,omitzero"`
	// Unknown says that a claim was lost with a journal: it may be anybody's.
	Unknown bool `json:"unknown,omitempty"`
	// Weak says that it was taken on less evidence than a backend can give.
	Weak bool `json:"weak,omitempty"`
	// Extra is what a newer version wrote beyond these fields.
	Extra Extra `json:"-"`
}

type (
	headFields  Head
	openFields  Open
	claimFields Claim
)

// MarshalJSON writes the fields, then the members of Extra.
func (h Head) MarshalJSON() ([]byte, error) { return encodeKeeping(headFields(h), h.Extra) }

// UnmarshalJSON reads the fields, and into Extra the members that are none.
func (h *Head) UnmarshalJSON(data []byte) error {
	fields, extra, err := decodeKeeping[headFields](data)
	if err != nil {
		return err
	}
	*h = Head(fields)
	h.Extra = extra
	return nil
}

// MarshalJSON writes the fields, then the members of Extra.
func (o Open) MarshalJSON() ([]byte, error) { return encodeKeeping(openFields(o), o.Extra) }

// UnmarshalJSON reads the fields, and into Extra the members that are none.
func (o *Open) UnmarshalJSON(data []byte) error {
	fields, extra, err := decodeKeeping[openFields](data)
	if err != nil {
		return err
	}
	*o = Open(fields)
	o.Extra = extra
	return nil
}

// MarshalJSON writes the fields, then the members of Extra.
func (c Claim) MarshalJSON() ([]byte, error) { return encodeKeeping(claimFields(c), c.Extra) }

// UnmarshalJSON reads the fields, and into Extra the members that are none.
func (c *Claim) UnmarshalJSON(data []byte) error {
	fields, extra, err := decodeKeeping[claimFields](data)
	if err != nil {
		return err
	}
	*c = Claim(fields)
	c.Extra = extra
	return nil
}

// pins reports whether h pins the entry.
func (h *Head) pins(seq uint64) bool {
	return seq != 0 && (seq == h.FirstFailure || seq == h.LastSuccess)
}

// hasEvidence reports whether evidence captured with the entry is still kept
// because it is recent.
func (r *Ring) hasEvidence(seq uint64) bool {
	return r.Captures > 0 && seq >= r.OldestEvidence
}

// clone returns a copy that shares no memory with h.
func (h *Head) clone() Head {
	c := *h
	c.Extra = maps.Clone(h.Extra)
	if h.Open != nil {
		open := *h.Open
		open.Extra = maps.Clone(h.Open.Extra)
		c.Open = &open
	}
	return c
}

// decodeFramed reads a framed head or claim.
func decodeFramed[T any](key, value []byte) (v T, err error) {
	payload, err := unframe(key, value)
	if err != nil {
		return v, err
	}
	return v, json.Unmarshal(payload, &v)
}
