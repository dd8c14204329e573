package config

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
)

// maxKeptSize leaves room for what several files of maxFileSize add up to.
const maxKeptSize = 1 << 20

// Keep writes the effective configuration to path, from where Kept reads it: for those
// who have to go on with what was begun under it when the files have become invalid
// since. The file is replaced at once, with mode 0600, and only if it differs.
func (c *Config) Keep(path string) error {
	var text bytes.Buffer
	if err := c.Show(&text, false); err != nil {
		return err
	}
	if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, text.Bytes()) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".config-") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(text.Bytes())
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		if gone := os.Remove(f.Name()); !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	return err
}

// Kept reads what Keep wrote to path. Drop-ins and the environment have no say in it:
// they had theirs when it was kept. Overrides count, since they are given now.
func Kept(path string, overrides []Override) (*Config, error) {
	c := &Config{origins: map[string]Origin{}}
	if err := c.read([]string{path}, maxKeptSize); err != nil {
		return nil, err
	}
	return c.complete(Options{Overrides: overrides})
}

// Builtin is the configuration without any file.
func Builtin(getenv func(string) string, overrides []Override) (*Config, error) {
	c := &Config{origins: map[string]Origin{}}
	return c.complete(Options{Getenv: getenv, Overrides: overrides})
}

// WithSlot is c with a further slot, whose values are the defaults: for a slot that is
// no longer configured, and of which only the journal knows.
func (c *Config) WithSlot(name, peer string) *Config {
	with := *c
	with.Slots = maps.Clone(c.Slots)
	s := Slot{Peer: peer}
	with.fillSlot(name, &s)
	with.Slots[name] = s
	return &with
}
