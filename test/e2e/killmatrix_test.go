package e2e

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/node-lifecycle/node-lifecycle/internal/lab"
	"github.com/node-lifecycle/node-lifecycle/phases"
)

// Suite HOSTKILL: every hook of the unit, and run, is killed at every point of its work: at
// each request to the engine, before the engine sees it, after it has done it, and with the
// engine doing it only later, and in each step that the journal knows. Then resume must do
// what its table says, and the next start must come up.
//
//	E2E_LONG=1 go test -v -count=1 -run TestKilledHooks ./test/e2e    all of the matrix
//	E2E_SEED=N …                                                      the same sample again

// aftermaths are what becomes of the host when the hook is dead.
var aftermaths = []struct{ name, dropIn string }{
	{"same boot", "[Service]\nRestart=no\n"},
	{"same boot, no post-stop", "[Service]\nRestart=no\nExecStopPost=\n"},
	{"same boot, the unit goes on without post-start", "[Service]\nRestart=no\nExecStartPost=\nExecStartPost=-/usr/bin/node-lifecycle post-start %i\n"},
	{"power cut", "[Service]\nRestart=no\n"},
}

const (
	shipped = iota
	noPostStop
	lenient
	powerCut
)

// victims are the hooks in the order in which the unit calls them.
var victims = []string{"peer-check", "pre-start", "run", "post-start", "stop", "post-stop"}

// steps are the points that the journal knows.
var steps = []point{
	{hook: "pre-start", step: "precheck"}, {hook: "pre-start", step: "regenerate"}, {hook: "pre-start", step: "reload"},
	{hook: "post-start", step: "admit"}, {hook: "post-start", step: "wait-ready"}, {hook: "post-start", step: "after-start"},
	{hook: "post-stop", step: "stop"},
}

// killCase is one cell of the matrix.
type killCase struct {
	point
	aftermath int
}

func (c killCase) String() string { return c.point.String() + ", " + aftermaths[c.aftermath].name }

func TestKilledHooksResumeAsTheTableSays(t *testing.T) {
	t.Parallel() // on a host of its own
	w := &killWorld{host: ownHost(t, setup{}.String(), lab.Options{Name: "kills"}), t: t}
	w.begin()
	t.Run("a resume that does nothing is noticed", func(t *testing.T) { w.control(t) })
	w.hand(t)
	all := w.matrix()
	seed := killSeed(t)
	cases := all
	if os.Getenv("E2E_LONG") == "" {
		cases = sample(all, seed)
	}
	slices.SortStableFunc(cases, func(a, b killCase) int { return a.aftermath - b.aftermath })
	tried, wrong, missed := 0, 0, 0
	rows := map[phases.ResumeRule]int{}
	for _, c := range cases {
		ok := t.Run(c.String(), func(t *testing.T) {
			w.hand(t)
			w.tellWhenFailed()
			for range mostTries {
				rule, hit, wrong := w.kill(c)
				for _, what := range wrong {
					t.Error(what)
				}
				if hit {
					rows[rule]++
					return
				}
			}
			missed++
			t.Logf("the hook was not met in %d starts or stops", mostTries)
		})
		tried++
		if !ok {
			wrong++
			w.hand(t)
			w.begin() // the next case must not suffer for this one
		}
	}
	for rule, n := range rows {
		t.Logf("%d times: %s, cut off %s, the unit's activation is the run's: %v: %s", n, rule.State, rule.Cut, rule.UnitOurs, rule.Do)
	}
	fmt.Printf("SUITE HOSTKILL cases=%d of=%d wrong=%d missed=%d rows=%d seed=%d\n", tried, len(all), wrong, missed, len(rows), seed)
	if missed*10 > tried {
		t.Errorf("%d of %d hooks were missed: this shows little", missed, tried)
	}
	for _, hook := range victims {
		if !slices.ContainsFunc(cases, func(c killCase) bool { return c.hook == hook }) {
			t.Errorf("no %s was killed: this shows nothing about it", hook)
		}
	}
}

// mostTries is how often a hook is tried to be met that may slip by between two commits.
const mostTries = 6

// killSeed is the number that the sample follows from.
func killSeed(t *testing.T) uint64 {
	text := os.Getenv("E2E_SEED")
	if text == "" {
		return uint64(time.Now().UnixNano()) % 1_000_000
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("E2E_SEED: %v", err)
	}
	return n
}

// sample draws a cell for each hook, every other one with a power cut, and one of the other
// ways that a boot can go on. What a cell draws depends on the seed and on its name alone, so
// that a seed gives the same sample when cells come or go.
func sample(all []killCase, seed uint64) (cases []killCase) {
	lot := func(c killCase) uint64 {
		sum := fnv.New64a()
		fmt.Fprint(sum, seed, " ", c)
		return sum.Sum64()
	}
	drawn := slices.SortedFunc(slices.Values(all), func(a, b killCase) int { return cmp.Compare(lot(a), lot(b)) })
	draw := func(n int, fits func(killCase) bool) {
		for _, c := range drawn {
			if n > 0 && fits(c) {
				cases = append(cases, c)
				n--
			}
		}
	}
	for i, hook := range victims {
		aftermath := [...]int{shipped, powerCut}[(seed+uint64(i))%2]
		draw(1, func(c killCase) bool { return c.hook == hook && c.aftermath == aftermath })
	}
	draw(1, func(c killCase) bool { return c.aftermath == noPostStop })
	return cases
}
