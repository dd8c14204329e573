package config

import (
	"bufio"
	"encoding/json"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Show writes the effective configuration as a YAML file that Load reads back
// to the same values. With origins each value is followed by a comment that
// says where it comes from.
func (c *Config) Show(w io.Writer, origins bool) error {
	s := shower{config: c}
	s.structure(reflect.ValueOf(c).Elem(), "", 0)

	widest := 0
	if origins {
		for _, l := range s.lines {
			if n := utf8.RuneCountInString(l.text); l.key != "" && n <= originColumn {
				widest = max(widest, n)
			}
		}
	}
	out := bufio.NewWriter(w)
	for _, l := range s.lines {
		out.WriteString(l.text)
		if origins && l.key != "" {
			out.WriteString(strings.Repeat(" ", max(0, widest-utf8.RuneCountInString(l.text))))
			out.WriteString("  # " + c.Origin(l.key).String())
		}
		out.WriteByte('\n')
	}
	return out.Flush()
}

// originColumn is the longest line that others are aligned with.
const originColumn = 60

// line is one line of output; key is set where the line holds a value.
type line struct{ text, key string }

type shower struct {
	config *Config
	lines  []line
}

func (s *shower) add(depth int, text, key string) {
	s.lines = append(s.lines, line{strings.Repeat("  ", depth) + text, key})
}

func (s *shower) structure(v reflect.Value, prefix string, depth int) {
	for i := range v.NumField() {
		if tag := v.Type().Field(i).Tag.Get("yaml"); tag != "" {
			s.member(v.Field(i), tag, join(prefix, tag), depth)
		}
	}
}

func (s *shower) member(v reflect.Value, name, key string, depth int) {
	switch value := v.Interface().(type) {
	case map[string]Slot:
		s.add(depth, name+":", "")
		for _, slot := range slices.Sorted(maps.Keys(value)) {
			s.add(depth+1, slot+":", "")
			s.structure(reflect.ValueOf(value[slot]), join(key, slot), depth+2)
		}
	case map[string]string:
		s.add(depth, name+":", "")
		for _, k := range slices.Sorted(maps.Keys(value)) {
			s.add(depth+1, quote(k)+": "+quote(value[k]), join(key, k))
		}
	case []Probe:
		s.probes(value, name, key, depth)
	case []string:
		s.add(depth, name+": "+flow(value), key)
	default:
		if v.Kind() == reflect.Struct {
			s.add(depth, name+":", "")
			s.structure(v, key, depth+1)
			return
		}
		s.add(depth, name+": "+scalarText(v), key)
	}
}

func (s *shower) probes(probes []Probe, name, key string, depth int) {
	if len(probes) == 0 {
		s.add(depth, name+": []", key)
		return
	}
	s.add(depth, name+":", key)
	for _, p := range probes {
		text := ""
		switch {
		case p.HTTP != "":
			text = "http: " + quote(p.HTTP)
		case len(p.Exec) > 0:
			text = "exec: " + flow(p.Exec)
		default:
			text = "units: " + flow(p.Units)
		}
		s.add(depth+1, "- "+text, "")
	}
}

func scalarText(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case time.Duration:
		return formatDuration(x)
	case Size:
		return formatSize(x)
	case bool:
		return strconv.FormatBool(x)
	case int:
		return strconv.Itoa(x)
	default:
		return quote(v.String())
	}
}

func flow(items []string) string {
	quoted := make([]string, len(items))
	for i, item := range items {
		quoted[i] = quote(item)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// isPlain reports whether text means itself in YAML, in flow style too.
func isPlain(text string) bool {
	const inside = alnum + "_./@+=-:"
	return spelt(text, letters+"/", inside) && !strings.HasSuffix(text, ":") && !strings.Contains(text, "::") &&
		!words[strings.ToLower(text)] && !isNumber(text)
}

// words are plain texts that YAML, of whatever version, takes for something
// else.
var words = map[string]bool{
	"true": true, "false": true, "null": true, "yes": true, "no": true, "on": true, "off": true, "y": true, "n": true,
}

// quote writes text as a YAML scalar: plain where that is safe for any reader,
// else in double quotes. JSON's escapes are YAML's as well.
func quote(text string) string {
	if isPlain(text) {
		return text
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	// Encoding a string to memory cannot fail.
	_ = enc.Encode(text)
	return strings.TrimSuffix(b.String(), "\n")
}
