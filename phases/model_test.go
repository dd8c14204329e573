package phases

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
)

// tally is what the suite publishes.
type tally struct {
	mu                         sync.Mutex
	states, doubleRun, blocked int
	books, runs, caught        int
}

func (c *tally) add(f *found) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.states += f.states
	c.runs += f.runs
	c.doubleRun += f.doubleRun
	c.blocked += f.blocked
	c.books += f.books
}

// TestModel is the suite MODEL: in no state that two slots can come to do two stacks run,
// do the books say so, does a stack run that nobody claims, or can a slot not be started
// although its peer is dead. Then it breaks the protocol, one rule after the other, and
// demands that the search sees it.
func TestModel(t *testing.T) {
	if os.Getenv("RELIABILITY") == "" {
		t.Skip("takes half a minute; run it with: make reliability")
	}
	var total tally
	t.Run("product", func(t *testing.T) {
		for _, v := range modelRuns {
			t.Run(v.name, func(t *testing.T) {
				t.Parallel()
				f := search(t, &v)
				total.add(&f)
				t.Logf("%d states, %d of them quiet, %d with a slot up; the code ran %d times", f.states, f.quiet, f.wired, f.runs)
				if f.bad() {
					t.Errorf("%s:\n%s", f.wrong, strings.Join(f.trace, "\n"))
				}
				if f.wired == 0 {
					t.Error("no slot ever came up")
				}
			})
		}
	})
	t.Run("mutants", func(t *testing.T) {
		for _, v := range modelMutants {
			t.Run(v.name, func(t *testing.T) {
				t.Parallel()
				f := search(t, &v)
				if f.wrong != v.want {
					t.Errorf("survived %d states; want: %s", f.states, v.want)
					return
				}
				total.mu.Lock()
				total.caught++
				total.mu.Unlock()
				t.Logf("%s, after %d moves:\n%s", f.wrong, len(f.trace)-1, strings.Join(f.trace, "\n"))
			})
		}
	})
	fmt.Printf("SUITE MODEL states=%d double_run=%d blocked=%d books=%d mutants=%d/%d seed=0\n",
		total.states, total.doubleRun, total.blocked, total.books, total.caught, len(modelMutants))
}

// The search sees what it is there to see, and the product where it is known to end.
func TestModel_Small(t *testing.T) {
	f := search(t, &variant{left: budget{starts: 2}, oneUp: true})
	if f.bad() || f.wired == 0 || f.states < 1000 {
		t.Errorf("%d states, %d with a slot up, %s:\n%s", f.states, f.wired, f.wrong, strings.Join(f.trace, "\n"))
	}
	if f := search(t, &modelMutants[0]); f.wrong != twoStacks {
		t.Errorf("%s does not end with two stacks: %s", modelMutants[0].name, f.wrong)
	}
	if f := search(t, &lateOutside); f.wrong != twoStacks {
		t.Errorf("a late start of somebody else's container is fenced after all: %s", f.wrong)
	}
}
