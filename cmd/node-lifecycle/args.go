package main

import (
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/node-lifecycle/node-lifecycle/internal/argv"
)

// normalise puts the words of a command line, the program's name first, into the order
// that urfave/cli needs, by the application's own description of its flags.
func normalise(app *cli.App, args []string) ([]string, error) {
	args = append([]string{app.Name}, args...)
	// What is being completed is no command line yet, and must not be judged as one.
	if len(args) > 1 && args[1] == completeName {
		return args, nil
	}
	words, err := argv.Normalize(argv.App{Flags: describeFlags(app.Flags), Commands: describe(app.Commands)}, args)
	if last := len(words) - 1; err == nil && words[last] == "--help" && !slices.Contains(words, "--") {
		words = slices.Concat(words[:1], []string{"help"}, words[1:last])
	}
	return words, err
}

func describe(commands []*cli.Command) (all []argv.Command) {
	for _, c := range commands {
		all = append(all, argv.Command{
			Names: append([]string{c.Name}, c.Aliases...), Flags: describeFlags(c.Flags), Commands: describe(c.Subcommands),
		})
	}
	return all
}

func describeFlags(flags []cli.Flag) (all []argv.Flag) {
	for _, f := range flags {
		flag := argv.Flag{Names: f.Names(), Takes: argv.Value}
		if _, isSwitch := f.(*cli.BoolFlag); isSwitch {
			flag.Takes = argv.Nothing
		}
		switch f.Names()[0] {
		case bootFlag:
			flag.Takes, flag.Bare, flag.Accepts = argv.OptionalValue, "0", isBoot
		case linesFlag:
			flag.Accepts, flag.Wants = isLines, linesValue
		}
		all = append(all, flag)
	}
	return all
}

// The flags of history of which it is known which words they take.
const (
	bootFlag  = "boot" // its value may be left out, as in journalctl
	linesFlag = "lines"
)

// isLines tells a number of lines from a slot's name behind -n.
func isLines(word string) bool { return word == "all" || strings.Trim(word, "0123456789") == "" }

// The fewest digits by which the beginning of a boot's id is told from something else:
// from a number, and, if it begins with a letter, from the name of a slot.
const (
	minBootDigits  = 4
	minBootLetters = 8
)

// isBoot tells a boot from a slot's name behind -b: an offset, or an id or its beginning.
func isBoot(word string) bool {
	if n, err := strconv.Atoi(word); err == nil && n <= 0 {
		return true
	}
	id := strings.ReplaceAll(word, "-", "")
	if strings.Trim(id, "0123456789abcdefABCDEF") != "" {
		return false
	}
	return len(id) >= minBootLetters || len(id) >= minBootDigits && id[0] <= '9'
}
