package topologyspread

import (
	"maps"

	"pintle.dev/pintle/sdk"
)

// selectors are label selectors all of which pods must match.
type selectors []*sdk.Selector

func (s selectors) matches(labels map[string]string) bool {
	for _, one := range s {
		if !one.Matches(labels) {
			return false
		}
	}
	return true
}

// empty reports whether they select all pods.
func (s selectors) empty() bool {
	for _, one := range s {
		if one == nil || len(one.MatchLabels)+len(one.MatchExpressions) > 0 {
			return false
		}
	}
	return true
}

// own is the selector of a pod's constraint, with the pod's values of the labels
// that matchLabelKeys names.
func own(c *sdk.TopologySpreadConstraint, pod *sdk.Pod) selectors {
	out := selectors{c.Selector}
	if c.Selector == nil {
		return out
	}
	var also map[string]string
	for _, key := range c.MatchLabelKeys {
		if value, ok := pod.Labels[key]; ok {
			if also == nil {
				also = map[string]string{}
			}
			also[key] = value
		}
	}
	if also != nil {
		out = append(out, &sdk.Selector{MatchLabels: also})
	}
	return out
}

// reads are the kinds of objects that select the pods which belong together.
var reads = []string{"Service", "ReplicationController", "ReplicaSet", "StatefulSet"}

// Reads are the kinds of objects that a Spread is made of.
func Reads() []string { return reads }

// together selects the pods that belong to the same services and the same owner as
// a pod; empty: there are none.
func together(c *sdk.Cluster, pod *sdk.Pod) selectors {
	labels := map[string]string{}
	c.Objects("Service", pod.Namespace, func(o *sdk.Object) bool {
		if o.Selector.Matches(pod.Labels) {
			maps.Copy(labels, o.Selector.MatchLabels)
		}
		return true
	})
	out := selectors{&sdk.Selector{MatchLabels: labels}}
	for i := range pod.Owners {
		owner := &pod.Owners[i]
		if !owner.Controller {
			continue
		}
		switch kind := owner.Kind; owner.APIVersion + " " + kind {
		case "v1 ReplicationController":
			if o := c.Object(kind, pod.Namespace, owner.Name); o != nil && o.Selector != nil {
				maps.Copy(labels, o.Selector.MatchLabels)
			}
		case "apps/v1 ReplicaSet", "apps/v1 StatefulSet":
			if o := c.Object(kind, pod.Namespace, owner.Name); o != nil && o.Selector != nil {
				out = append(out, o.Selector)
			}
		}
		break
	}
	return out
}
