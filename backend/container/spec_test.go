package container

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/moby/api/types/container"
	"pgregory.net/rapid"
)

// fullSlot uses every field that a specification is made of.
func fullSlot() Slot {
	return Slot{
		Name: testSlot, Pair: "kube1+kube2", Unit: testUnit, Container: testContainer, Image: testImage,
		Command: []string{"/lib/systemd/systemd"}, TTY: true, Privileged: true,
		Env:     map[string]string{"container": "docker", "A": "1"},
		Network: "host", CgroupNS: "private", Tmpfs: []string{"/run", "/tmp:size=1m"},
		SecurityOpt:  []string{"seccomp=unconfined", "systempaths=unconfined", "apparmor=unconfined"},
		Capabilities: []string{"SYS_ADMIN"}, Devices: []string{"/dev/null:/dev/void:r"},
		Volumes:   []string{"/var/lib/node/kube1/containerd:/var/lib/containerd", "data:/data:ro"},
		StopGrace: 59*time.Second + time.Millisecond,
	}
}

func TestRender(t *testing.T) {
	t.Parallel()
	s := fullSlot()
	devices := []deviceNode{{Path: "/dev/null", Type: "c", Major: 1, Minor: 3}}
	spec, err := render(s, imageInfo{id: "sha256:1"}, devices, false)
	if err != nil {
		t.Fatal(err)
	}
	grace := 60
	want := &specification{
		Version: 1, Slot: testSlot, Name: testContainer, ImageID: "sha256:1",
		Config: &container.Config{
			Image: testImage, Cmd: s.Command, Env: []string{"A=1", "container=docker"}, Tty: true,
			StopSignal: "SIGRTMIN+3", StopTimeout: &grace,
		},
		HostConfig: &container.HostConfig{
			Binds: s.Volumes, NetworkMode: "host", CgroupnsMode: "private", Privileged: true,
			CapAdd:        []string{"SYS_ADMIN"},
			RestartPolicy: container.RestartPolicy{Name: "no"},
			LogConfig:     container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": "16m", "max-file": "2"}},
			Tmpfs:         map[string]string{"/run": "", "/tmp": "size=1m"},
			SecurityOpt:   []string{"seccomp=unconfined", "apparmor=unconfined"},
			MaskedPaths:   []string{}, ReadonlyPaths: []string{},
			Resources: container.Resources{Devices: []container.DeviceMapping{
				{PathOnHost: "/dev/null", PathInContainer: "/dev/void", CgroupPermissions: "r"},
			}},
		},
		Devices: devices,
		Digest:  spec.Digest,
	}
	if diff := cmp.Diff(want, spec); diff != "" {
		t.Errorf("specification (-want +got):\n%s", diff)
	}
	podman, err := render(s, imageInfo{id: "sha256:1"}, devices, true)
	if err != nil || podman.HostConfig.LogConfig.Type != "k8s-file" {
		t.Errorf("log driver for Podman: %+v, %v", podman.HostConfig.LogConfig, err)
	}
}

