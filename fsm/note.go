package fsm

import "slices"

// Note is the kind of a journal entry that changes no state. Entries that do
// are transitions; no note shares a name with an event, a state or the word
// "transition".
type Note string

// The notes, in the order in which the documentation lists them.
const (
	NoteIntent        Note = "intent"
	NoteDone          Note = "done"
	NoteUndone        Note = "undone"
	NoteEnded         Note = "ended"
	NoteRefused       Note = "refused"
	NoteStopRequested Note = "stop-requested"
	NoteResumed       Note = "resumed"
	NoteWaiting       Note = "waiting"
	NoteCleaned       Note = "cleaned"
	NoteRequested     Note = "requested"
	NoteDiscarded     Note = "discarded"
	NoteUnproven      Note = "unproven"
	NoteDiverged      Note = "diverged"
	NoteQuarantined   Note = "quarantined"
	NoteGap           Note = "gap"
)

type noteRow struct {
	note    Note
	meaning string
}

var notes = []noteRow{
	{NoteIntent, "A step begins; its deadline is in the entry. An intent without an outcome marks where a run was cut off."},
	{NoteDone, "A step that changes no state ended well."},
	{NoteUndone, "A step that changes no state ended with the error in the entry."},
	{NoteEnded, "A run is over; its exit code is in the entry."},
	{NoteRefused, "The phase turned back before anything had begun. The cause says why, most often one of peer-alive, peer-unknown, engine, config, locked, journal, timeout, interrupted."},
	{NoteStopRequested, "Somebody asked this activation to stop, so what follows is no failure."},
	{NoteResumed, "A new process takes over what a dead one left open."},
	{NoteWaiting, "The stack is not ready yet, and the reason has changed."},
	{NoteCleaned, "post-stop cleared away what a Failed slot had left behind."},
	{NoteRequested, "reconcile or switch is about to act on the unit."},
	{NoteDiscarded, "A container was removed, or kept under another name for its size; the entry says what it held."},
	{NoteUnproven, "The container could not be proven gone, so the state and the claim stay as they are."},
	{NoteDiverged, "The journal and the world disagree; the entry has both sides."},
	{NoteQuarantined, "A damaged journal was set aside and a fresh one begun; the entry says where the old file is."},
	{NoteGap, "Entries are missing here, lost with a damaged journal."},
}

// Notes returns the kinds of notes in the order of the documentation.
func Notes() []Note {
	all := make([]Note, len(notes))
	for i, row := range notes {
		all[i] = row.note
	}
	return all
}

// Meaning says in one or two sentences what a note of kind n records. It is
// empty for a kind this version does not know.
func (n Note) Meaning() string {
	i := slices.IndexFunc(notes, func(r noteRow) bool { return r.note == n })
	if i < 0 {
		return ""
	}
	return notes[i].meaning
}
