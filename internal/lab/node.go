package lab

import "slices"

// Where a node container and its host meet.
const (
	// NodeControl is the directory inside a node container that must be a volume:
	// the file mode in it steers the stand-in for kubelet, the file stopped
	// appears in it at an orderly stop.
	NodeControl     = "/var/lib/node-lab"
	NodeControlMode = "mode"
	NodeControlMark = "stopped"

	// NodeHealthz is where the stand-in answers, given the host's network.
	NodeHealthz = "http://127.0.0.1:10248/healthz"

	// NodeStopSignal makes the systemd in a node stop in order. The image does
	// not say so: the default of the engines, SIGTERM, makes systemd re-execute
	// itself.
	NodeStopSignal = "SIGRTMIN+3"
)

// NodeCapabilities are what systemd in a node container needs. They are given
// one by one, for a machine that has not all of them to give.
var NodeCapabilities = []string{
	"SYS_ADMIN", "NET_ADMIN", "SYS_BOOT", "SYS_NICE", "SYS_PTRACE", "SYS_CHROOT", "MKNOD", "AUDIT_WRITE", "AUDIT_CONTROL",
}

// NodeTmpfs are the directories of a node container that must be new at every
// start.
var NodeTmpfs = []string{"/run", "/run/lock", "/tmp"}

// NodeSecurityOptions lift what would keep systemd from mounting.
var NodeSecurityOptions = []string{"seccomp=unconfined", "apparmor=unconfined"}

// NodeCommand is what a node container executes. The engines mount its cgroup
// read-only as long as it is not privileged, and systemd has to write there.
var NodeCommand = []string{"/bin/sh", "-c", "mount -o remount,rw /sys/fs/cgroup && exec /lib/systemd/systemd"}

// NodeRunArguments is the command line, without the engine's name, that runs a
// node container in the background. Volumes have the form SOURCE:TARGET.
func NodeRunArguments(name string, volumes ...string) []string {
	arguments := []string{
		"run", "--detach", "--name", name,
		"--tty", "--network", "host", "--cgroupns", "private",
		"--env", "container=docker", "--stop-signal", NodeStopSignal,
	}
	for _, option := range []struct {
		flag   string
		values []string
	}{
		{"--tmpfs", NodeTmpfs},
		{"--security-opt", NodeSecurityOptions},
		{"--cap-add", NodeCapabilities},
		{"--volume", volumes},
	} {
		for _, value := range option.values {
			arguments = append(arguments, option.flag, value)
		}
	}
	return slices.Concat(arguments, []string{NodeImage}, NodeCommand)
}
