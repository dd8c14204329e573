package container

import (
	"context"
	"errors"

	"sync"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/node-lifecycle/node-lifecycle/backend/container/enginetest"
)

func TestFence(t *testing.T) {
	const big = 65 << 20
	fenced, kept := testContainer+".nl-fenced", testContainer+".kept-4"
	for name, test := range map[string]struct {
		spec   *enginetest.Spec
		detail string
		weak   bool
		now    string // the name it has afterwards; empty: gone
		alive  bool   // refused because it lives
		class  string // of another error
	}{
		"nothing":                  {nil, "no container to fence", false, "", false, ""},
		"ours, never started":      {&enginetest.Spec{Name: testContainer, Labels: ourLabels(4)}, "removed container", false, "", false, ""},
		"ours, never started, big": {&enginetest.Spec{Name: testContainer, Labels: ourLabels(4), WritableSize: big}, "removed container", false, "", false, ""},
		"ours, exited":             {&enginetest.Spec{Name: testContainer, Labels: ourLabels(4), Ended: true, WritableSize: 2048}, "discarding 2KiB", false, "", false, ""},
		"ours, exited, big": {
			&enginetest.Spec{Name: testContainer, Labels: ourLabels(4), Ended: true, WritableSize: big},
			"kept container", false, kept, false, "",
		},
		"ours, kept":    {&enginetest.Spec{Name: kept, Labels: ourLabels(4), Ended: true, WritableSize: big}, "no container to fence", false, kept, false, ""},
		"ours, running": {&enginetest.Spec{Name: testContainer, Labels: ourLabels(4), Running: true}, "", false, testContainer, true, ""},
		"somebody's":    {&enginetest.Spec{Name: testContainer, Ended: true, WritableSize: big}, "it is not ours", true, fenced, false, ""},
		"somebody's, never started": {
			&enginetest.Spec{Name: testContainer}, "renamed container", true, fenced, false, "",
		},
		"somebody's, fenced":  {&enginetest.Spec{Name: fenced, Ended: true}, "by its name already", true, fenced, false, ""},
		"somebody's, running": {&enginetest.Spec{Name: testContainer, Running: true}, "", false, testContainer, true, ""},
		"somebody's, comes back by itself": {
			&enginetest.Spec{Name: testContainer, Ended: true, RestartPolicy: "always"},
			"docker update --restart=no", false, testContainer, false, "misconfigured",
		},
	} {
		t.Run(name, func(t *testing.T) {
			flavors(t, func(t *testing.T, flavor enginetest.Flavor) {
				b := newBench(t, flavor)
				id := ""
				if test.spec != nil {
					id = b.engine.Add(*test.spec)
				}
				detail, weak, err := b.Fence(t.Context(), testSlot)
				var alive *AliveError
				switch {
				case test.class != "":
					wantError(t, err, test.class, test.detail)
				case test.alive:
					if !errors.As(err, &alive) || alive.ID != id {
						t.Errorf("Fence = %v, want an AliveError", err)
					}
				case err != nil || weak != test.weak:
					t.Errorf("Fence = weak %v, %v; want %v", weak, err, test.weak)
				default:
					wantText(t, detail, test.detail)
				}
				if test.now == "" {
					b.absent(t, id)
				} else if got := b.one(t, id).Name; got != test.now {
					t.Errorf("its name is %s now, want %s", got, test.now)
				}
			})
		})
	}
}

