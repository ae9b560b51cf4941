// Package localvolume keeps the directories of volumes that the node gives to claims: one each below a
// directory of the node's own that no other user of the machine can enter.
//
// A volume is named by its PersistentVolume, pvc- and the UID of the claim that it was made for (sdk/localvolumes),
// and by nothing else. No path comes from outside: what a PersistentVolume says of paths is not read here, and a name that is
// not of that form is refused. So a user who may write PersistentVolumes can have no other directory made, shown
// or removed.
//
// What lies in a volume was written by containers. A removal follows no link, crosses no mount, and needs the
// same few open files and the same stack however deep the directories are: it moves directories up instead of
// going down into them. A volume that is being removed has another name first, so that half of one is never
// mounted, and a removal that was interrupted goes on when it is asked for again.
//
// It imports no other package of the node.
package localvolume
