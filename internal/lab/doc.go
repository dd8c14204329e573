// Package lab boots real hosts for the end-to-end tests and the demo: systemd as
// PID 1, Docker and Podman, in namespaces of a machine that need have none of
// them. It needs root, an overlay-capable kernel with a cgroup2 mount, and
// mmdebstrap once; [Require] skips a test with the reason where one is missing.
//
// # What a host is
//
// [Build] makes, once per recipe, a root file system with mmdebstrap and a store
// of container images: [NodeImage], a node stack with a real containerd and a
// stand-in for kubelet, and [BusyboxImage]. Both live in the cache directory,
// ${LAB_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/node-lifecycle/lab}, under a hash
// of what they are made from.
//
// [Boot] puts a host on top: an overlay of that root, a /var of its own, new PID,
// mount, network, UTS, IPC and cgroup namespaces. A host can lose its power
// ([Host.PowerCut]) and come back ([Host.PowerOn]) under a new boot id, with a
// new /run and what /var held. The page cache survives, which is the difference
// to a real power cut.
//
// # What it leaves behind
//
// Nothing is ever mounted in the caller's mount namespace, and the kernel ends
// every process of a host with its PID 1, so that [Host.Close] has only a
// cgroup and a directory to remove. A host dies with the process that booted
// it, even by SIGKILL; the next Boot removes its cgroup and directory. Only a
// host with Options.Persistent outlives its maker, which is how the lab command
// keeps hosts between its calls.
//
// # Concurrency
//
// Several hosts can be up at once, in one process or many. The methods of a Host
// are safe for concurrent use; those that switch it on or off wait for one
// another.
package lab
