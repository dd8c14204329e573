package container

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Unit reads the state of the slot's unit, all of it in one request.
func (c *Controller) Unit(ctx context.Context, slot string) (UnitStatus, error) {
	unit, err := c.unitOf(slot)
	if err != nil {
		return UnitStatus{}, err
	}
	return c.manager().Unit(ctx, unit)
}

// Restart restarts the slot's unit, never the host, and returns when systemd's
// job is over. A job that is "done" does not mean that the stack runs.
func (c *Controller) Restart(ctx context.Context, slot string) error {
	unit, err := c.unitOf(slot)
	if err != nil {
		return err
	}
	return c.manager().Restart(ctx, unit)
}

// ResetFailed clears the failed state and the start counter of the slot's unit.
func (c *Controller) ResetFailed(ctx context.Context, slot string) error {
	unit, err := c.unitOf(slot)
	if err != nil {
		return err
	}
	return c.manager().ResetFailed(ctx, unit)
}

// CheckLoaded returns an error that says why if the slot's unit does not load.
// A slot without a unit has nothing that could fail to.
func (c *Controller) CheckLoaded(ctx context.Context, slot string) error {
	s, err := c.slot(slot)
	if err != nil || s.Unit == "" {
		return err
	}
	return c.manager().CheckLoaded(ctx, s.Unit)
}

// Reload makes systemd read all unit files again. Afterwards Changed is false
// for every slot whose files were in place before the call.
func (c *Controller) Reload(ctx context.Context) error {
	paths, err := filepath.Glob(filepath.Join(c.opts.RuntimeDir, "*", reloadMark))
	if err != nil {
		return failed("reload systemd", err)
	}
	marks := make(map[string][]byte, len(paths))
	for _, path := range paths {
		marks[path], _ = os.ReadFile(path) // gone or unreadable: it matches nothing below and stays
	}
	if err := c.manager().Reload(ctx); err != nil {
		return err
	}
	for path, before := range marks {
		// One that another process set anew meanwhile asks for another reload.
		if now, err := os.ReadFile(path); err != nil || !bytes.Equal(before, now) {
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return failed("reload systemd", err)
		}
	}
	return nil
}

// unitOf returns the name of the slot's unit, or an error if it has none.
func (c *Controller) unitOf(slot string) (string, error) {
	s, err := c.slot(slot)
	if err != nil {
		return "", err
	}
	if s.Unit == "" {
		return "", misconfigured("", "set its unit in the configuration", "slot %s has no unit", slot)
	}
	return s.Unit, nil
}
