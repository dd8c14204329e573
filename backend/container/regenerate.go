package container

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/moby/moby/client"
)

const (
	specFile   = "container.json" // in RuntimeDir/SLOT
	dropInFile = "50-node-lifecycle.conf"
	// reloadMark stands in RuntimeDir/SLOT from just before a drop-in is
	// replaced until systemd has been reloaded, whatever dies in between.
	reloadMark = "reload-needed"
)

// Regenerate renders the slot's host-side configuration again, from the
// configuration and from what the host has now: it gives somebody else's
// container that a peer has fenced its name back, makes sure of the image,
// waits for missing devices, writes the container's specification, and writes
// the unit's drop-in if its content differs. It may take as long as
// Slot.PullTimeout where an image has to be pulled.
func (c *Controller) Regenerate(ctx context.Context, slot string) error {
	s, err := c.slot(slot)
	if err != nil {
		return err
	}
	if s.Container != "" {
		if err := c.unfence(ctx, s); err != nil {
			return err
		}
	}
	if s.Container != "" && s.Image != "" {
		c.warnDisposable(s)
		if err := c.regenerateSpec(ctx, s); err != nil {
			return err
		}
	}
	return c.regenerateDropIn(s)
}

// unfence gives a container that was renamed to keep it from starting its name
// back, unless somebody has taken the name meanwhile.
func (c *Controller) unfence(ctx context.Context, s Slot) error {
	fenced, found, err := c.inspectNamed(ctx, s.Container+fencedSuffix)
	if err != nil || !found {
		return err
	}
	_, taken, err := c.inspectNamed(ctx, s.Container)
	if err != nil {
		return err
	}
	if taken {
		c.log.WarnContext(ctx, "a fenced container stays fenced: its name is taken",
			"slot", s.Name, "container", fenced.label(), "name", s.Container)
		return nil
	}
	return c.rename(ctx, fenced, s.Container)
}

// rename gives a container another name. Whatever the engine answers, the
// container itself tells whether it has it.
func (c *Controller) rename(ctx context.Context, o object, name string) error {
	_, err := call(ctx, c.engine, fmt.Sprintf("rename container %s to %s", o.label(), name), c.opts.CallTimeout,
		func(ctx context.Context, cli *client.Client) (client.ContainerRenameResult, error) {
			return cli.ContainerRename(ctx, o.ID, client.ContainerRenameOptions{NewName: name})
		})
	if err == nil {
		return nil
	}
	if now, found, look := c.inspect(ctx, o.ID); look == nil && found && now.name == name {
		return nil
	}
	return err
}

// regenerateSpec makes sure of everything that the specification names, renders
// it and writes it down.
func (c *Controller) regenerateSpec(ctx context.Context, s Slot) error {
	image, err := c.ensureImage(ctx, s)
	if err != nil {
		return err
	}
	if len(image.command) == 0 && len(s.Command) == 0 {
		return misconfigured("make sure of image "+s.Image, "set container.command of the slot, such as [/lib/systemd/systemd]",
			"neither the image nor the slot says what is to run in it")
	}
	devices, err := c.devices(ctx, s)
	if err != nil {
		return err
	}
	spec, err := c.renderFor(ctx, s, image, devices)
	if err != nil {
		return err
	}
	return c.storeSpec(s, spec)
}

// renderNow renders the specification without pulling, waiting or writing.
func (c *Controller) renderNow(ctx context.Context, s Slot) (*specification, error) {
	image, found, err := c.image(ctx, s.Image)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, &Error{Op: "look at image " + s.Image, Err: errors.New("it is not on this host"), Hint: "pre-start makes sure of it"}
	}
	devices, err := readDevices(s)
	if err != nil {
		return nil, &Error{Op: "read the devices of slot " + s.Name, Err: err, Hint: "is its driver loaded?"}
	}
	return c.renderFor(ctx, s, image, devices)
}

