package volumebinding

import (
	"cmp"
	"fmt"
	"slices"

	"pintle.dev/pintle/plugins/predicates/claims"
	"pintle.dev/pintle/sdk"
)

// PodClaims is what a pod's claims need of a node, whichever it is.
type PodClaims struct {
	// Refusal says why the pod fits nowhere; empty: it may.
	Refusal string
	// Bound are the claims that have their volume.
	Bound []*sdk.Object
	// Waiting are those that get one when the pod gets a node, smallest first.
	Waiting []*sdk.Object
	// free are the volumes of the classes of Waiting, by name.
	free map[string][]*sdk.Object
}

// ClaimsOf looks at the claims of a pod. Without any, all is empty.
func ClaimsOf(c *sdk.Cluster, pod *sdk.Pod) *PodClaims {
	p := &PodClaims{}
	if p.Refusal = p.take(c, pod); p.Refusal != "" {
		return p
	}
	for _, claim := range p.Waiting {
		if class := claim.Storage.ClassName; p.free[class] == nil {
			if p.free == nil {
				p.free = map[string][]*sdk.Object{}
			}
			p.free[class] = volumesOf(c, class)
		}
	}
	return p
}

func (p *PodClaims) take(c *sdk.Cluster, pod *sdk.Pod) (refusal string) {
	var all []*sdk.Object
	for i := range pod.Volumes {
		name, ephemeral, ok := claims.Of(&pod.Volumes[i])
		if !ok {
			continue
		}
		claim := claims.Get(c, pod, name)
		switch {
		case claim == nil && ephemeral:
			return fmt.Sprintf("waiting for ephemeral volume controller to create the persistentvolumeclaim %q", name)
		case claim == nil || claim.Storage == nil:
			return claims.Missing(name)
		case claim.Storage.Phase == "Lost":
			return fmt.Sprintf("persistentvolumeclaim %q bound to non-existent persistentvolume %q", name, claim.VolumeName)
		case claim.Terminating:
			return fmt.Sprintf("persistentvolumeclaim %q is being deleted", name)
		}
		if ephemeral {
			if foreign := claims.Foreign(claim, pod); foreign != "" {
				return foreign
			}
		}
		all = append(all, claim)
	}
	immediate := false
	for _, claim := range all {
		_, complete := claim.Annotations[claims.BindCompleted]
		_, class := claims.Class(c, claim)
		switch {
		case claim.VolumeName != "" && complete:
			p.Bound = append(p.Bound, claim)
		case claim.VolumeName == "" && claims.Waits(class):
			p.Waiting = append(p.Waiting, claim)
		default:
			immediate = true
		}
	}
	if immediate {
		return "pod has unbound immediate PersistentVolumeClaims"
	}
	slices.SortStableFunc(p.Waiting, func(a, b *sdk.Object) int { return cmp.Compare(a.Storage.Bytes, b.Storage.Bytes) })
	return ""
}

// volumesOf lists the persistent volumes of a class.
func volumesOf(c *sdk.Cluster, class string) []*sdk.Object {
	list := []*sdk.Object{}
	c.Objects("PersistentVolume", "", func(o *sdk.Object) bool {
		if o.Storage != nil && o.Storage.ClassName == class {
			list = append(list, o)
		}
		return true
	})
	slices.SortFunc(list, func(a, b *sdk.Object) int { return cmp.Compare(a.Name, b.Name) })
	return list
}
