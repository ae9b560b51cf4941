// Package sandbox turns a pod into the runtime's PodSandboxConfig: resolver, host name, ports, namespaces, sysctls,
// cgroup parent, overhead. It is pure but for reading the host's resolver file and must import only kernel/node/cri
// and kernel/node/container of its siblings.
package sandbox
