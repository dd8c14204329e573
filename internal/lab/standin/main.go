// Command standin takes kubelet's place in a lab's node image. All it shares
// with kubelet is the health endpoint, http://127.0.0.1:10248/healthz, and it
// answers there as a file tells it to, so that a test decides when a node stack
// becomes ready. The file is read again at every request.
//
//	ready          200 (also when the file is missing)
//	late SECONDS   503 until that long after the stand-in's start, then 200
//	never          503
//	flapping       200 and 503 in turn, a request each
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const stopGrace = 2 * time.Second

func main() {
	listen := flag.String("listen", "127.0.0.1:10248", "`address` of the health endpoint")
	mode := flag.String("mode-file", "/var/lib/node-lab/mode", "`path` of the file that says how to answer")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := serve(ctx, *listen, *mode); err != nil {
		fmt.Fprintln(os.Stderr, "kubelet stand-in:", err)
		os.Exit(1)
	}
}

// serve answers until ctx ends.
func serve(ctx context.Context, listen, modeFile string) error {
	mux := http.NewServeMux()
	mux.Handle("GET /healthz", newHealth(modeFile))
	server := &http.Server{Addr: listen, Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve the health endpoint: %w", err)
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("stop the health endpoint: %w", err)
	}
	return nil
}
