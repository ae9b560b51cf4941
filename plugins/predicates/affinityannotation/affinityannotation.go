// Package affinityannotation reads a pod's node affinity from both places that it is
// written in: the field spec.affinity.nodeAffinity, and the annotation
// scheduler.alpha.kubernetes.io/affinity of the first releases (PRD-29, PRI-23,
// ODD-8). MatchNodeSelector and NodeAffinityPriority share it.
package affinityannotation

import (
	"encoding/json"
	"fmt"

	"pintle.dev/pintle/plugins/predicates/nodeselector"
	"pintle.dev/pintle/sdk"
)

// Annotation is the key of the old way to state an affinity.
const Annotation = "scheduler.alpha.kubernetes.io/affinity"

// Affinities returns what the pod states: none, one or both of the field and
// the annotation. An error means that the annotation is not readable.
func Affinities(pod *sdk.Pod) ([]*sdk.NodeAffinity, error) {
	var found []*sdk.NodeAffinity
	if pod.NodeAffinity != nil {
		found = append(found, pod.NodeAffinity)
	}
	if text, ok := pod.Annotations[Annotation]; ok && text != "" {
		affinity, err := parse(text)
		if err != nil {
			return found, err
		}
		if affinity != nil {
			found = append(found, affinity)
		}
	}
	return found, nil
}

func parse(text string) (*sdk.NodeAffinity, error) {
	var d struct {
		NodeAffinity *nodeselector.Document `json:"nodeAffinity"`
	}
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return nil, fmt.Errorf("annotation %s: %w", Annotation, err)
	}
	return d.NodeAffinity.Affinity(), nil
}
