package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/node-lifecycle/node-lifecycle/internal/lab/guest"
)

// cache is the directory that holds what was built, and the hosts.
//
//	root-HASH/     the root file system, read-only by agreement
//	engines-HASH/  Docker's and Podman's stores with the images in them
//	tools-HASH/    labinit and the stand-in for kubelet
//	hosts/ID/      one host each
type cache string

const buildingPrefix = "building-"

func openCache() (cache, error) {
	dir := os.Getenv("LAB_CACHE")
	if dir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("find the lab's cache directory: %w; set LAB_CACHE", err)
		}
		dir = filepath.Join(base, "node-lifecycle", "lab")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find the lab's cache directory: %w", err)
	}
	if err := guest.CheckDiskPath(dir); err != nil {
		return "", fmt.Errorf("%w; set LAB_CACHE to another directory", err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "hosts"), 0o700); err != nil {
		return "", fmt.Errorf("create the lab's cache directory: %w", err)
	}
	return cache(dir), nil
}

func (c cache) path(name string) string { return filepath.Join(string(c), name) }

func (c cache) hosts() string { return c.path("hosts") }

func (c cache) has(name string) bool {
	_, err := os.Stat(c.path(name))
	return err == nil
}

// fill returns the directory name, and has create build it first when it does not
// exist. A half-built one is never seen under that name. It takes no lock:
// Build holds one over everything it fills.
func (c cache) fill(ctx context.Context, name string, create func(ctx context.Context, dir string) error) (string, error) {
	if c.has(name) {
		return c.path(name), nil
	}
	building := c.path(buildingPrefix + name)
	if err := os.RemoveAll(building); err != nil {
		return "", fmt.Errorf("remove what an interrupted build left: %w", err)
	}
	if err := os.Mkdir(building, 0o755); err != nil {
		return "", fmt.Errorf("build %s: %w", name, err)
	}
	if err := create(ctx, building); err != nil {
		return "", errors.Join(fmt.Errorf("build %s: %w", name, err), os.RemoveAll(building))
	}
	if err := os.Rename(building, c.path(name)); err != nil {
		return "", fmt.Errorf("build %s: %w", name, err)
	}
	return c.path(name), nil
}

// Clean removes what was built for recipes other than the present one and is
// not the root of an existing host. It blocks while a build is going on.
func Clean(ctx context.Context) (removed []string, err error) {
	c, err := openCache()
	if err != nil {
		return nil, err
	}
	lock, err := lockDirectory(ctx, string(c))
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	keep, err := c.inUse()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(string(c))
	if err != nil {
		return nil, fmt.Errorf("read the lab's cache directory: %w", err)
	}
	for _, entry := range entries {
		name := entry.Name()
		if name == "hosts" || keep[c.path(name)] || !isArtefact(name) {
			continue
		}
		if err := os.RemoveAll(c.path(name)); err != nil {
			return removed, fmt.Errorf("remove %s: %w", name, err)
		}
		removed = append(removed, name)
	}
	return removed, nil
}

func isArtefact(name string) bool {
	for _, prefix := range []string{buildingPrefix, "root-", "engines-", "tools-"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// inUse lists the artefacts of the present recipe and those of all hosts.
func (c cache) inUse() (map[string]bool, error) {
	tools, err := toolsName()
	if err != nil {
		return nil, err
	}
	keep := map[string]bool{c.path(tools): true, c.path(rootName()): true}
	if c.has(tools) {
		engines, err := enginesName(c.path(tools))
		if err != nil {
			return nil, err
		}
		keep[c.path(engines)] = true
	}
	states, err := c.hostStates()
	if err != nil {
		return nil, err
	}
	for _, s := range states {
		keep[s.Root] = true
		keep[filepath.Dir(s.Init)] = true
	}
	return keep, nil
}
