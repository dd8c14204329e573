package config

import (
	"strconv"
	"strings"
)

// OriginKind says which layer a value comes from.
type OriginKind string

// The layers, weakest first.
const (
	OriginDefault     OriginKind = "default"
	OriginFile        OriginKind = "file"
	OriginEnvironment OriginKind = "environment"
	OriginFlag        OriginKind = "flag"
)

// Origin is where a value comes from.
type Origin struct {
	Kind OriginKind
	// Name is the file's path, the variable or the flag; empty for a default.
	Name string
	// Line and Column count from 1; 0 for anything but a file.
	Line, Column int
}

// String gives "default", "/path/file.yaml:LINE", "NODE_LIFECYCLE_X" or
// "--flag".
func (o Origin) String() string {
	switch o.Kind {
	case OriginFile:
		return printable(o.Name) + ":" + strconv.Itoa(o.Line)
	case OriginEnvironment, OriginFlag:
		return printable(o.Name)
	default:
		return string(OriginDefault)
	}
}

// Origin returns where the value of a key comes from. Keys are written with
// dots, as in "timeouts.ready" and "slots.kube1.container.env.FOO"; a list has
// one origin. A key nobody has set, known or not, has the origin default.
func (c *Config) Origin(key string) Origin {
	if o, ok := c.origins[key]; ok {
		return o
	}
	return Origin{Kind: OriginDefault}
}

// has reports whether any layer above the defaults gave the key.
func (c *Config) has(key string) bool {
	_, ok := c.origins[key]
	return ok
}

// position returns the origin of the key or, for a default, of the nearest
// mapping or list around it that somebody wrote.
func (c *Config) position(key string) Origin {
	for {
		if o, ok := c.origins[key]; ok {
			return o
		}
		cut := strings.LastIndexAny(key, ".[")
		if cut < 0 {
			return Origin{Kind: OriginDefault}
		}
		key = key[:cut]
	}
}

// forget drops what is known of the inside of a list or a mapping that is
// about to be replaced.
func (c *Config) forget(key string) {
	for k := range c.origins {
		if strings.HasPrefix(k, key+"[") {
			delete(c.origins, k)
		}
	}
}

// fault makes an error that points at the key's value.
func (c *Config) fault(key, message string) *Error {
	o := c.position(key)
	return &Error{File: o.Name, Line: o.Line, Column: o.Column, Key: key, Message: message}
}
