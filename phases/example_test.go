package phases_test

import (
	"context"
	"fmt"

	"github.com/node-lifecycle/node-lifecycle/phases"
)

// host is a Controller with the three methods and nothing else.
type host struct{ running map[string]bool }

func (h *host) Regenerate(_ context.Context, slot string) error {
	fmt.Println("regenerate", slot)
	return nil
}

func (h *host) Running(_ context.Context, slot string) (bool, string, error) {
	return h.running[slot], "stack not started", nil
}

func (h *host) Restart(_ context.Context, slot string) error {
	fmt.Println("restart", slot)
	return nil
}

// A program needs nothing but a Lifecycle and a Controller of its own: the zero value of
// every other field means what its comment says.
func Example() {
	ctx := context.Background()
	h := &host{running: map[string]bool{}}
	l := &phases.Lifecycle{
		Controller:    h,
		ReloadSystemd: func(context.Context) error { fmt.Println("reload"); return nil },
		AfterStart:    func(_ context.Context, slot string) error { fmt.Println("wire", slot); return nil },
		Peer:          func(slot string) string { return map[string]string{"kube1": "kube2", "kube2": "kube1"}[slot] },
	}
	fmt.Println("pre-start:", l.PreStart(ctx, "kube1"))
	h.running["kube1"] = true
	fmt.Println("post-start:", l.PostStart(ctx, "kube1"))
	fmt.Println("peer:", l.PreStart(ctx, "kube2"))
	fmt.Println("reconcile:", l.Reconcile(ctx, "kube1"))
	// Output:
	// regenerate kube1
	// reload
	// pre-start: <nil>
	// wire kube1
	// post-start: <nil>
	// peer: kube2: pre-start refused: the peer kube1 is running; stop kube1 first
	// restart kube1
	// reconcile: <nil>
}

// A fresh process without a journal cannot know what another one has done: post-start
// begins as if pre-start had readied the slot.
func ExampleLifecycle_PostStart() {
	h := &host{running: map[string]bool{"kube1": true}}
	l := &phases.Lifecycle{Controller: h}
	fmt.Println(l.PostStart(context.Background(), "kube1"))
	// Output: <nil>
}
