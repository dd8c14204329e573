package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Where things that belong to the lab appear inside a host.
const (
	// NotifySocket is where systemd reports READY=1 once its first job queue is
	// empty. The file name within NotifyDir is NotifyName.
	NotifySocket = "/run/host/notify/" + NotifyName
	NotifyName   = "socket"

	bootIDFile = "/proc/sys/kernel/random/boot_id"
	systemd    = "/lib/systemd/systemd"
)

// Config says what to boot. It travels to labinit as one JSON argument.
type Config struct {
	Disk          Disk   `json:"disk"`
	Target        string `json:"target"`   // empty directory to assemble the root in
	Hostname      string `json:"hostname"` // the host's name
	BootID        string `json:"boot_id"`  // a UUID; what the kernel will seem to report
	NotifyDir     string `json:"notify"`   // directory with the socket NotifyName
	DieWithParent bool   `json:"die"`      // kill the host when the thread that started it ends
	Unit          string `json:"unit"`     // systemd unit to boot into
}

// Argument encodes the configuration for labinit's command line.
func (c Config) Argument() (string, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("encode the boot configuration: %w", err)
	}
	return string(text), nil
}

// ParseArgument is the inverse of Config.Argument.
func ParseArgument(text string) (Config, error) {
	var c Config
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return Config{}, fmt.Errorf("decode the boot configuration: %w", err)
	}
	return c, nil
}

// Boot turns the calling process into the PID 1 of a lab host. It must run as
// the first process of new mount, PID, UTS, IPC and network namespaces, in the
// cgroup that is to be the host's root cgroup, on a locked thread. It does not
// return unless something failed.
func Boot(c Config) error {
	if c.DieWithParent {
		if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
			return fmt.Errorf("ask to die with the parent: %w", err)
		}
	}
	// Only now, so that the namespace's root is the cgroup the lab put us in.
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("enter a cgroup namespace: %w", err)
	}
	unix.Umask(0o022)
	if err := PrivateMounts(); err != nil {
		return err
	}
	if err := assemble(c); err != nil {
		return err
	}
	if err := enter(c.Target); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(c.Hostname)); err != nil {
		return fmt.Errorf("set the host name %q: %w", c.Hostname, err)
	}
	if err := loopbackUp(); err != nil {
		return err
	}
	env := []string{
		"container=lab",
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"NOTIFY_SOCKET=" + NotifySocket,
	}
	err := unix.Exec(systemd, []string{systemd, "--unit=" + c.Unit}, env)
	return fmt.Errorf("execute %s: %w", systemd, err)
}

func assemble(c Config) error {
	if err := c.Disk.Mount(c.Target); err != nil {
		return err
	}
	for _, step := range []func(root string, c Config) error{mountRun, mountProc, mountSys, mountDev} {
		if err := step(c.Target, c); err != nil {
			return err
		}
	}
	return nil
}

func mountRun(root string, c Config) error {
	run := filepath.Join(root, "run")
	if err := mount("tmpfs", run, unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
		return err
	}
	notify := filepath.Join(root, filepath.Dir(NotifySocket))
	if err := os.MkdirAll(notify, 0o755); err != nil {
		return fmt.Errorf("create the notify directory: %w", err)
	}
	return bind(c.NotifyDir, notify)
}

// mountProc mounts /proc with the boot's own id, and without the switches that
// would reach the machine outside: the lab's root is root there too.
func mountProc(root string, c Config) error {
	proc := filepath.Join(root, "proc")
	if err := mount("proc", proc, unix.MS_NOSUID|unix.MS_NOEXEC|unix.MS_NODEV, ""); err != nil {
		return err
	}
	id := filepath.Join(root, "run/host/boot_id")
	if err := os.WriteFile(id, []byte(c.BootID+"\n"), 0o444); err != nil {
		return fmt.Errorf("write the boot id: %w", err)
	}
	settings := filepath.Join(proc, "sys")
	if err := bindReadOnly(settings); err != nil {
		return err
	}
	// The network's switches are the namespace's own and Docker must set them.
	if err := bindWritable(filepath.Join(settings, "net")); err != nil {
		return err
	}
	target := filepath.Join(root, bootIDFile)
	if err := bind(id, target); err != nil {
		return err
	}
	if err := remount(target, unix.MS_RDONLY); err != nil {
		return err
	}
	err := bindReadOnly(filepath.Join(proc, "sysrq-trigger"))
	if errors.Is(err, unix.ENOENT) {
		return nil // a kernel without that key
	}
	return err
}

func mountSys(root string, _ Config) error {
	sys := filepath.Join(root, "sys")
	const flags = unix.MS_NOSUID | unix.MS_NOEXEC | unix.MS_NODEV
	if err := mount("sysfs", sys, flags|unix.MS_RDONLY, ""); err != nil {
		return err
	}
	return mount("cgroup2", filepath.Join(sys, "fs/cgroup"), flags, "")
}

func mountDev(root string, _ Config) error {
	dev := filepath.Join(root, "dev")
	if err := mount("tmpfs", dev, unix.MS_NOSUID, "mode=0755"); err != nil {
		return err
	}
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		if err := bindFile(filepath.Join("/dev", name), filepath.Join(dev, name)); err != nil {
			return err
		}
	}
	for _, name := range []string{"pts", "shm"} {
		if err := os.Mkdir(filepath.Join(dev, name), 0o755); err != nil {
			return fmt.Errorf("create a mount point: %w", err)
		}
	}
	if err := mount("devpts", filepath.Join(dev, "pts"), unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620,gid=5"); err != nil {
		return err
	}
	if err := mount("tmpfs", filepath.Join(dev, "shm"), unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"); err != nil {
		return err
	}
	links := map[string]string{
		"ptmx": "pts/ptmx", "fd": "/proc/self/fd",
		"stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
	}
	for name, to := range links {
		if err := os.Symlink(to, filepath.Join(dev, name)); err != nil {
			return fmt.Errorf("create a device link: %w", err)
		}
	}
	return nil
}

func mount(kind, target string, flags uintptr, options string) error {
	if err := unix.Mount(kind, target, kind, flags, options); err != nil {
		return fmt.Errorf("mount %s on %s: %w", kind, target, err)
	}
	return nil
}

// enter makes root the root of the mount namespace and drops the old one.
func enter(root string) error {
	if err := unix.Chdir(root); err != nil {
		return fmt.Errorf("change to %s: %w", root, err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot to %s: %w", root, err)
	}
	// The old root is stacked on the new one and comes off first.
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("detach the old root: %w", err)
	}
	return os.Chdir("/")
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open a socket for the loopback interface: %w", err)
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("name the loopback interface: %w", err)
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request); err != nil {
		return fmt.Errorf("bring the loopback interface up: %w", err)
	}
	return nil
}