// TestFence_RacesWithAStart lets a start by id, as run sends it, race with the
// fence: exactly one of the two may win.
func TestFence_RacesWithAStart(t *testing.T) {
	flavors(t, func(t *testing.T, flavor enginetest.Flavor) {
		b := newBench(t, flavor)
		for i := range 20 {
			id := b.engine.Add(enginetest.Spec{Name: testContainer, Image: testImage, Labels: ourLabels(4)})
			var racing sync.WaitGroup
			var startErr error
			racing.Go(func() {
				_, startErr = call(t.Context(), b.Controller.engine, "start", time.Second, start(id))
			})
			_, _, fenceErr := b.Fence(t.Context(), testSlot)
			racing.Wait()
			if (startErr == nil) == (fenceErr == nil) {
				t.Fatalf("round %d: start says %v, fence says %v", i, startErr, fenceErr)
			}
			if startErr == nil {
				if _, err := b.Stop(t.Context(), testSlot); err != nil {
					t.Fatal(err)
				}
				if _, err := b.Remove(t.Context(), testSlot, 0); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// TestFence_AfterAnOddAnswer goes through what the engine may answer to the
// removal, and what may have become of the container meanwhile.
func TestFence_AfterAnOddAnswer(t *testing.T) {
	odd := map[string]enginetest.Action{
		"conflict": {Status: 409, Message: "you cannot remove it"},
		"internal": {Status: 500, Message: "container state improper"},
		"no link":  {Break: true},
	}
	for name, action := range odd {
		t.Run(name+", it runs", func(t *testing.T) {
			t.Parallel()
			b := newBench(t, enginetest.Podman)
			b.engine.Add(enginetest.Spec{Name: testContainer, Image: testImage, Labels: ourLabels(4)})
			action := action
			action.Run = func() { b.engine.Change(testContainer, running) }
			b.engine.On(enginetest.OpRemove, action)
			var alive *AliveError
			if _, _, err := b.Fence(t.Context(), testSlot); !errors.As(err, &alive) {
				t.Errorf("Fence = %v, want an AliveError", err)
			}
		})
		t.Run(name+", it is gone", func(t *testing.T) {
			t.Parallel()
			b := newBench(t, enginetest.Podman)
			id := b.engine.Add(enginetest.Spec{Name: testContainer, Image: testImage, Labels: ourLabels(4)})
			action := action
			action.Run = func() { _ = b.remove(t.Context(), Slot{}, object{InspectResponse: inspectID(id)}) }
			b.engine.On(enginetest.OpRemove, action)
			if _, _, err := b.Fence(t.Context(), testSlot); err != nil {
				t.Errorf("Fence = %v", err)
			}
		})
	}
	t.Run("it stays stopped", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, enginetest.Docker)
		b.engine.Add(enginetest.Spec{Name: testContainer, Image: testImage, Labels: ourLabels(4)})
		b.engine.On(enginetest.OpRemove, odd["internal"])
		_, _, err := b.Fence(t.Context(), testSlot)
		wantError(t, err, "", "container state improper")
	})
	t.Run("the link breaks for good", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, enginetest.Docker)
		b.engine.Add(enginetest.Spec{Name: testContainer, Image: testImage, Labels: ourLabels(4)})
		b.engine.On(enginetest.OpRemove, odd["no link"], odd["no link"], odd["no link"])
		_, _, err := b.Fence(t.Context(), testSlot)
		wantError(t, err, "unreachable", "broke")
	})
	t.Run("it was removed although the link broke", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, enginetest.Docker)
		b.engine.Add(enginetest.Spec{Name: testContainer, Image: testImage, Labels: ourLabels(4)})
		b.engine.On(enginetest.OpRemove, enginetest.Action{Break: true, Do: true})
		if _, _, err := b.Fence(t.Context(), testSlot); err != nil {
			t.Errorf("Fence = %v", err)
		}
	})
	t.Run("nobody can tell", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, enginetest.Docker)
		b.engine.Add(enginetest.Spec{Name: testContainer, Image: testImage, Labels: ourLabels(4)})
		b.engine.On(enginetest.OpRemove, enginetest.Action{Break: true, Run: func() {
			b.engine.On(enginetest.OpInspect, odd["internal"])
		}})
		_, _, err := b.Fence(t.Context(), testSlot)
		wantError(t, err, "", "container state improper", "broke")
	})
}

func TestFence_WaitsForARemovalUnderWay(t *testing.T) {
	flavors(t, func(t *testing.T, flavor enginetest.Flavor) {
		b := newBench(t, flavor)
		id := b.engine.Add(enginetest.Spec{Name: testContainer, Image: testImage, Labels: ourLabels(4), Ended: true})
		b.engine.RemoveLazily(60 * time.Millisecond)
		if err := b.remove(t.Context(), Slot{}, object{InspectResponse: inspectID(id)}); err != nil {
			t.Fatal(err)
		}
		if _, _, err := b.Fence(t.Context(), testSlot); err != nil {
			t.Errorf("Fence = %v", err)
		}
		b.absent(t, id)
	})
}

func TestFence_RemovalThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	b := newBench(t, enginetest.Docker)
	id := b.engine.Add(enginetest.Spec{Name: testContainer, Image: testImage, Labels: ourLabels(4), Ended: true})
	b.engine.RemoveLazily(time.Hour)
	if err := b.remove(t.Context(), Slot{}, object{InspectResponse: inspectID(id)}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	looks := 0
	b.engine.Intercept(func(c enginetest.Call) enginetest.Action {
		if c.Op == enginetest.OpInspect {
			looks++
		}
		if looks == 6 { // the last ones only wait
			cancel()
		}
		return enginetest.Action{}
	})
	_, _, err := b.Fence(ctx, testSlot)
	wantError(t, err, "", "is already in progress")
	if c := b.one(t, id); c.Status != "removing" {
		t.Errorf("it is %s", c.Status)
	}
}

