package sandbox

import (
	"fmt"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"pintle.dev/pintle/kernel/node/container"
	"pintle.dev/pintle/kernel/node/cri"
)

// Input is what a sandbox is made from.
type Input struct {
	Pod          *corev1.Pod
	Attempt      uint32
	Resolver     Resolver
	LogDir       string // of all pods
	CgroupParent string // "" leaves the choice to the runtime
}

// Config builds the runtime's sandbox configuration; warnings are for events about the resolver.
func Config(in Input) (config *runtimeapi.PodSandboxConfig, warnings []Warning, err error) {
	pod := in.Pod
	dns, warnings, err := in.Resolver.For(pod)
	if err != nil {
		return nil, nil, err
	}
	config = &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: pod.Name, Namespace: pod.Namespace, Uid: string(pod.UID), Attempt: in.Attempt},
		Labels:       cri.SandboxLabels(pod),
		Annotations:  pod.Annotations,
		DnsConfig:    dns,
		LogDirectory: LogDirectory(in.LogDir, pod.Namespace, pod.Name, pod.UID),
		PortMappings: portMappings(pod),
	}
	if !pod.Spec.HostNetwork {
		if config.Hostname, err = kernelHostname(pod, in.Resolver.ClusterDomain); err != nil {
			return nil, nil, err
		}
	}
	security := &runtimeapi.LinuxSandboxSecurityContext{
		NamespaceOptions: container.Namespaces(pod),
		Privileged:       container.HasPrivileged(pod),
		// The pause process needs nothing: it runs under the runtime's own profile whatever the pod asks for.
		Seccomp: &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault},
	}
	sysctls := map[string]string{}
	if sc := pod.Spec.SecurityContext; sc != nil {
		if sc.RunAsUser != nil {
			security.RunAsUser = &runtimeapi.Int64Value{Value: *sc.RunAsUser}
		}
		if sc.RunAsGroup != nil {
			security.RunAsGroup = &runtimeapi.Int64Value{Value: *sc.RunAsGroup}
			if sc.RunAsUser == nil {
				// CRI refuses a group without a user.
				security.RunAsUser = &runtimeapi.Int64Value{Value: 0}
			}
		}
		security.SelinuxOptions = container.SELinux(sc.SELinuxOptions)
		security.SupplementalGroups, security.SupplementalGroupsPolicy = container.Groups(pod)
		for _, s := range sc.Sysctls {
			sysctls[s.Name] = s.Value
		}
	}
	config.Linux = &runtimeapi.LinuxPodSandboxConfig{
		CgroupParent:    in.CgroupParent,
		SecurityContext: security,
		Sysctls:         sysctls,
		Overhead:        container.Overhead(pod),
		Resources:       container.PodResources(pod),
	}
	return config, warnings, nil
}

// LogDirectory is where the runtime writes the logs of a pod: <dir>/pods/<ns>_<name>_<uid>.
func LogDirectory(dir, namespace, name string, uid types.UID) string {
	return filepath.Join(dir, "pods", strings.Join([]string{namespace, name, string(uid)}, "_"))
}

// Hostname is the pod's host name and its domain (empty without subdomain).
func Hostname(pod *corev1.Pod, clusterDomain string) (host, domain string) {
	if pod.Spec.HostnameOverride != nil {
		return *pod.Spec.HostnameOverride, ""
	}
	host = pod.Name
	if pod.Spec.Hostname != "" {
		host = pod.Spec.Hostname
	}
	if len(host) > 63 {
		host = strings.TrimRight(host[:63], "-.")
	}
	if pod.Spec.Subdomain != "" {
		domain = fmt.Sprintf("%s.%s.svc.%s", pod.Spec.Subdomain, pod.Namespace, clusterDomain)
	}
	return host, domain
}

func kernelHostname(pod *corev1.Pod, clusterDomain string) (string, error) {
	host, domain := Hostname(pod, clusterDomain)
	if domain == "" || pod.Spec.SetHostnameAsFQDN == nil || !*pod.Spec.SetHostnameAsFQDN {
		return host, nil
	}
	fqdn := host + "." + domain
	if len(fqdn) > 64 {
		return "", fmt.Errorf("failed to construct FQDN from pod hostname and cluster domain, FQDN %s is too long (64 characters is the max, %d characters requested)", fqdn, len(fqdn))
	}
	return fqdn, nil
}

func portMappings(pod *corev1.Pod) []*runtimeapi.PortMapping {
	if pod.Spec.HostNetwork {
		return nil
	}
	var out []*runtimeapi.PortMapping
	add := func(c *corev1.Container) {
		for _, p := range c.Ports {
			protocol := runtimeapi.Protocol_TCP
			switch p.Protocol {
			case corev1.ProtocolUDP:
				protocol = runtimeapi.Protocol_UDP
			case corev1.ProtocolSCTP:
				protocol = runtimeapi.Protocol_SCTP
			}
			out = append(out, &runtimeapi.PortMapping{HostIp: p.HostIP, HostPort: p.HostPort, ContainerPort: p.ContainerPort, Protocol: protocol})
		}
	}
	for i := range pod.Spec.InitContainers {
		if container.IsSidecar(&pod.Spec.InitContainers[i]) {
			add(&pod.Spec.InitContainers[i])
		}
	}
	for i := range pod.Spec.Containers {
		add(&pod.Spec.Containers[i])
	}
	return out
}
