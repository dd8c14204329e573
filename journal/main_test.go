package journal

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// childRole, if set, makes the test binary play another process.
const childRole = "JOURNAL_TEST_CHILD"

func TestMain(m *testing.M) {
	role := os.Getenv(childRole)
	if role == "" {
		goleak.VerifyTestMain(m)
		return
	}
	if err := play(role, os.Args[1:]); err != nil {
		fmt.Printf("kind %q\n%v\n", KindOf(err), err)
		os.Exit(1)
	}
}

func play(role string, args []string) error {
	switch role {
	case "append":
		return playAppend(args)
	case "read":
		return playRead(args)
	case "read-only":
		return playReadOnly(args)
	case "stranger":
		return playStranger(args)
	}
	return fmt.Errorf("no role %q", role)
}

// child returns a command that plays a role.
func child(ctx context.Context, role string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), childRole+"="+role)
	return cmd
}

// playAppend appends COUNT entries to the journal in DIR, each in its own
// transaction and with an id that begins with NAME, and prints each id once the
// journal answered for it. It stays on one thread, so that a tracer can count.
func playAppend(args []string) error {
	dir, name := args[0], args[1]
	count, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	j := New(dir, Options{Preallocate: -1})
	j.opts.Holder.Phase = name
	for n := range count {
		id := fmt.Sprintf("%s-%d", name, n)
		err := j.Append(ctx, func(tx *Tx) error {
			e := anEntry(n)
			e.ID = id
			_, err := tx.Append("kube1", e, []byte(id))
			return err
		})
		if err != nil {
			return err
		}
		fmt.Println(id)
	}
	return nil
}

// playRead prints how many entries kube1 has.
func playRead(args []string) error {
	return New(args[0], Options{}).View(context.Background(), func(v *View) error {
		entries, err := v.Entries("kube1", Query{})
		fmt.Println(len(entries), "entries")
		return err
	})
}

// playReadOnly mounts DIR read-only, for itself alone, and then plays ROLE.
func playReadOnly(args []string) error {
	dir, role := args[0], args[1]
	steps := []struct {
		source, target string
		flags          uintptr
	}{
		{"none", "/", syscall.MS_REC | syscall.MS_PRIVATE},
		{dir, dir, syscall.MS_BIND},
		{"none", dir, syscall.MS_BIND | syscall.MS_REMOUNT | syscall.MS_RDONLY},
	}
	for _, s := range steps {
		if err := syscall.Mount(s.source, s.target, "", s.flags, ""); err != nil {
			return fmt.Errorf("cannot mount %s: %w", s.target, err)
		}
	}
	return play(role, append([]string{dir}, args[2:]...))
}

// playStranger becomes a user who owns nothing, if it can, and then plays ROLE.
func playStranger(args []string) error {
	if err := syscall.Setgid(65534); err != nil {
		return err
	}
	if err := syscall.Setuid(65534); err != nil {
		return err
	}
	return play(args[1], append([]string{args[0]}, args[2:]...))
}
