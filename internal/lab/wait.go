package lab

import (
	"context"
	"fmt"
	"time"
)

const pollInterval = 20 * time.Millisecond

// WaitFor blocks until condition reports true. The condition also reports what
// it saw; when ctx ends first, the error names what was waited for, for how
// long, and what was seen last.
func WaitFor(ctx context.Context, what string, condition func(context.Context) (done bool, seen string)) error {
	began := time.Now()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	last := "nothing"
	for {
		done, seen := condition(ctx)
		if done {
			return nil
		}
		if seen != "" {
			last = seen
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited %v for %s, last seen: %s: %w", time.Since(began).Round(time.Millisecond), what, last, context.Cause(ctx))
		case <-ticker.C:
		}
	}
}
