// Package ownerreferences is the admission plugin OwnerReferencesPermissionEnforcement:
// who changes the owners of an object needs the right to delete it, and who lets an
// object hold up the deletion of its owner (blockOwnerDeletion) the right to set
// finalizers of that owner. Without it, who may write pods can have them deleted by
// the garbage collector, or hold up the deletion of somebody else's object.
//
// pods/status is left out, as upstream leaves it: its strategy keeps the owners.
package ownerreferences
