// Command node-lifecycle is what a systemd unit calls around a Kubernetes node stack
// that lives in a container, and what people call afterwards to learn what happened.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/node-lifecycle/node-lifecycle/phases"
)

func main() {
	prepareProcess()
	os.Exit(Main(context.Background(), hostEnvironment()))
}

// prepareProcess sets what holds for all of the process.
func prepareProcess() {
	// A log that went away must not kill a hook: writes fail with EPIPE instead.
	signal.Ignore(syscall.SIGPIPE)
	// net/http tells the standard logger what an engine does wrong on a connection that is
	// idle. Nobody can do anything about that; what matters comes back as an error.
	log.SetOutput(io.Discard)
}

// Main runs one command line and returns the exit code of the process.
func Main(ctx context.Context, env *environment) (code int) {
	if env.isPeerCheck() {
		// systemd reads exit codes 1 to 254 of ExecCondition= as "skip, quietly". What
		// Go cannot recover from exits with 2; as a signal it fails the unit instead.
		debug.SetTraceback("crash")
		defer func() { code = peerCheckExit(code) }()
	}
	defer func() {
		if v := recover(); v != nil {
			env.complain(fmt.Errorf("bug: %v\n%s", v, debug.Stack()))
			code = phases.ExitBug
		}
	}()
	env.panicOnRequest()
	env.stdout = outputWriter{env.stdout}
	ctx, stop := withSignals(ctx)
	defer stop()
	err := run(ctx, env)
	if err == nil {
		return 0
	}
	return env.exit(orInterrupted(ctx, err))
}

// orInterrupted is the signal that ended the wait which failed. A phase knows better what
// a signal means for it, and keeps its own error.
func orInterrupted(ctx context.Context, err error) error {
	var (
		signal phases.Interrupted
		phase  *phases.Error
		own    *exitError
	)
	if errors.As(err, &phase) || errors.As(err, &own) || !errors.As(context.Cause(ctx), &signal) {
		return err
	}
	return signal
}

// peerCheckExit leaves peer-check's two answers alone and makes everything else the one
// code that systemd takes for a failure.
func peerCheckExit(code int) int {
	if code == 0 || code == phases.ExitPeerAlive {
		return code
	}
	return 255
}

// withSignals cancels the context, with the signal as its cause, when the process is
// asked to end.
func withSignals(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	go func() {
		select {
		case s := <-signals:
			cancel(interruptedBy(s))
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
	}
}

func interruptedBy(s os.Signal) phases.Interrupted {
	number, _ := s.(syscall.Signal)
	names := map[syscall.Signal]string{
		syscall.SIGTERM: "SIGTERM", syscall.SIGINT: "SIGINT", syscall.SIGHUP: "SIGHUP",
	}
	return phases.Interrupted{Signal: int(number), Name: names[number]}
}
