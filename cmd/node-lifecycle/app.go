package main

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/node-lifecycle/node-lifecycle/internal/render"
)

// run understands the command line and does what it asks for.
func run(ctx context.Context, env *environment) error {
	app := env.app()
	args, err := normalise(app, env.args)
	if err != nil {
		return usagef("%w", err)
	}
	if err = app.RunContext(ctx, args); !errors.Is(err, errVersion) {
		return err
	}
	return nil
}

// errVersion ends a command line before its command: the version was asked for, and printed.
var errVersion = errors.New("the version was printed")

// app describes the command line. urfave/cli v2 leaves much to its defaults that would
// mislead a unit: help on stdout with exit code 0 or 1 for what it does not understand,
// exits of its own, guesses at what was meant. Each is set here. Its flag for help is off
// as well: a request for help has become the command help before the library sees it.
func (e *environment) app() *cli.App {
	commands := e.hookCommands()
	commands = append(commands, e.operateCommands()...)
	commands = append(commands,
		e.statusCommand(), e.historyCommand(), e.graphCommand(),
		e.unitsCommand(), e.configCommand(), e.versionCommand(), e.completionCommand(), e.completeCommand(), e.helpCommand(),
	)
	return &cli.App{
		Name: "node-lifecycle", HelpName: "node-lifecycle",
		Usage:     "starts a Kubernetes node stack under systemd, never two on a host, and remembers what happened",
		UsageText: "node-lifecycle [options] COMMAND [SLOT] [options]",
		Commands:  commands,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "config", Usage: "read the configuration from `FILE`", DefaultText: "/etc/node-lifecycle/config.yaml"},
			&cli.StringFlag{Name: "state-dir", Usage: "keep the journal in `DIRECTORY`", DefaultText: "state_dir of the configuration"},
			&cli.StringFlag{Name: "color", Usage: "`WHEN` to use colours: auto, always or never", Value: "auto"},
			&cli.BoolFlag{Name: "version", Usage: "print the version"},
		},
		Before: func(c *cli.Context) (err error) {
			if e.color, err = render.Color(c.String("color"), e.getenv, e.tty); err != nil {
				return usagef("--color: %w", err)
			}
			// Of a command that stands beside it nothing is done, as with systemctl.
			if c.Bool("version") && c.App.Command(c.Args().First()) != nil {
				return cmp.Or(e.printVersion(), errVersion)
			}
			return nil
		},
		Action: func(c *cli.Context) error {
			switch {
			case c.NArg() > 0:
				return unknownCommand(commands, c.Args().First(), "")
			case c.Bool("version"):
				return e.printVersion()
			}
			return e.showHelp(cli.AppHelpTemplate, c.App)
		},
		HideVersion: true, HideHelp: true, HideHelpCommand: true,
		Writer: e.stdout, ErrWriter: e.stderr,
		ExitErrHandler: func(*cli.Context, error) {}, // main knows the exit codes
		OnUsageError:   e.badUsage,
	}
}

// command fills in what every command needs.
func (e *environment) command(c *cli.Command) *cli.Command {
	c.HideHelp, c.HideHelpCommand = true, true
	c.OnUsageError = e.badUsage
	return c
}

// group is a command that only has others below it.
func (e *environment) group(c *cli.Command) *cli.Command {
	sub := c.Subcommands
	name := "node-lifecycle " + c.Name
	for _, s := range sub {
		s.HelpName = name + " " + s.Name
	}
	c.Action = func(c *cli.Context) error {
		if c.NArg() > 0 {
			return unknownCommand(sub, c.Args().First(), c.Command.Name)
		}
		return usagef("%s needs one of its commands: %s", c.Command.Name, strings.Join(names(sub), ", "))
	}
	return e.command(c)
}

func names(commands []*cli.Command) (all []string) {
	for _, c := range commands {
		if !c.Hidden {
			all = append(all, c.Name)
		}
	}
	return all
}

func noArguments(c *cli.Context) error {
	if c.NArg() > 0 {
		return usagef("%s takes no arguments, but was given %s", c.Command.Name, strings.Join(c.Args().Slice(), " "))
	}
	return nil
}

// outputFlag is the flag for the format of the output; completion offers its formats.
func outputFlag(value, usage string, formats ...string) cli.Flag {
	return &formatFlag{
		StringFlag: cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "`FORMAT`: " + usage, Value: value},
		formats:    formats,
	}
}

// formatFlag knows what it may be given.
type formatFlag struct {
	cli.StringFlag
	formats []string
}

func unknownFormat(c *cli.Context, formats []string) error {
	last := len(formats) - 1
	return usagef("unknown output format %q: %s or %s", c.String("output"), strings.Join(formats[:last], ", "), formats[last])
}
