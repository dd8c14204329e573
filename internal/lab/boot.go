package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/node-lifecycle/node-lifecycle/internal/lab/guest"
)

// boot is one period between power on and power off, as seen by the process
// that switched the host on.
type boot struct {
	booted chan struct{} // closed when systemd reports that its first jobs are done
	ended  chan struct{} // closed when PID 1 has exited
	how    string        // how it exited; valid once ended is closed
	notify *net.UnixConn
}

// spawn starts the host's PID 1 in its cgroup.
func (h *Host) spawn(s hostState) (*boot, process, error) {
	config := guest.Config{
		Disk:          diskIn(h.dir, s.Root),
		Target:        filepath.Join(h.dir, "root"),
		Hostname:      s.Hostname,
		BootID:        s.BootID,
		NotifyDir:     filepath.Join(h.dir, "notify"),
		DieWithParent: !s.Persistent,
		Unit:          "multi-user.target",
	}
	argument, err := config.Argument()
	if err != nil {
		return nil, process{}, err
	}
	console, err := os.Create(h.consolePath())
	if err != nil {
		return nil, process{}, fmt.Errorf("open the console: %w", err)
	}
	defer console.Close()
	cgroup, err := os.Open(s.Cgroup)
	if err != nil {
		return nil, process{}, fmt.Errorf("open the cgroup: %w", err)
	}
	defer cgroup.Close()
	notify, err := listenNotify(config.NotifyDir)
	if err != nil {
		return nil, process{}, err
	}
	cmd := exec.Command(s.Init, argument)
	cmd.Stdout, cmd.Stderr = console, console
	cmd.SysProcAttr = &unix.SysProcAttr{
		Setsid:      true, // out of reach of an interrupt typed at the caller's terminal
		Cloneflags:  unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWNET,
		UseCgroupFD: true,
		CgroupFD:    int(cgroup.Fd()),
	}
	b := &boot{booted: make(chan struct{}), ended: make(chan struct{}), notify: notify}
	if err := b.start(cmd); err != nil {
		notify.Close()
		return nil, process{}, fmt.Errorf("start PID 1: %w", err)
	}
	go b.readNotify()
	p, err := findProcess(cmd.Process.Pid)
	if err != nil {
		<-b.ended
		return nil, process{}, fmt.Errorf("PID 1 ended at once: %s; console: %s", b.how, h.console())
	}
	return b, p, nil
}

// start runs the process and reaps it on one and the same thread: the kernel
// kills a child that asked for it when the thread that made it ends, so that
// thread must live as long as the child.
func (b *boot) start(cmd *exec.Cmd) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // the process state says all
			b.how = cmd.ProcessState.String()
			close(b.ended)
			b.notify.Close()
		}
	}()
	return <-started
}

// listenNotify opens the socket that systemd reports to. Its path may be longer
// than a socket address can hold, hence the detour through the descriptor.
func listenNotify(dir string) (*net.UnixConn, error) {
	if err := os.RemoveAll(dir); err != nil {
		return nil, fmt.Errorf("clear the notify directory: %w", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the notify directory: %w", err)
	}
	d, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("open the notify directory: %w", err)
	}
	defer d.Close()
	name := fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), guest.NotifyName)
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		return nil, fmt.Errorf("listen for systemd's notifications: %w", err)
	}
	return conn, nil
}

func (b *boot) readNotify() {
	message := make([]byte, 4096)
	for booted := false; ; {
		n, err := b.notify.Read(message)
		if err != nil {
			return // closed when PID 1 has ended
		}
		for line := range strings.Lines(string(message[:n])) {
			if strings.TrimSpace(line) == "READY=1" && !booted {
				booted = true
				close(b.booted)
			}
		}
	}
}

// WaitBooted blocks until systemd has worked off the jobs of its boot target.
// Only the process that switched the host on can wait for it.
func (h *Host) WaitBooted(ctx context.Context) error {
	h.mu.Lock()
	b := h.boot
	h.mu.Unlock()
	if b == nil {
		return errors.New("wait for the boot: the host was not switched on by this process")
	}
	select {
	case <-b.booted:
		return nil
	case <-b.ended:
		return fmt.Errorf("wait for the boot: PID 1 ended: %s; console: %s", b.how, h.console())
	case <-ctx.Done():
		return fmt.Errorf("wait for systemd to report READY=1: %w; jobs: %s; console: %s", context.Cause(ctx), h.jobs(), h.console())
	}
}

// waitManager blocks until systemd and the system bus take requests.
func (h *Host) waitManager(ctx context.Context, b *boot) error {
	sockets := []string{"run/systemd/private", "run/dbus/system_bus_socket"}
	err := WaitFor(ctx, "systemd to take requests", func(context.Context) (bool, string) {
		select {
		case <-b.ended:
			return true, ""
		default:
		}
		for _, socket := range sockets {
			if _, err := os.Stat(filepath.Join(h.Root(), socket)); err != nil {
				return false, "no /" + socket
			}
		}
		return true, ""
	})
	if err != nil {
		return fmt.Errorf("%w; console: %s", err, h.console())
	}
	select {
	case <-b.ended:
		return fmt.Errorf("PID 1 ended: %s; console: %s", b.how, h.console())
	default:
		return nil
	}
}

// jobs is for messages about a boot that does not end.
func (h *Host) jobs() string {
	ctx, cancel := context.WithTimeout(context.Background(), diagnosisDeadline)
	defer cancel()
	result, err := h.Exec(ctx, "systemctl", "list-jobs", "--no-pager", "--plain")
	if err != nil {
		return err.Error()
	}
	return strings.Join(strings.Fields(result.Stdout+result.Stderr), " ")
}

func (h *Host) consolePath() string { return filepath.Join(h.dir, "console.log") }

// console is the end of what PID 1 wrote before it logged to the journal.
func (h *Host) console() string {
	text, err := os.ReadFile(h.consolePath())
	if err != nil {
		return err.Error()
	}
	if len(text) == 0 {
		return "(empty)"
	}
	return tail(string(text), 1500)
}
