// Package filelock holds a lock on a file for as long as one process needs it
// and lets the others see who holds it.
//
// The lock is flock(2) on a file of its own that is never deleted. The kernel
// frees it when its holder dies, however it dies, so a lock is never stale. The
// holder writes its process id, its phase and the time into the file; that text
// serves messages only and decides nothing.
//
// Waiting is one blocking flock(2), not a poll: on a busy file the next process
// goes on within a fraction of a millisecond after the release. The kernel
// offers no way to call such a wait off, so a caller whose context ends leaves
// the waiting goroutine behind; that goroutine gives the lock back in the moment
// it gets it, and the caller never holds what it no longer waits for.
//
// A lock excludes other processes and other Locks of the same process alike. It
// is not reentrant. Locks are not inherited by child processes.
package filelock
