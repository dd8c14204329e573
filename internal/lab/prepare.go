package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// prepare lays out the disk of a new host and writes what makes it different
// from the root file system it shares.
func (h *Host) prepare(ctx context.Context, made artefacts, o Options) error {
	disk := diskIn(h.dir, made.root)
	for _, path := range []string{disk.Upper, disk.Work, filepath.Join(h.dir, "root")} {
		if err := os.Mkdir(path, 0o755); err != nil {
			return fmt.Errorf("lay out the disk: %w", err)
		}
	}
	if err := runQuietly(command(ctx, "cp", "--archive", filepath.Join(made.root, "var"), disk.Var)); err != nil {
		return fmt.Errorf("lay out the disk: %w", err)
	}
	if made.engines != "" && !o.WithoutImages {
		if err := copyStores(ctx, made.engines, filepath.Join(disk.Var, "lib")); err != nil {
			return fmt.Errorf("lay out the engines' stores: %w", err)
		}
	}
	files, err := hostFiles(o)
	if err != nil {
		return err
	}
	return h.InRoot(func() error {
		for path, file := range files {
			if err := writeFile(path, []byte(file.Content), file.Mode); err != nil {
				return err
			}
		}
		return arrangeUnits()
	})
}

// hostFiles are the recipe's, those that depend on the options, and the
// caller's, the later ones winning.
func hostFiles(o Options) (map[string]File, error) {
	config, err := recipeFiles(recipeHost)
	if err != nil {
		return nil, err
	}
	daemon, err := json.Marshal(map[string]any{"live-restore": o.LiveRestore})
	if err != nil {
		return nil, fmt.Errorf("encode Docker's configuration: %w", err)
	}
	// Docker reads live-restore when it starts, and not again.
	config["/etc/docker/daemon.json"] = string(daemon) + "\n"
	config["/etc/machine-id"] = randomHex(16) + "\n"
	config["/etc/hostname"] = o.Name + "\n"
	config["/etc/hosts"] = "127.0.0.1 localhost " + o.Name + "\n::1 localhost\n"
	files := map[string]File{}
	for path, content := range config {
		files[path] = File{Content: content, Mode: 0o644}
	}
	if o.Binary != "" {
		program, err := os.ReadFile(o.Binary)
		if err != nil {
			return nil, fmt.Errorf("install the program under test: %w", err)
		}
		files[BinaryPath] = File{Content: string(program), Mode: 0o755}
	}
	for path, file := range o.Files {
		if !strings.HasPrefix(path, "/") {
			return nil, fmt.Errorf("install %q: want an absolute path", path)
		}
		if file.Mode == 0 {
			file.Mode = 0o644
		}
		files[path] = file
	}
	return files, nil
}

// arrangeUnits acts on the root directory of the calling thread. It masks what
// has no place in a lab and keeps Podman's service for its socket to start. A
// unit file that the caller has installed wins over its mask.
func arrangeUnits() error {
	for _, unit := range recipeLines(recipeMasked) {
		err := os.Symlink("/dev/null", filepath.Join(unitDirectory, unit))
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("mask a unit: %w", err)
		}
	}
	if err := os.RemoveAll(filepath.Join(unitDirectory, "default.target.wants")); err != nil {
		return fmt.Errorf("disable Podman's services: %w", err)
	}
	return os.MkdirAll("/var/log/journal", 0o755)
}

// storeFormat changes when the layout of the stores' directory does.
const storeFormat = "1"

// stores are the engines' directories below /var/lib, each with the part that
// holds layers. A layer's files are never written in place, so hosts share them
// by hard links; everything else is small and copied.
var stores = []struct{ name, layers string }{
	{"docker", "overlay2"},
	{"containers", "storage/overlay"},
}

func copyStores(ctx context.Context, from, to string) error {
	for _, store := range stores {
		source, target := filepath.Join(from, store.name), filepath.Join(to, store.name)
		// Everything but the layers' contents …
		layers := filepath.Join(source, store.layers)
		if err := copyTree(source, target, func(path string) bool {
			return filepath.Base(path) == "diff" && filepath.Dir(filepath.Dir(path)) == layers
		}); err != nil {
			return err
		}
		contents, err := filepath.Glob(filepath.Join(layers, "*", "diff"))
		if err != nil {
			return err
		}
		// … and those as links where the file system can, else as copies.
		for _, content := range contents {
			relative, err := filepath.Rel(source, content)
			if err != nil {
				return err
			}
			if err := linkTree(ctx, content, filepath.Join(target, relative)); err != nil {
				return err
			}
		}
	}
	return nil
}

func linkTree(ctx context.Context, from, to string) error {
	return runQuietly(command(ctx, "cp", "--archive", "--link", from, to))
}

// copyTree copies a tree with owners and modes, without what skip names.
func copyTree(from, to string, skip func(path string) bool) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && skip(path) {
			return fs.SkipDir
		}
		relative, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		return copyEntry(path, filepath.Join(to, relative), entry)
	})
}

func copyEntry(from, to string, entry fs.DirEntry) error {
	info, err := entry.Info()
	if err != nil {
		return err
	}
	switch {
	case entry.IsDir():
		err = os.MkdirAll(to, 0o700)
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	case info.Mode().IsRegular():
		var content []byte
		if content, err = os.ReadFile(from); err == nil {
			err = os.WriteFile(to, content, 0o600)
		}
	default:
		return nil // sockets and the like belong to a running engine
	}
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("copy %s: no owner known", from)
	}
	if err := os.Lchown(to, int(stat.Uid), int(stat.Gid)); err != nil {
		return err
	}
	return os.Chmod(to, info.Mode().Perm()|info.Mode()&(fs.ModeSticky|fs.ModeSetgid|fs.ModeSetuid))
}
