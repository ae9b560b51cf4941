// Package volumerestrictions is the predicate VolumeRestrictions: a node is unfit
// when a pod there mounts a disk that the pod cannot share with it, and every node
// is while another pod uses a claim that allows one pod alone (KEP-2485).
package volumerestrictions

import (
	"slices"

	"pintle.dev/pintle/plugins/predicates/claims"
	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/contract"
)

// Name is the name by which configurations switch the predicate.
const Name = "VolumeRestrictions"

// What FailedScheduling events count.
const (
	ReasonDisk = "node(s) had no available disk"
	ReasonUsed = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)

// New returns the predicate. It takes no configuration.
func New() sdk.Predicate {
	return sdk.Predicate{
		Name: Name, Scope: sdk.ScopeCluster, Pods: sdk.PodsWithClaims, Contract: contract.Three,
		Reads: []string{"PersistentVolumeClaim"}, Events: Events(),
		Prepare: prepare, Follow: follow, Idle: idle, Filter: filter,
	}
}

// Refusal says why a pod fits nowhere: a claim of it is missing. Empty: none is.
func Refusal(c *sdk.Cluster, pod *sdk.Pod) string { return demands(c, pod).missing }

// Events are those that can help a pod that the predicate refused.
func Events() []sdk.Interest {
	return []sdk.Interest{
		{Kind: sdk.KindPod, Actions: sdk.ActionDelete, Helps: freed},
		{Kind: sdk.KindNode, Actions: sdk.ActionAdd},
		{Kind: "PersistentVolumeClaim", Actions: sdk.ActionAdd, Helps: claims.Added},
	}
}

// freed: the pod that went used a disk or a claim that this one wants.
func freed(_ *sdk.Cluster, pod *sdk.Pod, e *sdk.Event) bool {
	if e.OldPod.Namespace != pod.Namespace {
		return false
	}
	for i := range pod.Volumes {
		v := &pod.Volumes[i]
		for k := range e.OldPod.Volumes {
			other := &e.OldPod.Volumes[k]
			if v.Type == "persistentVolumeClaim" && other.Type == v.Type && other.ID == v.ID || compared(v) && conflict(v, other) {
				return true
			}
		}
	}
	return false
}

// state is what the pod brings along. It follows the pods of the cluster.
type state struct {
	missing string         // a claim that does not exist
	disks   []*sdk.Volume  // volumes that are compared
	used    map[string]int // by claim for one pod alone: pods that use it
}

// compared reports whether pods cannot always share volumes of the type.
func compared(v *sdk.Volume) bool {
	switch v.Type {
	case "gcePersistentDisk", "awsElasticBlockStore", "rbd", "iscsi":
		return true
	}
	return false
}

func demands(c *sdk.Cluster, pod *sdk.Pod) *state {
	s := &state{}
	for i := range pod.Volumes {
		v := &pod.Volumes[i]
		switch {
		case compared(v):
			s.disks = append(s.disks, v)
		case v.Type == "persistentVolumeClaim":
			claim := claims.Get(c, pod, v.ID)
			if claim == nil {
				s.missing = claims.Missing(v.ID)
				return s
			}
			if claim.Storage != nil && slices.Contains(claim.Storage.AccessModes, "ReadWriteOncePod") {
				if s.used == nil {
					s.used = map[string]int{}
				}
				s.used[v.ID] = 0
			}
		}
	}
	return s
}

func prepare(c *sdk.Cluster, pod *sdk.Pod) any {
	s := demands(c, pod)
	if len(s.used) > 0 && s.missing == "" {
		for n := range c.Nodes {
			for _, other := range n.Pods {
				s.count(pod, other, 1)
			}
		}
	}
	return s
}

func follow(_ *sdk.Cluster, pod *sdk.Pod, value any, changes []sdk.Change) any {
	s := value.(*state)
	if len(s.used) == 0 {
		return s
	}
	for i := range changes {
		switch changes[i].Kind {
		case sdk.PodAdded:
			s.count(pod, changes[i].Pod, 1)
		case sdk.PodRemoved:
			s.count(pod, changes[i].Pod, -1)
		}
	}
	return s
}

// count adds a pod to, or takes it from, those that use the claims.
func (s *state) count(pod, other *sdk.Pod, sign int) {
	if other.Namespace != pod.Namespace {
		return
	}
	for i := range other.Volumes {
		if v := &other.Volumes[i]; v.Type == "persistentVolumeClaim" {
			if n, ok := s.used[v.ID]; ok {
				s.used[v.ID] = n + sign
			}
		}
	}
}

func idle(_ *sdk.Pod, value any) bool {
	s := value.(*state)
	return s.missing == "" && len(s.disks)+len(s.used) == 0
}

func filter(r *sdk.Request) sdk.Verdict {
	s := r.State.(*state)
	if s.missing != "" {
		return sdk.Never(s.missing)
	}
	for _, disk := range s.disks {
		for _, pod := range r.Node.Pods {
			for k := range pod.Volumes {
				if conflict(disk, &pod.Volumes[k]) {
					return sdk.Unfit(ReasonDisk)
				}
			}
		}
	}
	for _, users := range s.used {
		if users > 0 {
			return sdk.Unfit(ReasonUsed)
		}
	}
	return sdk.Fits()
}

// conflict reports whether two pods cannot mount these volumes on one node. An EBS
// volume goes to one pod alone; the others may be shared by pods that only read.
func conflict(a, b *sdk.Volume) bool {
	if a.Type != b.Type || a.ID != b.ID {
		return false
	}
	switch a.Type {
	case "awsElasticBlockStore":
		return true
	case "rbd":
		if !slices.ContainsFunc(a.Monitors, func(m string) bool { return slices.Contains(b.Monitors, m) }) {
			return false
		}
	}
	return !a.ReadOnly || !b.ReadOnly
}
