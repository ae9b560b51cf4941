// Package containerd is the life-cycle of a containerd endpoint: it starts the
// bundled containerd, or finds the system's, and hands its CRI socket to the
// node agent, which speaks CRI to it directly.
//
// # What it owns
//
// The bundled daemon with its configuration, its folders, its CNI network (one
// Linux bridge a node), the rules by which pods' addresses are translated (package podnat,
// and the CNI plugin hostports) and the images that come with Pintle (the sandbox image
// and the examples). The tools themselves (containerd, shim, runc, ctr and the
// CNI plugins) are pinned in the module bundle below this folder; so is the CNI plugin
// announce, which is ours.
//
// # What it promises
//
// The daemon outlives this process: containers go on when the kernel or the
// plugin is killed, and the next start finds the running daemon. They go on
// without the daemon too: Status starts it again, and so does Stop, since only
// a daemon can end them. Stop without keep removes every sandbox, process,
// mount, interface and rule of this node. A start that fails ends the daemon
// that it launched and takes nothing from containers that were there before.
//
// It must not import kernel.
package containerd
