package main

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/node-lifecycle/node-lifecycle/journal"
	"github.com/node-lifecycle/node-lifecycle/journal/filelock"
)

// command is one that a script can use beyond testscript's own.
type command func(w *world, args []string) error

// commands are all of them; ../../testdata/script/README.md explains each.
func commands() map[string]command {
	return map[string]command{
		"exits": (*world).exits, "start": (*world).start, "signal": (*world).signal, "ended": (*world).ended,
		"await": (*world).await, "inside": (*world).setInside, "unit": (*world).setUnit,
		"systemd": (*world).setSystemd, "plan": (*world).planRestart,
		"engine": (*world).setEngine, "image": (*world).setImage, "container": (*world).setContainer,
		"state": (*world).wantState, "claim": (*world).wantClaim, "record": (*world).record,
		"lock": (*world).lock, "snapshot": (*world).snapshot, "unchanged": (*world).unchanged, "normalise": (*world).normalise,
	}
}

// exits CODE node-lifecycle ARGUMENT...
func (w *world) exits(args []string) error {
	if len(args) < 2 || args[1] != "node-lifecycle" {
		return errors.New("usage: exits CODE node-lifecycle ARGUMENT...")
	}
	stdout, stderr := w.streams()
	if got := strconv.Itoa(w.main(args[2:], stdout, stderr)); got != args[0] {
		return fmt.Errorf("exit code %s, not %s", got, args[0])
	}
	return nil
}

// start NAME node-lifecycle ARGUMENT...
func (w *world) start(args []string) error {
	if len(args) < 2 || args[1] != "node-lifecycle" {
		return errors.New("usage: start NAME node-lifecycle ARGUMENT...")
	}
	return w.startProcess(args[0], args[2:])
}

// signal NAME SIGNAL
func (w *world) signal(args []string) error {
	if len(args) != 2 || signals[args[1]] == 0 {
		return errors.New("usage: signal NAME TERM|INT|HUP|KILL")
	}
	p, err := w.process(args[0])
	if err != nil {
		return err
	}
	return p.cmd.Process.Signal(signals[args[1]])
}

// ended NAME CODE: its output becomes stdout and stderr.
func (w *world) ended(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: ended NAME CODE|SIGNAL")
	}
	p, err := w.process(args[0])
	if err != nil {
		return err
	}
	how, err := p.end()
	stdout, stderr := w.streams()
	fmt.Fprint(stdout, p.stdout.String())
	fmt.Fprint(stderr, p.stderr.String())
	delete(w.processes, args[0])
	if err == nil && how != args[1] {
		err = fmt.Errorf("%s ended with %s, not %s", args[0], how, args[1])
	}
	return err
}

// await container NAME STATUS, await request OPERATION, await said|printed NAME PATTERN:
// said is on stderr, printed on stdout.
func (w *world) await(args []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if len(args) != 3 && !(len(args) == 2 && args[0] == "request") {
		return errors.New("usage: await container NAME STATUS | request OPERATION | said|printed NAME PATTERN")
	}
	if args[0] != "said" && args[0] != "printed" {
		return w.awaitEngine(ctx, args)
	}
	p, err := w.process(args[1])
	if err != nil {
		return err
	}
	pattern, err := regexp.Compile(args[2])
	if err != nil {
		return err
	}
	if args[0] == "printed" {
		return p.stdout.await(ctx, pattern.MatchString)
	}
	return p.stderr.await(ctx, pattern.MatchString)
}

// inside SLOT ACTIVATION, inside none
func (w *world) setInside(args []string) error {
	switch {
	case len(args) == 1 && args[0] == "none":
		w.inside = hook{}
	case len(args) == 2:
		w.inside = hook{unitOf(args[0]), args[1]}
	default:
		return errors.New("usage: inside SLOT ACTIVATION | none")
	}
	return nil
}

// unit SLOT ACTIVESTATE SUBSTATE [KEY=VALUE]...
func (w *world) setUnit(args []string) (err error) {
	if len(args) < 3 {
		return errors.New("usage: unit SLOT ACTIVESTATE SUBSTATE [KEY=VALUE]...")
	}
	u := defaultUnit(args[0])
	u.ActiveState, u.SubState = args[1], args[2]
	for _, pair := range args[3:] {
		key, value, _ := strings.Cut(pair, "=")
		switch key {
		case "activation":
			u.Activation = value
		case "job":
			u.JobID, u.JobType = 17, value
		case "result":
			u.Result = value
		case "load":
			u.LoadState = value
		case "fault":
			u.Fault = value
		case "starts":
			u.StartLimitBurst, err = strconv.Atoi(value)
		case "restarts":
			u.NRestarts, err = strconv.Atoi(value)
		case "exited":
			u.MainExited, u.MainCode = true, 1
			u.MainStatus, err = strconv.Atoi(value)
		default:
			err = fmt.Errorf("a unit has no %s", key)
		}
		if err != nil {
			return err
		}
	}
	return w.systemd.set(u)
}

