package container

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
)

// specVersion is the version of the layout of SLOT/container.json.
const specVersion = 1

// Docker keeps a container's log until it is removed; a node's console needs
// no more than this.
var dockerLogOptions = map[string]string{"max-size": "16m", "max-file": "2"}

// specification is everything a container is created from, as it is written to
// SLOT/container.json. The labels of one start are not part of it.
type specification struct {
	Version    int                   `json:"version"`
	Slot       string                `json:"slot"`
	Name       string                `json:"name"`
	ImageID    string                `json:"image_id"`
	Config     *container.Config     `json:"config"`
	HostConfig *container.HostConfig `json:"host_config"`
	Devices    []deviceNode          `json:"devices,omitempty"`
	Digest     string                `json:"digest"` // of all of the above
}

// render makes the specification of a slot's container.
func render(s Slot, image imageInfo, devices []deviceNode, podman bool) (*specification, error) {
	hostConfig, err := renderHost(s, podman)
	if err != nil {
		return nil, err
	}
	signal, err := stopSignal(s, image)
	if err != nil {
		return nil, err
	}
	env, err := renderEnv(s)
	if err != nil {
		return nil, err
	}
	grace := int((s.StopGrace + time.Second - 1) / time.Second)
	spec := &specification{
		Version: specVersion, Slot: s.Name, Name: s.Container, ImageID: image.id,
		Config: &container.Config{
			Image: s.Image, Cmd: list(s.Command), Env: env, Tty: s.TTY,
			StopSignal: signal, StopTimeout: &grace,
		},
		HostConfig: hostConfig,
		Devices:    devices,
	}
	spec.Digest, err = spec.digest()
	return spec, err
}

// renderHost makes the part of the specification that is about the host.
func renderHost(s Slot, podman bool) (*container.HostConfig, error) {
	hc := &container.HostConfig{
		Binds:         list(s.Volumes),
		NetworkMode:   container.NetworkMode(s.Network),
		CgroupnsMode:  container.CgroupnsMode(s.CgroupNS),
		Privileged:    s.Privileged,
		CapAdd:        list(s.Capabilities),
		RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyDisabled},
		LogConfig:     container.LogConfig{Type: "json-file", Config: dockerLogOptions},
	}
	if podman {
		// Its journald driver ends a stream that follows from a time on.
		hc.LogConfig = container.LogConfig{Type: "k8s-file"}
	}
	if !hc.CgroupnsMode.Valid() {
		return nil, badSlot(s, "cgroupns", s.CgroupNS, `"private", "host" or nothing`)
	}
	for _, volume := range s.Volumes {
		parts := strings.Split(volume, ":")
		if len(parts) < 2 || len(parts) > 3 || parts[0] == "" || !path.IsAbs(parts[1]) {
			return nil, badSlot(s, "volume", volume, "SOURCE:PATH or SOURCE:PATH:OPTIONS")
		}
	}
	for _, mount := range s.Tmpfs {
		target, options, _ := strings.Cut(mount, ":")
		if !path.IsAbs(target) {
			return nil, badSlot(s, "tmpfs", mount, "PATH or PATH:OPTIONS")
		}
		if hc.Tmpfs == nil {
			hc.Tmpfs = make(map[string]string)
		}
		hc.Tmpfs[target] = options
	}
	for _, device := range s.Devices {
		d, err := parseDevice(s, device)
		if err != nil {
			return nil, err
		}
		hc.Devices = append(hc.Devices, d)
	}
	return hc, renderSecurity(s, hc)
}

// list copies a list, and makes no difference between an empty one and none.
func list(from []string) []string { return append([]string(nil), from...) }

// renderSecurity translates security options as docker run does: two of them
// exist on the command line only.
func renderSecurity(s Slot, hc *container.HostConfig) error {
	for _, option := range s.SecurityOpt {
		name, value, _ := strings.Cut(option, "=")
		switch {
		case name == "systempaths" && value == "unconfined":
			hc.MaskedPaths, hc.ReadonlyPaths = []string{}, []string{}
			continue
		case name == "seccomp" && path.IsAbs(value):
			profile, err := os.ReadFile(value)
			if err != nil {
				return &Error{Op: "read the seccomp profile of slot " + s.Name, Err: err, kind: kindMisconfigured}
			}
			option = "seccomp=" + string(profile)
		}
		hc.SecurityOpt = append(hc.SecurityOpt, option)
	}
	return nil
}

func renderEnv(s Slot) ([]string, error) {
	var env []string
	for _, key := range slices.Sorted(maps.Keys(s.Env)) {
		if key == "" || strings.ContainsAny(key, "=\x00") {
			return nil, badSlot(s, "env", key, "a name without = in it")
		}
		env = append(env, key+"="+s.Env[key])
	}
	return env, nil
}

// badSlot is the error of a value that cannot be used.
func badSlot(s Slot, field, value, want string) error {
	return misconfigured("read the configuration of slot "+s.Name, "use "+want, "%s %q cannot be used", field, value)
}

var (
	signalPattern = regexp.MustCompile(`^(SIG)?[A-Z][A-Z0-9]*([+-][0-9]+)?$|^[0-9]{1,2}$`)
	// What a shell is told to become, as in: sh -c "prepare; exec /lib/systemd/systemd".
	execSystemd = regexp.MustCompile(`(^|[\s;&])exec\s+(\S*/)?(systemd|init)(\s|$)`)
)

// stopSignal chooses the signal that makes the stack stop: the configured one,
// else the image's, else the one that the command understands. systemd takes
// TERM for "execute yourself again" and would go on until it is killed.
func stopSignal(s Slot, image imageInfo) (string, error) {
	switch {
	case s.StopSignal != "":
		if !signalPattern.MatchString(s.StopSignal) {
			return "", badSlot(s, "stop signal", s.StopSignal, "a name such as SIGTERM or SIGRTMIN+3")
		}
		return s.StopSignal, nil
	case image.stopSignal != "":
		return image.stopSignal, nil
	}
	command := s.Command
	if len(command) == 0 {
		command = image.command
	}
	if startsSystemd(command) {
		return "SIGRTMIN+3", nil
	}
	return "SIGTERM", nil
}

// startsSystemd reports whether a command becomes systemd. The init names are
// the ones that Podman's own detection knows.
func startsSystemd(command []string) bool {
	if len(command) == 0 {
		return false
	}
	switch command[0] {
	case "init", "/init", "/sbin/init", "/usr/sbin/init", "/usr/local/sbin/init":
		return true
	}
	if path.Base(command[0]) == "systemd" {
		return true
	}
	return len(command) > 2 && command[1] == "-c" && execSystemd.MatchString(command[2])
}

// digest identifies the content of a specification.
func (spec *specification) digest() (string, error) {
	content := *spec
	content.Digest = ""
	text, err := json.Marshal(content)
	if err != nil {
		return "", fmt.Errorf("render the specification of container %s: %w", spec.Name, err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}
