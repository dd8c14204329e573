package config

import (
	"errors"
	"io/fs"
	"strconv"
	"strings"
)

// maxProblems bounds how many errors of one stage are reported: enough to
// repair a file in one go, few enough to read.
const maxProblems = 20

// Error is one problem of the configuration.
type Error struct {
	// File is the path of the file at fault. For a value that comes from the
	// environment or from a flag it is the variable's or the flag's name.
	File string
	// Line and Column count from 1, columns in characters; both are 0 where
	// there is no position.
	Line, Column int
	// Key is the full key, such as slots.kube1.container.image; empty when the
	// problem is not one of a key.
	Key string
	// Message says what is wrong and what would be right.
	Message string
	// Err is the cause, if there is one below this package.
	Err error
}

// Error gives "file:line:column: key: message", without the parts that are
// not known.
func (e *Error) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(printable(e.File))
		if e.Line > 0 {
			b.WriteString(":" + strconv.Itoa(e.Line) + ":" + strconv.Itoa(e.Column))
		}
		b.WriteString(": ")
	}
	if e.Key != "" {
		b.WriteString(Shorten(printable(e.Key)) + ": ")
	}
	b.WriteString(Shorten(e.Message))
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Misconfigured reports that only a change of the configuration helps. It is
// false only where the file could not be read for want of permission.
func (e *Error) Misconfigured() bool { return !e.Denied() }

// Denied reports that the configuration could not be read for want of
// permission.
func (e *Error) Denied() bool { return errors.Is(e.Err, fs.ErrPermission) }

// problems collects the errors of one stage.
type problems struct{ list []error }

func (p *problems) add(e *Error) {
	if len(p.list) < maxProblems {
		p.list = append(p.list, e)
	}
}

// err returns nil, the only problem, or all of them, one per line.
func (p *problems) err() error {
	if len(p.list) == 1 {
		return p.list[0]
	}
	return errors.Join(p.list...)
}

const (
	// maxWord and maxText bound what a message repeats of somebody's words, in characters.
	// A path is longer only by mistake.
	maxWord = 200
	maxText = 1000
)

// Shorten cuts the words of a text, and the text, that are too long to be read.
func Shorten(text string) string {
	if len(text) <= maxWord {
		return text
	}
	words := strings.Split(text, " ")
	for i, word := range words {
		words[i] = cut(word, maxWord)
	}
	return cut(strings.Join(words, " "), maxText)
}

func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	characters := []rune(text)
	if len(characters) <= limit {
		return text
	}
	return string(characters[:limit]) + "…"
}

// printable returns s, quoted if it holds anything that a terminal could take
// for more than text.
func printable(s string) string {
	for _, r := range s {
		if !strconv.IsPrint(r) {
			return strconv.Quote(s)
		}
	}
	return s
}
