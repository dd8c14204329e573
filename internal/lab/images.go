package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Images that every host has in Docker's and in Podman's store. Nothing is set in
// them but environment variables: no command, no stop signal.
const (
	NodeImage    = "localhost/node:lab"
	BusyboxImage = "localhost/busybox:lab"
)

// nodeUnits are what a node's systemd starts.
var nodeUnits = []string{"containerd.service", "kubelet.service", "mark.service"}

// buildEngines boots a host on the bare root file system, has both engines
// import both images, and keeps their stores.
func buildEngines(ctx context.Context, c cache, made artefacts, standin, dir string) error {
	h, err := bootOn(ctx, made, Options{Name: "builder"})
	if err != nil {
		return err
	}
	node := func(w io.Writer) error { return writeNodeImage(w, made.root, standin) }
	busybox := func(w io.Writer) error { return writeBusyboxImage(ctx, w, made.root) }
	err = errors.Join(
		h.importImage(ctx, NodeImage, node),
		h.importImage(ctx, BusyboxImage, busybox),
	)
	if err == nil {
		err = h.Shutdown(ctx)
	}
	if err == nil {
		err = keepStores(h.Var(), dir)
	}
	return errors.Join(err, h.Close())
}

func keepStores(from, to string) error {
	for _, store := range stores {
		if err := os.Rename(filepath.Join(from, "lib", store.name), filepath.Join(to, store.name)); err != nil {
			return fmt.Errorf("keep the engines' stores: %w", err)
		}
	}
	return nil
}

// importImage feeds one tar stream to both engines at once.
func (h *Host) importImage(ctx context.Context, name string, write func(io.Writer) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		pipes   []io.Writer
		results = make(chan error)
	)
	engines := []string{"docker", "podman"}
	for _, engine := range engines {
		reader, writer := io.Pipe()
		pipes = append(pipes, writer)
		go func() {
			err := h.importFrom(ctx, engine, name, reader)
			reader.CloseWithError(errors.Join(err, io.ErrClosedPipe))
			results <- err
		}()
	}
	err := write(io.MultiWriter(pipes...))
	for _, pipe := range pipes {
		pipe.(*io.PipeWriter).CloseWithError(err) // nil means end of file
	}
	if err != nil {
		cancel(err)
	}
	for range engines {
		err = errors.Join(err, <-results)
	}
	return err
}

func (h *Host) importFrom(ctx context.Context, engine, name string, r io.Reader) error {
	var said strings.Builder
	code, err := h.Run(ctx, Command{
		Argv:   []string{engine, "import", "--change", "ENV container=docker", "-", name},
		Stdin:  r,
		Stdout: &said, Stderr: &said,
	})
	if err == nil && code != 0 {
		err = fmt.Errorf("exit status %d: %s", code, tail(said.String(), 500))
	}
	if err != nil {
		return fmt.Errorf("%s import %s: %w", engine, name, err)
	}
	return nil
}

// writeNodeImage writes the root file system of a node: the host's without what
// only a host has, with a kubelet and units of its own.
func writeNodeImage(w io.Writer, root, standin string) error {
	files, err := recipeFiles(recipeNode)
	if err != nil {
		return err
	}
	image := newImageWriter(w)
	if err := image.copyTree(root, recipeLines(recipeWithout), files); err != nil {
		return fmt.Errorf("write the node image: %w", err)
	}
	for _, path := range sortedKeys(files) {
		if err := image.file(path, 0o644, []byte(files[path])); err != nil {
			return fmt.Errorf("write the node image: %w", err)
		}
	}
	kubelet, err := os.ReadFile(standin)
	if err != nil {
		return fmt.Errorf("write the node image: %w", err)
	}
	if err := image.file("/usr/local/bin/kubelet", 0o755, kubelet); err != nil {
		return fmt.Errorf("write the node image: %w", err)
	}
	for _, unit := range nodeUnits {
		target := "/usr/lib/systemd/system/" + unit
		if _, ours := files[unitDirectory+"/"+unit]; ours {
			target = unitDirectory + "/" + unit
		}
		if err := image.link(unitDirectory+"/multi-user.target.wants/"+unit, target); err != nil {
			return fmt.Errorf("write the node image: %w", err)
		}
	}
	for _, unit := range recipeLines(recipeMasked) {
		if err := image.link(unitDirectory+"/"+unit, "/dev/null"); err != nil {
			return fmt.Errorf("write the node image: %w", err)
		}
	}
	return image.close()
}

// writeBusyboxImage writes a tree of one program and its many names.
func writeBusyboxImage(ctx context.Context, w io.Writer, root string) error {
	program := filepath.Join(root, "usr/bin/busybox")
	content, err := os.ReadFile(program)
	if err != nil {
		return fmt.Errorf("write the busybox image: %w", err)
	}
	applets, err := exec.CommandContext(ctx, program, "--list").Output()
	if err != nil {
		return fmt.Errorf("write the busybox image: list the applets: %w", err)
	}
	image := newImageWriter(w)
	err = errors.Join(
		image.file("/bin/busybox", 0o755, content),
		image.file("/etc/passwd", 0o644, []byte("root:x:0:0:root:/root:/bin/sh\n")),
		image.file("/etc/group", 0o644, []byte("root:x:0:\n")),
		image.directory("/root", 0o700),
		image.directory("/tmp", 0o1777),
	)
	for applet := range strings.FieldsSeq(string(applets)) {
		if applet != "busybox" {
			err = errors.Join(err, image.link("/bin/"+applet, "busybox"))
		}
	}
	if err != nil {
		return fmt.Errorf("write the busybox image: %w", err)
	}
	return image.close()
}
