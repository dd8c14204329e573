// Package config reads the configuration of node-lifecycle, judges it and
// derives from it every number that must agree with another one.
//
// # Where values come from
//
// From strongest to weakest: flags (Options.Overrides), the environment
// (NODE_LIFECYCLE_*, see EnvVars), the drop-ins conf.d/*.yaml beside the main
// file in the order of their names, the main file, the built-in defaults. A
// mapping is merged key by key; a list or a single value replaces what stood
// there. A missing main file means the built-in defaults; one that cannot be
// read is an error.
//
// Without any configuration there are the slots kube1 and kube2, each the
// other's peer. A configuration that names slots of its own replaces them; one
// that only refines kube1 or kube2 keeps the pair, so that a drop-in with the
// image of one slot never takes the peer out of sight.
//
// # Strictness
//
// A key that is misspelt and silently ignored may mean that a guard is off, so
// every unknown key, duplicate key, wrong type, second document and impossible
// value is an *Error with file, line, column, key and, where there is one, the
// nearest valid key. All problems of a stage are reported together.
//
// The text is parsed by goccy/go-yaml; binding to the Go types is done here on
// its syntax tree, since only that keeps the position and the origin of each
// value across several files. Anchors, aliases and merge keys work; tags and
// directives are refused.
//
// A *Config is plain data: after Load nothing in this package changes it, so it
// may be read by several goroutines at once.
package config
