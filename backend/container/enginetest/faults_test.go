package enginetest_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/node-lifecycle/node-lifecycle/backend/container/enginetest"
)

// TestFaults goes through what an Action does to a request.
func TestFaults(t *testing.T) {
	e := enginetest.New(t, enginetest.Docker)
	cli := connect(t, e)
	ctx := t.Context()
	id := create(t, e, cli, "one")
	rename := func(to string) error {
		_, err := cli.ContainerRename(ctx, id, client.ContainerRenameOptions{NewName: to})
		return err
	}
	name := func() string {
		c, _ := e.Container(id)
		return c.Name
	}
	e.On(enginetest.OpRename,
		enginetest.Action{Status: 418, Message: "teapot"},
		enginetest.Action{Break: true},
		enginetest.Action{Break: true, Do: true},
		enginetest.Action{Delay: time.Millisecond})
	if err := rename("a"); err == nil || !strings.Contains(err.Error(), "teapot") || name() != "one" {
		t.Errorf("status: %v, name %s", err, name())
	}
	if err := rename("b"); err == nil || name() != "one" {
		t.Errorf("break: %v, name %s", err, name())
	}
	if err := rename("c"); err == nil || name() != "c" {
		t.Errorf("do and break: %v, name %s", err, name())
	}
	if err := rename("d"); err != nil || name() != "d" {
		t.Errorf("delay: %v, name %s", err, name())
	}
	e.On(enginetest.OpRename, enginetest.Action{Break: true, Later: 20 * time.Millisecond})
	if err := rename("late"); err == nil || name() != "d" || e.Late() != 1 {
		t.Errorf("later: %v, name %s", err, name())
	}
	within, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if !e.Wait(within, func() bool { return e.Late() == 0 }) || name() != "late" {
		t.Errorf("name %s after a late request", name())
	}
	leaving, leave := context.WithCancel(ctx)
	defer leave()
	e.Intercept(func(c enginetest.Call) enginetest.Action {
		return enginetest.Action{Hang: c.Op == enginetest.OpRename && c.Ref == id, Run: leave}
	})
	if _, err := cli.ContainerRename(leaving, id, client.ContainerRenameOptions{NewName: "e"}); !errors.Is(err, context.Canceled) {
		t.Errorf("hang: %v", err)
	}
	e.Intercept(nil)
	if n := e.Count(enginetest.OpRename); n != 6 {
		t.Errorf("%d renames were counted", n)
	}
}

func TestStopAndResume(t *testing.T) {
	e := enginetest.New(t, enginetest.Docker)
	cli := connect(t, e)
	id := create(t, e, cli, "one")
	start(t, cli, id)
	logs, err := cli.ContainerLogs(t.Context(), id, client.ContainerLogsOptions{ShowStdout: true, Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	defer logs.Close()
	e.Stop()
	e.Stop() // twice is once
	if _, err := io.ReadAll(logs); err == nil {
		t.Error("a stream survives the engine")
	}
	if _, err := cli.Ping(t.Context(), client.PingOptions{}); err == nil {
		t.Error("an engine that is gone answers")
	}
	if err := e.Resume(); err != nil {
		t.Fatal(err)
	}
	if _, err := cli.Ping(t.Context(), client.PingOptions{}); err != nil {
		t.Error(err)
	}
	if c, _ := e.Container("one"); c.Status != "running" {
		t.Errorf("the container is %s", c.Status)
	}
}

// TestEvents tells events as they come, and again from a time on.
func TestEvents(t *testing.T) {
	flavors(t, func(t *testing.T, e *enginetest.Engine, cli *client.Client) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		id := create(t, e, cli, "one")
		stream := cli.Events(ctx, client.EventsListOptions{
			Since: "1.000000000", Filters: make(client.Filters).Add("type", "container"),
		})
		start(t, cli, id)
		e.SetHealth(id, "healthy")
		e.Kill(id)
		if _, err := cli.ContainerRemove(ctx, id, client.ContainerRemoveOptions{}); err != nil {
			t.Fatal(err)
		}
		want := []string{"create", "start", "health_status: healthy", "die", "destroy"}
		if e.Flavor() == enginetest.Podman {
			want = []string{"create", "start", "health_status", "die", "remove"}
		}
		for _, action := range want {
			select {
			case got := <-stream.Messages:
				if string(got.Action) != action || got.Actor.Attributes["name"] != "one" || got.Actor.Attributes["a"] != "b" {
					t.Errorf("event %+v, want %s", got, action)
				}
			case err := <-stream.Err:
				t.Fatal(err)
			}
		}
		none := cli.Events(ctx, client.EventsListOptions{Since: "1.000000000", Filters: make(client.Filters).Add("type", "image")})
		later := cli.Events(ctx, client.EventsListOptions{Since: "99999999999.000000000"})
		select {
		case got := <-none.Messages:
			t.Errorf("event %+v of another type", got)
		case got := <-later.Messages:
			t.Errorf("event %+v of the past", got)
		default:
		}
	})
}

// A container can be put into any state, and no test can mean one that is not
// there.
func TestChange(t *testing.T) {
	e := enginetest.New(t, enginetest.Docker)
	cli := connect(t, e)
	id := e.Add(enginetest.Spec{Name: "one", WritableSize: 7})
	e.Change("one", func(info *container.InspectResponse) { info.State.Status = "levitating" })
	res, err := cli.ContainerInspect(t.Context(), id[:8], client.ContainerInspectOptions{Size: true})
	if err != nil || res.Container.State.Status != "levitating" || *res.Container.SizeRw != 7 {
		t.Errorf("inspect %+v, %v", res.Container, err)
	}
	defer func() {
		if recover() == nil {
			t.Error("a container that is not there was changed")
		}
	}()
	e.Change("two", func(*container.InspectResponse) {})
}

func TestStart_SocketCannotBeMade(t *testing.T) {
	if e, err := enginetest.Start("/no/such/directory/s", enginetest.Docker); err == nil {
		e.Close()
		t.Error("no error")
	}
}
