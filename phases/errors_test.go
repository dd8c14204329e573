package phases_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/node-lifecycle/node-lifecycle/journal"
	"github.com/node-lifecycle/node-lifecycle/phases"
)

func TestExitCode(t *testing.T) {
	phase := func(cause phases.Cause, err error) error {
		return fmt.Errorf("wrapped: %w", &phases.Error{Slot: "kube1", Phase: "pre-start", Cause: cause, Err: err})
	}
	for _, tc := range []struct {
		name string
		err  error
		want int
	}{
		{"nil", nil, 0},
		{"peer alive", phase(phases.CausePeerAlive, errors.New("up")), 76},
		{"engine", phase(phases.CauseEngine, errors.New("away")), 69},
		{"a signal", phase(phases.CauseInterrupted, phases.Interrupted{Signal: 2, Name: "SIGINT"}), 130},
		{"an interruption by nobody knows what", phase(phases.CauseInterrupted, errors.New("over")), 143},
		{"a cancelled context without a phase", fmt.Errorf("wait: %w", context.Canceled), 143},
		{"a deadline without a phase", fmt.Errorf("wait: %w", context.DeadlineExceeded), 69},
		{"a journal that is locked", &journal.Error{Kind: journal.KindLocked, Err: errors.New("held")}, 75},
		{"a journal that is full", phase(phases.CauseJournal, &journal.Error{Kind: journal.KindNoSpace, Err: errors.New("full")}), 74},
		{"a journal of somebody else", phase(phases.CauseJournal, &journal.Error{Kind: journal.KindPermission, Err: errors.New("no")}), 77},
		{"a refusal that could not be noted", errors.Join(phase(phases.CausePeerAlive, errors.New("up")),
			&journal.Error{Kind: journal.KindNoSpace, Err: errors.New("full")}), 76},
		{"a journal with a wrong mode", &journal.Error{Kind: journal.KindInvalid, Err: errors.New("0777")}, 73},
		{"a cause without a code of its own", phase(phases.CauseReboot, errors.New("rebooted")), 70},
		{"anything else", errors.New("what"), 70},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := phases.ExitCode(tc.err); got != tc.want {
				t.Errorf("exit code %d, want %d", got, tc.want)
			}
		})
	}
}
