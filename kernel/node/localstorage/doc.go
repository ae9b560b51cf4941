// Package localstorage measures what files of pods take on the node's disks: folders, and the writable layers of
// containers as they are now, which a runtime's statistics show late. It imports nothing of the kernel but
// kernel/node/cri, keeps nothing and changes nothing.
package localstorage
