package volumebinding

import (
	"slices"
	"strings"

	"pintle.dev/pintle/plugins/predicates/claims"
	"pintle.dev/pintle/sdk"
)

// noProvisioner is the provisioner of classes whose volumes somebody makes by hand.
const noProvisioner = "kubernetes.io/no-provisioner"

// migratedPlugins is the annotation of a CSINode that lists the in-tree plugins
// whose volumes its node leaves to CSI drivers.
const migratedPlugins = "storage.alpha.kubernetes.io/migrated-plugins"

// Choice is what becomes of a pod's waiting claims on one node.
type Choice struct {
	Bindings   []Binding
	Provisions []Provision
}

// Binding gives a claim a volume that is there.
type Binding struct{ Claim, Volume *sdk.Object }

// Provision is a claim whose volume is to be made for the node. Capacity is where
// room for it was found; nil where the driver does not say.
type Provision struct{ Claim, Capacity *sdk.Object }

// Find says how the pod's claims can be met on a node, or why they cannot. It
// depends on the node's name and labels and on objects alone.
func (p *PodClaims) Find(c *sdk.Cluster, node *sdk.Node) (choice Choice, reasons []string) {
	place := &sdk.Node{Labels: node.Labels} // volumes know labels of nodes only
	there, matched := p.reach(c, node, place)
	available, room := true, true
	var provision []*sdk.Object
	chosen := map[string]bool{}
	for _, claim := range p.Waiting {
		if selected, ok := claim.Annotations[claims.SelectedNode]; ok && selected != node.Name {
			return Choice{}, why(matched, false, true, there)
		} else if ok {
			provision = append(provision, claim)
		}
	}
	for _, claim := range p.Waiting {
		if _, ok := claim.Annotations[claims.SelectedNode]; ok {
			continue
		}
		if volume := match(claim, p.free[claim.Storage.ClassName], place, chosen); volume != nil {
			chosen[volume.Name] = true
			choice.Bindings = append(choice.Bindings, Binding{claim, volume})
		} else {
			provision = append(provision, claim)
		}
	}
	for _, claim := range provision {
		var capacity *sdk.Object
		if available, room, capacity = provisionable(c, claim, place); !available || !room {
			break
		}
		choice.Provisions = append(choice.Provisions, Provision{claim, capacity})
	}
	if reasons = why(matched, available, room, there); reasons != nil {
		return Choice{}, reasons
	}
	return choice, nil
}

// why puts the reasons in order.
func why(matched, available, room, there bool) (reasons []string) {
	for _, r := range []struct {
		ok  bool
		why string
	}{{matched, ReasonNode}, {available, ReasonBind}, {room, ReasonSpace}, {there, ReasonVolume}} {
		if !r.ok {
			reasons = append(reasons, r.why)
		}
	}
	return reasons
}

// reach checks that the volumes of bound claims are there and within reach of the
// node.
func (p *PodClaims) reach(c *sdk.Cluster, node, place *sdk.Node) (there, matched bool) {
	for _, claim := range p.Bound {
		volume := claims.Volume(c, claim.VolumeName)
		if volume == nil {
			return false, true
		}
		affinity := volume.NodeAffinity
		if v := volume.Volume; v != nil && v.InTreePlugin != "" && turned(c, node.Name, v.InTreePlugin) {
			affinity = volume.MigratedNodeAffinity
		}
		if !affinity.MatchesRequired(place) {
			return true, false
		}
	}
	return true, true
}

// turned reports whether a node leaves volumes of an in-tree plugin to CSI.
func turned(c *sdk.Cluster, node, plugin string) bool {
	o := c.Object("CSINode", "", node)
	return o != nil && slices.Contains(strings.Split(o.Annotations[migratedPlugins], ","), plugin)
}

// match returns the volume that a claim is bound to already from the volume's
// side, or the smallest free one that suits it; nil: there is none.
func match(claim *sdk.Object, volumes []*sdk.Object, place *sdk.Node, chosen map[string]bool) *sdk.Object {
	var smallest *sdk.Object
	want := claim.Storage
	for _, v := range volumes {
		has := v.Storage
		mine := boundTo(v, claim)
		if chosen[v.Name] || has.Claim != nil && !mine ||
			has.Bytes < want.Bytes || has.VolumeMode != want.VolumeMode || has.VolumeAttributesClass != want.VolumeAttributesClass || v.Terminating {
			continue
		}
		if mine {
			if !v.NodeAffinity.MatchesRequired(place) {
				return nil // it is this one or none
			}
			return v
		}
		if has.Phase != "Available" || want.Selector != nil && !want.Selector.Matches(v.Labels) ||
			smallest != nil && smallest.Storage.Bytes <= has.Bytes || !v.NodeAffinity.MatchesRequired(place) {
			continue
		}
		if !slices.ContainsFunc(want.AccessModes, func(mode string) bool { return !slices.Contains(has.AccessModes, mode) }) {
			smallest = v
		}
	}
	return smallest
}

// boundTo reports whether a volume says that it is the claim's.
func boundTo(volume, claim *sdk.Object) bool {
	r := volume.Storage.Claim
	return r != nil && r.Namespace == claim.Namespace && r.Name == claim.Name && (r.UID == "" || r.UID == claim.UID)
}

// provisionable reports whether a volume can be made for a claim within reach of
// the node, and whether there is room for it.
func provisionable(c *sdk.Cluster, claim *sdk.Object, place *sdk.Node) (available, room bool, capacity *sdk.Object) {
	name, class := claims.Class(c, claim)
	if class == nil || class.Provisioner == "" || class.Provisioner == noProvisioner {
		return false, true, nil
	}
	if len(class.AllowedTopologies) > 0 && !slices.ContainsFunc(class.AllowedTopologies, func(t sdk.NodeSelectorTerm) bool { return t.Matches(place) }) {
		return false, true, nil
	}
	driver := c.Object("CSIDriver", "", class.Provisioner)
	if claim.Storage.Bytes == 0 || driver == nil || driver.CSIDriver == nil || !driver.CSIDriver.StorageCapacity {
		return true, true, nil
	}
	c.AllObjects("CSIStorageCapacity", func(o *sdk.Object) bool {
		s := o.Storage
		if s == nil || s.ClassName != name || !s.Selector.Matches(place.Labels) {
			return true
		}
		if roomFor(o) >= claim.Storage.Bytes && (capacity == nil || o.Name < capacity.Name) {
			capacity = o
		}
		return true
	})
	return true, capacity != nil, capacity
}
