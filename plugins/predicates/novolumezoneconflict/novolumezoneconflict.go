// Package novolumezoneconflict is the predicate NoVolumeZoneConflict: the zone
// and region of a node must agree with those of the persistent volumes that
// the pod's claims are bound to (PRD-19).
package novolumezoneconflict

import (
	"fmt"
	"strings"

	"pintle.dev/pintle/sdk"
)

// Name is the name by which configurations switch the predicate.
const Name = "NoVolumeZoneConflict"

// Reason is what a FailedScheduling event counts.
const Reason = "node(s) had no available volume zone"

// twins pairs the label keys of PRD-21 with the keys that nodes and volumes
// carry today; either is read, on both sides.
var twins = [2][2]string{
	{"failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"},
	{"failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"},
}

// New returns the predicate. It keeps no state and takes no configuration.
func New() sdk.Predicate {
	return sdk.Predicate{
		Name: Name, Scope: sdk.ScopeNode,
		Reads:   []string{"PersistentVolumeClaim", "PersistentVolume"},
		Prepare: prepare, Filter: filter, FilterNodes: filterNodes,
		Events: []sdk.Interest{
			{Kind: sdk.KindNode, Actions: sdk.ActionAdd | sdk.ActionUpdateNodeLabel},
			{Kind: "PersistentVolumeClaim", Actions: sdk.ActionAll},
			{Kind: "PersistentVolume", Actions: sdk.ActionAll},
		},
	}
}

// demand is what the claims of one pod class ask for.
type demand struct {
	missing string               // a claim or volume that does not exist
	volumes [][2]map[string]bool // a volume: allowed zones, allowed regions; nil: any
}

// prepare follows each claim to its volume. An unbound claim imposes nothing
// here: its volume will be chosen, or made, for the node (PRD-26).
func prepare(c *sdk.Cluster, pod *sdk.Pod) any {
	d := &demand{}
	for i := range pod.Volumes {
		if pod.Volumes[i].Type != "persistentVolumeClaim" {
			continue // PRD-20
		}
		claim := c.Object("PersistentVolumeClaim", pod.Namespace, pod.Volumes[i].ID)
		if claim == nil {
			d.missing = fmt.Sprintf("persistentvolumeclaim %q not found", pod.Volumes[i].ID)
			return d
		}
		if claim.VolumeName == "" {
			continue
		}
		volume := c.Object("PersistentVolume", "", claim.VolumeName)
		if volume == nil {
			d.missing = fmt.Sprintf("persistentvolume %q not found", claim.VolumeName)
			return d
		}
		limits := [2]map[string]bool{}
		for k := range twins {
			if value, ok := label(volume.Labels, k); ok {
				limits[k] = set(value)
			}
		}
		if limits[0] != nil || limits[1] != nil {
			d.volumes = append(d.volumes, limits)
		}
	}
	return d
}

func label(labels map[string]string, which int) (string, bool) {
	for _, key := range twins[which] {
		if value, ok := labels[key]; ok {
			return value, true
		}
	}
	return "", false
}

// set reads a label value that may name several zones, joined by "__".
func set(value string) map[string]bool {
	zones := map[string]bool{}
	for _, zone := range strings.Split(value, "__") {
		zones[strings.TrimSpace(zone)] = true
	}
	return zones
}

func filterNodes(b *sdk.Batch) {
	if d := b.State.(*demand); d.missing != "" || len(d.volumes) > 0 {
		b.Each(filter)
	}
}

func filter(r *sdk.Request) sdk.Verdict {
	d, ok := r.State.(*demand)
	if !ok {
		d = prepare(r.Cluster, r.Pod).(*demand)
	}
	if d.missing != "" {
		return sdk.Unfit(d.missing)
	}
	if len(d.volumes) == 0 {
		return sdk.Fits()
	}
	var have [2]string
	var has [2]bool
	for k := range twins {
		have[k], has[k] = label(r.Node.Labels, k)
	}
	if !has[0] && !has[1] {
		return sdk.Fits() // PRD-22
	}
	for _, limits := range d.volumes {
		for k := range twins {
			// PRD-25: the node may carry more than the volume asks for, never less.
			if limits[k] != nil && (!has[k] || !limits[k][have[k]]) {
				return sdk.Unfit(Reason)
			}
		}
	}
	return sdk.Fits()
}
