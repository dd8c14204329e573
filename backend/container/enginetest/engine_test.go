package enginetest_test

import (
	"context"
	"strings"
	"testing"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"go.uber.org/goleak"

	"github.com/node-lifecycle/node-lifecycle/backend/container/enginetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func connect(t *testing.T, e *enginetest.Engine) *client.Client {
	t.Helper()
	cli, err := client.New(client.WithHost("unix://" + e.Socket()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cli.Close() })
	return cli
}

// flavors runs a test against both engines.
func flavors(t *testing.T, test func(t *testing.T, e *enginetest.Engine, cli *client.Client)) {
	t.Helper()
	for _, flavor := range []enginetest.Flavor{enginetest.Docker, enginetest.Podman} {
		t.Run(string(flavor), func(t *testing.T) {
			e := enginetest.New(t, flavor)
			if e.Flavor() != flavor {
				t.Errorf("flavor %s", e.Flavor())
			}
			test(t, e, connect(t, e))
		})
	}
}

// create creates a container that does nothing until it gets TERM.
func create(t *testing.T, e *enginetest.Engine, cli *client.Client, name string) string {
	t.Helper()
	e.AddImage(enginetest.Image{Name: "localhost/x:1", Program: enginetest.Forever(3, "SIGTERM"), Labels: map[string]string{"image": "yes"}})
	res, err := cli.ContainerCreate(t.Context(), client.ContainerCreateOptions{
		Name: name, Config: &container.Config{Image: "localhost/x:1", Labels: map[string]string{"a": "b"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return res.ID
}

func start(t *testing.T, cli *client.Client, id string) {
	t.Helper()
	if _, err := cli.ContainerStart(t.Context(), id, client.ContainerStartOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestLifeOfAContainer follows one container from its creation to its removal.
func TestLifeOfAContainer(t *testing.T) {
	flavors(t, func(t *testing.T, e *enginetest.Engine, cli *client.Client) {
		ctx := t.Context()
		id := create(t, e, cli, "one")
		start(t, cli, id)
		start(t, cli, id) // again, which is no error
		list, err := cli.ContainerList(ctx, client.ContainerListOptions{
			Filters: make(client.Filters).Add("label", "a=b").Add("label", "image"),
		})
		if err != nil || len(list.Items) != 1 || list.Items[0].ID != id {
			t.Errorf("list %+v, %v", list.Items, err)
		}
		wait := cli.ContainerWait(ctx, id, client.ContainerWaitOptions{})
		seconds := 5
		if _, err := cli.ContainerStop(ctx, id, client.ContainerStopOptions{Timeout: &seconds}); err != nil {
			t.Fatal(err)
		}
		select {
		case res := <-wait.Result:
			if res.StatusCode != 3 {
				t.Errorf("wait says %d", res.StatusCode)
			}
		case err := <-wait.Error:
			t.Errorf("wait: %v", err)
		}
		if c, ok := e.Container("one"); !ok || c.Status != "exited" || c.ExitCode != 3 || c.Starts != 1 {
			t.Errorf("container %+v", c)
		}
		if _, err := cli.ContainerRename(ctx, id, client.ContainerRenameOptions{NewName: "two"}); err != nil {
			t.Error(err)
		}
		if _, err := cli.ContainerRestart(ctx, "two", client.ContainerRestartOptions{}); err != nil {
			t.Error(err)
		}
		if _, err := cli.ContainerRemove(ctx, "two", client.ContainerRemoveOptions{Force: true}); err != nil {
			t.Error(err)
		}
		if _, err := cli.ContainerInspect(ctx, id, client.ContainerInspectOptions{}); !cerrdefs.IsNotFound(err) {
			t.Errorf("inspect after remove: %v", err)
		}
		if all := e.Containers(); len(all) > 0 {
			t.Errorf("containers %+v", all)
		}
	})
}

// TestConflicts lists the answers in which the two engines differ.
func TestConflicts(t *testing.T) {
	flavors(t, func(t *testing.T, e *enginetest.Engine, cli *client.Client) {
		ctx := t.Context()
		id := create(t, e, cli, "one")
		e.Add(enginetest.Spec{Name: "two"})
		zero := 0
		expect := func(what string, err error) {
			t.Helper()
			is := cerrdefs.IsConflict
			if e.Flavor() == enginetest.Podman {
				is = cerrdefs.IsInternal
			}
			if !is(err) {
				t.Errorf("%s: %v", what, err)
			}
		}
		_, err := cli.ContainerCreate(ctx, client.ContainerCreateOptions{Name: "one", Config: &container.Config{Image: "localhost/x:1"}})
		expect("create with a name that is taken", err)
		_, err = cli.ContainerRename(ctx, id, client.ContainerRenameOptions{NewName: "two"})
		expect("rename to a name that is taken", err)
		_, err = cli.ContainerKill(ctx, id, client.ContainerKillOptions{})
		expect("kill a stopped one", err)
		_, err = cli.ContainerPause(ctx, id, client.ContainerPauseOptions{})
		expect("pause a stopped one", err)
		_, err = cli.ExecCreate(ctx, id, client.ExecCreateOptions{Cmd: []string{"x"}})
		expect("run a command in a stopped one", err)
		start(t, cli, id)
		_, err = cli.ContainerUnpause(ctx, id, client.ContainerUnpauseOptions{})
		expect("unpause a running one", err)
		_, err = cli.ContainerRemove(ctx, id, client.ContainerRemoveOptions{})
		expect("remove a running one", err)
		if _, err = cli.ContainerPause(ctx, id, client.ContainerPauseOptions{}); err != nil {
			t.Fatal(err)
		}
		_, err = cli.ExecCreate(ctx, id, client.ExecCreateOptions{Cmd: []string{"x"}})
		expect("run a command in a paused one", err)
		_, err = cli.ContainerStop(ctx, id, client.ContainerStopOptions{Timeout: &zero})
		if e.Flavor() == enginetest.Podman {
			expect("stop a paused one", err)
			if _, err := cli.ContainerUnpause(ctx, id, client.ContainerUnpauseOptions{}); err != nil {
				t.Error(err)
			}
		} else if err != nil {
			t.Errorf("stop a paused one: %v", err)
		}
		e.Kill(id)
		e.RemoveLazily(50 * time.Millisecond)
		if _, err := cli.ContainerRemove(ctx, id, client.ContainerRemoveOptions{}); err != nil {
			t.Fatal(err)
		}
		_, err = cli.ContainerRemove(ctx, id, client.ContainerRemoveOptions{})
		expect("remove one that is being removed", err)
		_, err = cli.ContainerStart(ctx, id, client.ContainerStartOptions{})
		expect("start one that is being removed", err)
		within, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		if !e.Wait(within, func() bool { _, ok := e.Container(id); return !ok }) {
			t.Error("the removal does not end")
		}
	})
}

func TestBadRequests(t *testing.T) {
	flavors(t, func(t *testing.T, e *enginetest.Engine, cli *client.Client) {
		ctx := t.Context()
		_, err := cli.ContainerCreate(ctx, client.ContainerCreateOptions{Config: &container.Config{Image: "localhost/none:1"}})
		if !cerrdefs.IsNotFound(err) {
			t.Errorf("create without an image: %v", err)
		}
		id := e.Add(enginetest.Spec{Name: "one", Running: true})
		if _, err := cli.ExecCreate(ctx, id, client.ExecCreateOptions{}); !cerrdefs.IsInvalidArgument(err) {
			t.Errorf("exec of nothing: %v", err)
		}
		if _, err := cli.ExecInspect(ctx, "none", client.ExecInspectOptions{}); !cerrdefs.IsNotFound(err) {
			t.Errorf("inspection of no exec: %v", err)
		}
		if _, err := cli.ContainerLogs(ctx, id, client.ContainerLogsOptions{ShowStdout: true, Tail: "some"}); !cerrdefs.IsInvalidArgument(err) {
			t.Errorf("log of some lines: %v", err)
		}
		if _, err := cli.Info(ctx, client.InfoOptions{}); !cerrdefs.IsNotFound(err) {
			t.Errorf("something that is not there: %v", err)
		}
		e.SetAPI("1.50", "1.52") // the client has agreed on another version
		if _, err := cli.ContainerList(ctx, client.ContainerListOptions{}); !cerrdefs.IsInvalidArgument(err) {
			t.Errorf("an API version that is too old: %v", err)
		}
		e.SetAPI("1.24", "1.30")
		if _, err := cli.ContainerList(ctx, client.ContainerListOptions{}); !cerrdefs.IsInvalidArgument(err) {
			t.Errorf("an API version that is too new: %v", err)
		}
	})
}

func TestLogs(t *testing.T) {
	flavors(t, func(t *testing.T, e *enginetest.Engine, cli *client.Client) {
		id := e.Add(enginetest.Spec{Name: "one", Ended: true})
		base := time.Unix(1_800_000_000, 500)
		for i, line := range []string{"first", "second", "third"} {
			e.Log(id, base.Add(time.Duration(i)*time.Second), byte(i%2+1), line)
		}
		read := func(o client.ContainerLogsOptions) string {
			t.Helper()
			r, err := cli.ContainerLogs(t.Context(), id, o)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			var out strings.Builder
			if _, err := stdcopy.StdCopy(&out, &out, r); err != nil {
				t.Fatal(err)
			}
			return out.String()
		}
		both := client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true}
		if got := read(both); got != "first\nsecond\nthird\n" {
			t.Errorf("log %q", got)
		}
		errors := client.ContainerLogsOptions{ShowStderr: true}
		if got := read(errors); got != "second\n" {
			t.Errorf("errors %q", got)
		}
		both.Tail = "1"
		if got := read(both); got != "third\n" {
			t.Errorf("tail %q", got)
		}
		both.Tail, both.Since, both.Timestamps = "", "1800000001.000000500", true
		want := "2027-01-15T08:00:01.000000500Z second\n2027-01-15T08:00:02.000000500Z third\n"
		if e.Flavor() == enginetest.Podman { // "after", and whole seconds
			want = "2027-01-15T08:00:02Z third\n"
		}
		if got := read(both); got != want {
			t.Errorf("since %q, want %q", got, want)
		}
	})
}

func TestExec(t *testing.T) {
	flavors(t, func(t *testing.T, e *enginetest.Engine, cli *client.Client) {
		ctx := t.Context()
		e.AddImage(enginetest.Image{Name: "localhost/x:1", Exec: func(p *enginetest.Process) int {
			p.Println("out " + strings.Join(p.Args, " "))
			p.Errorln("err")
			return 5
		}})
		id := e.Add(enginetest.Spec{Name: "one", Image: "localhost/x:1", Running: true})
		x, err := cli.ExecCreate(ctx, id, client.ExecCreateOptions{Cmd: []string{"a", "b"}, AttachStdout: true, AttachStderr: true})
		if err != nil {
			t.Fatal(err)
		}
		attached, err := cli.ExecAttach(ctx, x.ID, client.ExecAttachOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer attached.Close()
		var out, errs strings.Builder
		if _, err := stdcopy.StdCopy(&out, &errs, attached.Reader); err != nil {
			t.Fatal(err)
		}
		if out.String() != "out a b\n" || errs.String() != "err\n" {
			t.Errorf("output %q, %q", out.String(), errs.String())
		}
		if state, err := cli.ExecInspect(ctx, x.ID, client.ExecInspectOptions{}); err != nil || state.Running || state.ExitCode != 5 {
			t.Errorf("exec %+v, %v", state, err)
		}
		if execs := e.Execs(); len(execs) != 1 || execs[0].Running || execs[0].Command[1] != "b" {
			t.Errorf("execs %+v", execs)
		}
		if err := e.SetExecPID("none", 1); err == nil {
			t.Error("a pid for no exec")
		}
		e.Restart()
		if len(e.Execs()) != 0 {
			t.Error("a restarted engine remembers commands")
		}
	})
}

func TestPull(t *testing.T) {
	flavors(t, func(t *testing.T, e *enginetest.Engine, cli *client.Client) {
		ctx := t.Context()
		e.Publish(enginetest.Image{Name: "localhost/new:2", StopSignal: "SIGQUIT", Command: []string{"x"}})
		if _, err := cli.ImageInspect(ctx, "localhost/new:2"); !cerrdefs.IsNotFound(err) {
			t.Errorf("image before the pull: %v", err)
		}
		pull, err := cli.ImagePull(ctx, "localhost/new:2", client.ImagePullOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := pull.Wait(ctx); err != nil {
			t.Fatal(err)
		}
		i, err := cli.ImageInspect(ctx, "localhost/new:2")
		if err != nil || i.Config.StopSignal != "SIGQUIT" || i.Config.Cmd[0] != "x" {
			t.Errorf("image %+v, %v", i, err)
		}
	})
}

func TestPrograms(t *testing.T) {
	e := enginetest.New(t, enginetest.Docker)
	cli := connect(t, e)
	awake := make(chan bool, 1)
	e.AddImage(enginetest.Image{Name: "localhost/sleepy:1", Program: func(p *enginetest.Process) int {
		if !p.Sleep(time.Millisecond) {
			return 1
		}
		awake <- true
		p.Print("half a line")
		return enginetest.Deaf(p)
	}})
	e.AddImage(enginetest.Image{Name: "localhost/bad:1", StartError: "no such file"})
	e.Add(enginetest.Spec{Name: "sleepy", Image: "localhost/sleepy:1", Running: true})
	<-awake
	if _, err := cli.ContainerKill(t.Context(), "sleepy", client.ContainerKillOptions{Signal: "15"}); err != nil {
		t.Error(err)
	}
	if _, err := cli.ContainerKill(t.Context(), "sleepy", client.ContainerKillOptions{}); err != nil {
		t.Error(err)
	}
	if c, _ := e.Container("sleepy"); c.ExitCode != 137 {
		t.Errorf("exit code %d", c.ExitCode)
	}
	e.Add(enginetest.Spec{Name: "bad", Image: "localhost/bad:1"})
	if _, err := cli.ContainerStart(t.Context(), "bad", client.ContainerStartOptions{}); !cerrdefs.IsInternal(err) {
		t.Errorf("start: %v", err)
	}
	e.Add(enginetest.Spec{Name: "any", Running: true})
	seconds := 5
	if _, err := cli.ContainerStop(t.Context(), "any", client.ContainerStopOptions{Timeout: &seconds}); err != nil {
		t.Error(err)
	}
}