func (c *Controller) renderFor(ctx context.Context, s Slot, image imageInfo, devices []deviceNode) (*specification, error) {
	podman, err := c.engine.isPodman(ctx)
	if err != nil {
		return nil, err
	}
	return render(s, image, devices, podman)
}

// storeSpec writes the specification down, for people and for Drifted.
func (c *Controller) storeSpec(s Slot, spec *specification) error {
	text, err := json.MarshalIndent(spec, "", "  ")
	if err != nil {
		return failed("render the specification of container "+s.Container, err)
	}
	dir, err := c.runtimeDir(s)
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, specFile), append(text, '\n'), 0o600)
}

// storedSpec reads the specification that was written last.
func (c *Controller) storedSpec(s Slot) (*specification, error) {
	name := filepath.Join(c.opts.RuntimeDir, s.Name, specFile)
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	spec := new(specification)
	if err := json.Unmarshal(text, spec); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	digest, err := spec.digest()
	if err != nil {
		return nil, err
	}
	if spec.Version != specVersion || spec.Config == nil || spec.HostConfig == nil || digest != spec.Digest {
		return nil, fmt.Errorf("%s is damaged or of another version", name)
	}
	return spec, nil
}

// runtimeDir makes the slot's directory below RuntimeDir.
func (c *Controller) runtimeDir(s Slot) (string, error) {
	if s.Name != filepath.Base(s.Name) || !filepath.IsLocal(s.Name) {
		return "", misconfigured("", "use letters, digits and dashes", "slot name %q cannot be used", s.Name)
	}
	dir := filepath.Join(c.opts.RuntimeDir, s.Name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fileError("make directory "+dir, err)
	}
	return dir, nil
}

// Changed reports whether the slot's unit files may differ from what systemd
// has loaded, so that a reload is needed. In doubt it says yes.
func (c *Controller) Changed(ctx context.Context, slot string) (bool, error) {
	s, err := c.slot(slot)
	if err != nil {
		return true, err
	}
	if s.Unit == "" {
		return false, nil
	}
	if _, err := os.Lstat(filepath.Join(c.opts.RuntimeDir, s.Name, reloadMark)); !errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	u, err := c.Unit(ctx, slot)
	if err != nil || u.NeedReload || u.LoadState != "loaded" {
		return true, nil // the reload itself tells better what is wrong
	}
	name, want, err := c.dropIn(s)
	if err != nil || name == "" {
		return err != nil, err
	}
	have, err := os.ReadFile(name)
	if err != nil || !bytes.Equal(have, want) {
		return true, nil
	}
	// systemd does not see that a directory it did not know has got a file.
	return !slices.Contains(u.DropInPaths, name), nil
}

// dropIn renders the slot's drop-in. The name is empty if none is managed.
func (c *Controller) dropIn(s Slot) (name string, text []byte, err error) {
	if s.Unit == "" || c.opts.UnitDir == "" || s.DropIn == (DropIn{}) {
		return "", nil, nil
	}
	if err := CheckUnitName(s.Unit); err != nil {
		return "", nil, err
	}
	text, err = RenderDropIn(s.DropIn)
	return filepath.Join(c.opts.UnitDir, s.Unit+".d", dropInFile), text, err
}

// regenerateDropIn writes the slot's drop-in if its content differs.
func (c *Controller) regenerateDropIn(s Slot) error {
	name, want, err := c.dropIn(s)
	if err != nil || name == "" {
		return err
	}
	if have, err := os.ReadFile(name); err == nil && bytes.Equal(have, want) {
		return nil
	}
	dir, err := c.runtimeDir(s)
	if err != nil {
		return err
	}
	// Random, so that Reload can tell a mark it has dealt with from a new one.
	if err := writeFile(filepath.Join(dir, reloadMark), []byte(rand.Text()+"\n"), 0o600); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return fileError("make directory "+filepath.Dir(name), err)
	}
	return writeFile(name, want, 0o644)
}
