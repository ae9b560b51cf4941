// Package strictyaml reads a file of YAML or JSON that another program is configured with, so that whatever is said
// about it names its line: it is kept as a tree (File), and parts of it are decoded strictly into types of Kubernetes.
//
// It owns no vocabulary. Translators (kernel/config/kubescheduler, kernel/config/kubeletconfig) use it and collect in it
// what they have to say. It imports kernel/config for faults and kernel/yamltree, and nothing else of the kernel.
package strictyaml
