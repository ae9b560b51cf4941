// Package cgroup keeps a cgroup for each pod below <root>/kubepods[/burstable|/besteffort]/pod<uid>, in the layout of
// the kubelet's cgroupfs driver, with the pod's summed shares, quota and memory limit; the runtime puts containers
// below it. Works on cgroup v1 (each controller) and v2. It must import only kernel/node/container of its siblings.
//
// Besides the pods', it weighs the classes against each other as the kubelet does: besteffort has the least shares
// there are, burstable the sum of what its pods request, so that a pod without requests never takes the time of one
// that has some. The sum is read back from the pods' cgroups, which outlive this process. kubepods itself has no
// limit: the node's other processes are weighed against all pods as the system's administrator set them up.
//
// A machine counts as v2 when the unified hierarchy with its controllers is mounted at /sys/fs/cgroup, where runc and
// containerd look for it too; a hybrid one, with the unified hierarchy below it, counts as v1.
package cgroup
