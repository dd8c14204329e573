package guest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestConfigTravelsAsAnArgument(t *testing.T) {
	want := Config{
		Disk:          Disk{Lower: "/l", Upper: "/u", Work: "/w", Var: "/v"},
		Target:        "/t",
		Hostname:      "one",
		BootID:        "id",
		NotifyDir:     "/n",
		DieWithParent: true,
		Unit:          "multi-user.target",
	}
	argument, err := want.Argument()
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseArgument(argument)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("after the way there and back (-want +got):\n%s", diff)
	}
	if _, err := ParseArgument("{"); err == nil || !strings.Contains(err.Error(), "boot configuration") {
		t.Errorf("a malformed argument: %v", err)
	}
}

func TestCheckDiskPath(t *testing.T) {
	for path, want := range map[string]bool{"/a/b-c.d": true, "/a:b": false, "/a,b": false, `/a\b`: false} {
		if err := CheckDiskPath(path); (err == nil) != want {
			t.Errorf("CheckDiskPath(%q): %v", path, err)
		}
	}
}
