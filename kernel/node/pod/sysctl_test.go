package pod

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestForbiddenSysctl: KLT-1: what a pod may not set is refused when it comes to the node.
func TestForbiddenSysctl(t *testing.T) {
	for _, c := range []struct {
		name             string
		hostNet, hostIPC bool
		want             string
	}{
		{name: "net.ipv4.ping_group_range"},
		{name: "net/ipv4/tcp_rmem"},
		{name: "kernel.shm_rmid_forced"},
		{name: "kernel.msgmax", want: "forbidden sysctl: \"kernel.msgmax\" not allowlisted"},
		{name: "vm/swappiness", want: "forbidden sysctl: \"vm.swappiness\" not allowlisted"},
		{name: "net.ipv4.tcp_syncookies", hostNet: true, want: "forbidden sysctl: \"net.ipv4.tcp_syncookies\" not allowed with host Net enabled"},
		{name: "net.ipv4.tcp_syncookies", hostIPC: true},
		{name: "kernel.shm_rmid_forced", hostIPC: true, want: "forbidden sysctl: \"kernel.shm_rmid_forced\" not allowed with host IPC enabled"},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{HostNetwork: c.hostNet, HostIPC: c.hostIPC, SecurityContext: &corev1.PodSecurityContext{
			Sysctls: []corev1.Sysctl{{Name: c.name, Value: "1"}},
		}}}
		a := &admission{admitted: map[types.UID]*corev1.Pod{}}
		got := a.check(pod, &corev1.Node{}, false)
		switch {
		case got == nil && c.want == "":
		case got == nil || got.reason != "SysctlForbidden" && c.want != "":
			t.Errorf("%s: %+v, want %q", c.name, got, c.want)
		case got.message != c.want && c.want != "":
			t.Errorf("%s: %q, want %q", c.name, got.message, c.want)
		case c.want == "" && got.reason == "SysctlForbidden":
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}
