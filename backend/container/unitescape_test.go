package container

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestEscapeInstance(t *testing.T) {
	for in, want := range map[string]string{ // as systemd-escape answers
		"kube1":        "kube1",
		"kube-1":       `kube\x2d1`,
		"a/b":          "a-b",
		".hidden":      `\x2ehidden`,
		"a.b_c:d":      "a.b_c:d",
		"50% $HOME":    `50\x25\x20\x24HOME`,
		`back\slash"`:  `back\x5cslash\x22`,
		"ü":            `\xc3\xbc`,
		"two@services": `two\x40services`,
	} {
		if got, err := EscapeInstance(in); got != want || err != nil {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "a\nb", "a\x00", "\xff", " a", "a\t"} {
		if got, err := EscapeInstance(in); !isMisconfigured(err) {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
}

func TestUnitName(t *testing.T) {
	long := strings.Repeat("k", unitNameMax-len("node-stack@.service"))
	for _, tt := range []struct{ template, instance, want string }{
		{"node-stack@.service", "kube1", "node-stack@kube1.service"},
		{"node-stack@.service", "kube-1", `node-stack@kube\x2d1.service`},
		{"node-stack@.service", long, "node-stack@" + long + ".service"},
		{"node-stack@.service", long + "k", ""},
		{"node-stack@.service", "", ""},
		{"node-stack@.service", "a\nb", ""},
		{"node-stack.service", "kube1", ""},
		{"node-stack@x.service", "kube1", ""},
		{"@.service", "kube1", ""},
		{"node-stack@", "kube1", ""},
		{"node-stack@.exe", "kube1", ""},
		{"node stack@.service", "kube1", ""},
	} {
		got, err := UnitName(tt.template, tt.instance)
		if tt.want == "" && !isMisconfigured(err) || tt.want != "" && (got != tt.want || err != nil) {
			t.Errorf("%q, %q: %q, %v", tt.template, tt.instance, got, err)
		}
	}
}

func TestCheckUnitName(t *testing.T) {
	for _, name := range []string{"a.service", "docker.socket", `dev-disk\x2d1.device`, "a@.service", "a@b@c.service", "a:b_c.mount", ".x.timer"} {
		if err := CheckUnitName(name); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"", "a", ".service", "@.service", "@a.service", "a.Service", "a b.service", "a/b.service", "a%i.service", "ü.service", "a.service\n", "-.exe"} {
		if err := CheckUnitName(name); !isMisconfigured(err) {
			t.Errorf("%q is no unit's name", name)
		}
	}
}

func TestTimeSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                                    "0",
		90 * time.Second:                     "1min 30s",
		7 * time.Minute:                      "7min",
		25 * time.Hour:                       "25h",
		1500 * time.Millisecond:              "1s 500ms",
		time.Nanosecond:                      "1us",
		time.Second + 1001*time.Nanosecond:   "1s 2us",
		time.Hour + 2*time.Minute + 3*1000_0: "1h 2min 30us",
		Infinity:                             "infinity",
	} {
		if got := timeSpan(d); got != want {
			t.Errorf("%d ns: %q, want %q", d, got, want)
		}
	}
}

func TestExecWord(t *testing.T) {
	for in, want := range map[string]string{
		"":           `""`,
		"--flag=a,b": "--flag=a,b",
		"%i":         "%%i",
		"$HOME":      "$$HOME",
		"${HOME}":    `"$${HOME}"`,
		";":          `";"`,
		"a b":        `"a b"`,
		`"\`:         `"\"\\"`,
		"it's":       `"it's"`,
		"ü":          `"ü"`,
	} {
		if got := execWord(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

func ExampleUnitName() {
	name, err := UnitName("node-stack@.service", "kube-1")
	fmt.Println(name, err)
	_, err = UnitName("node-stack@.service", "kube1\nExecStartPre=/bin/evil")
	fmt.Println(err)
	// Output:
	// node-stack@kube\x2d1.service <nil>
	// instance "kube1\nExecStartPre=/bin/evil" has a control character, such as a newline
}
