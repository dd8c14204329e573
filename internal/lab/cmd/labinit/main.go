// Command labinit becomes the PID 1 of a lab host. The lab builds and starts
// it; it is of no use to people.
package main

import (
	"fmt"
	"os"
	"runtime"

	"github.com/node-lifecycle/node-lifecycle/internal/lab/guest"
)

func main() {
	runtime.LockOSThread()
	fmt.Fprintln(os.Stderr, "labinit:", run(os.Args[1:]))
	os.Exit(1)
}

// run becomes systemd; it returns only if it cannot, with the reason.
func run(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("want one argument, the boot configuration, not %d", len(args))
	}
	config, err := guest.ParseArgument(args[0])
	if err != nil {
		return err
	}
	return guest.Boot(config)
}
