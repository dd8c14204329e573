// Package phases drives a slot through its state machine.
//
// A Lifecycle runs the phases that a supervising systemd unit calls around a node
// stack: [Lifecycle.PreStart], [Lifecycle.PostStart] and [Lifecycle.PostStop], and
// those that an operator, an agent or a boot calls: [Lifecycle.Reconcile] and
// [Lifecycle.Resume]. [Lifecycle.RunStack] and [Lifecycle.Stop] stand around the
// stack itself, and [Lifecycle.PeerCheck] answers whether a start may be tried.
//
// A phase is a list of steps, as data. For every step the intent is written to the
// journal, the action runs under a context, and its outcome is written together
// with the intent of the next step: n steps cost n+1 commits. What is legal is
// decided by package fsm inside the journal's transaction, so that no two
// processes can act on the same state and nothing is visible before it is durable.
//
// The package knows neither bbolt nor Docker nor D-Bus, reads no environment and
// no clock but the one of package time. Everything it needs of the world comes in
// through the fields of Lifecycle.
package phases
