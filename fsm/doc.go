// Package fsm is the state machine of a slot: its states, its events, the one
// table that says which event is legal in which state, and the judge that
// applies it.
//
// The package holds no state. The journal is the state; a caller reads the
// slot's head there, asks [Fire] to judge an event against it, and makes the
// transition durable inside the commit function that Fire calls before it says
// yes. Nothing is visible before it is durable, and whatever goes wrong in the
// commit leaves the slot where it was.
//
// Judging is left to github.com/looplab/fsm. Its machines remember an
// interrupted transition and refuse every event from then on, so a machine is
// built for each call and thrown away after it; a long-lived one is never kept.
// Three more of its habits shape Fire: only Event.Cancel inside a leave
// callback can still veto, callbacks run only between two different states, and
// a callback with a misspelt name is dropped without a word.
//
// What changes no state is a [Note], never an event: the table has no edge that
// leads back to the state it came from.
//
// The package does no I/O and reads no clock. Everything in it is safe for
// concurrent use, and nothing in it blocks except for as long as a commit or an
// io.Writer handed in by the caller does. [WriteReference] renders the table as
// docs/state-diagram.md; a test fails while the two differ.
package fsm

//go:generate go run ../internal/gendocs
