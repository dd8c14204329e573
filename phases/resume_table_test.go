package phases_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/node-lifecycle/node-lifecycle/fsm"
	"github.com/node-lifecycle/node-lifecycle/journal"
	"github.com/node-lifecycle/node-lifecycle/phases"
)

// The table, said a second time and in another shape: what is done must not change
// because a cell was mistyped. The columns are: in a step, unit ours; in a step, not ours;
// between phases, ours; between phases, not ours; after a reboot.
func TestResumeTable_Says(t *testing.T) {
	const (
		nothing = phases.ResumeNothing
		closes  = phases.ResumeClose
		goesOn  = phases.ResumeContinue
		settles = phases.ResumeSettle
		clears  = phases.ResumeClear
	)
	want := map[fsm.State][5]phases.Resumption{
		// Nothing of the slot should run: a cut-off run is closed, and what a post-stop could
		// not end is ended.
		fsm.Stopped: {closes, closes, nothing, clears, closes},
		fsm.Failed:  {closes, closes, nothing, clears, closes},
		// While the unit lives systemd goes on by itself; post-start alone can be taken up.
		fsm.PreChecked:  {nothing, settles, nothing, settles, settles},
		fsm.Regenerated: {goesOn, settles, nothing, settles, settles},
		fsm.Starting:    {goesOn, settles, goesOn, settles, settles},
		fsm.Running:     {goesOn, settles, goesOn, settles, settles},
		fsm.Wired:       {nothing, settles, nothing, settles, settles},
	}
	got := map[fsm.State][5]phases.Resumption{}
	for _, rule := range phases.ResumeTable() {
		column := map[phases.Cut]int{phases.CutInStep: 0, phases.CutBetween: 2, phases.CutByReboot: 4}[rule.Cut]
		if !rule.UnitOurs && rule.Cut != phases.CutByReboot {
			column++
		}
		row := got[rule.State]
		row[column] = rule.Do
		got[rule.State] = row
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the table (-want +got):\n%s", diff)
	}
}

func TestResume_WhoseRunItIs(t *testing.T) {
	for name, tc := range map[string]struct {
		world func(*world)
		end   fsm.State
	}{
		"the unit is up in another activation": {func(w *world) {
			w.activate("kube1", "a9", "active", "running")
		}, fsm.Failed},
		"the boot is another, whatever systemd says": {func(w *world) {
			w.activate("kube1", "a1", "active", "running")
			w.boot = "boot2"
		}, fsm.Stopped},
		"the process number belongs to somebody else since the reboot": {func(w *world) {
			w.boot = "boot2"
			delete(w.dead, 55)
		}, fsm.Stopped},
	} {
		t.Run(name, func(t *testing.T) {
			w := cutOff(t, fsm.Starting, phases.CutInStep, false)
			w.up("kube1")
			tc.world(w)
			did, err := w.lifecycle("kube1", "").Resume(t.Context(), "kube1")
			if err != nil {
				t.Fatal(err)
			}
			want(t, did, phases.ResumeSettle)
			wantState(t, w, "kube1", tc.end)
			if w.stack("kube1") != nil {
				t.Error("a survivor is left")
			}
			if e := w.last("kube1", journal.KindTransition); e.Phase != phases.PhaseResume {
				t.Errorf("the last transition is %s's", e.Phase)
			}
		})
	}
}