func TestRender_SeccompProfileFromFile(t *testing.T) {
	t.Parallel()
	profile := filepath.Join(t.TempDir(), "seccomp.json")
	if err := os.WriteFile(profile, []byte(`{"defaultAction":"SCMP_ACT_ALLOW"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s := Slot{Name: testSlot, Container: testContainer, SecurityOpt: []string{"seccomp=" + profile}}
	spec, err := render(s, imageInfo{}, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := spec.HostConfig.SecurityOpt[0], `seccomp={"defaultAction":"SCMP_ACT_ALLOW"}`; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	s.SecurityOpt[0] += "x"
	_, err = render(s, imageInfo{}, nil, false)
	wantError(t, err, "misconfigured", "seccomp profile of slot kube1", "no such file")
}

func TestRender_Misconfigured(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*Slot)
		text   string
	}{
		"cgroupns":          {func(s *Slot) { s.CgroupNS = "shared" }, `cgroupns "shared"`},
		"volume, one part":  {func(s *Slot) { s.Volumes = []string{"/data"} }, `volume "/data"`},
		"volume, four":      {func(s *Slot) { s.Volumes = []string{"a:/b:c:d"} }, "volume"},
		"volume, relative":  {func(s *Slot) { s.Volumes = []string{"a:b"} }, "volume"},
		"volume, no source": {func(s *Slot) { s.Volumes = []string{":/b"} }, "volume"},
		"tmpfs":             {func(s *Slot) { s.Tmpfs = []string{"run"} }, `tmpfs "run"`},
		"env":               {func(s *Slot) { s.Env = map[string]string{"A=B": "c"} }, `env "A=B"`},
		"signal":            {func(s *Slot) { s.StopSignal = "stop it" }, `stop signal "stop it"`},
		"device":            {func(s *Slot) { s.Devices = []string{"nvidia.com/gpu=all"} }, "device"},
		"device, rights":    {func(s *Slot) { s.Devices = []string{"/dev/null:/dev/null:x"} }, "device"},
	} {
		t.Run(name, func(t *testing.T) {
			s := fullSlot()
			test.change(&s)
			_, err := render(s, imageInfo{}, nil, false)
			wantError(t, err, "misconfigured", "slot kube1", test.text)
		})
	}
}

func TestStopSignal(t *testing.T) {
	t.Parallel()
	sh := func(script string) []string { return []string{"/bin/sh", "-c", script} }
	for name, test := range map[string]struct {
		configured, image string
		command, inImage  []string
		want              string
	}{
		"configuration first":    {"SIGINT", "SIGQUIT", []string{"systemd"}, nil, "SIGINT"},
		"as a number":            {"15", "", nil, nil, "15"},
		"then the image":         {"", "SIGQUIT", []string{"systemd"}, nil, "SIGQUIT"},
		"systemd":                {"", "", []string{"/lib/systemd/systemd", "--log-level=debug"}, nil, "SIGRTMIN+3"},
		"systemd of the image":   {"", "", nil, []string{"/usr/lib/systemd/systemd"}, "SIGRTMIN+3"},
		"init":                   {"", "", []string{"/sbin/init"}, nil, "SIGRTMIN+3"},
		"a shell that becomes":   {"", "", sh("mount -o remount,rw /sys/fs/cgroup; exec /lib/systemd/systemd"), nil, "SIGRTMIN+3"},
		"a shell that does not":  {"", "", sh("echo systemd; sleep 1"), nil, "SIGTERM"},
		"a shell with a look-at": {"", "", sh("exec /bin/systemd-notify"), nil, "SIGTERM"},
		"anything else":          {"", "", []string{"sleep", "inf"}, nil, "SIGTERM"},
		"overrides the image's":  {"", "", []string{"sleep"}, []string{"systemd"}, "SIGTERM"},
		"nothing":                {"", "", nil, nil, "SIGTERM"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := stopSignal(Slot{StopSignal: test.configured, Command: test.command},
				imageInfo{stopSignal: test.image, command: test.inImage})
			if err != nil || got != test.want {
				t.Errorf("%q, %v; want %q", got, err, test.want)
			}
		})
	}
}

func TestParseDevice(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]container.DeviceMapping{
		"/dev/a":          {PathOnHost: "/dev/a", PathInContainer: "/dev/a", CgroupPermissions: "rwm"},
		"/dev/a:/dev/b":   {PathOnHost: "/dev/a", PathInContainer: "/dev/b", CgroupPermissions: "rwm"},
		"/dev/a:r":        {PathOnHost: "/dev/a", PathInContainer: "/dev/a", CgroupPermissions: "r"},
		"/dev/a:/dev/b:m": {PathOnHost: "/dev/a", PathInContainer: "/dev/b", CgroupPermissions: "m"},
	} {
		if got, err := parseDevice(Slot{}, text); err != nil || got != want {
			t.Errorf("parseDevice(%q) = %+v, %v", text, got, err)
		}
	}
}

// The digest says whether a container was made from the very same
// specification, so it must survive the way through the file.
func TestSpecification_DigestSurvivesJSON(t *testing.T) {
	t.Parallel()
	text := rapid.StringMatching(`[ -~é]{0,12}`)
	path := rapid.StringMatching(`/[a-z]{1,8}`)
	rapid.Check(t, func(t *rapid.T) {
		s := Slot{
			Name: testSlot, Container: testContainer, Image: text.Draw(t, "image"),
			Command: rapid.SliceOfN(text, 0, 3).Draw(t, "command"),
			TTY:     rapid.Bool().Draw(t, "tty"),
			Env:     rapid.MapOfN(rapid.StringMatching(`[A-Z]{1,5}`), text, 0, 3).Draw(t, "env"),
			Tmpfs:   rapid.SliceOfN(path, 0, 3).Draw(t, "tmpfs"),
		}
		spec, err := render(s, imageInfo{id: text.Draw(t, "id")}, nil, rapid.Bool().Draw(t, "podman"))
		if err != nil {
			t.Fatal(err)
		}
		file, err := json.MarshalIndent(spec, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		back := new(specification)
		if err := json.Unmarshal(file, back); err != nil {
			t.Fatal(err)
		}
		if digest, err := back.digest(); err != nil || digest != spec.Digest {
			t.Fatalf("digest %s, %v; want %s", digest, err, spec.Digest)
		}
	})
}

func TestChangedDevice(t *testing.T) {
	t.Parallel()
	uvm := deviceNode{Path: "/dev/nvidia-uvm", Type: "c", Major: 510}
	moved := uvm
	moved.Major = 507
	gpu := deviceNode{Path: "/dev/nvidia0", Type: "c", Major: 195}
	for name, test := range map[string]struct {
		spec, now []deviceNode
		want      string
	}{
		"same":      {[]deviceNode{uvm}, []deviceNode{uvm}, ""},
		"none":      {nil, nil, ""},
		"new major": {[]deviceNode{uvm}, []deviceNode{moved}, "/dev/nvidia-uvm (c 510:0) is /dev/nvidia-uvm (c 507:0) now"},
		"gone":      {[]deviceNode{uvm}, nil, "/dev/nvidia-uvm (c 510:0) is gone"},
		"one more":  {[]deviceNode{uvm}, []deviceNode{gpu, uvm}, "/dev/nvidia0 (c 195:0) is new"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, changed := changedDevice(test.spec, test.now); got != test.want || changed != (test.want != "") {
				t.Errorf("%q, %v; want %q", got, changed, test.want)
			}
		})
	}
}
