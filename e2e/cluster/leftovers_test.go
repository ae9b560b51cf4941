package cluster

import (
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
)

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

// TestProcessesOfOneCluster: a cluster has the processes of its session, and no other, also
// when its network is gone.
func TestProcessesOfOneCluster(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: it makes a network namespace")
	}
	n, err := NewNetwork()
	if err != nil {
		t.Skip(err)
	}
	start := func() *exec.Cmd {
		cmd := exec.Command("sleep", "600")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		return cmd
	}
	own, other := start(), start()
	c := &Cluster{Options: Options{Name: "one", Data: t.TempDir(), Network: n}, cmd: own}
	for _, when := range []string{"with its network", "without it"} {
		if got := c.processes(); !slices.Equal(got, []int{own.Process.Pid}) {
			t.Errorf("%s: processes %v, want %d alone, not %d", when, got, own.Process.Pid, other.Process.Pid)
		}
		if when == "with its network" {
			if err := n.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
