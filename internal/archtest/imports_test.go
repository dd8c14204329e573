// Package archtest holds the rules of the house that a compiler does not: which package
// may import which.
package archtest

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/node-lifecycle/node-lifecycle"

// inside says what each part of the module may import of the module itself. A part is
// a folder with all below it; the longest that matches counts.
var inside = map[string]struct {
	may []string
	why string
}{
	"fsm":               {nil, "what is legal depends on nothing but the table"},
	"journal":           {[]string{"journal"}, "the journal knows neither states nor slots; they are strings to it"},
	"phases":            {[]string{"fsm", "journal"}, "phases reach the world through interfaces that they declare themselves"},
	"backend/container": {[]string{"backend/container"}, "a backend satisfies what phases declares without knowing of it"},
	"internal/argv":     {nil, "it knows words, not commands"},
	"internal/config":   {nil, "it knows keys, not what is done with them"},
	"internal/host":     {nil, "it reads the host for whoever asks"},
	"internal/render":   {nil, "it is given what to print"},
	"internal/timespec": {nil, "it knows times, not what they are for"},
}

// outside says which part alone may use a library, so that leaving the library means
// changing one part.
var outside = map[string]struct {
	only []string
	why  string
}{
	"github.com/looplab/fsm":           {[]string{"fsm"}, "its traps are fenced in there"},
	"go.etcd.io/bbolt":                 {[]string{"journal"}, "a damaged file makes it panic; only the journal guards against that"},
	"github.com/moby/moby":             {[]string{"backend/container"}, "phases must not depend on an engine"},
	"github.com/godbus/dbus":           {[]string{"backend/container"}, "phases must not depend on systemd"},
	"github.com/coreos/go-systemd/v22": {[]string{"backend/container", "cmd/node-lifecycle"}, "cmd only speaks to systemd about itself"},
	"github.com/urfave/cli":            {[]string{"cmd/node-lifecycle"}, "leaving it behind must stay a matter of one folder"},
	"github.com/goccy/go-yaml":         {[]string{"internal/config"}, "only the configuration is YAML"},
	"github.com/oklog/ulid":            {[]string{"phases"}, "only runs are numbered with it"},
	"net/http":                         {[]string{"backend/container", "internal/lab"}, "it costs every hook start-up time"},
}

type pkg struct {
	ImportPath string
	Imports    []string
}

func TestImportsPointDown(t *testing.T) {
	for _, p := range packages(t) {
		part, rule := "", inside[""]
		path := strings.TrimPrefix(p.ImportPath, module+"/")
		for candidate, r := range inside {
			if under(path, candidate) && len(candidate) > len(part) {
				part, rule = candidate, r
			}
		}
		if part == "" {
			continue // cmd and what only builds or tests
		}
		for _, imported := range p.Imports {
			target, ours := strings.CutPrefix(imported, module+"/")
			if ours && !slices.ContainsFunc(rule.may, func(may string) bool { return under(target, may) }) {
				t.Errorf("%s imports %s, but %s", path, target, rule.why)
			}
		}
	}
}

func TestLibrariesStayInTheirPlace(t *testing.T) {
	used := map[string]bool{}
	for _, p := range packages(t) {
		path := strings.TrimPrefix(p.ImportPath, module+"/")
		for _, imported := range p.Imports {
			for library, rule := range outside {
				if !under(imported, library) && !strings.HasPrefix(imported, library+"/") {
					continue
				}
				used[library] = true
				if !slices.ContainsFunc(rule.only, func(only string) bool { return under(path, only) }) {
					t.Errorf("%s imports %s, which belongs in %v: %s", path, imported, rule.only, rule.why)
				}
			}
		}
	}
	for library := range outside {
		if !used[library] {
			t.Errorf("nothing imports %s any more: drop its rule", library)
		}
	}
}

// under reports whether path is the folder or below it.
func under(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, folder+"/")
}

// packages lists what is compiled into programs; tests may import what they like.
func packages(t *testing.T) (all []pkg) {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", module+"/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if len(all) < 8 {
		t.Fatalf("only %d packages were found: the rules were not checked", len(all))
	}
	return all
}
