package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/node-lifecycle/node-lifecycle/journal"
	"github.com/node-lifecycle/node-lifecycle/phases"
)

// hookCommands are what a unit calls. They say what they do on stderr, one line for each
// transition, and nothing on stdout.
func (e *environment) hookCommands() []*cli.Command {
	return []*cli.Command{
		e.hook("peer-check", toBegin, "answer whether the peer lets this slot start (ExecCondition=)", nil,
			func(ctx context.Context, l *phases.Lifecycle, s slotOf) error {
				return l.PeerCheck(ctx, s.slot)
			}),
		e.hook("pre-start", toBegin, "prove the peer down, take the claim, ready the host (ExecStartPre=)", force(),
			func(ctx context.Context, l *phases.Lifecycle, s slotOf) error {
				return e.preStart(ctx, l, s)
			}),
		e.hook("run", toGoOn, "start the stack's container and follow it to its end (ExecStart=)", force(),
			func(ctx context.Context, l *phases.Lifecycle, s slotOf) error {
				code, err := l.RunStack(ctx, s.slot, e.stdout)
				if err == nil && code != 0 {
					err = fmt.Errorf("%s: the stack ended unasked with exit code %d", s.slot, code)
				}
				if err != nil {
					return &exitError{code: code, err: err}
				}
				return nil
			}),
		e.hook("post-start", toGoOn, "wait for the stack, then run what comes after (ExecStartPost=)", force(),
			func(ctx context.Context, l *phases.Lifecycle, s slotOf) error {
				err := l.PostStart(ctx, s.slot)
				if err == nil {
					l.Status("Wired")
				}
				return err
			}),
		e.hook("stop", toEnd, "stop the stack in an orderly way (ExecStop=)", force(),
			func(ctx context.Context, l *phases.Lifecycle, s slotOf) error {
				return l.Stop(ctx, s.slot)
			}),
		e.hook("post-stop", toEnd, "make sure that nothing of the stack is left (ExecStopPost=)", force(),
			func(ctx context.Context, l *phases.Lifecycle, s slotOf) error {
				return l.PostStop(ctx, s.slot, phases.StopInfo{
					ServiceResult: e.getenv("SERVICE_RESULT"),
					ExitCode:      e.getenv("EXIT_CODE"), ExitStatus: e.getenv("EXIT_STATUS"),
				})
			}),
	}
}

// hookFunc is what a hook does.
type hookFunc func(context.Context, *phases.Lifecycle, slotOf) error

// preStart keeps the configuration that the slot is started under. What is typed by hand
// may be refused beside a living unit, which was started under another one: then that
// stays.
func (e *environment) preStart(ctx context.Context, l *phases.Lifecycle, s slotOf) error {
	byUnit := l.Self.Activation != ""
	if byUnit {
		e.keep(s)
	}
	err := l.PreStart(ctx, s.slot)
	if err == nil && !byUnit {
		e.keep(s)
	}
	return err
}

// force is the flag of the hooks that refuse beside a living unit. It is made anew for
// each command, since urfave/cli keeps a flag's value in it.
func force() []cli.Flag {
	return []cli.Flag{&cli.BoolFlag{Name: "force", Usage: "go on although the unit is active"}}
}

func (e *environment) hook(name string, n need, usage string, flags []cli.Flag, do hookFunc) *cli.Command {
	return e.command(&cli.Command{
		Name: name, Usage: usage, ArgsUsage: "SLOT", Category: "called by the unit",
		Flags: flags,
		Action: func(c *cli.Context) error {
			s, err := e.phaseSlot(c, n)
			if err != nil {
				return err
			}
			l, backend := e.lifecycle(s.cfg, s.slot, name)
			defer backend.Close()
			l.Force = c.Bool("force")
			return do(c.Context, l, s)
		},
	})
}

// operateCommands are what people and host agents call to change something.
func (e *environment) operateCommands() []*cli.Command {
	return []*cli.Command{
		e.reconcileCommand(),
		e.resumeCommand(),
		e.hookless("reset", "clear the count of failed attempts, here and in systemd", nil, e.reset),
	}
}

// reset says what it did, and what is left to do.
func (e *environment) reset(c *cli.Context, l *phases.Lifecycle, s slotOf) error {
	if err := l.Reset(c.Context, s.slot); err != nil {
		return err
	}
	did, next := "", ""
	// What cannot be read now is in the journal all the same.
	_ = e.openJournal(s.cfg, "reset").View(c.Context, func(v *journal.View) error {
		entries, err := v.Entries(s.slot, journal.Query{Reverse: true, Limit: 1, Match: func(entry *journal.Entry) bool {
			return entry.Phase == commandReset
		}})
		if len(entries) > 0 {
			did = entries[0].Detail + "; "
		}
		return err
	})
	if u, err := l.Supervisor.Unit(c.Context, s.slot); err == nil && u.ActiveState == "inactive" && u.JobID == 0 {
		next = "; start it with: systemctl start " + u.Name
	}
	_, err := fmt.Fprintf(e.stdout, "%s: %ssystemd has forgotten the unit's failures%s\n", s.slot, did, next)
	return err
}

func (e *environment) reconcileCommand() *cli.Command {
	flags := []cli.Flag{&cli.BoolFlag{Name: "if-needed", Usage: "only if the unit is active and its stack is gone, or its container section, image or devices have changed"}}
	return e.hookless("reconcile", "restart the unit after a change of configuration or devices; like systemctl restart it starts one that is down", flags,
		func(c *cli.Context, l *phases.Lifecycle, s slotOf) error {
			if c.Bool("if-needed") {
				reason, err := l.ReconcileNeeded(c.Context, s.slot)
				if err != nil || reason == "" {
					return err
				}
				if _, err := fmt.Fprintf(e.stdout, "%s: %s\n", s.slot, reason); err != nil {
					return err
				}
			}
			return l.Reconcile(c.Context, s.slot)
		})
}

func (e *environment) hookless(name, usage string, flags []cli.Flag, do func(*cli.Context, *phases.Lifecycle, slotOf) error) *cli.Command {
	return e.command(&cli.Command{
		Name: name, Usage: usage, ArgsUsage: "SLOT", Category: "called by people and agents", Flags: flags,
		Action: func(c *cli.Context) error {
			s, err := e.phaseSlot(c, toBegin)
			if err != nil {
				return err
			}
			l, backend := e.lifecycle(s.cfg, s.slot, name)
			defer backend.Close()
			return do(c, l, s)
		},
	})
}

func (e *environment) resumeCommand() *cli.Command {
	return e.command(&cli.Command{
		Name: "resume", ArgsUsage: "[SLOT]", Category: "called by people and agents",
		Usage: "take up, close or settle what a phase left that died half-way",
		Action: func(c *cli.Context) error {
			if err := e.needRoot("resume"); err != nil {
				return err
			}
			cfg, slots, _, err := e.oneOrAll(c, toGoOn)
			if err != nil {
				return err
			}
			var failed []error
			for _, slot := range slots {
				failed = append(failed, e.resumeSlot(c.Context, cfg, slot))
			}
			return errors.Join(failed...)
		},
	})
}
