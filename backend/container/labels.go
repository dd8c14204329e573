package container

import (
	"maps"
	"strconv"
	"strings"
)

// Labels on every container that Start creates. A process of one version and
// hooks of another find each other's containers by them, so the meaning of a
// label never changes: a later contract only adds labels.
const (
	LabelContract   = "io.github.node-lifecycle.contract"   // version of this set of labels
	LabelSlot       = "io.github.node-lifecycle.slot"       // the slot; a container that has it is ours
	LabelPair       = "io.github.node-lifecycle.pair"       // the slot's pair
	LabelEpoch      = "io.github.node-lifecycle.epoch"      // the claim's epoch, decimal
	LabelDigest     = "io.github.node-lifecycle.digest"     // of the specification it was created from
	LabelBoot       = "io.github.node-lifecycle.boot"       // boot id it was created in
	LabelActivation = "io.github.node-lifecycle.activation" // INVOCATION_ID it was created in; may be empty

	labelPrefix     = "io.github.node-lifecycle."
	contractVersion = "1"
)

// Suffixes of the names that containers of a slot may carry beside the
// configured one.
const (
	fencedSuffix = ".nl-fenced" // somebody else's, renamed so that a start by name fails
	keptInfix    = ".kept-"     // ours, with more in it than may be discarded; an epoch follows
	staleInfix   = ".stale-"    // somebody else's, in the way of a start; a time follows
)

// labelsFor returns the labels of a new container.
func labelsFor(s Slot, epoch uint64, digest, boot, activation string) map[string]string {
	return map[string]string{
		LabelContract:   contractVersion,
		LabelSlot:       s.Name,
		LabelPair:       s.Pair,
		LabelEpoch:      strconv.FormatUint(epoch, 10),
		LabelDigest:     digest,
		LabelBoot:       boot,
		LabelActivation: activation,
	}
}

// sameStart reports whether have are the labels of the very start that want
// describes, whatever else have contains (an image brings its own labels).
func sameStart(have, want map[string]string) bool {
	got := make(map[string]string, len(want))
	for k := range want {
		if v, ok := have[k]; ok {
			got[k] = v
		}
	}
	return maps.Equal(got, want)
}

// epochOf returns the epoch a container was created in, or 0.
func epochOf(labels map[string]string) uint64 {
	n, err := strconv.ParseUint(labels[LabelEpoch], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// keptName is the name of a container that is kept for what is in it.
func keptName(container string, epoch uint64) string {
	return container + keptInfix + strconv.FormatUint(epoch, 10)
}

// isKept reports whether name is that of a kept container of the slot.
func isKept(container, name string) bool {
	return strings.HasPrefix(name, container+keptInfix)
}

// short returns the first twelve digits of a container id, as engines print it.
func short(id string) string {
	if len(id) > 12 {
		return id[:12]
	}
	return id
}
