package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/node-lifecycle/node-lifecycle/internal/mutants/overlay"
)

// runner tries mutants of one module.
type runner struct {
	root    string        // of the module
	limit   time.Duration // of one run of tests
	workers int
	verbose bool
	out     io.Writer

	flags    map[string][]string      // more flags for the tests, by package
	green    map[string]time.Duration // how long tests took that were green, by package and pattern
	scratch  string                   // for the files of tests
	printing sync.Mutex               // keeps the lines of one mutant together
}

// verdict is what the tests said about a program.
type verdict struct {
	red  bool
	by   string // the first test that failed, or why there is none
	ran  int    // how many tests were run and not skipped
	took time.Duration
	text string // what they printed
}

// run tries the mutants, prints one line for each and one for all, and returns how many
// survived. An error is a mistake in the table, or in the tests as they are.
func (r *runner) run(ctx context.Context, mutants []mutant) (survivors int, err error) {
	if err := checkTable(r.root, mutants); err != nil {
		return 0, err
	}
	// Those of one package are neighbours: what they share is built once.
	mutants = slices.Clone(mutants)
	slices.SortStableFunc(mutants, func(a, b mutant) int { return cmp.Compare(a.Pkg, b.Pkg) })
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	// Tests that flush their files spend most of their time waiting for a disk.
	if r.scratch, err = os.MkdirTemp(memory(), "mutants"); err != nil {
		return 0, err
	}
	defer os.RemoveAll(r.scratch)
	if err := r.baselines(ctx, dir, mutants); err != nil {
		return 0, err
	}
	verdicts, errs := make([]verdict, len(mutants)), make([]error, len(mutants))
	r.each(len(mutants), func(i int) {
		verdicts[i], errs[i] = r.try(ctx, filepath.Join(dir, mutants[i].Name), &mutants[i])
		r.tell(&mutants[i], verdicts[i], errs[i])
	})
	if err := errors.Join(append(errs, ctx.Err())...); err != nil {
		return 0, err
	}
	for _, v := range verdicts {
		if !v.red {
			survivors++
		}
	}
	_, err = fmt.Fprintf(r.out, "SUITE MUTANTS cases=%d lost=0 double_run=0 crash=0 survived=%d seed=0\n", len(mutants), survivors)
	return survivors, err
}

// memory is a directory on a file system in memory from which programs may be run, "" if
// there is none to be had.
func memory() string {
	const shm = "/dev/shm"
	var fs unix.Statfs_t
	if err := unix.Statfs(shm, &fs); err != nil || fs.Bavail*uint64(fs.Bsize) < 1<<30 || fs.Flags&unix.ST_NOEXEC != 0 {
		return ""
	}
	return shm
}

// each calls do for every number below n, a few at a time.
func (r *runner) each(n int, do func(int)) {
	var wg sync.WaitGroup
	tickets := make(chan struct{}, max(r.workers, 1))
	for i := range n {
		tickets <- struct{}{}
		wg.Go(func() {
			defer func() { <-tickets }()
			do(i)
		})
	}
	wg.Wait()
}

func (r *runner) tell(m *mutant, v verdict, err error) {
	r.printing.Lock()
	defer r.printing.Unlock()
	switch {
	case err != nil: // told at the end
	case !v.red:
		fmt.Fprintf(r.out, "MUTANT %s SURVIVED\n    breaks: %s\n    tests:  go test ./%s -run '%s'\n", m.Name, m.Breaks, m.Pkg, m.Run)
	case r.verbose:
		fmt.Fprintf(r.out, "MUTANT %s killed by %s in %s\n", m.Name, v.by, v.took.Round(10*time.Millisecond))
	default:
		fmt.Fprintf(r.out, "MUTANT %s killed\n", m.Name)
	}
}

