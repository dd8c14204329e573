package container

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/moby/moby/api/types/container"
	"golang.org/x/sys/unix"
)

// deviceWait is how long Regenerate waits for a device node to appear: drivers
// that load late at boot are normal.
const deviceWait = time.Minute

// deviceNode is a device as the host has it now. Numbers change between boots.
type deviceNode struct {
	Path  string `json:"path"`
	Type  string `json:"type"` // "c" or "b"
	Major uint32 `json:"major"`
	Minor uint32 `json:"minor"`
}

func (d deviceNode) String() string {
	return fmt.Sprintf("%s (%s %d:%d)", d.Path, d.Type, d.Major, d.Minor)
}

// parseDevice reads one entry of Slot.Devices.
func parseDevice(s Slot, text string) (container.DeviceMapping, error) {
	parts := strings.Split(text, ":")
	d := container.DeviceMapping{PathOnHost: parts[0], PathInContainer: parts[0], CgroupPermissions: "rwm"}
	rest := parts[1:]
	if len(rest) > 0 && path.IsAbs(rest[0]) {
		d.PathInContainer, rest = rest[0], rest[1:]
	}
	if len(rest) > 0 && rest[0] != "" && strings.Trim(rest[0], "rwm") == "" {
		d.CgroupPermissions, rest = rest[0], rest[1:]
	}
	if len(rest) > 0 || !path.IsAbs(d.PathOnHost) {
		return d, badSlot(s, "device", text, "HOST, HOST:CONTAINER or HOST:CONTAINER:rwm")
	}
	return d, nil
}

// devices reads the slot's device nodes, and waits for those that are missing.
func (c *Controller) devices(ctx context.Context, s Slot) ([]deviceNode, error) {
	deadline := time.Now().Add(deviceWait)
	for {
		nodes, err := readDevices(s)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return nodes, err
		}
		if time.Until(deadline) <= 0 {
			return nil, &Error{Op: "wait for the devices of slot " + s.Name, Err: err,
				Hint: "is its driver loaded?"}
		}
		if !pause(ctx, c.opts.PollInterval) {
			return nil, failed("wait for the devices of slot "+s.Name, fmt.Errorf("%w: %w", ended(ctx), err))
		}
	}
}

// readDevices reads the slot's device nodes as they are now, sorted by path.
func readDevices(s Slot) ([]deviceNode, error) {
	var nodes []deviceNode
	for _, text := range s.Devices {
		d, err := parseDevice(s, text)
		if err != nil {
			return nil, err
		}
		found, err := readDevice(d.PathOnHost)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, found...)
	}
	slices.SortFunc(nodes, func(a, b deviceNode) int { return cmp.Compare(a.Path, b.Path) })
	return slices.Compact(nodes), nil
}

// readDevice reads one node, or all the nodes in a directory: an engine gives
// a container every device below a directory it is told to map.
func readDevice(name string) ([]deviceNode, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		node, ok := nodeOf(name, info)
		if !ok {
			return nil, misconfigured("read device "+name, "correct the slot's devices", "it is not a device")
		}
		return []deviceNode{node}, nil
	}
	var nodes []deviceNode
	err = filepath.WalkDir(name, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type()&fs.ModeDevice == 0 {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if node, ok := nodeOf(name, info); err == nil && ok {
			nodes = append(nodes, node)
		}
		return err
	})
	return nodes, err
}

func nodeOf(name string, info fs.FileInfo) (deviceNode, bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || info.Mode()&fs.ModeDevice == 0 {
		return deviceNode{}, false
	}
	kind := "b"
	if info.Mode()&fs.ModeCharDevice != 0 {
		kind = "c"
	}
	return deviceNode{Path: name, Type: kind, Major: unix.Major(stat.Rdev), Minor: unix.Minor(stat.Rdev)}, true
}

// changedDevice reports whether the host's devices are not the ones in a
// specification any more, and names one that differs.
func changedDevice(spec, now []deviceNode) (text string, changed bool) {
	have := make(map[string]deviceNode, len(now))
	for _, d := range now {
		have[d.Path] = d
	}
	for _, was := range spec {
		is, found := have[was.Path]
		if !found {
			return was.String() + " is gone", true
		}
		if is != was {
			return fmt.Sprintf("%s is %s now", was, is), true
		}
		delete(have, was.Path)
	}
	for _, is := range have {
		return is.String() + " is new", true
	}
	return "", false
}
