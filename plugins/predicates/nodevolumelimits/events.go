package nodevolumelimits

import (
	"pintle.dev/pintle/plugins/predicates/claims"
	"pintle.dev/pintle/sdk"
)

// Events are those that can help a pod that the predicate refused.
func Events() []sdk.Interest {
	return []sdk.Interest{
		{Kind: "CSINode", Actions: sdk.ActionAdd},
		{Kind: "CSINode", Actions: sdk.ActionUpdate, Helps: raised},
		{Kind: sdk.KindPod, Actions: sdk.ActionDelete, Helps: func(_ *sdk.Cluster, _ *sdk.Pod, e *sdk.Event) bool { return counted(e.OldPod) }},
		{Kind: "PersistentVolumeClaim", Actions: sdk.ActionAdd, Helps: func(_ *sdk.Cluster, pod *sdk.Pod, e *sdk.Event) bool {
			return claims.Mounts(pod, e.NewObject, true)
		}},
		{Kind: "VolumeAttachment", Actions: sdk.ActionDelete, Helps: detached},
	}
}

// raised: a driver takes more volumes than before.
func raised(_ *sdk.Cluster, _ *sdk.Pod, e *sdk.Event) bool {
	before := map[string]int32{}
	for i := range e.OldObject.Drivers {
		before[e.OldObject.Drivers[i].Name] = e.OldObject.Drivers[i].Limit
	}
	for i := range e.NewObject.Drivers {
		if d := &e.NewObject.Drivers[i]; d.Limit > before[d.Name] {
			return true
		}
	}
	return false
}

// counted reports whether a volume of the pod may count.
func counted(pod *sdk.Pod) bool {
	for i := range pod.Volumes {
		if _, _, ok := claims.Of(&pod.Volumes[i]); ok || pod.Volumes[i].InTreePlugin != "" {
			return true
		}
	}
	return false
}

// detached: the volume that went may have been counted with the pod's.
func detached(_ *sdk.Cluster, pod *sdk.Pod, e *sdk.Event) bool {
	for i := range pod.Volumes {
		v := &pod.Volumes[i]
		if v.Type == "persistentVolumeClaim" || v.InTreePlugin != "" && e.OldObject.Attachment != nil && v.Driver == e.OldObject.Attachment.Attacher {
			return true
		}
	}
	return false
}
