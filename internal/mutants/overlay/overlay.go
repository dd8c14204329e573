// Package overlay changes source files for one build without touching them: it writes
// changed copies and the file that the go command takes with -overlay.
package overlay

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Why an Edit cannot be made.
var (
	// ErrNotFound: the file does not contain the text.
	ErrNotFound = errors.New("the text is not there")
	// ErrAmbiguous: the file contains the text more than once.
	ErrAmbiguous = errors.New("the text is there more than once")
	// ErrSame: the edit would change nothing.
	ErrSame = errors.New("the text is replaced by itself")
)

// Edit replaces one piece of a file, exactly as it is written and there only once, by
// another.
type Edit struct {
	// File is the path below the root of the module, with slashes.
	File string
	// Old is the text to replace, New what stands there instead.
	Old, New string
}

// Apply returns the content with the edits made, one after the other. Their files are
// only named in errors.
func Apply(content string, edits ...Edit) (string, error) {
	for _, e := range edits {
		switch n := strings.Count(content, e.Old); {
		case e.Old == e.New:
			return "", fmt.Errorf("%s: %w: %q", e.File, ErrSame, e.Old)
		case e.Old == "" || n == 0:
			return "", fmt.Errorf("%s: %w: %q", e.File, ErrNotFound, e.Old)
		case n > 1:
			return "", fmt.Errorf("%s: %w (%d times): %q", e.File, ErrAmbiguous, n, e.Old)
		}
		content = strings.Replace(content, e.Old, e.New, 1)
	}
	return content, nil
}

// Check makes sure that the edits can be made to the files below root, and writes
// nothing.
func Check(root string, edits []Edit) error {
	_, err := apply(root, edits)
	return err
}

// Write makes the edits on copies of the files below root, adds files whose paths below
// root are the keys of added, and returns the path of the file for -overlay. Everything
// it writes is in dir.
func Write(root, dir string, edits []Edit, added map[string]string) (string, error) {
	files, err := apply(root, edits)
	if err != nil {
		return "", err
	}
	for path, content := range added {
		files[filepath.Join(root, filepath.FromSlash(path))] = content
	}
	var index struct{ Replace map[string]string }
	index.Replace = make(map[string]string, len(files))
	for path, content := range files {
		replacement := filepath.Join(dir, strconv.Itoa(len(index.Replace))+"-"+filepath.Base(path))
		if err := os.WriteFile(replacement, []byte(content), 0o600); err != nil {
			return "", err
		}
		index.Replace[path] = replacement
	}
	data, err := json.Marshal(index)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, data, 0o600)
}

// apply returns the changed files by their full path.
func apply(root string, edits []Edit) (map[string]string, error) {
	files := make(map[string]string)
	for _, e := range edits {
		path := filepath.Join(root, filepath.FromSlash(e.File))
		content, changed := files[path]
		if !changed {
			data, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			content = string(data)
		}
		content, err := Apply(content, e)
		if err != nil {
			return nil, err
		}
		files[path] = content
	}
	return files, nil
}
