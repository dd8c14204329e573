package fsm

import (
	"errors"
	"fmt"
	"strings"
)

var (
	errNoCommit     = errors.New("no commit function was given; use Next to ask without firing")
	errNotCommitted = errors.New("the machine moved without asking for the commit; this is a bug in node-lifecycle")
)

// IllegalEventError says that an event the table knows has no edge out of a
// state the table knows. It is always used through a pointer.
type IllegalEventError struct {
	State State
	Event Event
	Legal []Event // what would be legal in State, in table order
}

// Error names the event, the state and the events that would be legal.
func (e *IllegalEventError) Error() string {
	return fmt.Sprintf("event %q is not legal in state %s (legal: %s)", string(e.Event), e.State, join(e.Legal))
}

// UnknownStateError says that a state is not in this version's table, as when a
// newer version has written it. It is always used through a pointer.
type UnknownStateError struct{ State State }

// Error names the state and the ones that this version knows.
func (e *UnknownStateError) Error() string {
	return fmt.Sprintf("unknown state %q (known: %s); if a newer version wrote it, use that version",
		string(e.State), join(States()))
}

// UnknownEventError says that an event is not in this version's table. It is
// always used through a pointer.
type UnknownEventError struct{ Event Event }

// Error names the event and the ones that this version knows.
func (e *UnknownEventError) Error() string {
	known := make([]Event, len(table))
	for i, rule := range table {
		known[i] = rule.Event
	}
	return fmt.Sprintf("unknown event %q (known: %s); if a newer version wrote it, use that version",
		string(e.Event), join(known))
}

// PanicError is what [Fire] makes of a commit that panicked. It unwraps to the
// value if that was an error. It is always used through a pointer.
type PanicError struct {
	Value any    // what the commit panicked with
	Stack []byte // of the goroutine, taken while it was panicking
}

// Error gives the value; the stack is for logs.
func (e *PanicError) Error() string { return fmt.Sprintf("the commit panicked: %v", e.Value) }

// Unwrap returns the value if it is an error, otherwise nil.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

func join[S ~string](names []S) string {
	var b strings.Builder
	for i, name := range names {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(name))
	}
	return b.String()
}
