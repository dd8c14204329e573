package phases

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
)

// fault is what happens to one operation.
type fault string

const (
	faultError  fault = "fails"
	faultLost   fault = "is done, and its answer lost"
	faultHang   fault = "hangs until its time is up"
	faultCancel fault = "is cut off by SIGTERM"
)

// at injects the fault into the operation that the move is about, if it can have it.
func (h *simHost) inject(m move, f fault) bool {
	for s := range h.machines {
		for r, p := range h.machines[s] {
			if p == nil || !strings.HasPrefix(m.text, who(s, r)+" "+p.pending.String()) {
				continue
			}
			q := &p.pending
			switch f {
			case faultLost:
				switch q.kind {
				case askFence, askStop, askRemove, askClear, askCreate:
				default:
					return false
				}
				h.answers(&h.world, s, r, q, func(_ string, change func(*modelWorld) answer) { change(&h.world) })
				h.give(&h.world, s, r, answer{code: answerError})
			case faultError:
				h.give(&h.world, s, r, answer{code: answerError})
			case faultHang:
				if _, ok := q.ctx.Deadline(); !ok {
					return false
				}
				h.give(&h.world, s, r, answer{code: answerTimeout})
			case faultCancel:
				h.give(&h.world, s, r, answer{code: answerCancelled})
			}
			h.trace = append(h.trace, m.text+" — and "+string(f))
			return true
		}
	}
	return false
}

// main job with one fault: start, stop, start the other one, each as far as it comes.
// fired tells whether there was an operation with that number.
func faulty(ctx context.Context, dir string, n int, f fault) (h *simHost, fired, hurt bool, wrong string) {
	h = newSimHost(dir, &variant{})
	defer h.close()
	operations := 0
	rest := func() string {
		for range 2000 {
			plain, _ := h.split()
			if len(plain) == 0 {
				return ""
			}
			m := plain[0]
			if strings.Contains(m.text, "opens the books") || !strings.HasPrefix(m.text, "the ") {
				if operations++; operations == n {
					fired = true
					if hurt = h.inject(m, f); hurt {
						continue
					}
				}
			}
			h.do(m)
			if w := h.wrong(ctx); w == twoStacks {
				return w
			}
		}
		return "it does not come to rest"
	}
	for _, do := range []func(){
		func() { h.start(&h.world, 0, roleCheck) },
		func() { h.spawn(&h.world, 0, roleResume) },
		func() { h.stopIfUp(0) },
		func() { h.startIfDown(1) },
		func() { h.stopIfUp(1) },
	} {
		do()
		if wrong = rest(); wrong != "" {
			return h, fired, hurt, wrong
		}
	}
	if wrong = h.wrong(ctx); wrong == "" {
		wrong = h.afterwards(ctx, n%2, func(int) int { return 0 })
	}
	return h, fired, hurt, wrong
}

func (h *simHost) stopIfUp(s int) {
	if !h.world.units[s].down() {
		h.stop(&h.world, s)
	}
}

func (h *simHost) startIfDown(s int) {
	if h.world.units[s].down() {
		h.start(&h.world, s, roleCheck)
	}
}

// TestFaultN is the suite FAULT-N: of the main job the first operation has a fault, then
// the second, and so on, until there is none with that number any more.
func TestFaultN(t *testing.T) {
	stride := 1
	if os.Getenv("RELIABILITY") == "" {
		stride = 13 // enough to see that the suite itself works
	}
	cases, operations := 0, 0
	for _, f := range []fault{faultError, faultLost, faultHang, faultCancel} {
		for n := 1; ; n += stride {
			var h *simHost
			var fired, hurt bool
			var wrong string
			dir := simDir(t)
			synctest.Test(t, func(t *testing.T) {
				h, fired, hurt, wrong = faulty(t.Context(), filepath.Join(dir, "state"), n, f)
			})
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			if wrong != "" {
				t.Errorf("operation %d %s: %s\n%s", n, f, wrong, strings.Join(h.trace, "\n"))
			}
			if !fired {
				break
			}
			operations = max(operations, n)
			if hurt {
				cases++
			}
		}
	}
	fmt.Printf("SUITE FAULT-N cases=%d lost=0 double_run=0 crash=0 operations=%d seed=0\n", cases, operations)
	if operations < 50 || cases < operations/stride {
		t.Errorf("%d faults in %d operations: too few to mean anything", cases, operations)
	}
}
