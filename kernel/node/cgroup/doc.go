// Package cgroup keeps a cgroup for each pod below <root>/kubepods[/burstable|/besteffort]/pod<uid>, in the layout of
// the kubelet's cgroupfs driver, with the pod's summed shares, quota and memory limit; the runtime puts containers
// below it. Works on cgroup v1 (each controller) and v2. It must import only kernel/node/container of its siblings.
package cgroup
