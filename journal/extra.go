package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Extra holds the members of a JSON object that this version does not know, by
// name and as the text they were read as. They are written back as they came, so
// an older binary never loses what a newer one recorded.
type Extra map[string]json.RawMessage

// decodeKeeping reads a JSON object into a struct and returns the members that
// none of its fields takes.
func decodeKeeping[T any](data []byte) (v T, extra Extra, err error) {
	if decodeStrict(data, &v) {
		return v, nil, nil
	}
	v = *new(T)
	if err := json.Unmarshal(data, &v); err != nil {
		return v, nil, err
	}
	if err := json.Unmarshal(data, &extra); err != nil {
		return v, nil, err
	}
	known := memberNames(reflect.TypeFor[T]())
	maps.DeleteFunc(extra, func(name string, _ json.RawMessage) bool { return isKnown(known, name) })
	if len(extra) == 0 {
		extra = nil
	}
	return v, extra, nil
}

// decodeStrict reports whether data is one JSON object without unknown members;
// that is nearly every one, and saves the second look.
func decodeStrict(data []byte, v any) bool {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if dec.Decode(v) != nil {
		return false
	}
	_, err := dec.Token()
	return err == io.EOF
}

// encodeKeeping is the inverse of decodeKeeping: the fields of v, then the
// members of extra by name, each byte for byte. A member that v has a field for
// is left out.
func encodeKeeping[T any](v T, extra Extra) ([]byte, error) {
	data, err := encodeJSON(v)
	if err != nil || len(extra) == 0 {
		return data, err
	}
	known := memberNames(reflect.TypeFor[T]())
	data = data[:len(data)-1]
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		if isKnown(known, name) {
			continue
		}
		if !json.Valid(extra[name]) {
			return nil, fmt.Errorf("extra member %q is no JSON value", name)
		}
		quoted, err := encodeJSON(name)
		if err != nil {
			return nil, err
		}
		if len(data) > 1 {
			data = append(data, ',')
		}
		data = append(append(append(data, quoted...), ':'), extra[name]...)
	}
	return append(data, '}'), nil
}

// encodeJSON is json.Marshal without the escapes for HTML, which would make
// error texts longer and harder to read.
func encodeJSON(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// memberNames returns the JSON names of the fields of a struct.
func memberNames(t reflect.Type) []string {
	var names []string
	for f := range t.Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "-" {
			names = append(names, name)
		}
	}
	return names
}

// isKnown compares as package json does, without regard to case.
func isKnown(names []string, name string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
}
