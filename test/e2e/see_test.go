package e2e

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"
)

// What a person would look at besides the history: the engine's events, how systemd
// tells of a hook's end, the claim.

// containerID identifies the slot's container, "" if there is none.
func (h *host) containerID(slot string) string {
	h.t.Helper()
	return h.ok("docker", "ps", "--all", "--quiet", "--no-trunc", "--filter", "name=^node-"+slot+"$")
}

// wantSignals checks which signals the engine has sent to the slot's container since then.
func (h *host) wantSignals(slot string, since time.Time, want ...string) {
	h.t.Helper()
	got := strings.Fields(h.events(slot, "kill", since, "{{.Actor.Attributes.signal}}"))
	if !slices.Equal(got, want) {
		h.t.Errorf("signals sent to the container of %s: %v, want %v", slot, got, want)
	}
}

// events are what the engine has told of the slot's container since then.
func (h *host) events(slot, kind string, since time.Time, format string) string {
	h.t.Helper()
	stamp := func(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }
	return h.ok("docker", "events", "--since", stamp(since), "--until", stamp(time.Now()),
		"--filter", "container=node-"+slot, "--filter", "event="+kind, "--format", format)
}

// wantHook checks how a line of the slot's unit, the last of its kind, has ended, by
// systemd: "exited 79".
func (h *host) wantHook(slot, line, want string) {
	h.t.Helper()
	text := h.property(slot, line)
	got := "?"
	for _, parts := range hookEnd.FindAllStringSubmatch(text, -1) {
		got = parts[1] + " " + parts[2]
	}
	if got != want {
		h.t.Errorf("%s of %s: %s, want %s: %s", line, unit(slot), got, want, text)
	}
}

var hookEnd = regexp.MustCompile(`code=(\S+) ; status=([0-9]+)`)

// claim is who holds the claim of the pair, "" if nobody does.
func (h *host) claim() string {
	h.t.Helper()
	text := h.ok("node-lifecycle", "status", "-o", "json")
	var s struct{ Claim string }
	if err := json.NewDecoder(strings.NewReader(text)).Decode(&s); err != nil {
		h.t.Fatalf("status: %v: %s", err, text)
	}
	return s.Claim
}

func (h *host) wantClaim(want string) {
	h.t.Helper()
	if got := h.claim(); got != want {
		h.t.Errorf("the claim is held by %q, want %q", got, want)
	}
}

// waitOver waits until the slot's unit has ended, for good or until its next restart.
func (h *host) waitOver(slot string) {
	h.t.Helper()
	h.waitFor(patience, unit(slot)+" to end", func() (bool, string) {
		got := h.property(slot, "SubState")
		return got == "dead" || got == "failed" || got == "auto-restart", got
	})
}

// wantNothingLeft checks that the slot has neither a container nor the claim.
func (h *host) wantNothingLeft() {
	h.t.Helper()
	if all := h.containers(true); len(all) != 0 {
		h.t.Errorf("containers left: %v", all)
	}
	h.wantClaim("")
}
