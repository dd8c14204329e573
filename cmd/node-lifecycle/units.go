package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/node-lifecycle/node-lifecycle/backend/container"
	"github.com/node-lifecycle/node-lifecycle/internal/config"
	"github.com/node-lifecycle/node-lifecycle/phases"
)

// reconcileInterval is how often the timer looks whether a slot needs a restart.
const reconcileInterval = 10 * time.Minute

func (e *environment) unitsCommand() *cli.Command {
	return e.command(&cli.Command{
		Name: "units", Category: "set up",
		Usage: "print or install the unit files, with every timeout derived from the configuration",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "install", Usage: "write them, and have systemd load them, instead of printing them"},
			&cli.StringFlag{Name: "dir", Usage: "write them to `DIRECTORY` (with --install)", DefaultText: unitDir},
		},
		Action: func(c *cli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			if c.IsSet("dir") && !c.Bool("install") {
				return usagef("--dir says where to --install; without it the units are printed")
			}
			if c.IsSet("state-dir") {
				return usagef("the units' hooks would not know of --state-dir; set state_dir in the configuration")
			}
			cfg, err := e.load(c)
			if err != nil {
				return err
			}
			if err := notFromEnvironment(cfg); err != nil {
				return err
			}
			files, err := container.RenderUnits(e.unitParams(c, cfg))
			if err != nil {
				return err
			}
			if !c.Bool("install") {
				return e.printUnits(files)
			}
			if c.IsSet("dir") {
				return e.writeUnits(c.String("dir"), files)
			}
			if err := e.needRoot("units --install"); err != nil {
				return err
			}
			if err := e.writeUnits(e.unitDir, files); err != nil {
				return err
			}
			return e.loadUnits(c.Context, cfg)
		},
	})
}

// notFromEnvironment refuses what the hooks would not find in their own environment, and
// what the units would contradict for that reason.
func notFromEnvironment(cfg *config.Config) error {
	var variables, keys []string
	for _, v := range config.EnvVars() {
		if cfg.Origin(v.Key).Kind == config.OriginEnvironment {
			variables, keys = append(variables, v.Name), append(keys, v.Key)
		}
	}
	if len(variables) == 0 {
		return nil
	}
	return usagef("the units' hooks would not know of %s; unset that, and set %s in the configuration",
		strings.Join(variables, ", "), strings.Join(keys, ", "))
}

// unitParams derives what the one template must satisfy from all slots that use it.
func (e *environment) unitParams(c *cli.Context, cfg *config.Config) container.UnitParams {
	p := container.UnitParams{
		Binary: e.binary, EngineUnit: cfg.Engine.Unit, StateDir: cfg.StateDir,
		EngineWait: cfg.Engine.Wait, ReconcileInterval: reconcileInterval,
		ReconcileArgs: []string{"--if-needed"},
	}
	if path := cmp.Or(c.String("config"), e.getenv(config.EnvConfig)); path != "" {
		if abs, err := filepath.Abs(path); err == nil {
			p.Config = abs
		}
	}
	for _, slot := range cfg.SlotNames() {
		b := cfg.Budgets(slot)
		p.StartBudget = max(p.StartBudget, b.PeerCheck, b.PreStart, b.PostStart)
		p.StopBudget = max(p.StopBudget, b.Stop)
		p.TimeoutStart = max(p.TimeoutStart, b.TimeoutStart)
		p.TimeoutStop = max(p.TimeoutStop, b.TimeoutStop)
		p.RestartDelay, p.StartLimitInterval, p.StartLimitBurst = b.RestartDelay, b.StartLimitInterval, b.StartLimitBurst
	}
	return p
}

func (e *environment) printUnits(files []container.UnitFile) error {
	for i, f := range files {
		gap := ""
		if i > 0 {
			gap = "\n"
		}
		if _, err := fmt.Fprintf(e.stdout, "%s# %s\n%s", gap, f.Name, f.Content); err != nil {
			return err
		}
	}
	return nil
}

func (e *environment) writeUnits(dir string, files []container.UnitFile) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return cannotCreate(fmt.Errorf("directory of the units: %w", err))
	}
	defer root.Close()
	for _, f := range files {
		if err := mayReplace(root, f.Name); err != nil {
			return cannotCreate(fmt.Errorf("unit %s: %w", filepath.Join(dir, f.Name), err))
		}
	}
	for _, f := range files {
		if err := replaceFile(root, f.Name, f.Content); err != nil {
			return cannotCreate(fmt.Errorf("unit %s: %w", f.Name, err))
		}
		if _, err := fmt.Fprintln(e.stdout, "wrote "+filepath.Join(dir, f.Name)); err != nil {
			return err
		}
	}
	return nil
}

// mayReplace refuses to overwrite what somebody else has written.
func mayReplace(root *os.Root, name string) error {
	content, err := root.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !container.Generated(content):
		return errors.New("it was not written by node-lifecycle units, and is left as it is; move it away, or choose another --dir")
	}
	return nil
}

// cannotCreate is the exit code for a file that could not be made where it was asked for.
func cannotCreate(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return &exitError{code: phases.ExitDenied, err: err}
	}
	return &exitError{code: phases.ExitCannotOpen, err: err}
}

// replaceFile puts the content in place of the file at once: systemd may read it at any
// moment.
func replaceFile(root *os.Root, name string, content []byte) error {
	temporary := "." + name + ".new"
	f, err := root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = root.Rename(temporary, name)
	}
	if err != nil {
		if gone := root.Remove(temporary); !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	return err
}

// loadUnits has systemd read the units and says what to do next.
func (e *environment) loadUnits(ctx context.Context, cfg *config.Config) error {
	backend := e.openBackend(cfg, nil)
	defer backend.Close()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := backend.Reload(ctx); err != nil {
		return fmt.Errorf("the units are written, but systemd has not loaded them: %w; run: systemctl daemon-reload", err)
	}
	_, err := fmt.Fprintf(e.stdout, "systemd has loaded them; enable what is to start at boot:\n"+
		"  systemctl enable %s\n  systemctl enable --now %s\n",
		container.ResumeUnit, cfg.Slots[cfg.SlotNames()[0]].Unit)
	return err
}
