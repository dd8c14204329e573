package fsm_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/node-lifecycle/node-lifecycle/fsm"
)

// The slot's state is read inside a transaction; the commit function appends to
// the journal in that same transaction.
func ExampleFire() {
	head := fsm.Regenerated

	tr, err := fsm.Fire(context.Background(), head, fsm.EventStarting, func(t fsm.Transition) error {
		fmt.Println("append:", t)
		return nil
	})
	fmt.Println("result:", tr.To, err)

	// Output:
	// append: Regenerated -> Starting (starting)
	// result: Starting <nil>
}

func ExampleFire_veto() {
	full := errors.New("no space left on device")

	_, err := fsm.Fire(context.Background(), fsm.Running, fsm.EventWired, func(fsm.Transition) error {
		return full
	})
	fmt.Println(err)
	fmt.Println(errors.Is(err, full))

	// Output:
	// transition Running -> Wired (wired) was not committed: no space left on device
	// true
}

func ExampleNext() {
	_, err := fsm.Next(fsm.Stopped, fsm.EventRunning)
	fmt.Println(err)

	var illegal *fsm.IllegalEventError
	if errors.As(err, &illegal) {
		fmt.Println(illegal.Legal)
	}

	// Output:
	// event "running" is not legal in state Stopped (legal: prechecked)
	// [prechecked]
}
