package argv

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Normalize returns the words of a command line, the program's name first, in
// the order that the library needs. argv is not changed. An error is an
// *Error: the line must not run.
func Normalize(app App, argv []string) ([]string, error) {
	if len(argv) < 2 {
		return slices.Clone(argv), nil
	}
	last := argv[len(argv)-1]
	if app.Completion != "" && last == app.Completion {
		if slices.Contains(argv[1:], "--") {
			return nil, &Error{Message: "nothing can be completed after --"}
		}
		return slices.Clone(argv), nil
	}
	w := walk{argv: argv, next: 1}
	w.levels = []level{{flags: app.Flags, commands: app.Commands}}
	for w.next < len(argv) {
		word := argv[w.next]
		w.next++
		w.take(word)
	}
	switch {
	case w.help:
		return w.helpLine(), nil
	case w.err != nil:
		return nil, w.err
	default:
		return w.line(), nil
	}
}

// level is the application, a group or a command on the way to the last one
// that was named.
type level struct {
	name     string // as typed
	flags    []Flag
	commands []Command

	given []string       // the flags that were given, ready to be written
	typed map[int]string // by index in flags: the first spelling, with dashes
}

// walk is the state of one pass over a command line.
type walk struct {
	argv   []string
	next   int
	levels []level
	rest   []string // arguments
	ended  bool     // "--" was seen
	help   bool
	err    *Error // the first one
}

// deepest returns the command named last.
func (w *walk) deepest() *level { return &w.levels[len(w.levels)-1] }

// lost reports whether an argument stands where a command should: the name was
// mistyped, and what follows can be given no meaning.
func (w *walk) lost() bool { return len(w.deepest().commands) > 0 && len(w.rest) > 0 }

func (w *walk) take(word string) {
	switch {
	case w.ended:
		w.rest = append(w.rest, word)
	case word == "--":
		w.ended = true
	case isFlag(word):
		w.takeFlag(word)
	default:
		w.takeArgument(word)
	}
}

func (w *walk) takeArgument(word string) {
	if c := subcommand(w.deepest().commands, word); c != nil && !w.lost() {
		w.levels = append(w.levels, level{name: word, flags: c.Flags, commands: c.Commands})
		return
	}
	w.rest = append(w.rest, word)
}

// isFlag reports whether the word has the form of a flag; "-" alone has not.
func isFlag(word string) bool { return len(word) > 1 && word[0] == '-' }

func (w *walk) takeFlag(word string) {
	hits, help := w.match(word)
	switch {
	case help && !w.lost():
		w.help = true
	case len(hits) > 0:
		for _, h := range hits {
			w.give(h)
		}
	case w.lost():
		w.rest = append(w.rest, word)
	default:
		d := w.deepest()
		d.given = append(d.given, word)
	}
}

// hit is one flag found in a word.
type hit struct {
	level, flag int
	typed       string // with dashes
	value       string // what the word itself holds as the value
	hasValue    bool
}

// match finds the flags that a word stands for; none if it is unknown. help
// reports a request for help.
func (w *walk) match(word string) (hits []hit, help bool) {
	if isHelp(word) {
		return nil, true
	}
	dashes := "-"
	if strings.HasPrefix(word, "--") {
		dashes = "--"
	}
	name, value, hasValue := strings.Cut(word[len(dashes):], "=")
	for l := len(w.levels) - 1; l >= 0; l-- {
		if f := find(w.levels[l].flags, name); f >= 0 {
			return []hit{{level: l, flag: f, typed: dashes + name, value: value, hasValue: hasValue}}, false
		}
	}
	if dashes == "-" {
		return w.matchLetters(word[1:])
	}
	return nil, false
}

// isHelp knows all spellings that the library knows.
func isHelp(word string) bool {
	return word == "-h" || word == "--h" || word == "-help" || word == "--help"
}

// matchLetters finds the flags joined behind one dash. A flag with a value
// takes what is left of the word; unless each letter is known, none counts.
func (w *walk) matchLetters(letters string) (hits []hit, help bool) {
	for left := letters; left != ""; {
		letter, size := utf8.DecodeRuneInString(left)
		left = left[size:]
		h, ok := w.matchLetter(letter)
		switch {
		case ok:
			if w.attach(&h, left) {
				left = ""
			}
			hits = append(hits, h)
		case letter == 'h':
			help = true
		default:
			return nil, false
		}
	}
	if help {
		return nil, true
	}
	return hits, false
}

