package container

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"reflect"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/container"
)

// Drifted reports whether the slot's living container was created from another
// specification than the configuration and the host would give now. The detail
// names what differs. A container that is not ours, or none, has not drifted.
func (c *Controller) Drifted(ctx context.Context, slot string) (drifted bool, detail string, err error) {
	s, err := c.slot(slot)
	if err != nil {
		return false, "", err
	}
	if s.Container == "" || s.Image == "" {
		return false, "slot " + slot + " has no container that is created here", nil
	}
	objs, err := c.objects(ctx, s)
	if err != nil {
		return false, "", err
	}
	if len(objs) == 0 || !objs[0].lives() || !objs[0].ours(s) {
		return false, "no container of ours lives", nil
	}
	o := objs[0]
	now, err := c.renderNow(ctx, s)
	var node *fs.PathError
	if errors.As(err, &node) && errors.Is(err, fs.ErrNotExist) && !isMisconfigured(err) {
		return true, "container " + o.label() + " has device " + node.Path + ", which is gone", nil
	}
	if err != nil {
		return false, "", err
	}
	was := o.labels()[LabelDigest]
	if now.Digest == was {
		return false, "container " + o.label() + " is up to date", nil
	}
	return true, "container " + o.label() + " differs in " + c.differences(s, was, now), nil
}

// differences names what a container with the digest was has different from a
// specification, as far as its own specification is still there.
func (c *Controller) differences(s Slot, was string, now *specification) string {
	const unknown = "its specification"
	before, err := c.storedSpec(s)
	if err != nil || before.Digest != was {
		return unknown
	}
	var names []string
	if before.ImageID != now.ImageID {
		names = append(names, "the image")
	}
	if text, changed := changedDevice(before.Devices, now.Devices); changed {
		names = append(names, "device "+text)
	}
	names = append(names, differentFields(*before.Config, *now.Config)...)
	names = append(names, differentFields(*before.HostConfig, *now.HostConfig)...)
	if len(names) == 0 {
		return unknown
	}
	return strings.Join(slices.Compact(names), ", ")
}

// differentFields names the fields, as the engine's API calls them, in which
// two structs differ once they are written out.
func differentFields[T container.Config | container.HostConfig](a, b T) []string {
	var names []string
	va, vb := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range va.NumField() {
		x, errX := json.Marshal(va.Field(i).Interface())
		y, errY := json.Marshal(vb.Field(i).Interface())
		if errX != nil || errY != nil || string(x) != string(y) {
			names = append(names, va.Type().Field(i).Name)
		}
	}
	return names
}
