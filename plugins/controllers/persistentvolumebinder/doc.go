// Package persistentvolumebinder binds claims to persistent volumes, writes the phases of
// both, and says what becomes of a volume whose claim is gone.
//
// Claims, volumes, classes and pods come from shared informers; events enqueue claims and
// volumes by key, and every 15 seconds all of them. One worker takes claims, one takes
// volumes. Of each object the newest version is used, be it the informer's or one that was
// written here (newest).
//
// A bind is four writes in this order: the claim into spec.claimRef of the volume, the
// volume's phase, the volume into spec.volumeName of the claim, the claim's phase. After any
// of them the next sync goes on where the last one ended. The version that was read goes
// with each write: of two that want a volume, one gets a conflict.
//
// No volume is made or deleted here. A claim whose class has a provisioner gets the
// annotation that asks for it; a released volume of a provisioner is that provisioner's to
// delete. So, unlike kube-controller-manager, which holds code for hostPath and NFS, this
// controller marks each other volume with reclaim policy Delete or Recycle as Failed.
package persistentvolumebinder