// systemd back|away|hung
func (w *world) setSystemd(args []string) error { return w.systemd.mode(strings.Join(args, " ")) }

// plan SLOT FILE: what a restart of the slot's unit does, one command a line.
func (w *world) planRestart(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: plan SLOT FILE")
	}
	text, err := os.ReadFile(w.file(args[1]))
	if err != nil {
		return err
	}
	w.plans[unitOf(args[0])] = strings.Split(string(text), "\n")
	return nil
}

func (w *world) file(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(w.work, name)
}

// view reads the journal as what it is, not as a command shows it.
func (w *world) view(f func(*journal.View) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return w.journal().View(ctx, f)
}

func (w *world) journal() *journal.Journal {
	return journal.New(w.getenv("NODE_LIFECYCLE_STATE_DIR"), journal.Options{Preallocate: -1})
}

// state SLOT STATE
func (w *world) wantState(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: state SLOT STATE")
	}
	return w.view(func(v *journal.View) error {
		head, err := v.Head(args[0])
		if err == nil && head.State != args[1] {
			err = fmt.Errorf("%s is %q, not %s", args[0], head.State, args[1])
		}
		return err
	})
}

// claim HOLDER EPOCH of kube1+kube2; nobody's is none.
func (w *world) wantClaim(args []string) error {
	return w.view(func(v *journal.View) error {
		claim, err := v.Claim("kube1+kube2")
		if err != nil {
			return err
		}
		holder := claim.Holder
		if holder == "" {
			holder = "none"
		}
		if diff := cmp.Diff(args, []string{holder, fmt.Sprint(claim.Epoch)}); diff != "" {
			return errors.New("claim (-want +got):\n" + diff)
		}
		return nil
	})
}

// record FILE: puts entries, one JSON object a line, into the journal.
func (w *world) record(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: record FILE")
	}
	text, err := os.ReadFile(w.file(args[0]))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return w.journal().Append(ctx, func(t *journal.Tx) error {
		for line := range strings.Lines(string(text)) {
			var e journal.Entry
			if err := e.UnmarshalJSON([]byte(line)); err != nil {
				return fmt.Errorf("%s: %w", line, err)
			}
			evidence := e.Extra["evidence"] // beside the entry, in the journal
			delete(e.Extra, "evidence")
			if _, err := t.Append(e.Slot, e, evidence); err != nil {
				return fmt.Errorf("%s: %w", line, err)
			}
		}
		return nil
	})
}

// lock FILE: holds it to the end of the script.
func (w *world) lock(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: lock FILE")
	}
	lock, err := filelock.TryAcquire(w.file(args[0]), filelock.Holder{Phase: "post-start"})
	if err == nil {
		w.locks = append(w.locks, lock)
	}
	return err
}

// snapshot DIRECTORY remembers all that is in it; unchanged DIRECTORY compares.
func (w *world) snapshot(args []string) (err error) {
	if len(args) != 1 {
		return errors.New("usage: snapshot DIRECTORY")
	}
	w.memory[args[0]], err = fingerprint(w.file(args[0]))
	return err
}

func (w *world) unchanged(args []string) error {
	if len(args) != 1 || w.memory[args[0]] == "" {
		return errors.New("usage: unchanged DIRECTORY, after a snapshot of it")
	}
	now, err := fingerprint(w.file(args[0]))
	if diff := cmp.Diff(w.memory[args[0]], now); err == nil && diff != "" {
		err = errors.New("it changed (-before +now):\n" + diff)
	}
	return err
}

// fingerprint is every file below dir with its mode, its times and its content.
func fingerprint(dir string) (string, error) {
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&all, "%s %s %s", path, info.Mode(), info.ModTime())
		if info.Mode().IsRegular() {
			sum, err := checksum(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&all, " %d bytes, checksum %x", info.Size(), sum)
		}
		all.WriteString("\n")
		return nil
	})
	return all.String(), err
}

// checksum is a quick one, for a journal is large.
func checksum(path string) (uint32, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	_, err = io.Copy(sum, f)
	return sum.Sum32(), err
}
