package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/node-lifecycle/node-lifecycle/internal/config"
)

// exitCodes is the table of exit codes. docs/exit-codes.md is printed from it.
var exitCodes = []struct {
	code    string
	meaning string
}{
	{"0", "done, or nothing to do"},
	{"3", "status SLOT: the slot is not up, or the journal and the world disagree"},
	{"4", "status, history, graph: there is no such slot"},
	{"64", "the command line cannot be understood; from what acts on a slot (a phase, run, stop, reset) also: there is no such slot"},
	{"69", "the container engine or systemd cannot be reached, or what must be proven cannot be"},
	{"70", "a bug in node-lifecycle"},
	{"73", "the journal cannot be created: its directory or file has the wrong owner, mode or type; or a unit file cannot"},
	{"74", "the journal cannot be read or written, or the output not be written"},
	{"75", "refused for now: something else holds the slot, or is at work on it; later it may go"},
	{"76", "refused: the peer is alive, or holds the claim"},
	{"77", "no permission; most commands need root"},
	{"78", "the configuration, or the unit, is wrong"},
	{"79", "post-start: the stack was not ready in time"},
	{"80", "post-start: what runs after the start failed or ran out of time"},
	{"81", "the stack died, or ended although nobody had asked it to"},
	{"129", "interrupted by SIGHUP"},
	{"130", "interrupted by SIGINT"},
	{"143", "interrupted by SIGTERM"},
	{"255", "peer-check only: anything but yes (0) and no (76), because systemd takes every other code for a silent no"},
}

func writeExitCodes(w io.Writer) error {
	for _, e := range exitCodes {
		if _, err := fmt.Fprintf(w, "%4s  %s\n", e.code, e.meaning); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(w, "\nrun exits with 0 if and only if its end was asked for, otherwise with the stack's own code, 81 in place of 0.")
	return err
}

// helpCommand stands in for urfave's own, which takes a topic it does not know for
// success.
func (e *environment) helpCommand() *cli.Command {
	return e.command(&cli.Command{
		Name: "help", ArgsUsage: "[COMMAND | exit-codes]", Category: "set up",
		Usage: "explain a command, or what the exit codes mean",
		Action: func(c *cli.Context) error {
			switch {
			case c.NArg() == 0:
				return e.showHelp(cli.AppHelpTemplate, c.App)
			case c.NArg() == 1 && c.Args().First() == "exit-codes":
				return writeExitCodes(e.stdout)
			}
			return e.helpOn(c, c.App.Commands, c.Args().Slice())
		},
	})
}

// groupHelp is the help on a group: the library's own lists a group's commands only
// while it runs the group.
const groupHelp = `NAME:
   {{.HelpName}} - {{.Usage}}

USAGE:
   {{.HelpName}} COMMAND [options]

COMMANDS:{{range .Subcommands}}
   {{.Name}}{{"\t"}}{{.Usage}}{{end}}
`

func (e *environment) helpOn(c *cli.Context, commands []*cli.Command, path []string) error {
	i := slices.IndexFunc(commands, func(cmd *cli.Command) bool { return cmd.HasName(path[0]) })
	switch {
	case i < 0:
		if near := config.Nearest(path[0], names(commands)); near != "" {
			return usagef("there is no command %q to explain; the nearest is %s; see: node-lifecycle help", path[0], near)
		}
		return usagef("there is no command %q to explain; see: node-lifecycle help", path[0])
	case len(path) > 1:
		return e.helpOn(c, commands[i].Subcommands, path[1:])
	case len(commands[i].Subcommands) > 0:
		return e.showHelp(groupHelp, commands[i])
	}
	return e.showHelp(cli.CommandHelpTemplate, commands[i])
}

// showHelp writes help in one piece: the library's printer keeps a failed write to itself.
func (e *environment) showHelp(template string, about any) error {
	var text bytes.Buffer
	cli.HelpPrinter(&text, template, about)
	_, err := e.stdout.Write(text.Bytes())
	return err
}
