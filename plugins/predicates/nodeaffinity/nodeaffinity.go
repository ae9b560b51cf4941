// Package nodeaffinity reads a pod's node affinity from both places that it is
// written in: the field spec.affinity.nodeAffinity, and the annotation
// scheduler.alpha.kubernetes.io/affinity of the first releases (PRD-29, PRI-23,
// ODD-8). MatchNodeSelector and NodeAffinityPriority share it.
package nodeaffinity

import (
	"encoding/json"
	"fmt"

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

type requirement struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"`
	Values   []string `json:"values"`
}

type term struct {
	MatchExpressions []requirement `json:"matchExpressions"`
	MatchFields      []requirement `json:"matchFields"`
}

type document struct {
	NodeAffinity *struct {
		Required *struct {
			Terms []term `json:"nodeSelectorTerms"`
		} `json:"requiredDuringSchedulingIgnoredDuringExecution"`
		Preferred []struct {
			Weight     int32 `json:"weight"`
			Preference term  `json:"preference"`
		} `json:"preferredDuringSchedulingIgnoredDuringExecution"`
	} `json:"nodeAffinity"`
}

func parse(text string) (*sdk.NodeAffinity, error) {
	var d document
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return nil, fmt.Errorf("annotation %s: %w", Annotation, err)
	}
	if d.NodeAffinity == nil {
		return nil, nil
	}
	affinity := &sdk.NodeAffinity{}
	if required := d.NodeAffinity.Required; required != nil {
		affinity.HasRequired = true
		for _, t := range required.Terms {
			affinity.Required = append(affinity.Required, t.convert())
		}
	}
	for _, p := range d.NodeAffinity.Preferred {
		affinity.Preferred = append(affinity.Preferred, sdk.PreferredTerm{Weight: p.Weight, Term: p.Preference.convert()})
	}
	return affinity, nil
}

func (t term) convert() sdk.NodeSelectorTerm {
	var out sdk.NodeSelectorTerm
	for _, r := range t.MatchExpressions {
		out.MatchExpressions = append(out.MatchExpressions, sdk.Requirement(r))
	}
	for _, r := range t.MatchFields {
		out.MatchFields = append(out.MatchFields, sdk.Requirement(r))
	}
	return out
}