func TestFence_DeadContainer(t *testing.T) {
	t.Parallel()
	for name, labels := range map[string]map[string]string{"ours": ourLabels(4), "somebody's": nil} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, enginetest.Docker)
			b.engine.Add(enginetest.Spec{Name: testContainer, Labels: labels, Ended: true})
			b.engine.Change(testContainer, func(info *container.InspectResponse) { info.State.Status = "dead" })
			b.engine.On(enginetest.OpRemove, enginetest.Action{Status: 500, Message: "device or resource busy"})
			detail, weak, err := b.Fence(t.Context(), testSlot)
			if err != nil || weak {
				t.Errorf("Fence = weak %v, %v", weak, err)
			}
			wantText(t, detail, "cannot be started any more")
		})
	}
}

// A start by name that is on its way when somebody else's container is renamed
// succeeds all the same: then the container must get its name back.
func TestFence_RenamedTooLate(t *testing.T) {
	flavors(t, func(t *testing.T, flavor enginetest.Flavor) {
		b := newBench(t, flavor)
		id := b.engine.Add(enginetest.Spec{Name: testContainer, Ended: true})
		b.engine.On(enginetest.OpRename, enginetest.Action{Run: func() { b.engine.Change(id, running) }})
		_, _, err := b.Fence(t.Context(), testSlot)
		var alive *AliveError
		if !errors.As(err, &alive) {
			t.Errorf("Fence = %v, want an AliveError", err)
		}
		if got := b.one(t, id).Name; got != testContainer {
			t.Errorf("its name is %s", got)
		}
	})
}

func TestFence_RenamedAndThenUnknown(t *testing.T) {
	t.Parallel()
	b := newBench(t, enginetest.Docker)
	id := b.engine.Add(enginetest.Spec{Name: testContainer, Ended: true})
	b.engine.On(enginetest.OpRename, enginetest.Action{Run: func() {
		b.engine.On(enginetest.OpInspect, enginetest.Action{Status: 500, Message: "who knows"})
	}})
	_, _, err := b.Fence(t.Context(), testSlot)
	wantError(t, err, "", "who knows")
	if got := b.one(t, id).Name; got != testContainer {
		t.Errorf("its name is %s: it was not given back", got)
	}
}

func TestFence_TwoOfSomebodyElses(t *testing.T) {
	flavors(t, func(t *testing.T, flavor enginetest.Flavor) {
		b := newBench(t, flavor)
		b.engine.Add(enginetest.Spec{Name: testContainer, Ended: true})
		b.engine.Add(enginetest.Spec{Name: testContainer + ".nl-fenced", Ended: true})
		_, _, err := b.Fence(t.Context(), testSlot)
		wantError(t, err, "misconfigured", "is taken by another container", "remove one of the two")
	})
}

func TestFence_RenameAnsweredLate(t *testing.T) {
	t.Parallel()
	b := newBench(t, enginetest.Docker)
	b.engine.Add(enginetest.Spec{Name: testContainer, Ended: true})
	b.engine.On(enginetest.OpRename, enginetest.Action{Break: true, Do: true})
	if _, weak, err := b.Fence(t.Context(), testSlot); err != nil || !weak {
		t.Errorf("Fence = weak %v, %v", weak, err)
	}
}

func TestFence_SizeUnknownIsKept(t *testing.T) {
	t.Parallel()
	b := newBench(t, enginetest.Docker)
	id := b.engine.Add(enginetest.Spec{Name: testContainer, Labels: ourLabels(4), Ended: true})
	b.engine.Intercept(func(c enginetest.Call) enginetest.Action {
		if c.Op == enginetest.OpInspect && c.Query.Get("size") == "1" {
			return enginetest.Action{Status: 500, Message: "du failed"}
		}
		return enginetest.Action{}
	})
	detail, _, err := b.Fence(t.Context(), testSlot)
	if err != nil {
		t.Fatal(err)
	}
	wantText(t, detail, "kept container", "cannot be measured", "du failed")
	if got := b.one(t, id).Name; got != testContainer+".kept-4" {
		t.Errorf("its name is %s", got)
	}
}

// running makes a container run without a program.
func running(info *container.InspectResponse) {
	info.State.Status, info.State.Running, info.State.Pid = container.StateRunning, true, 7
	info.State.StartedAt = time.Now().UTC().Format(time.RFC3339Nano)
}

func inspectID(id string) container.InspectResponse {
	return container.InspectResponse{ID: id, State: new(container.State)}
}

// start returns the request that starts a container by id.
func start(id string) func(ctx context.Context, cli *client.Client) (client.ContainerStartResult, error) {
	return func(ctx context.Context, cli *client.Client) (client.ContainerStartResult, error) {
		return cli.ContainerStart(ctx, id, client.ContainerStartOptions{})
	}
}
