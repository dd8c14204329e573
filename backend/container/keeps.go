package container

import (
	"slices"
	"strings"
)

// nodeData is where a node keeps what must outlive its container, which is
// removed at every stop.
var nodeData = []string{"/etc/kubernetes", "/var/lib/containerd", "/var/lib/kubelet"}

// disposable lists the places of a node's data that are no mounts in the
// slot's container.
func disposable(s Slot) []string {
	var mounts []string
	for _, v := range s.Volumes {
		if parts := strings.Split(v, ":"); len(parts) > 1 {
			mounts = append(mounts, parts[1])
		}
	}
	for _, t := range s.Tmpfs {
		path, _, _ := strings.Cut(t, ":")
		mounts = append(mounts, path)
	}
	return slices.DeleteFunc(slices.Clone(nodeData), func(place string) bool {
		return slices.ContainsFunc(mounts, func(mount string) bool {
			mount = strings.TrimRight(mount, "/")
			return place == mount || strings.HasPrefix(place, mount+"/")
		})
	})
}

// warnDisposable says what a stop will throw away.
func (c *Controller) warnDisposable(s Slot) {
	if places := disposable(s); len(places) > 0 {
		c.log.Warn(s.Name + ": what the stack writes to " + strings.Join(places, ", ") +
			" is lost at every stop; give the slot volumes for what it must keep")
	}
}
