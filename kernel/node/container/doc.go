// Package container turns a container of a pod into the runtime's ContainerConfig: environment (literals, downward
// API, ConfigMap and Secret keys, services, $(VAR) expansion), resources as cgroup values, security context, and the
// small questions about a pod that several packages ask (QoS class, sidecars, ports, format of a pod's name).
//
// It is pure: it reads what it is given and calls out only through the Source interface for ConfigMaps and Secrets.
// It must not import other packages of kernel/node but cri. Mounts are made by kernel/node/volume and only passed on.
package container
