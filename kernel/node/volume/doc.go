// Package volume makes the files and directories that a pod's containers mount: emptyDir (disk and memory), hostPath,
// configMap, secret, downwardAPI and projected volumes (with bound service account tokens), claims bound to volumes of
// the kinds hostPath and local, the hosts file and the termination message files, and removes them again.
//
// Promises: files of an object-backed volume change all at once (a symlink ..data is swapped) and only when their
// content does; secrets, tokens and projected volumes live on tmpfs where the agent is root; what a container can
// write can not lead a subPath out of its volume. Nothing is removed below a mount that is still there. The data of a
// claim is never below a pod's directory: what removes that cannot remove it.
// A local volume gets a pod's fsGroup once in the pod's life, and not while another pod has it, also where the agent
// has started anew since; files that refuse it are logged. Of pods that mount a volume at once, one gives it.
//
// Other volume types are refused with an error that names them. It must import only kernel/node/container
// and kernel/node/localvolume of its siblings. Layout below Config.RootDir is the kubelet's: pods/<uid>/volumes/kubernetes.io~<type>/<name>.
package volume
