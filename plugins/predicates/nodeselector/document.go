package nodeselector

import (
	"fmt"

	"pintle.dev/pintle/sdk"
)

// Document is core/v1 NodeAffinity in JSON, for configurations of plugins.
type Document struct {
	Required *struct {
		Terms []term `json:"nodeSelectorTerms"`
	} `json:"requiredDuringSchedulingIgnoredDuringExecution"`
	Preferred []struct {
		Weight     int32 `json:"weight"`
		Preference term  `json:"preference"`
	} `json:"preferredDuringSchedulingIgnoredDuringExecution"`
}

type term struct {
	MatchExpressions []requirement `json:"matchExpressions"`
	MatchFields      []requirement `json:"matchFields"`
}

type requirement struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"`
	Values   []string `json:"values"`
}

// Affinity converts the document; nil gives nil.
func (d *Document) Affinity() *sdk.NodeAffinity {
	if d == nil {
		return nil
	}
	out := &sdk.NodeAffinity{}
	if d.Required != nil {
		out.HasRequired = true
		for _, t := range d.Required.Terms {
			out.Required = append(out.Required, t.convert())
		}
	}
	for _, p := range d.Preferred {
		out.Preferred = append(out.Preferred, sdk.PreferredTerm{Weight: p.Weight, Term: p.Preference.convert()})
	}
	return out
}

// Check is the error of an affinity of which a term that is not empty cannot be
// read; nil is none.
func Check(affinity *sdk.NodeAffinity) error {
	if affinity == nil {
		return nil
	}
	for i := range affinity.Required {
		if t := &affinity.Required[i]; !empty(t) && !Readable(t) {
			return fmt.Errorf("requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[%d]: an expression cannot be read", i)
		}
	}
	for i := range affinity.Preferred {
		if t := &affinity.Preferred[i]; t.Weight != 0 && !empty(&t.Term) && !Readable(&t.Term) {
			return fmt.Errorf("preferredDuringSchedulingIgnoredDuringExecution[%d].preference: an expression cannot be read", i)
		}
	}
	return nil
}

func empty(t *sdk.NodeSelectorTerm) bool {
	return len(t.MatchExpressions) == 0 && len(t.MatchFields) == 0
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
