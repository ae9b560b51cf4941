// Package hostpath is the provisioner pintle.dev/hostpath: it makes volumes on nodes for claims whose class names it,
// and has their data removed when they are released.
//
// It touches no file. For a claim that the scheduler gave a node it writes a PersistentVolume of kind local: its name
// comes from the claim's UID, its path from that name and the node's annotation (sdk/localvolumes). Neither has a part
// that a user wrote. The node's agent makes the directory when a pod
// mounts the claim. For a released volume with reclaim policy Delete it asks that agent, through the API server's
// proxy, to remove the volume of that name, and then deletes the object.
//
// A PersistentVolume that a user wrote with this provisioner's annotation is left alone, unless its name and path are
// those of such a volume. Then the agent goes by the name alone. A volume whose node is gone stays, with an event,
// since its data could not be removed. To take its finalizer off is to give the data up.
//
// Sizes are not enforced: a volume may fill the disk of its node.
package hostpath
