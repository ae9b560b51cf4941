// Package localvolumes is what a provisioner of volumes on nodes and the node agents have in common: how such a
// volume is named, where a node keeps its own, and how one is removed.
//
// A volume is a PersistentVolume of kind local, named by the claim that it was made for (Name), annotated with
// Provisioner, whose path is that name below the directory in the node's Annotation. The agent makes the
// directory when a pod mounts the claim, and removes it when RemovePath is asked for by DELETE. It goes by the name
// alone: a path in a PersistentVolume leads it nowhere.
//
// It holds no state and reads nothing.
package localvolumes
