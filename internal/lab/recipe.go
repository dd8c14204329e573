package lab

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

//go:embed recipe
var recipe embed.FS

// sources are those of the lab's own programs, to see when to compile them
// again.
//
//go:embed guest/*.go cmd/labinit/*.go standin/*.go
var sources embed.FS

const (
	suite = "bookworm"

	recipePackages = "recipe/packages.txt"
	recipeMasked   = "recipe/masked.txt"
	recipeWithout  = "recipe/node-without.txt"
	recipeHost     = "recipe/host"
	recipeNode     = "recipe/node"

	unitDirectory = "/etc/systemd/system"
)

// recipeLines reads a list: one item a line, # begins a comment. The recipe is
// part of the program, so a name that does not exist is a bug.
func recipeLines(name string) []string {
	text, err := recipe.ReadFile(name)
	if err != nil {
		panic(err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// recipeFiles reads a tree of the recipe; its keys are absolute paths within
// the root it is for.
func recipeFiles(tree string) (map[string]string, error) {
	files := map[string]string{}
	err := fs.WalkDir(recipe, tree, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := recipe.ReadFile(path)
		files[strings.TrimPrefix(path, tree)] = string(text)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the recipe: %w", err)
	}
	return files, nil
}

// bootstrapArguments is everything of mmdebstrap's command line that has an
// effect on the result.
func bootstrapArguments() []string {
	arguments := []string{
		"--mode=root", "--format=directory", "--variant=minbase",
		`--aptopt=Acquire::Languages "none"`,
		`--aptopt=APT::Install-Recommends "false"`,
		"--dpkgopt=force-unsafe-io",
	}
	for _, tree := range []string{"man", "doc", "info", "locale", "lintian"} {
		arguments = append(arguments, "--dpkgopt=path-exclude=/usr/share/"+tree+"/*")
	}
	return append(arguments, "--include="+strings.Join(recipeLines(recipePackages), ","), suite)
}

// toolsName depends on the programs' own sources and on the compiler that made
// this program, not on the modules they use.
func toolsName() (string, error) {
	parts, err := recipeParts(sources, ".", func(path string) bool { return !strings.HasSuffix(path, "_test.go") })
	return "tools-" + digest(append(parts, runtime.Version(), runtime.GOARCH)...), err
}

func rootName() string {
	return "root-" + digest(bootstrapArguments()...)
}

// enginesName depends on the root, on the node's part of the recipe and on the
// programs built into the node image. The host's own configuration files are
// not part of it: they are written at every Boot.
func enginesName(tools string) (string, error) {
	kubelet, err := os.ReadFile(filepath.Join(tools, standinProgram))
	if err != nil {
		return "", fmt.Errorf("read the stand-in for kubelet: %w", err)
	}
	parts, err := recipeParts(recipe, "recipe", func(path string) bool {
		return strings.HasPrefix(path, recipeNode+"/") || path == recipeWithout || path == recipeMasked
	})
	return "engines-" + digest(append(parts, rootName(), storeFormat, string(kubelet))...), err
}

// recipeParts lists the names and contents of the files that want picks.
func recipeParts(from embed.FS, tree string, want func(path string) bool) ([]string, error) {
	var parts []string
	err := fs.WalkDir(from, tree, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !want(path) {
			return err
		}
		text, err := from.ReadFile(path)
		parts = append(parts, path, string(text))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the recipe: %w", err)
	}
	return parts, nil
}

// digest is short enough for a directory's name and keeps its parts apart.
func digest(parts ...string) string {
	sum := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(sum, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(sum.Sum(nil))[:16]
}
