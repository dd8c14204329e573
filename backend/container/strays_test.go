package container

import (
	"testing"

	"github.com/moby/moby/api/types/container"

	"github.com/node-lifecycle/node-lifecycle/backend/container/enginetest"
)

// labelled are the labels of a container that Start made for a slot of a pair.
func labelled(slot, pair string) map[string]string {
	return labelsFor(Slot{Name: slot, Pair: pair}, 3, "digest", "boot", "activation")
}

// TestStray lists whose living containers keep a slot down although they are not its
// peer's: those that were, or may have been, before the configuration changed.
func TestStray(t *testing.T) {
	t.Parallel()
	const other = "kube2"
	for name, test := range map[string]struct {
		spec   enginetest.Spec
		paused bool
		stray  string
	}{
		"of this slot":                         {enginetest.Spec{Labels: labelled(testSlot, "kube1+kube2"), Running: true}, false, ""},
		"of the peer":                          {enginetest.Spec{Labels: labelled(other, "kube1+kube2"), Running: true}, false, ""},
		"of another pair that is configured":   {enginetest.Spec{Labels: labelled("blue", "blue+green"), Running: true}, false, ""},
		"of a slot that is configured no more": {enginetest.Spec{Labels: labelled("old", "old+older"), Running: true}, false, "slot old, which is not configured any more, is running"},
		"the same, paused":                     {enginetest.Spec{Labels: labelled("old", "old+older"), Running: true}, true, "paused"},
		"the same, exited":                     {enginetest.Spec{Labels: labelled("old", "old+older"), Ended: true}, false, ""},
		"of a slot that was the peer once":     {enginetest.Spec{Labels: labelled("green", "green+kube1"), Running: true}, false, "slot green, which was this slot's peer"},
		"of a slot that was another's peer":    {enginetest.Spec{Labels: labelled("green", "green+kube2"), Running: true}, false, ""},
		"somebody else's":                      {enginetest.Spec{Labels: map[string]string{"com.example": "x"}, Running: true}, false, ""},
		"made from an image of a container of ours": {
			enginetest.Spec{Image: "localhost/forensic:1", Labels: labelled("old", "old+older"), Running: true}, false, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			flavors(t, func(t *testing.T, flavor enginetest.Flavor) {
				b := newBench(t, flavor)
				for name, pair := range map[string]string{other: "kube1+kube2", "blue": "blue+green", "green": "blue+green"} {
					b.opts.Slots[name] = Slot{Pair: pair, Container: "node-" + name, Image: testImage}
				}
				b.engine.AddImage(enginetest.Image{Name: "localhost/forensic:1", Labels: labelled("old", "old+older")})
				test.spec.Name = "some-name"
				b.engine.Add(test.spec)
				if test.paused {
					b.engine.Change("some-name", func(i *container.InspectResponse) { i.State.Paused, i.State.Status = true, "paused" })
				}
				alive, detail, err := b.Stray(t.Context(), testSlot)
				if err != nil || alive != (test.stray != "") {
					t.Errorf("Stray = %v %q, %v; want %q", alive, detail, err, test.stray)
				}
				wantText(t, detail, test.stray)
			})
		})
	}
}

// An engine that does not answer has not said that there is none.
func TestStray_Unknown(t *testing.T) {
	t.Parallel()
	b := newBench(t, enginetest.Docker)
	b.engine.Close()
	_, _, err := b.Stray(t.Context(), testSlot)
	wantError(t, err, "unreachable")
}

// A container that somebody made from an image of ours, to look at what happened, has our
// labels and is not ours: it is no evidence, and it is left alone.
func TestInheritedLabels(t *testing.T) {
	t.Parallel()
	flavors(t, func(t *testing.T, flavor enginetest.Flavor) {
		b := newBench(t, flavor)
		b.start(t, 3)
		labels := labelled(testSlot, "kube1+kube2")
		b.engine.AddImage(enginetest.Image{Name: "localhost/forensic:1", Labels: labels})
		b.engine.Add(enginetest.Spec{Name: "debug", Image: "localhost/forensic:1", Labels: labels, Running: true})
		if _, err := b.Stop(t.Context(), testSlot); err != nil {
			t.Fatal(err)
		}
		if alive, detail, err := b.Alive(t.Context(), testSlot); alive || err != nil {
			t.Errorf("alive after its stop: %v %q, %v", alive, detail, err)
		}
		if _, err := b.Remove(t.Context(), testSlot, 3); err != nil {
			t.Fatal(err)
		}
		b.absent(t, testContainer)
		if c := b.one(t, "debug"); c.Status != "running" {
			t.Errorf("the container that was made from it is %s", c.Status)
		}
		// Under the slot's own name the labels count, wherever its image comes from.
		b.engine.Add(enginetest.Spec{Name: testContainer, Image: "localhost/forensic:1", Labels: labels, Running: true})
		if alive, _, err := b.Alive(t.Context(), testSlot); !alive || err != nil {
			t.Errorf("alive = %v, %v under the slot's name", alive, err)
		}
	})
}
