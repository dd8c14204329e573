package argv

import (
	"slices"
	"unicode/utf8"
)

// Takes says whether a flag has a value.
type Takes int

const (
	// Nothing: the flag is a switch; a value needs "=" (--follow=false).
	Nothing Takes = iota
	// Value: the flag needs a value.
	Value
	// OptionalValue: the flag may stand alone, which means Flag.Bare.
	OptionalValue
)

// Flag describes a flag.
type Flag struct {
	// Names are all its names, without dashes. Those of one letter can be
	// joined behind a single dash.
	Names []string
	Takes Takes
	// Bare is the value that a flag with an optional one has without it.
	Bare string
	// Accepts tells whether a word can be the value; nil accepts any that
	// does not look like a flag. With OptionalValue it decides whether the
	// next word belongs to the flag; nil means never.
	Accepts func(word string) bool
	// Wants says what Accepts accepts, for people: "a number".
	Wants string
}

// Command describes a command, or a group of commands if it has any.
type Command struct {
	// Names are its name and its aliases.
	Names    []string
	Flags    []Flag
	Commands []Command
}

// App describes an application.
type App struct {
	// Flags are those that stand in front of every command.
	Flags    []Flag
	Commands []Command
	// Completion is the word that asks for shell completion when it is the
	// last one; "" if there is none.
	Completion string
}

// Error is a command line that must not run.
type Error struct {
	// Command is the command with its groups ("journal verify"), "" if none
	// had been named yet.
	Command string
	// Flag is the flag as it was typed, "" if the fault is not one of a flag.
	Flag string
	// Message says what is wrong, naming the flag.
	Message string
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// find returns the index of the flag of that name, -1 if there is none.
func find(flags []Flag, name string) int {
	return slices.IndexFunc(flags, func(f Flag) bool { return name != "" && slices.Contains(f.Names, name) })
}

// short returns the index of the flag of that letter, -1 if there is none.
func short(flags []Flag, letter rune) int {
	if letter == utf8.RuneError {
		return -1
	}
	return find(flags, string(letter))
}

func subcommand(commands []Command, name string) *Command {
	for i := range commands {
		if slices.Contains(commands[i].Names, name) {
			return &commands[i]
		}
	}
	return nil
}
