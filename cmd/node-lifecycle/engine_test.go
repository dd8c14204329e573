package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	engine "github.com/moby/moby/api/types/container"

	"github.com/node-lifecycle/node-lifecycle/backend/container"
	"github.com/node-lifecycle/node-lifecycle/backend/container/enginetest"
)

// imageName is the image that the configuration of a script names unless it says more.
const imageName = "localhost/node:1"

// engine start|stop|resume|serve, engine hang|break OPERATION...
func (w *world) setEngine(args []string) error {
	usage := errors.New("usage: engine start|stop|resume|serve, or: engine hang|break OPERATION...")
	if len(args) == 0 {
		return usage
	}
	if args[0] == "start" {
		e, err := enginetest.Start(w.getenv("NODE_LIFECYCLE_ENGINE_SOCKET"), enginetest.Docker)
		if err != nil {
			return err
		}
		e.AddImage(enginetest.Image{Name: imageName, Program: greeter})
		w.engine = e
		return nil
	}
	if w.engine == nil {
		return errors.New("there is no engine yet")
	}
	w.asked = len(w.engine.Calls())
	switch args[0] {
	case "stop":
		w.engine.Stop()
	case "resume":
		return w.engine.Resume()
	case "serve":
		w.engine.Intercept(nil)
	case "hang":
		w.intercept(args[1:], enginetest.Action{Hang: true})
	case "break":
		w.intercept(args[1:], enginetest.Action{Break: true})
	default:
		return usage
	}
	return nil
}

// intercept lets the same happen to every request of some kinds; all of them if none is
// given.
func (w *world) intercept(operations []string, action enginetest.Action) {
	w.engine.Intercept(func(c enginetest.Call) enginetest.Action {
		if len(operations) == 0 || slices.Contains(operations, string(c.Op)) {
			return action
		}
		return enginetest.Action{}
	})
}

// greeter is a stack that comes up, says so, and ends when it is asked to.
func greeter(p *enginetest.Process) int {
	p.Println("the stack is up")
	return enginetest.Forever(0)(p)
}

// image NAME [exit=CODE] [exec=CODE]: exit ends a container of it at once, exec is the
// code of every command inside it.
func (w *world) setImage(args []string) error {
	if len(args) == 0 || w.engine == nil {
		return errors.New("usage, with an engine: image NAME [exit=CODE] [exec=CODE]")
	}
	image := enginetest.Image{Name: args[0], Program: greeter}
	for _, pair := range args[1:] {
		key, value, _ := strings.Cut(pair, "=")
		code, err := strconv.Atoi(value)
		if err != nil {
			return err
		}
		ends := func(p *enginetest.Process) int {
			p.Errorln("this does not work")
			return code
		}
		switch key {
		case "exit":
			image.Program = ends
		case "exec":
			image.Exec = ends
		default:
			return fmt.Errorf("an image has no %s", key)
		}
	}
	w.engine.AddImage(image)
	return nil
}

// container NAME running|exited|created|killed|paused|strange|known [slot=SLOT] [epoch=EPOCH] [policy=POLICY]:
// with a slot it is one of ours.
func (w *world) setContainer(args []string) error {
	if len(args) < 2 || w.engine == nil {
		return errors.New("usage, with an engine: container NAME STATUS [KEY=VALUE]...")
	}
	spec := enginetest.Spec{Name: args[0], Image: imageName, Labels: map[string]string{}}
	for _, pair := range args[2:] {
		key, value, _ := strings.Cut(pair, "=")
		switch key {
		case "slot":
			spec.Labels[container.LabelSlot] = value
		case "epoch":
			spec.Labels[container.LabelEpoch] = value
		case "activation":
			spec.Labels[container.LabelActivation] = value
		case "policy":
			spec.RestartPolicy = value
		default:
			return fmt.Errorf("a container has no %s", key)
		}
	}
	switch args[1] {
	case "killed":
		w.engine.Kill(args[0])
		return nil
	case "strange": // a state that nobody knows, until it is known again
		w.engine.Change(args[0], func(c *engine.InspectResponse) { c.State.Status, c.State.Running, c.State.Pid = "strange", false, 0 })
		return nil
	case "paused":
		w.engine.Change(args[0], func(c *engine.InspectResponse) { c.State.Status, c.State.Paused = engine.StatePaused, true })
		return nil
	case "known":
		w.engine.Change(args[0], func(c *engine.InspectResponse) { c.State.Status = engine.StateExited })
		return nil
	case "running":
		spec.Running = true
	case "exited":
		spec.Ended = true
	case "created":
	default:
		return fmt.Errorf("a container cannot be %s", args[1])
	}
	w.engine.Add(spec)
	return nil
}

func (w *world) awaitEngine(ctx context.Context, args []string) error {
	if w.engine == nil {
		return errors.New("there is no engine")
	}
	happened := func() bool { // since the script last changed the engine
		return slices.ContainsFunc(w.engine.Calls()[w.asked:], func(c enginetest.Call) bool { return string(c.Op) == args[1] })
	}
	if args[0] == "container" {
		happened = func() bool {
			c, ok := w.engine.Container(args[1])
			if args[2] == "gone" {
				return !ok
			}
			return ok && c.Status == args[2]
		}
	}
	if !w.engine.Wait(ctx, happened) {
		return fmt.Errorf("it never came; there are only %+v", w.engine.Containers())
	}
	return nil
}

// socketDir is a directory with a name short enough for sockets, and for a note of status
// to have it whole, wherever the tests keep their other files.
func socketDir() (dir string, remove func(), err error) {
	if dir, err = os.MkdirTemp("/tmp", "nl"); err != nil {
		dir, err = os.MkdirTemp("", "nl")
	}
	return filepath.Clean(dir), func() { _ = os.RemoveAll(dir) }, err
}
