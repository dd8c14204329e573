// Package container is the backend that runs a slot's stack in a container: it
// drives a Docker-compatible engine (Docker or Podman) over its local socket,
// and systemd over D-Bus. It knows nothing of phases, states or the journal;
// they find what they need in the methods of Controller.
//
// # What an answer is worth
//
// The methods that ask (Alive, Died, Running, Fence, Drifted) answer yes, no or
// with an error, and an error means that nobody knows. Nothing is decided by
// the class of an engine's error: the two engines disagree about those, and a
// connection may break after the engine has done what it was asked to. After
// any answer but success or "no such object" the container itself is looked at,
// by its id. The end of a stream means the same: look again.
//
// Every request has a deadline of its own, Options.CallTimeout, so an engine
// that hangs costs a few seconds and not the caller's budget. Requests that move
// data inside the engine (create, start, remove, measuring a container) get
// twelve times that; a stop gets the slot's grace on top; a pull gets
// Slot.PullTimeout. Only the start of a stream is bounded, not the stream.
//
// # Whose container it is
//
// A container is the slot's own if it carries the label LabelSlot with the
// slot's name, whatever its own name is. Somebody else's container that carries
// one of the slot's names counts where life and death are at stake (Alive,
// Running, Stop) and is never removed:
//
//	NAME               the configured name
//	NAME.nl-fenced     somebody else's, renamed by Fence; Regenerate undoes it
//	NAME.stale-TIME    somebody else's, moved out of the way by Start
//	NAME.kept-EPOCH    ours, with more in it than may be discarded; the newest only
//
// # One start
//
// Start is the only thing that starts a container of ours. It starts each
// container exactly once, by its id, so one that was started before cannot come
// to life late. That is what makes Fence possible: removing a container that
// was never started, without force, races with its start in such a way that
// exactly one of the two succeeds.
//
// # Errors
//
// Errors tell by behaviour what kind they are; find it with errors.As on the
// interfaces {Unreachable() bool}, {Denied() bool} and {Misconfigured() bool}.
// AliveError is returned where a container had to be down and is not,
// ExecError where a command inside a container failed. When the caller's ctx
// ends, errors.Is finds its error.
//
// # Files
//
// RuntimeDir/SLOT/container.json (0600) is the specification that the slot's
// container was created from last. UnitDir/UNIT.d/50-node-lifecycle.conf is the
// unit's drop-in. RuntimeDir/SLOT/reload-needed stands from before the drop-in
// is replaced until systemd has been reloaded.
package container
