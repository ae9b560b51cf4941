package cluster

import "testing"

// What a new mount namespace begins with is everybody's; what a container has as its own is the cluster's.
func TestMountsFrom(t *testing.T) {
	for name, test := range map[string]struct {
		line string
		want bool
	}{
		"an inherited overlay": {"98 30 0:45 / /tmp/c/run/pod/rootfs rw - overlay overlay rw,lowerdir=/tmp/c/snapshots/1/fs,upperdir=/tmp/c/snapshots/2/fs", false},
		"an inherited volume":  {"99 30 0:46 / /tmp/c/pods/uid/volumes/secret rw - tmpfs tmpfs rw", false},
		"a container's root":   {"98 30 0:45 / / rw - overlay overlay rw,lowerdir=/tmp/c/snapshots/1/fs,upperdir=/tmp/c/snapshots/2/fs", true},
		"a container's volume": {"99 98 254:0 /tmp/c/pods/uid/volumes/config /etc/config rw - ext4 /dev/vda rw", true},
		"another cluster's":    {"98 30 0:45 / / rw - overlay overlay rw,lowerdir=/tmp/c2/snapshots/1/fs", false},
	} {
		if got := mountsFrom("22 1 254:0 / / rw - ext4 /dev/vda rw\n"+test.line+"\n", "/tmp/c"); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
