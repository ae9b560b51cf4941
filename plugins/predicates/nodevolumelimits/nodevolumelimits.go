package nodevolumelimits

import (
	"fmt"

	"pintle.dev/pintle/plugins/predicates/claims"
	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/contract"
)

// Name is the name by which configurations switch the predicate.
const Name = "NodeVolumeLimits"

// Reason is what a FailedScheduling event counts.
const Reason = "node(s) exceed max volume count"

// New returns the predicate. It takes no configuration.
func New() sdk.Predicate {
	return sdk.Predicate{
		Name: Name, Scope: sdk.ScopeNode, Contract: contract.Three,
		Reads:   []string{"PersistentVolumeClaim", "PersistentVolume", "StorageClass", "CSINode", "VolumeAttachment"},
		Events:  Events(),
		Prepare: prepare, Idle: idle, Filter: filter,
	}
}

// volumes are drivers by what is the same for all pods that use a volume.
type volumes map[identity]string

type identity struct {
	driver, handle string
	// claim is set instead of handle where the volume is yet to be made.
	claim string
}

// state is the pod's volumes, and those that are attached where.
type state struct {
	refusal  string
	volumes  volumes
	attached map[string]volumes // by node
}

func prepare(c *sdk.Cluster, pod *sdk.Pod) any {
	s := &state{}
	if s.volumes, s.refusal = used(c, pod, true); len(s.volumes) > 0 && s.refusal == "" {
		s.attached = attached(c)
	}
	return s
}

// used lists the CSI volumes of a pod. Of a new one each claim has to exist; what
// is wrong with a pod that runs is no concern of another.
func used(c *sdk.Cluster, pod *sdk.Pod, isNew bool) (list volumes, refusal string) {
	add := func(id identity) {
		if id.driver == "" || id.handle == "" && id.claim == "" {
			return
		}
		if list == nil {
			list = volumes{}
		}
		list[id] = id.driver
	}
	for i := range pod.Volumes {
		v := &pod.Volumes[i]
		name, ephemeral, ok := claims.Of(v)
		if !ok {
			if v.InTreePlugin != "" {
				add(identity{driver: v.Driver, handle: v.Handle})
			}
			continue
		}
		claim := claims.Get(c, pod, name)
		switch {
		case name == "" && isNew:
			return nil, "PersistentVolumeClaim had no name"
		case claim == nil && isNew:
			return nil, fmt.Sprintf("looking up PVC %s/%s: %s", pod.Namespace, name, claims.Missing(name))
		case claim == nil:
			continue
		case ephemeral:
			if foreign := claims.Foreign(claim, pod); foreign != "" {
				if isNew {
					return nil, foreign
				}
				continue
			}
		}
		add(behind(c, claim))
	}
	return list, ""
}

// behind is the CSI volume that a claim has or will have.
func behind(c *sdk.Cluster, claim *sdk.Object) identity {
	if claim.VolumeName != "" {
		if volume := claims.Volume(c, claim.VolumeName); volume != nil && volume.Volume != nil {
			return identity{driver: volume.Volume.Driver, handle: volume.Volume.Handle}
		}
	}
	_, class := claims.Class(c, claim)
	if class == nil {
		return identity{} // it has to be bound before, and does not count yet
	}
	driver := class.Driver
	if driver == "" {
		driver = class.Provisioner
	}
	switch driver {
	case "kubernetes.io/azure-file", "kubernetes.io/vsphere-volume":
		return identity{} // in-tree, and not counted as their drivers'
	}
	return identity{driver: driver, claim: claim.Namespace + "/" + claim.Name}
}

// attached lists the CSI volumes that VolumeAttachments name.
func attached(c *sdk.Cluster) map[string]volumes {
	out := map[string]volumes{}
	c.Objects("VolumeAttachment", "", func(o *sdk.Object) bool {
		a := o.Attachment
		if a == nil || a.Attacher == "" || a.PersistentVolumeName == "" {
			return true
		}
		volume := claims.Volume(c, a.PersistentVolumeName)
		if volume == nil || volume.Volume == nil || volume.Volume.Type != "csi" {
			return true
		}
		if out[a.NodeName] == nil {
			out[a.NodeName] = volumes{}
		}
		out[a.NodeName][identity{driver: a.Attacher, handle: volume.Volume.Handle}] = a.Attacher
		return true
	})
	return out
}

func idle(_ *sdk.Pod, value any) bool {
	s := value.(*state)
	return s.refusal == "" && len(s.volumes) == 0
}

func filter(r *sdk.Request) sdk.Verdict {
	s := r.State.(*state)
	switch {
	case s.refusal != "":
		return sdk.Never(s.refusal)
	case len(s.volumes) == 0:
		return sdk.Fits()
	}
	node := r.Cluster.Object("CSINode", "", r.Node.Name)
	if node == nil || !limited(node) {
		return sdk.Fits()
	}
	there := volumes{}
	for _, pod := range r.Node.Pods {
		list, _ := used(r.Cluster, pod, false)
		for id, driver := range list {
			there[id] = driver
		}
	}
	count, more := map[string]int{}, map[string]int{}
	for _, driver := range there {
		count[driver]++
	}
	for id, driver := range s.attached[r.Node.Name] {
		if _, counted := there[id]; !counted {
			count[driver]++
		}
	}
	for id, driver := range s.volumes {
		if _, shared := there[id]; !shared {
			more[driver]++
		}
	}
	for i := range node.Drivers {
		d := &node.Drivers[i]
		if n := more[d.Name]; d.HasLimit && n > 0 && count[d.Name]+n > int(d.Limit) {
			return sdk.Unfit(Reason)
		}
	}
	return sdk.Fits()
}

func limited(node *sdk.Object) bool {
	for i := range node.Drivers {
		if node.Drivers[i].HasLimit {
			return true
		}
	}
	return false
}
