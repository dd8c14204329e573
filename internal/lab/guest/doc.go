// Package guest is the part of the lab that runs inside a host's namespaces
// before systemd does: it builds the mount tree of a lab host, enters it and
// executes systemd there as PID 1.
//
// It is a package of its own so that the program which does this, labinit,
// stays small and static, and so that the lab can assemble a host's disk in the
// same way while the host is switched off.
//
// Everything it mounts is mounted in a private mount namespace. The kernel
// removes all of it with the namespace's last process, so nothing here has an
// undo, and a killed lab leaves no mount behind.
package guest
