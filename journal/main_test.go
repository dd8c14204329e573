package journal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
	case "full-disk":
		return playFullDisk(args)
	case "full-later":
		return playFullLater(args)
	case "limited":
		return playLimited(args)
	case "tiny-disk":
		return playTinyDisk(args)
	case "no-fallocate":
		return playNoFallocate(args)
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

// mount is mount(2) with an error that a test can tell from those of a journal.
func mount(source, target, fstype string, flags uintptr, data string) error {
	if err := syscall.Mount(source, target, fstype, flags, data); err != nil {
		return fmt.Errorf("cannot mount %s: %w", target, err)
	}
	return nil
}

// mountOwn mounts a new file system on dir that only this process sees.
func mountOwn(dir, fstype, data string) error {
	return errors.Join(
		mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""),
		mount("none", dir, fstype, 0, data),
		os.Chmod(dir, 0o700))
}

// report prints what a journal holds, whether it verifies, and the files beside.
func report(j *Journal) error {
	list, err := os.ReadDir(j.dir)
	if err != nil {
		return err
	}
	for _, file := range list {
		fmt.Println("file", file.Name())
	}
	return j.View(context.Background(), func(v *View) error {
		head, err := v.Head("kube1")
		fmt.Println("entries", head.Seq)
		return errors.Join(err, v.Verify())
	})
}

// fillDisk fills what is left of the file system of dir.
func fillDisk(dir string) error {
	f, err := os.Create(filepath.Join(dir, "ballast"))
	if err != nil {
		return err
	}
	defer f.Close()
	for size := 1 << 16; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	return nil
}

// playFullDisk appends to a journal without preallocation until the disk is
// full, says what the journal said then, and what it holds.
func playFullDisk(args []string) error {
	if err := mountOwn(args[0], "tmpfs", "size=256k"); err != nil {
		return err
	}
	j := New(args[0], Options{Preallocate: -1})
	acked := 0
	var err error
	for ; acked < 10_000 && err == nil; acked++ {
		err = appendOne(context.Background(), j, "kube1")
	}
	fmt.Printf("acked %d\nfailed %q\n%v\n", acked-1, KindOf(err), err)
	return report(j)
}

// playFullLater fills the disk beside a preallocated journal and then appends
// many times what its ring holds.
func playFullLater(args []string) error {
	if err := mountOwn(args[0], "tmpfs", "size=2m"); err != nil {
		return err
	}
	j := New(args[0], Options{Preallocate: 1 << 20, Keep: 100})
	if err := appendOne(context.Background(), j, "kube1"); err != nil {
		return err
	}
	if err := fillDisk(args[0]); err != nil {
		return err
	}
	for range 999 {
		if err := appendOne(context.Background(), j, "kube1"); err != nil {
			return err
		}
	}
	return report(j)
}

// playLimited creates a journal that is larger than any file may be.
func playLimited(args []string) error {
	limit := syscall.Rlimit{Cur: 1 << 20, Max: 1 << 20}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	return failToCreate(New(args[0], Options{}))
}

// playTinyDisk creates a journal on a disk of SIZE that has no room for it.
func playTinyDisk(args []string) error {
	if err := mountOwn(args[0], "tmpfs", "size="+args[1]); err != nil {
		return err
	}
	return failToCreate(New(args[0], Options{}))
}

// failToCreate says how the first append fails, and what is there then.
func failToCreate(j *Journal) error {
	err := appendOne(context.Background(), j, "kube1")
	fmt.Printf("failed %q\n%v\n", KindOf(err), err)
	return report(j)
}

// playNoFallocate creates a journal where space cannot be set aside.
func playNoFallocate(args []string) error {
	if err := mountOwn(args[0], "ramfs", ""); err != nil {
		return err
	}
	j := New(args[0], Options{})
	for range 2 {
		if err := appendOne(context.Background(), j, "kube1"); err != nil {
			return err
		}
	}
	return report(j)
}

// playReadOnly mounts DIR read-only, for itself alone, and then plays ROLE.
func playReadOnly(args []string) error {
	dir, role := args[0], args[1]
	err := errors.Join(
		mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""),
		mount(dir, dir, "", syscall.MS_BIND, ""),
		mount("none", dir, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	if err != nil {
		return err
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
