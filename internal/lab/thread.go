package lab

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// onOwnThread runs f on a thread that ends afterwards. f may give that thread
// namespaces and a root directory of its own; nothing else in the process sees
// them. f must start no goroutine that depends on them.
func onOwnThread(f func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		// The first thread never ends and is what /proc/self shows. Keep it
		// busy, so that another one takes the work.
		if unix.Gettid() == unix.Getpid() {
			result <- onOwnThread(f)
			runtime.UnlockOSThread()
			return
		}
		result <- f() // still locked when the goroutine ends: the thread ends too
	}()
	return <-result
}
