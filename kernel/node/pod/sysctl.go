package pod

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/node/util/sysctl"
)

// safeSysctls belong to a pod's own namespaces and reach no other pod. Others
// need an administrator who allows them, and there is no way yet to say so.
var safeSysctls = []string{
	"kernel.shm_rmid_forced",
	"net.ipv4.ip_local_port_range",
	"net.ipv4.ip_local_reserved_ports",
	"net.ipv4.ip_unprivileged_port_start",
	"net.ipv4.ping_group_range",
	"net.ipv4.tcp_fin_timeout",
	"net.ipv4.tcp_keepalive_intvl",
	"net.ipv4.tcp_keepalive_probes",
	"net.ipv4.tcp_keepalive_time",
	"net.ipv4.tcp_rmem",
	"net.ipv4.tcp_syncookies",
	"net.ipv4.tcp_wmem",
}

// forbiddenSysctl answers the first sysctl that the pod may not set, in the
// kubelet's words: unsafe ones, and those of a namespace that is the host's.
func forbiddenSysctl(pod *corev1.Pod) error {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	for _, s := range pod.Spec.SecurityContext.Sysctls {
		name := sysctl.NormalizeName(s.Name)
		if !slices.Contains(safeSysctls, name) {
			return fmt.Errorf("%q not allowlisted", name)
		}
		ns, _, _ := sysctl.GetNamespace(name)
		if ns == sysctl.IPCNamespace && pod.Spec.HostIPC || ns == sysctl.NetNamespace && pod.Spec.HostNetwork {
			return fmt.Errorf("%q not allowed with host %s enabled", name, ns)
		}
	}
	return nil
}
