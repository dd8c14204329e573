package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/node-lifecycle/node-lifecycle/internal/config"
	"github.com/node-lifecycle/node-lifecycle/phases"
)

// exitNoSlot is what an inspecting command answers about a slot that is not there, as
// systemctl does about a unit (LSB).
const exitNoSlot = 4

// slotOf is a configuration and one of its slots.
type slotOf struct {
	cfg  *config.Config
	slot string
	gone bool // the present configuration does not have it
}

// load reads the configuration that the command line asks for, and makes do with nothing
// less.
func (e *environment) load(c *cli.Context) (*config.Config, error) { return e.loadFor(c, "", toBegin) }

// configOptions is which configuration the command line asks for.
func (e *environment) configOptions(c *cli.Context) (config.Options, error) {
	o := config.Options{Getenv: e.getenv, Environ: e.environ}
	if path := c.String("config"); c.IsSet("config") {
		if path == "" { // as of a variable that is not set: not some other configuration
			return o, usagef("--config needs the path of a file")
		}
		o.Path, o.Required = path, true
	} else if path := e.getenv(config.EnvConfig); path != "" {
		o.Path, o.Required = path, true
	}
	if dir := c.String("state-dir"); c.IsSet("state-dir") {
		o.Overrides = append(o.Overrides, config.Override{Key: "state_dir", Value: dir, Flag: "--state-dir"})
	}
	return o, nil
}

// phaseSlot is the slot of a command that acts: it needs root, and an unknown slot is a
// wrong command line.
func (e *environment) phaseSlot(c *cli.Context, n need) (slotOf, error) {
	name, err := oneSlot(c)
	if err != nil {
		return slotOf{}, err
	}
	if err := e.needRoot(c.Command.Name); err != nil {
		return slotOf{}, err
	}
	return e.findSlot(c, name, n)
}

// needRoot refuses to act as anybody else.
func (e *environment) needRoot(what string) error {
	if e.euid == 0 {
		return nil
	}
	return &exitError{code: phases.ExitDenied, err: fmt.Errorf("%s needs root; try: sudo node-lifecycle %s", what, strings.Join(e.args, " "))}
}

// inspectedSlot is the slot of a command that only looks.
func (e *environment) inspectedSlot(c *cli.Context) (slotOf, error) {
	name, err := oneSlot(c)
	if err != nil {
		return slotOf{}, err
	}
	return e.findSlot(c, name, toInspect)
}

func oneSlot(c *cli.Context) (string, error) {
	switch c.NArg() {
	case 1:
		name := c.Args().First()
		if fault := config.SlotNameFault(name); fault != "" {
			return "", usagef("%s", fault)
		}
		return name, nil
	case 0:
		return "", usagef("%s needs a slot, for example: node-lifecycle %s kube1", c.Command.Name, c.Command.Name)
	default:
		return "", usagef("%s takes one slot, not %d: %s", c.Command.Name, c.NArg(), strings.Join(c.Args().Slice(), " "))
	}
}

// oneOrAll is the slot that was named, and whether it is gone from the configuration, or
// all slots that are configured.
func (e *environment) oneOrAll(c *cli.Context, n need) (cfg *config.Config, slots []string, gone bool, err error) {
	if c.NArg() > 0 {
		name, err := oneSlot(c)
		if err != nil {
			return nil, nil, false, err
		}
		s, err := e.findSlot(c, name, n)
		return s.cfg, []string{name}, s.gone, err
	}
	if cfg, err = e.loadFor(c, "", n); err != nil {
		return nil, nil, false, err
	}
	return cfg, cfg.SlotNames(), false, nil
}

// resumeSlot resumes one slot and says what was done about it.
func (e *environment) resumeSlot(ctx context.Context, cfg *config.Config, slot string) error {
	l, backend := e.lifecycle(cfg, slot, "resume")
	defer backend.Close()
	did, err := l.Resume(ctx, slot)
	if err != nil {
		return err
	}
	said := map[phases.Resumption]string{
		phases.ResumeNothing: "nothing to resume", phases.ResumeClose: "an interrupted run was closed",
		phases.ResumeContinue: "post-start was continued", phases.ResumeSettle: "settled",
	}
	_, err = fmt.Fprintf(e.stdout, "%s: %s\n", slot, said[did])
	return err
}