// matchLetter finds the flag of a letter.
func (w *walk) matchLetter(letter rune) (hit, bool) {
	for l := len(w.levels) - 1; l >= 0; l-- {
		if f := short(w.levels[l].flags, letter); f >= 0 {
			return hit{level: l, flag: f, typed: "-" + string(letter)}, true
		}
	}
	return hit{}, false
}

// attach gives a flag what is left of its word as the value, if it is one.
func (w *walk) attach(h *hit, left string) (taken bool) {
	flag := w.levels[h.level].flags[h.flag]
	value, ok := strings.CutPrefix(left, "=")
	switch {
	case left == "":
		return false
	case ok || flag.Takes == Value || flag.Takes == OptionalValue && accepts(flag, left):
		h.value, h.hasValue = value, true
		return true
	case flag.Takes == OptionalValue:
		// The next word, if any, is for the last letter.
		h.value, h.hasValue = flag.Bare, true
	}
	return false
}

func accepts(f Flag, word string) bool { return f.Accepts != nil && f.Accepts(word) }

// give writes a flag down, with the value it takes from the next word.
func (w *walk) give(h hit) {
	l := &w.levels[h.level]
	flag := l.flags[h.flag]
	if !h.hasValue {
		switch flag.Takes {
		case Value:
			h.value, h.hasValue = w.value(flag, h.typed)
			if !h.hasValue {
				return
			}
		case OptionalValue:
			h.value, h.hasValue = flag.Bare, true
			if w.next < len(w.argv) && accepts(flag, w.argv[w.next]) && !w.special(w.argv[w.next]) {
				h.value = w.argv[w.next]
				w.next++
			}
		}
	}
	if l.typed == nil {
		l.typed = map[int]string{}
	}
	if l.typed[h.flag] == "" {
		l.typed[h.flag] = h.typed
	}
	word := l.typed[h.flag]
	if h.hasValue {
		word += "=" + h.value
	}
	l.given = append(l.given, word)
}

// value returns the next word as the value of a flag. If that word is rather
// something else, the line is at fault and the word stays.
func (w *walk) value(flag Flag, typed string) (value string, ok bool) {
	if w.next == len(w.argv) {
		w.fail(typed, fmt.Sprintf("flag %s needs a value", typed))
		return "", false
	}
	word := w.argv[w.next]
	switch {
	case w.special(word):
		w.fail(typed, fmt.Sprintf("flag %s needs a value before %s", typed, word))
		return "", false
	case isFlag(word) && !isNegative(word) && !accepts(flag, word):
		w.fail(typed, fmt.Sprintf("flag %s needs a value; if that is %q, write %s=%s", typed, word, typed, word))
		return "", false
	case !isFlag(word) && flag.Accepts != nil && !flag.Accepts(word) && flag.Wants != "":
		w.fail(typed, fmt.Sprintf("%s takes %s; not %q", typed, flag.Wants, word))
		return "", false
	case !isFlag(word) && flag.Accepts != nil && !flag.Accepts(word):
		w.fail(typed, fmt.Sprintf("flag %s needs a value, and %q is none", typed, word))
		return "", false
	}
	w.next++
	return word, true
}

// special reports whether the word is "--", a flag known here or a request for
// help, and so never a value.
func (w *walk) special(word string) bool {
	if word == "--" || !isFlag(word) {
		return word == "--"
	}
	hits, help := w.match(word)
	return help || len(hits) > 0
}

// isNegative reports whether a word with a dash is a number or a time.
func isNegative(word string) bool {
	digits := strings.TrimPrefix(word[1:], ".")
	return digits != "" && digits[0] >= '0' && digits[0] <= '9'
}

func (w *walk) fail(flag, message string) {
	if w.err == nil {
		w.err = &Error{Command: strings.Join(w.names(), " "), Flag: flag, Message: message}
	}
}

// names returns the groups and the command that were named.
func (w *walk) names() []string {
	var names []string
	for _, l := range w.levels[1:] {
		names = append(names, l.name)
	}
	return names
}

func (w *walk) helpLine() []string {
	return append(append([]string{w.argv[0]}, w.names()...), "--help")
}

func (w *walk) line() []string {
	out := []string{w.argv[0]}
	for i, l := range w.levels {
		if i > 0 {
			out = append(out, l.name)
		}
		out = append(out, l.given...)
	}
	if w.ended {
		out = append(out, "--")
	}
	return append(out, w.rest...)
}
