// Package reliability drives the program as it is shipped, in real processes with a real
// journal and real locks, against an engine that runs no containers and a systemd that is
// played by the suite, and does to it what hosts do: it kills hooks at random moments
// (suite KILL) and starts both slots at once (suite RACE). It needs no root.
//
//	RELIABILITY=short go test -v -count=1 ./test/reliability
//	RELIABILITY=long  …            many more cases
//	RELIABILITY_SEED=N …           the same choices again; processes still race for real
//
// Each suite prints one line with what it found. A suite has to be able to find something:
// TestKill_Mutants and TestRace_Mutants break the protocol and demand that the suite sees
// two stacks.
package reliability

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/node-lifecycle/node-lifecycle/internal/mutants/overlay"
)

// size is how much a run of the suites does.
type size struct {
	kills int // processes that are killed
	races int // starts and stops of two slots beside each other
	// mutantKills and mutantRaces are how many a mutant is given to run two stacks.
	mutantKills, mutantRaces int
	long                     bool
}

func requireSize(t *testing.T) size {
	t.Helper()
	switch os.Getenv("RELIABILITY") {
	case "long":
		return size{kills: 5000, races: 10_000, mutantKills: 200, mutantRaces: 3000, long: true}
	case "short":
		return size{kills: 60, races: 100, mutantKills: 60, mutantRaces: 300}
	case "smoke": // to see that the suite itself works
		return size{kills: 14, races: 20, mutantKills: 60, mutantRaces: 300}
	}
	t.Skip("takes minutes; run it with: make reliability")
	return size{}
}

// seed is the number that all choices of this run follow from.
func seed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("RELIABILITY_SEED")
	if text == "" {
		return uint64(time.Now().UnixNano()) % 1_000_000_000
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("RELIABILITY_SEED: %v", err)
	}
	return n
}

// choices is a source of random numbers for one goroutine.
func choices(seed uint64, who int) *rand.Rand {
	return rand.New(rand.NewPCG(seed, uint64(who)))
}

// result is what a suite counts. It is safe for concurrent use.
type result struct {
	mu                            sync.Mutex
	cases, lost, doubleRun, crash int
	starts, wired                 int
	unhit                         int // processes that had ended before they could be killed
	kinds                         map[string]int
	most                          int // stacks at the same time
	latest                        string
}

// add changes the counts.
func (r *result) add(change func(*result)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(r)
}

// count is how many cases there were so far.
func (r *result) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cases
}

// line is what a suite publishes.
func (r *result) line(name string, seed uint64) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprintf("SUITE %s cases=%d lost=%d double_run=%d crash=%d seed=%d", name, r.cases, r.lost, r.doubleRun, r.crash, seed)
}

// ackEdits make the program say the id of every entry as soon as the journal has
// answered for it, and take its surroundings from the suite.
func ackEdits() []overlay.Edit {
	return []overlay.Edit{
		{
			File: "cmd/node-lifecycle/main.go",
			Old:  "os.Exit(Main(context.Background(), hostEnvironment()))",
			New:  "os.Exit(Main(context.Background(), suiteEnvironment()))",
		},
		{File: "phases/tell.go", Old: "import (\n", New: "import (\n\t\"os\"\n"},
		{
			File: "phases/tell.go",
			Old:  "func (l *Lifecycle) tell(e *journal.Entry) {\n",
			New:  "func (l *Lifecycle) tell(e *journal.Entry) {\n\t_, _ = os.Stderr.WriteString(\"ack \" + e.Slot + \" \" + e.ID + \"\\n\")\n",
		},
	}
}

// buildProgram builds the program with its surroundings exchanged and, if there are
// more edits, broken on purpose. What is built is cmd/node-lifecycle with all it imports.
func buildProgram(t *testing.T, edits ...overlay.Edit) string {
	t.Helper()
	dir := t.TempDir()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("testdata/variant.go")
	if err != nil {
		t.Fatal(err)
	}
	changed, err := overlay.Write(root, dir, append(ackEdits(), edits...),
		map[string]string{"cmd/node-lifecycle/suite_environment.go": string(source)})
	if err != nil {
		t.Fatalf("the program has changed, and the suite does not fit it any more: %v", err)
	}
	binary := filepath.Join(dir, "node-lifecycle")
	if out, err := goBuild(t.Context(), root, binary, changed); err != nil {
		t.Fatalf("build the program with the suite's surroundings: %v\n%s", err, out)
	}
	return binary
}
