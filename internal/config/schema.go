package config

import (
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"
)

// fieldByKey returns the index of the struct field with that key.
func fieldByKey(t reflect.Type, key string) (int, bool) {
	for i := range t.NumField() {
		if tag := t.Field(i).Tag.Get("yaml"); tag != "" && tag == key {
			return i, true
		}
	}
	return 0, false
}

// keysOf returns the keys of a struct in the order of the schema.
func keysOf(t reflect.Type) []string {
	var keys []string
	for i := range t.NumField() {
		if tag := t.Field(i).Tag.Get("yaml"); tag != "" {
			keys = append(keys, tag)
		}
	}
	return keys
}

// unknownKey says that a mapping has no such key and what was probably meant:
// a key of this mapping spelt like it, else the place where the schema has a
// key spelt exactly so, else all there is.
func unknownKey(t reflect.Type, name string) string {
	keys := keysOf(t)
	if near := nearest(name, keys); near != "" {
		return fmt.Sprintf("unknown key; the nearest is %q", near)
	}
	if place := elsewhere(reflect.TypeFor[Config](), name, ""); place != "" {
		return fmt.Sprintf("unknown key here; it belongs to %s", place)
	}
	return "unknown key; known here: " + strings.Join(keys, ", ")
}

// elsewhere returns the full key of the first key of that name at or below t.
func elsewhere(t reflect.Type, name, prefix string) string {
	for i := range t.NumField() {
		tag, ft := t.Field(i).Tag.Get("yaml"), t.Field(i).Type
		full := join(prefix, tag)
		switch {
		case tag == "":
			continue
		case tag == name:
			return full
		case ft == reflect.TypeFor[map[string]Slot]():
			ft, full = reflect.TypeFor[Slot](), full+".SLOT"
		case ft == reflect.TypeFor[[]Probe]():
			ft, full = reflect.TypeFor[Probe](), full+"[]"
		}
		if ft.Kind() != reflect.Struct {
			continue
		}
		if place := elsewhere(ft, name, full); place != "" {
			return place
		}
	}
	return ""
}

// Nearest returns the candidate that a name which is none of them was probably meant to
// be; "" if none is near.
func Nearest(name string, candidates []string) string { return nearest(name, candidates) }

// nearest returns the candidate that name was probably meant to be, "" if none
// is near. Case and separators do not count: stateDir is state_dir.
func nearest(name string, candidates []string) string {
	best, bestDistance := "", 0
	folded := fold(name)
	for _, c := range candidates {
		d := distance(folded, fold(c))
		if limit := max(1, utf8.RuneCountInString(c)/3); d <= limit && (best == "" || d < bestDistance) {
			best, bestDistance = c, d
		}
	}
	return best
}

// foldLimit bounds the length of what is compared; no key is nearly as long.
const foldLimit = 64

func fold(s string) []rune {
	r := []rune(strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(s)))
	return r[:min(len(r), foldLimit)]
}

// distance counts the insertions, deletions, replacements and swaps of
// neighbours that turn a into b.
func distance(a, b []rune) int {
	before, prev, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(prev[j]+1, row[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, prev, row = prev, row, before
	}
	return prev[len(b)]
}
