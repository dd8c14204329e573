package lab

import (
	"archive/tar"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// imageWriter writes the tar stream of a container image. Paths are absolute
// within the image; missing directories are added.
type imageWriter struct {
	tar   *tar.Writer
	dirs  map[string]bool  // directories written
	links map[inode]string // files with several names: the first name of each
	time  time.Time        // of everything that is not copied
}

type inode struct{ device, number uint64 }

func newImageWriter(w io.Writer) *imageWriter {
	return &imageWriter{
		tar:   tar.NewWriter(w),
		dirs:  map[string]bool{"/": true},
		links: map[inode]string{},
		time:  time.Unix(0, 0),
	}
}

func (w *imageWriter) close() error { return w.tar.Close() }

func (w *imageWriter) directory(name string, mode int64) error {
	if w.dirs[name] {
		return nil
	}
	if err := w.parents(name); err != nil {
		return err
	}
	w.dirs[name] = true
	return w.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name[1:] + "/", Mode: mode, ModTime: w.time})
}

func (w *imageWriter) parents(name string) error { return w.directory(path.Dir(name), 0o755) }

func (w *imageWriter) file(name string, mode int64, content []byte) error {
	if err := w.parents(name); err != nil {
		return err
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: name[1:], Mode: mode, Size: int64(len(content)), ModTime: w.time}
	if err := w.tar.WriteHeader(header); err != nil {
		return err
	}
	_, err := w.tar.Write(content)
	return err
}

func (w *imageWriter) link(name, target string) error {
	if err := w.parents(name); err != nil {
		return err
	}
	return w.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: name[1:], Linkname: target, Mode: 0o777, ModTime: w.time})
}

// copyTree writes the tree at root without what the patterns match, and without
// the files that the caller replaces.
func (w *imageWriter) copyTree(root string, without []string, replaced map[string]string) error {
	return filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || file == root {
			return err
		}
		relative, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		left, err := matchesAny(without, relative)
		if err != nil {
			return err
		}
		if left && entry.IsDir() {
			return fs.SkipDir
		}
		if _, ours := replaced["/"+relative]; left || ours {
			return nil
		}
		return w.copyEntry(file, relative, entry)
	})
}

func matchesAny(patterns []string, name string) (bool, error) {
	for _, pattern := range patterns {
		matches, err := path.Match(pattern, name)
		if err != nil {
			return false, fmt.Errorf("pattern %q: %w", pattern, err)
		}
		if matches {
			return true, nil
		}
	}
	return false, nil
}

func (w *imageWriter) copyEntry(file, name string, entry fs.DirEntry) error {
	info, err := entry.Info()
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSocket != 0 {
		return nil
	}
	target := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		if target, err = os.Readlink(file); err != nil {
			return err
		}
	}
	header, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	// Names of owners would be those of the machine outside.
	header.Name, header.Uname, header.Gname = name, "", ""
	if entry.IsDir() {
		header.Name += "/"
		w.dirs["/"+name] = true
	}
	if w.secondName(info, header) || !info.Mode().IsRegular() {
		return w.tar.WriteHeader(header)
	}
	return w.copyContent(file, header)
}

// secondName turns the header of a file that has been written under another
// name into a hard link to that.
func (w *imageWriter) secondName(info fs.FileInfo, header *tar.Header) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.Mode().IsRegular() || stat.Nlink < 2 {
		return false
	}
	id := inode{device: uint64(stat.Dev), number: stat.Ino}
	first, known := w.links[id]
	if !known {
		w.links[id] = header.Name
		return false
	}
	header.Typeflag, header.Linkname, header.Size = tar.TypeLink, first, 0
	return true
}

func (w *imageWriter) copyContent(file string, header *tar.Header) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := w.tar.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(w.tar, f)
	return err
}

func sortedKeys(m map[string]string) []string {
	return slices.Sorted(maps.Keys(m))
}
