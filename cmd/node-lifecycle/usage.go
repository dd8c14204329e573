package main

import (
	"regexp"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/node-lifecycle/node-lifecycle/internal/config"
)

// What a person typed and we do not understand is said in our words, not in the library's:
// which command, the word as it was typed, what was probably meant, and where help is.

// unknownCommand refuses a word that is none of the commands; group is the command that
// they are in, "" for the program itself.
func unknownCommand(commands []*cli.Command, word, group string) error {
	what, where := "there is no command", "node-lifecycle help"
	if group != "" {
		what, where = group+" has no command", where+" "+group
	}
	if near := config.Nearest(word, names(commands)); near != "" {
		return usagef("%s %q; the nearest is %s; see: %s", what, word, near, where)
	}
	return usagef("%s %q; it is one of %s; see: %s", what, word, strings.Join(names(commands), ", "), where)
}

// What the library says of flags. They are compiled when they are needed: a hook is done
// sooner than that would take.
const (
	flagUnknown = `^flag provided but not defined: -+(.*)$`
	flagSwitch  = `^invalid boolean value "(.*)" for -+(\S+): `
)

func (e *environment) badUsage(c *cli.Context, err error, _ bool) error {
	help := "see: node-lifecycle help"
	of, flags := "", c.App.Flags
	if c.Command != nil && c.Command.Name != "" && c.Command.Name != c.App.Name {
		path := strings.TrimPrefix(c.Command.HelpName, "node-lifecycle ")
		of, help = path, help+" "+path
		flags = append(append([]cli.Flag(nil), c.Command.Flags...), flags...)
	}
	if m := regexp.MustCompile(flagUnknown).FindStringSubmatch(err.Error()); m != nil {
		said := "there is no flag " + e.asTyped(m[1])
		if of != "" {
			said = of + " has no flag " + e.asTyped(m[1])
		}
		if near := nearestFlag(m[1], flags); near != "" {
			said += "; the nearest is " + near
		}
		return usagef("%s; %s", said, help)
	}
	if of != "" {
		of += ": "
	}
	if m := regexp.MustCompile(flagSwitch).FindStringSubmatch(err.Error()); m != nil {
		return usagef("%s%s is a switch, and takes no value such as %q; %s", of, e.asTyped(m[2]), m[1], help)
	}
	return usagef("%s%w; %s", of, err, help)
}

// asTyped is a flag with the dashes that it was typed with.
func (e *environment) asTyped(name string) string {
	for _, word := range e.args {
		typed, _, _ := strings.Cut(word, "=")
		if typed != "" && strings.TrimLeft(typed, "-") == name && typed[0] == '-' {
			return typed
		}
	}
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

func nearestFlag(name string, flags []cli.Flag) string {
	var long []string
	for _, f := range flags {
		long = append(long, f.Names()[0])
	}
	if near := config.Nearest(name, long); near != "" && len(name) > 1 {
		return "--" + near
	}
	return ""
}
