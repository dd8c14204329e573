// Command mutants shows that the tests notice what they are there to notice: it breaks
// the program in one place at a time, each a mistake with consequences in the world, and
// runs the tests that have to turn red.
//
//	go run ./internal/mutants            all of them
//	go run ./internal/mutants -cheap     those that fit into every CI run
//	go run ./internal/mutants -run fence those whose name matches
//
// The tree is never touched: the changed file reaches the compiler through -overlay. The
// tests must be green without the change first, so that a test which always fails kills
// nothing. A mutant that does not compile, or whose text is not found exactly once, is a
// mistake in the table and fails the command. Exit code 1 stands for survivors, 2 for
// such mistakes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
	}
	os.Exit(code)
}

// Exit codes.
const (
	exitSurvivors = 1
	exitMistake   = 2
)

// command runs one command line and returns the exit code of the process.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) (int, error) {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.SetOutput(stderr)
	cheap := flags.Bool("cheap", false, "only those that every CI run can afford")
	pattern := flags.String("run", "", "only those whose name matches this regular `expression`")
	list := flags.Bool("list", false, "list them, check that their texts are there, and run nothing")
	verbose := flags.Bool("v", false, "say which test killed each, and in what time")
	limit := flags.Duration("timeout", time.Minute, "how `long` the tests of one mutant may run")
	workers := flags.Int("p", runtime.NumCPU(), "how many to try at the same time")
	if err := flags.Parse(args); err != nil {
		return exitMistake, nil // the flag set has said why
	}
	name, err := regexp.Compile(*pattern)
	if err != nil {
		return exitMistake, fmt.Errorf("-run: %w", err)
	}
	chosen := slices.DeleteFunc(slices.Concat(tables...), func(m mutant) bool {
		return *cheap && !m.Cheap || !name.MatchString(m.Name)
	})
	if len(chosen) == 0 {
		return exitMistake, errors.New("no mutant matches")
	}
	root, err := moduleRoot(ctx)
	if err != nil {
		return exitMistake, err
	}
	if *list {
		if err := printList(stdout, chosen); err != nil {
			return exitMistake, err
		}
		if err := checkTable(root, chosen); err != nil {
			return exitMistake, err
		}
		return 0, nil
	}
	r := &runner{root: root, limit: *limit, workers: *workers, verbose: *verbose, out: stdout}
	survivors, err := r.run(ctx, chosen)
	switch {
	case err != nil:
		return exitMistake, err
	case survivors > 0:
		return exitSurvivors, nil
	}
	return 0, nil
}

func printList(out io.Writer, mutants []mutant) error {
	for _, m := range mutants {
		mark := " "
		if m.Cheap {
			mark = "c"
		}
		if _, err := fmt.Fprintf(out, "%s %-34s %-28s %s\n", mark, m.Name, m.Edits[0].File, m.Breaks); err != nil {
			return err
		}
	}
	return nil
}

// moduleRoot is the directory of the module that the command is run in.
func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	path := strings.TrimSpace(string(out))
	if err != nil || path == "" || path == os.DevNull {
		return "", errors.Join(errors.New("must be run inside the module"), err)
	}
	return filepath.Dir(path), nil
}
