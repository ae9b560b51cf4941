// Package volumezone is the predicate VolumeZone: the zone and region labels of a
// node must agree with those of the persistent volumes that the pod's claims are
// bound to.
package volumezone

import (
	"fmt"
	"slices"
	"strings"

	"pintle.dev/pintle/plugins/predicates/claims"
	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/contract"
)

// Name is the name by which configurations switch the predicate.
const Name = "VolumeZone"

// Reason is what a FailedScheduling event counts.
const Reason = "node(s) had no available volume zone"

// keys are the labels that are compared; those of old have one of today beside.
var keys = [...]struct{ label, today string }{
	{"failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"},
	{"failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"},
	{"topology.kubernetes.io/zone", "topology.kubernetes.io/zone"},
	{"topology.kubernetes.io/region", "topology.kubernetes.io/region"},
}

// New returns the predicate. It takes no configuration.
func New() sdk.Predicate {
	return sdk.Predicate{
		Name: Name, Scope: sdk.ScopeNodeObject, Contract: contract.Three, Reads: Reads(), Events: Events(),
		Prepare: func(c *sdk.Cluster, pod *sdk.Pod) any { return demands(c, pod) },
		Idle:    idle,
		Filter:  filter,
	}
}

// Refusal says why a pod fits nowhere: a claim of it is missing, or ought to be
// bound and is not. Empty: none.
func Refusal(c *sdk.Cluster, pod *sdk.Pod) string { return demands(c, pod).refusal }

// Reads are the kinds that the predicate looks at.
func Reads() []string { return []string{"PersistentVolumeClaim", "PersistentVolume", "StorageClass"} }

// Events are those that can help a pod that the predicate refused.
func Events() []sdk.Interest {
	return []sdk.Interest{
		{Kind: "StorageClass", Actions: sdk.ActionAdd, Helps: func(_ *sdk.Cluster, _ *sdk.Pod, e *sdk.Event) bool {
			return claims.Waits(e.NewObject.StorageClass)
		}},
		{Kind: sdk.KindNode, Actions: sdk.ActionAdd | sdk.ActionUpdateNodeLabel},
		{Kind: "PersistentVolumeClaim", Actions: sdk.ActionAdd | sdk.ActionUpdate, Helps: func(_ *sdk.Cluster, pod *sdk.Pod, e *sdk.Event) bool {
			return claims.Mounts(pod, e.NewObject, false)
		}},
		{Kind: "PersistentVolume", Actions: sdk.ActionAdd | sdk.ActionUpdate, Helps: func(_ *sdk.Cluster, _ *sdk.Pod, e *sdk.Event) bool {
			return e.OldObject == nil || !slices.EqualFunc(limits(e.OldObject), limits(e.NewObject), limit.equal)
		}},
	}
}

// state is what the volumes of the pod's claims ask of nodes.
type state struct {
	refusal string // the pod fits nowhere
	limits  []limit
}

// limit is one label of a volume.
type limit struct {
	key, today string
	values     []string
}

// demands follows the claims in the order of the pod's volumes. One that is bound
// when a pod needs it imposes nothing before.
func demands(c *sdk.Cluster, pod *sdk.Pod) *state {
	s := &state{}
	for i := range pod.Volumes {
		if pod.Volumes[i].Type != "persistentVolumeClaim" {
			continue
		}
		if s.refusal = s.claim(c, pod, pod.Volumes[i].ID); s.refusal != "" {
			return s
		}
	}
	return s
}

func (s *state) claim(c *sdk.Cluster, pod *sdk.Pod, name string) (refusal string) {
	if name == "" {
		return "PersistentVolumeClaim had no name"
	}
	claim := claims.Get(c, pod, name)
	if claim == nil {
		return claims.Missing(name)
	}
	if claim.VolumeName == "" {
		class, object := claims.Class(c, claim)
		switch {
		case class == "":
			return "PersistentVolumeClaim had no pv name and storageClass name"
		case object == nil:
			return fmt.Sprintf("storageclass.storage.k8s.io %q not found", class)
		case claims.Waits(object):
			return ""
		}
		return "PersistentVolume had no name"
	}
	volume := claims.Volume(c, claim.VolumeName)
	if volume == nil {
		return fmt.Sprintf("persistentvolume %q not found", claim.VolumeName)
	}
	s.limits = append(s.limits, limits(volume)...)
	return ""
}

// limits are the labels of a volume that are compared.
func limits(volume *sdk.Object) (list []limit) {
	for _, k := range keys {
		if value, ok := volume.Labels[k.label]; ok {
			if values := zones(value); values != nil {
				list = append(list, limit{k.label, k.today, values})
			}
		}
	}
	return list
}

func (l limit) equal(other limit) bool {
	return l.key == other.key && slices.Equal(l.values, other.values)
}

// zones reads a label value that may name several, joined by "__"; nil where one
// of them is empty: such a label says nothing.
func zones(value string) []string {
	list := strings.Split(value, "__")
	for i := range list {
		if list[i] = strings.TrimSpace(list[i]); list[i] == "" {
			return nil
		}
	}
	return list
}

func idle(_ *sdk.Pod, value any) bool {
	s := value.(*state)
	return s.refusal == "" && len(s.limits) == 0
}

func filter(r *sdk.Request) sdk.Verdict {
	s := r.State.(*state)
	if s.refusal != "" {
		return sdk.Never(s.refusal)
	}
	if len(s.limits) == 0 || !labelled(r.Node) {
		return sdk.Fits()
	}
	for i := range s.limits {
		l := &s.limits[i]
		value, ok := r.Node.Labels[l.key]
		if !ok {
			value, ok = r.Node.Labels[l.today]
		}
		if !ok || !slices.Contains(l.values, value) {
			return sdk.Never(Reason)
		}
	}
	return sdk.Fits()
}

// labelled reports whether the node has any of the labels. One that has none is
// of a cluster without zones and takes any volume.
func labelled(n *sdk.Node) bool {
	for _, k := range keys {
		if _, ok := n.Labels[k.label]; ok {
			return true
		}
	}
	return false
}
