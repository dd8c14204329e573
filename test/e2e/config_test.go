package e2e

import (
	"fmt"
	"strings"

	"github.com/node-lifecycle/node-lifecycle/internal/lab"
)

// setup describes a configuration in the few words that scenarios differ in.
type setup struct {
	ready, afterStart, engineWait string // durations; "": 60s, 30s, 30s
	after                         string // the after-start command, as a YAML list; "": none
	busybox                       bool   // a small shell for a stack instead of a node image
	command                       string // of the busybox stack; "": one that runs until SIGTERM
	gated                         bool   // the busybox stack waits at the gates "ready" and "wired"
	relayed                       bool   // the engine is behind a relay (newRelay)
}

// A gated stack is not ready until the first gate is open, and its after-start, unless
// the scenario has another one, does not end until the second is.
const (
	readyAtGate = `[{exec: [test, -e, /lab/ready]}]`
	wiredAtGate = `[/bin/sh, -c, "until [ -e /lab/wired ]; do sleep 0.1; done"]`
)

// runsUntilStopped is a stack that ends in order, with 0, at SIGTERM.
const runsUntilStopped = `trap 'exit 0' TERM; echo up; while :; do sleep 1 & wait $!; done`

func (s setup) String() string {
	var b strings.Builder
	engine := "wait: " + or(s.engineWait, "30s")
	if s.relayed {
		engine += ", socket: " + relaySocket
	}
	fmt.Fprintf(&b, "version: 1\ntimeouts: {ready: %s, after_start: %s, poll: 1s}\nengine: {%s}\nslots:\n",
		or(s.ready, "60s"), or(s.afterStart, "30s"), engine)
	ready := "[]"
	if s.gated {
		ready, s.after = readyAtGate, or(s.after, wiredAtGate)
	}
	for slot, peer := range map[string]string{"kube1": "kube2", "kube2": "kube1"} {
		fmt.Fprintf(&b, "  %s:\n    peer: %s\n    after_start: %s\n", slot, peer, or(s.after, "[]"))
		if s.busybox {
			fmt.Fprintf(&b, "    container:\n      image: %s\n      pull: never\n      network: host\n"+
				"      command: [/bin/sh, -c, %q]\n      stop: {signal: SIGTERM, grace: 5s}\n"+
				"      volumes: [\"/var/lib/node/%s/lab:/lab\", \"/var/lib/node/pair:/pair\"]\n    ready: %s\n",
				lab.BusyboxImage, or(s.command, runsUntilStopped), slot, ready)
			continue
		}
		fmt.Fprintf(&b, `    container:
      image: %s
      pull: never
      command: [%s, %s, %q]
      tty: true
      env: {container: docker}
      network: host
      cgroupns: private
      tmpfs: [%s]
      security_opt: [%s]
      capabilities: [%s]
      volumes: ["/var/lib/node/%s/lab:%s", "/var/lib/node/%s/containerd:/var/lib/containerd"]
      stop: {signal: SIGRTMIN+3, grace: 20s}
    ready:
      - units: [containerd.service, kubelet.service]
      - http: %s
`, lab.NodeImage, lab.NodeCommand[0], lab.NodeCommand[1], lab.NodeCommand[2],
			strings.Join(lab.NodeTmpfs, ", "), strings.Join(lab.NodeSecurityOptions, ", "), strings.Join(lab.NodeCapabilities, ", "),
			slot, lab.NodeControl, slot, lab.NodeHealthz)
	}
	return b.String()
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
