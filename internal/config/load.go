package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// Options says what Load reads.
type Options struct {
	// Path is the main file; "" means DefaultPath. Drop-ins are read from
	// conf.d in the same directory.
	Path string
	// Required makes a missing main file an error. Set it when somebody asked
	// for the file by name, where a typing mistake must not mean defaults.
	Required bool
	// Getenv looks up environment variables, as os.Getenv does; nil for none.
	Getenv func(string) string
	// Environ are all variables there are, as os.Environ gives them, of which those
	// that begin like ours and are not known are errors; nil for none.
	Environ []string
	// Overrides are values given by flags; of two for one key the later wins.
	Overrides []Override
}

// Override is a value given by a flag.
type Override struct {
	// Key is the full key of a single value outside slots: engine.socket.
	Key string
	// Value is written as in the file.
	Value string
	// Flag is the flag as people know it, for messages: --engine-socket.
	Flag string
}

// Load reads, completes and judges the configuration. It reads files and does
// not block on anything else. Every error is, or wraps, *Error.
func Load(o Options) (*Config, error) {
	c := &Config{origins: map[string]Origin{}}
	files, err := sources(o)
	if err != nil {
		return nil, err
	}
	if err := c.read(files, maxFileSize); err != nil {
		return nil, err
	}
	return c.complete(o)
}

// complete adds to the files what is stronger and what is weaker than they, and judges
// the whole.
func (c *Config) complete(o Options) (*Config, error) {
	var p problems
	unknownVariables(o.Environ, &p)
	c.applyEnvironment(o.Getenv, &p)
	c.applyOverrides(o.Overrides, &p)
	if err := p.err(); err != nil {
		return nil, err
	}
	c.StateDir = cleanPath(c.StateDir)
	c.fillDefaults(&p)
	c.validate(&p)
	if err := p.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// read binds the files in order. All of them are tried, so that one look shows
// every problem.
func (c *Config) read(files []string, limit int64) error {
	var failed []error
	for _, file := range files {
		data, err := readFile(file, limit)
		if err == nil {
			var body ast.Node
			if body, err = parse(file, data); err == nil {
				err = decode(c, file, body)
			}
		}
		if err != nil {
			failed = append(failed, err)
		}
	}
	c.files = files
	if len(failed) == 1 {
		return failed[0]
	}
	return errors.Join(failed...)
}

// sources returns the files to read, weakest first.
func sources(o Options) ([]string, error) {
	main := o.Path
	if main == "" {
		main = DefaultPath
	}
	// The units carry it, whole.
	if abs, err := filepath.Abs(main); err != nil || unitPathFault(abs) != "" {
		return nil, &Error{File: main, Message: "cannot be the configuration: its path " + unitPathFault(abs), Err: err}
	}
	var files []string
	switch _, err := os.Stat(main); {
	case err == nil:
		files = append(files, main)
	case !errors.Is(err, fs.ErrNotExist) || o.Required:
		return nil, unreadable(main, err)
	}
	dir := filepath.Join(filepath.Dir(main), "conf.d")
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, unreadable(dir, err)
	}
	for _, e := range entries { // in the order of the names
		path := filepath.Join(dir, e.Name())
		switch {
		case strings.HasPrefix(e.Name(), "."):
		case strings.HasSuffix(e.Name(), ".yaml"):
			files = append(files, path)
		case strings.HasSuffix(e.Name(), ".yml"):
			return nil, &Error{File: path, Message: "drop-ins end in .yaml; rename the file"}
		}
	}
	return files, nil
}

// readFile reads one file of at most limit bytes. Only regular files and
// devices such as /dev/null are read: a pipe could block for ever.
func readFile(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	if mode := info.Mode(); !mode.IsRegular() && mode&fs.ModeCharDevice == 0 {
		return nil, &Error{File: path, Message: "is not a file"}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, unreadable(path, err)
	}
	if int64(len(data)) > limit {
		return nil, &Error{File: path, Message: fmt.Sprintf("is larger than %d KiB, too large for a configuration", limit>>10)}
	}
	return data, nil
}

// unreadable keeps the cause but not its path, which is named once.
func unreadable(path string, err error) *Error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return &Error{File: path, Message: "cannot be read", Err: err}
}

// Names of environment variables: EnvConfig is where the main file is, for whoever calls
// Load.
const (
	envPrefix = "NODE_LIFECYCLE_"
	EnvConfig = envPrefix + "CONFIG"
)

// EnvVar is an environment variable that sets a key.
type EnvVar struct{ Name, Key string }

// EnvVars returns the environment variables that Load looks at, in the order
// of the schema: one for each single value outside slots, named by its key
// (NODE_LIFECYCLE_STATE_DIR, NODE_LIFECYCLE_ENGINE_SOCKET, ...), except for
// version, which is a property of a file. An empty variable counts as unset.
func EnvVars() []EnvVar {
	var vars []EnvVar
	walkSettable(reflect.ValueOf(&Config{}).Elem(), "", func(key string, _ reflect.Value) {
		name := envPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
		vars = append(vars, EnvVar{Name: name, Key: key})
	})
	return vars
}

// walkSettable calls fn for each value that can be set from outside the files:
// the single ones outside slots.
func walkSettable(v reflect.Value, prefix string, fn func(key string, v reflect.Value)) {
	for i := range v.NumField() {
		tag := v.Type().Field(i).Tag.Get("yaml")
		switch {
		case tag == "" || tag == "version":
		case v.Field(i).Kind() == reflect.Struct:
			walkSettable(v.Field(i), join(prefix, tag), fn)
		case v.Field(i).Kind() != reflect.Map:
			fn(join(prefix, tag), v.Field(i))
		}
	}
}

// unknownVariables finds what is meant for us and means nothing to us: a mistyped variable
// must not go unnoticed, just as a mistyped key.
func unknownVariables(environ []string, p *problems) {
	var known []string
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, envPrefix) || value == "" {
			continue
		}
		if known == nil {
			known = []string{strings.TrimPrefix(EnvConfig, envPrefix)}
			for _, v := range EnvVars() {
				known = append(known, strings.TrimPrefix(v.Name, envPrefix))
			}
		}
		rest := name[len(envPrefix):]
		if slices.Contains(known, rest) {
			continue
		}
		hint := "unset it"
		if near := nearest(rest, known); near != "" {
			hint = "the nearest is " + envPrefix + near
		}
		p.add(&Error{File: name, Message: "unknown variable; " + hint})
	}
}

func (c *Config) applyEnvironment(getenv func(string) string, p *problems) {
	if getenv == nil {
		return
	}
	for _, env := range EnvVars() {
		if text := getenv(env.Name); text != "" {
			c.set(env.Key, text, Origin{Kind: OriginEnvironment, Name: env.Name}, p)
		}
	}
}

func (c *Config) applyOverrides(overrides []Override, p *problems) {
	for _, o := range overrides {
		c.set(o.Key, o.Value, Origin{Kind: OriginFlag, Name: o.Flag}, p)
	}
}

// set gives one key a value from outside the files.
func (c *Config) set(key, text string, o Origin, p *problems) {
	found := false
	walkSettable(reflect.ValueOf(c).Elem(), "", func(k string, v reflect.Value) {
		if k != key {
			return
		}
		found = true
		if msg := setScalar(v, text); msg != "" {
			p.add(&Error{File: o.Name, Key: key, Message: msg})
			return
		}
		c.origins[key] = o
	})
	if !found {
		p.add(&Error{File: o.Name, Key: key, Message: "is not a key that can be set from here"})
	}
}
