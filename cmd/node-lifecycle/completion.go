package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/node-lifecycle/node-lifecycle/internal/argv"
	"github.com/node-lifecycle/node-lifecycle/internal/config"
	"github.com/node-lifecycle/node-lifecycle/internal/render"
)

// The scripts only hand the words over: what fits is decided by the binary, which
// knows the slots of this host.
var completionScripts = map[string]string{
	"bash": `# node-lifecycle completion for bash
_node_lifecycle() {
    local IFS=$'\n'
    COMPREPLY=($(node-lifecycle __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _node_lifecycle node-lifecycle
`,
	"zsh": `#compdef node-lifecycle
_node_lifecycle() {
    local -a words_found
    words_found=("${(@f)$(node-lifecycle __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    compadd -- $words_found
}
compdef _node_lifecycle node-lifecycle
`,
	"fish": `# node-lifecycle completion for fish
function __node_lifecycle_complete
    set -l words (commandline -opc) (commandline -ct)
    node-lifecycle __complete $words[2..] 2>/dev/null
end
complete -c node-lifecycle -f -a '(__node_lifecycle_complete)'
`,
}

func (e *environment) completionCommand() *cli.Command {
	return e.command(&cli.Command{
		Name: "completion", ArgsUsage: "bash|zsh|fish", Category: "set up",
		Usage: "print the completion script for a shell",
		Action: func(c *cli.Context) error {
			script, ok := completionScripts[c.Args().First()]
			if !ok || c.NArg() != 1 {
				return usagef("completion needs the name of a shell: bash, zsh or fish")
			}
			_, err := fmt.Fprint(e.stdout, script)
			return err
		},
	})
}

// completeName is what the scripts call; nobody else does.
const completeName = "__complete"

// completeCommand answers the scripts. The last word is the one being typed. It only
// ever prints words: no word of the line is run.
func (e *environment) completeCommand() *cli.Command {
	return e.command(&cli.Command{
		Name: completeName, Hidden: true, SkipFlagParsing: true,
		Action: func(c *cli.Context) error {
			words := c.Args().Slice()
			if len(words) == 0 {
				words = []string{""}
			}
			for _, word := range e.candidates(c, words[:len(words)-1], words[len(words)-1]) {
				if _, err := fmt.Fprintln(e.stdout, word); err != nil {
					return err
				}
			}
			return nil
		},
	})
}

func (e *environment) candidates(c *cli.Context, before []string, typed string) []string {
	commands, flags := c.App.Commands, c.App.Flags
	var command *cli.Command
	var value cli.Flag // of which the next word is the value
	positionals := 0
	for _, word := range before {
		i := slices.IndexFunc(commands, func(cmd *cli.Command) bool { return cmd.HasName(word) })
		switch {
		case value != nil:
			value = nil
		case strings.HasPrefix(word, "-"):
			value = wantsValue(flags, word)
		case i >= 0 && positionals == 0:
			command = commands[i]
			commands, flags = command.Subcommands, append(command.Flags, c.App.Flags...)
		default:
			positionals++
		}
	}
	var all []string
	switch {
	case value != nil: // of most only who types knows it
		all = valuesOf(value)
	case strings.HasPrefix(typed, "--") && strings.Contains(typed, "="):
		name, _, _ := strings.Cut(typed, "=")
		for _, known := range valuesOf(wantsValue(flags, name)) {
			all = append(all, name+"="+known)
		}
	case strings.HasPrefix(typed, "-"):
		for _, f := range flags {
			all = append(all, "--"+f.Names()[0])
		}
	case command == nil || len(commands) > 0:
		all = names(commands)
	case positionals == 0 && command.Name == "completion":
		all = []string{"bash", "fish", "zsh"}
	case positionals == 0 && command.Name == "help":
		all = append(names(c.App.Commands), "exit-codes")
	case positionals == 0 && strings.Contains(command.ArgsUsage, "SLOT"):
		all = e.slotNames()
	}
	all = slices.DeleteFunc(all, func(word string) bool { return !strings.HasPrefix(word, typed) })
	slices.Sort(all)
	return all
}

// wantsValue is the flag that takes the next word for its value, if the word is one.
func wantsValue(flags []cli.Flag, word string) cli.Flag {
	name := strings.TrimLeft(word, "-")
	for i, f := range describeFlags(flags) {
		if slices.Contains(f.Names, name) && f.Takes == argv.Value {
			return flags[i]
		}
	}
	return nil
}

// valuesOf are the values of a flag that are known beforehand.
func valuesOf(f cli.Flag) []string {
	if f, ok := f.(*formatFlag); ok {
		return slices.Clone(f.formats)
	}
	if f != nil && f.Names()[0] == "color" {
		return []string{render.ColorAuto, render.ColorAlways, render.ColorNever}
	}
	return nil
}

// slotNames are the configured slots, as far as the configuration can be read.
func (e *environment) slotNames() []string {
	cfg, err := config.Load(config.Options{Getenv: e.getenv, Path: e.getenv(config.EnvConfig)})
	if err != nil {
		return nil
	}
	return cfg.SlotNames()
}
