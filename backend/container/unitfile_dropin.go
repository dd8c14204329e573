package container

import (
	"path/filepath"
	"time"
)

// DropIn is what a slot's unit gets from the configuration, whoever wrote the unit itself: the timeouts that its hooks
// need, and the order after the engine. A zero field leaves the unit's own value alone.
type DropIn struct {
	TimeoutStart time.Duration // longest run of any one start command; Infinity: no limit
	TimeoutStop  time.Duration // longest stop, and longest run of any stop command; Infinity: no limit
	EngineUnit   string        // such as docker.service or podman.socket
}

// DropInPath is where the drop-in of a unit lives below the directory of unit files.
func DropInPath(unitDir, unit string) string {
	return filepath.Join(unitDir, unit+".d", dropInName)
}

// RenderDropIn renders the drop-in of a unit. The same values give the same bytes, so that a comparison with the file
// tells whether anything changed. It returns a [UnitValueError] for a negative timeout and for an engine's unit whose
// name cannot be one.
func RenderDropIn(d DropIn) ([]byte, error) {
	for _, timeout := range []spanField{{"DropIn.TimeoutStart", d.TimeoutStart}, {"DropIn.TimeoutStop", d.TimeoutStop}} {
		if err := timeout.check(); err != nil {
			return nil, err
		}
	}
	t := newUnitText("Rewritten from the configuration by every pre-start.")
	if d.EngineUnit != "" {
		if err := checkUnitName("DropIn.EngineUnit", d.EngineUnit); err != nil {
			return nil, err
		}
		t.begin("Unit")
		t.set("Wants", d.EngineUnit)
		t.set("After", d.EngineUnit)
	}
	if d.TimeoutStart != 0 || d.TimeoutStop != 0 {
		t.begin("Service")
		if d.TimeoutStart != 0 {
			t.set("TimeoutStartSec", timeSpan(d.TimeoutStart))
		}
		if d.TimeoutStop != 0 {
			t.set("TimeoutStopSec", timeSpan(d.TimeoutStop))
		}
	}
	return t.bytes(), nil
}

// spanField is a configured duration.
type spanField struct {
	name string
	span time.Duration
}

// check refuses a negative duration.
func (f spanField) check() error {
	if f.span < 0 {
		return &UnitValueError{f.name, f.span.String(), "is negative"}
	}
	return nil
}