// baselines makes sure that every command that is to turn red is green as things are.
func (r *runner) baselines(ctx context.Context, dir string, mutants []mutant) error {
	commands := make(map[string][]string) // patterns by package
	for _, m := range mutants {
		if !slices.Contains(commands[m.Pkg], m.Run) {
			commands[m.Pkg] = append(commands[m.Pkg], m.Run)
		}
	}
	r.flags, r.green = make(map[string][]string), make(map[string]time.Duration)
	for pkg, patterns := range commands {
		flags, err := r.testFlags(ctx, pkg)
		if err != nil {
			return err
		}
		r.flags[pkg] = flags
		binary := filepath.Join(dir, strings.ReplaceAll(pkg, "/", "-")+".test")
		if err := r.build(ctx, pkg, binary, ""); err != nil {
			return fmt.Errorf("the tests of %s as they are: %w", pkg, err)
		}
		errs := make([]error, len(patterns))
		r.each(len(patterns), func(i int) {
			v, err := r.test(ctx, pkg, binary, patterns[i], r.limit)
			r.remember(pkg, patterns[i], v.took)
			switch {
			case err != nil:
				errs[i] = err
			case v.red:
				errs[i] = fmt.Errorf("the tests of %s are red as things are (%s): go test ./%s -run '%s'\n%s", pkg, v.by, pkg, patterns[i], v.text[max(0, len(v.text)-4000):])
			case v.ran == 0:
				errs[i] = fmt.Errorf("no test of %s matches %q, or all of them are skipped here", pkg, patterns[i])
			}
		})
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	return nil
}

func (r *runner) remember(pkg, pattern string, took time.Duration) {
	r.printing.Lock()
	defer r.printing.Unlock()
	r.green[pkg+" "+pattern] = took
}

// limitOf is how long the tests of a mutant may run: some hang where they were quick, and
// waiting a whole minute for each would be a waste.
func (r *runner) limitOf(m *mutant) time.Duration {
	return min(r.limit, 15*time.Second+10*r.green[m.Pkg+" "+m.Run])
}

// try builds one mutant and runs its tests.
func (r *runner) try(ctx context.Context, dir string, m *mutant) (verdict, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return verdict{}, err
	}
	defer os.RemoveAll(dir)
	changed, err := overlay.Write(r.root, dir, m.Edits, nil)
	if err != nil {
		return verdict{}, fmt.Errorf("mutant %s: %w", m.Name, err)
	}
	binary := filepath.Join(dir, "mutant.test")
	if err := r.build(ctx, m.Pkg, binary, changed); err != nil {
		return verdict{}, fmt.Errorf("mutant %s: %w", m.Name, err)
	}
	v, err := r.test(ctx, m.Pkg, binary, m.Run, r.limitOf(m))
	if err != nil {
		return verdict{}, fmt.Errorf("mutant %s: %w", m.Name, err)
	}
	return v, nil
}

// buildLimit is far beyond what a build takes, on any machine.
const buildLimit = 10 * time.Minute

// build compiles the tests of a package. Building apart from running is what tells a
// mutant that does not compile from one that is killed.
func (r *runner) build(ctx context.Context, pkg, binary, changed string) error {
	args := []string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-o", binary}
	if changed != "" {
		args = append(args, "-overlay", changed)
	}
	ctx, cancel := context.WithTimeout(ctx, buildLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+pkg)...)
	cmd.Dir, cmd.WaitDelay = r.root, 5*time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("it does not compile: %w\n%s", err, out)
	}
	return nil
}

var (
	ranLine  = regexp.MustCompile(`(?m)^=== RUN `)
	skipLine = regexp.MustCompile(`(?m)^\s*--- SKIP: `)
	failLine = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)
)

// testFlags are the flags that a package's tests need besides the usual ones: rapid must
// not write the cases that made a mutant fail into the tree.
func (r *runner) testFlags(ctx context.Context, pkg string) ([]string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-f", "{{.TestImports}} {{.XTestImports}}", "./"+pkg)
	cmd.Dir = r.root
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list what the tests of %s import: %w", pkg, err)
	}
	if bytes.Contains(out, []byte("pgregory.net/rapid")) {
		return []string{"-rapid.nofailfile"}, nil
	}
	return nil, nil
}

// test runs the tests of a package that match the pattern, in the package's folder as the
// go command does. The error is not nil only if they could not be run.
func (r *runner) test(ctx context.Context, pkg, binary, pattern string, limit time.Duration) (verdict, error) {
	// The binary ends itself at the limit, and says where it hung; if it cannot, it is
	// ended a little later.
	ctx, cancel := context.WithTimeout(ctx, limit+10*time.Second)
	defer cancel()
	args := []string{"-test.v", "-test.failfast", "-test.run", pattern, "-test.timeout", limit.String()}
	cmd := exec.CommandContext(ctx, binary, append(args, r.flags[pkg]...)...)
	cmd.Dir = filepath.Join(r.root, filepath.FromSlash(pkg))
	cmd.WaitDelay = 5 * time.Second
	cmd.Env = append(os.Environ(), "TMPDIR="+r.scratch)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	began := time.Now()
	err := cmd.Run()
	ran := len(ranLine.FindAll(out.Bytes(), -1)) - len(skipLine.FindAll(out.Bytes(), -1))
	v := verdict{ran: ran, took: time.Since(began), text: out.String()}
	var exit *exec.ExitError
	switch {
	case err == nil:
		return v, nil
	case ctx.Err() != nil && v.took < limit:
		return v, context.Cause(ctx) // somebody ended us
	case !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay):
		return v, err
	}
	v.red, v.by = true, "the end of its process"
	if fails := failLine.FindAllStringSubmatch(v.text, -1); len(fails) > 0 {
		v.by = fails[0][1]
	} else if strings.Contains(v.text, "panic: test timed out") {
		v.by = "the time limit"
	}
	return v, nil
}
