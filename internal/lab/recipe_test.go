package lab

import (
	"path"
	"slices"
	"strings"
	"testing"
)

func TestRecipeListsAreWellFormed(t *testing.T) {
	for _, name := range []string{recipePackages, recipeMasked, recipeWithout} {
		lines := recipeLines(name)
		if len(lines) == 0 {
			t.Errorf("%s is empty", name)
		}
		seen := map[string]bool{}
		for _, line := range lines {
			if seen[line] {
				t.Errorf("%s names %q twice", name, line)
			}
			seen[line] = true
			if strings.ContainsAny(line, " \t,") || strings.HasPrefix(line, "/") {
				t.Errorf("%s: %q is not one bare name", name, line)
			}
			if _, err := path.Match(line, ""); err != nil {
				t.Errorf("%s: pattern %q: %v", name, line, err)
			}
		}
	}
}

func TestRecipeFilesAreAbsolute(t *testing.T) {
	for tree, want := range map[string]string{
		recipeHost: "/etc/containers/containers.conf",
		recipeNode: unitDirectory + "/kubelet.service",
	} {
		files, err := recipeFiles(tree)
		if err != nil {
			t.Fatal(err)
		}
		if files[want] == "" {
			t.Errorf("%s does not hold %s but %v", tree, want, sortedKeys(files))
		}
	}
	if _, err := recipeFiles("recipe/absent"); err == nil {
		t.Error("reading a tree that does not exist succeeds")
	}
}

// A unit that is masked cannot be started by the node image.
func TestTheNodesUnitsAreNotMasked(t *testing.T) {
	masked := recipeLines(recipeMasked)
	for _, unit := range nodeUnits {
		if slices.Contains(masked, unit) {
			t.Errorf("%s is masked", unit)
		}
	}
}

func TestTheBootstrapInstallsEveryPackage(t *testing.T) {
	arguments := bootstrapArguments()
	include := arguments[len(arguments)-2]
	if want := "--include=" + strings.Join(recipeLines(recipePackages), ","); include != want || arguments[len(arguments)-1] != suite {
		t.Errorf("mmdebstrap's last arguments are %q, want %q and %q", arguments[len(arguments)-2:], want, suite)
	}
}

// What is cached is found again by these names, so they must tell two recipes
// apart and be stable for one.
func TestDigest(t *testing.T) {
	if digest("ab", "c") == digest("a", "bc") || digest("a") == digest("a", "") {
		t.Error("two lists of parts share a digest")
	}
	if first, second := rootName(), rootName(); first != second {
		t.Errorf("the name of the root file system is not stable: %s, then %s", first, second)
	}
	first, err := toolsName()
	if err != nil {
		t.Fatal(err)
	}
	if second, _ := toolsName(); first != second || !strings.HasPrefix(first, "tools-") {
		t.Errorf("the name of the programs: %q and %q", first, second)
	}
}

func TestNodeRunArguments(t *testing.T) {
	got := strings.Join(NodeRunArguments("kube1", "/srv/c:"+NodeControl), " ")
	for _, want := range []string{
		"run --detach --name kube1 --tty --network host --cgroupns private ",
		" --tmpfs /run --tmpfs /run/lock --tmpfs /tmp ",
		" --security-opt seccomp=unconfined ",
		" --cap-add SYS_ADMIN --cap-add NET_ADMIN ",
		" --volume /srv/c:/var/lib/node-lab localhost/node:lab /bin/sh -c mount",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in: %s", want, got)
		}
	}
}
