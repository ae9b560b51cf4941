// Package volumecount builds the predicates that limit how many disks of one
// kind a node mounts. MaxEBSVolumeCount and MaxGCEPDVolumeCount are made of it.
package volumecount

import (
	"encoding/json"
	"fmt"

	"pintle.dev/pintle/sdk"
)

// Reason is what a FailedScheduling event counts.
const Reason = "node(s) exceed max volume count"

// Config is the configuration of such a predicate.
type Config struct {
	// MaxVolumes is the largest number of distinct disks a node may mount, at
	// least 1; each predicate has its own default (FIL-4).
	MaxVolumes *int `json:"maxVolumes"`
}

type predicate struct {
	name       string
	volumeType string
	limit      int
}

// New returns the predicate called name that allows limit distinct volumes of
// volumeType on a node.
func New(name, volumeType string, limit int) sdk.Predicate {
	p := &predicate{name: name, volumeType: volumeType, limit: limit}
	fallback := limit
	return sdk.Predicate{
		Name: name, Scope: sdk.ScopeNode,
		Reads: []string{"PersistentVolumeClaim", "PersistentVolume"},
		Events: []sdk.Interest{
			{Kind: sdk.KindNode, Actions: sdk.ActionAdd},
			{Kind: sdk.KindPod, Actions: sdk.ActionDelete},
			{Kind: "PersistentVolumeClaim", Actions: sdk.ActionAll},
			{Kind: "PersistentVolume", Actions: sdk.ActionAll},
		},
		Configure: func(data []byte) error { return p.configure(data, fallback) },
		Prepare:   func(c *sdk.Cluster, pod *sdk.Pod) any { return p.disks(c, pod, nil) },
		Filter:    p.filter,
		FilterNodes: func(b *sdk.Batch) {
			if len(b.State.(map[string]bool)) > 0 {
				b.Each(p.filter)
			}
		},
	}
}

func (p *predicate) configure(data []byte, fallback int) error {
	var config Config
	if len(data) > 0 {
		if err := json.Unmarshal(data, &config); err != nil {
			return fmt.Errorf("configuration of %s: %w", p.name, err)
		}
	}
	p.limit = fallback
	if config.MaxVolumes != nil {
		if *config.MaxVolumes < 1 {
			return fmt.Errorf("configuration of %s: maxVolumes %d: use 1 or more", p.name, *config.MaxVolumes)
		}
		p.limit = *config.MaxVolumes
	}
	return nil
}

// disks adds the ids of the pod's disks to set and returns it. A claim counts
// through the volume it is bound to; one that is missing or unbound mounts
// nothing of this kind yet.
func (p *predicate) disks(c *sdk.Cluster, pod *sdk.Pod, set map[string]bool) map[string]bool {
	for i := range pod.Volumes {
		volume := &pod.Volumes[i]
		if volume.Type == "persistentVolumeClaim" {
			claim := c.Object("PersistentVolumeClaim", pod.Namespace, volume.ID)
			if claim == nil || claim.VolumeName == "" {
				continue
			}
			persistent := c.Object("PersistentVolume", "", claim.VolumeName)
			if persistent == nil || persistent.Volume == nil {
				continue
			}
			volume = persistent.Volume
		}
		if volume.Type != p.volumeType {
			continue
		}
		if set == nil {
			set = map[string]bool{}
		}
		set[volume.ID] = true
	}
	return set
}

func (p *predicate) filter(r *sdk.Request) sdk.Verdict {
	wanted, ok := r.State.(map[string]bool)
	if !ok {
		wanted = p.disks(r.Cluster, r.Pod, nil)
	}
	if len(wanted) == 0 {
		return sdk.Fits() // a pod without such disks is no concern of the limit
	}
	all := make(map[string]bool, len(wanted))
	for id := range wanted {
		all[id] = true
	}
	for _, pod := range r.Node.Pods {
		p.disks(r.Cluster, pod, all)
	}
	if len(all) > p.limit {
		return sdk.Unfit(Reason)
	}
	return sdk.Fits()
}
