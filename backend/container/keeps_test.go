package container

import (
	"slices"
	"testing"
)

func TestDisposable(t *testing.T) {
	for name, tc := range map[string]struct {
		slot Slot
		want []string
	}{
		"nothing is a volume": {Slot{}, nodeData},
		"all are": {Slot{Volumes: []string{
			"/a:/etc/kubernetes", "/b:/var/lib/containerd:rw", "kubelet:/var/lib/kubelet/",
		}}, nil},
		"one volume above them":          {Slot{Volumes: []string{"/srv/lib:/var/lib"}}, []string{"/etc/kubernetes"}},
		"a name that only begins so":     {Slot{Volumes: []string{"/a:/var/lib/kube"}}, nodeData},
		"a tmpfs is meant to be lost":    {Slot{Tmpfs: []string{"/var/lib/kubelet:size=1g"}}, []string{"/etc/kubernetes", "/var/lib/containerd"}},
		"an anonymous path is no volume": {Slot{Volumes: []string{"/var/lib/kubelet"}}, nodeData},
	} {
		t.Run(name, func(t *testing.T) {
			if got := disposable(tc.slot); !slices.Equal(got, tc.want) {
				t.Errorf("disposable: %v, want %v", got, tc.want)
			}
		})
	}
}
