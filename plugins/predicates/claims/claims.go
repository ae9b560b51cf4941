// Package claims follows the volumes of a pod to its claims, for the plugins that
// are about volumes. It owns the words about claims that are missing or are
// somebody else's, which are those of Kubernetes' listers, and holds no state.
package claims

import (
	"fmt"

	"pintle.dev/pintle/sdk"
)

// Annotations of claims and volumes (KEP-490).
const (
	// BindCompleted is on a claim whose binding is complete; its value does not matter.
	BindCompleted = "pv.kubernetes.io/bind-completed"
	// BoundByController is on what a controller or scheduler bound, not a user.
	BoundByController = "pv.kubernetes.io/bound-by-controller"
	// SelectedNode is on a claim that a volume is to be made for: for this node.
	SelectedNode = "volume.kubernetes.io/selected-node"
)

// Of returns the name of the claim that a volume stands for, and whether it is one
// that is made for the pod alone. ok: it stands for one.
func Of(v *sdk.Volume) (name string, ephemeral, ok bool) {
	switch v.Type {
	case "persistentVolumeClaim":
		return v.ID, false, true
	case "ephemeral":
		return v.ID, true, true
	}
	return "", false, false
}

// Get returns a claim of the pod's namespace, or nil.
func Get(c *sdk.Cluster, pod *sdk.Pod, name string) *sdk.Object {
	return c.Object("PersistentVolumeClaim", pod.Namespace, name)
}

// Volume returns a persistent volume, or nil.
func Volume(c *sdk.Cluster, name string) *sdk.Object { return c.Object("PersistentVolume", "", name) }

// Class returns the class of a claim or a volume and its object, either of which
// may be missing.
func Class(c *sdk.Cluster, o *sdk.Object) (name string, class *sdk.StorageClass) {
	if o.Storage == nil || o.Storage.ClassName == "" {
		return "", nil
	}
	name = o.Storage.ClassName
	if found := c.Object("StorageClass", "", name); found != nil {
		class = found.StorageClass
	}
	return name, class
}

// Waits reports whether volumes of a class are bound when a pod needs them.
func Waits(class *sdk.StorageClass) bool {
	return class != nil && class.VolumeBindingMode == "WaitForFirstConsumer"
}

// Missing says that there is no claim of a name.
func Missing(name string) string { return fmt.Sprintf("persistentvolumeclaim %q not found", name) }

// Foreign says that the claim of an ephemeral volume is not the pod's own, or
// nothing where it is.
func Foreign(claim *sdk.Object, pod *sdk.Pod) string {
	if o := claim.Storage; o != nil && o.Owner != nil && o.Owner.UID == pod.UID {
		return ""
	}
	return fmt.Sprintf("PVC %s/%s was not created for pod %s/%s (pod is not owner)", claim.Namespace, claim.Name, pod.Namespace, pod.Name)
}

// Mounts reports whether a volume of the pod stands for the claim; ephemeral says
// whether those that are made for the pod count.
func Mounts(pod *sdk.Pod, claim *sdk.Object, ephemeral bool) bool {
	if claim.Namespace != pod.Namespace {
		return false
	}
	for i := range pod.Volumes {
		if name, made, ok := Of(&pod.Volumes[i]); ok && name == claim.Name && (ephemeral || !made) {
			return true
		}
	}
	return false
}

// Added helps where a claim that came to be is one that the pod mounts.
func Added(_ *sdk.Cluster, pod *sdk.Pod, e *sdk.Event) bool { return Mounts(pod, e.NewObject, false) }
