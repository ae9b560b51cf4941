// Package nodeaffinitypriority is the priority NodeAffinityPriority: the more of
// a pod's preferred node terms a node satisfies, the better (PRI-23, PRI-25).
package nodeaffinitypriority

import (
	"encoding/json"
	"fmt"

	"pintle.dev/pintle/plugins/predicates/affinityannotation"
	"pintle.dev/pintle/sdk"
)

// Name is the name by which configurations switch and weigh the priority.
const Name = "NodeAffinityPriority"

// Config is the priority's configuration.
type Config struct {
	// Weighted adds a term's weight instead of 1 for each match. Default false:
	// each match adds 1 (PRI-30, ODD-12).
	Weighted bool `json:"weighted"`
}

type priority struct{ weighted bool }

// New returns the priority. Matches are projected to 0–10 over the largest
// count (FIL-17), which is what sdk.NormalizeMax does.
func New() sdk.Priority {
	p := &priority{}
	return sdk.Priority{
		Name: Name, Scope: sdk.ScopeNodeObject, Normalize: sdk.NormalizeMax,
		Configure: p.configure, Prepare: prepare, Score: p.score,
	}
}

func (p *priority) configure(data []byte) error {
	var config Config
	if len(data) > 0 {
		if err := json.Unmarshal(data, &config); err != nil {
			return fmt.Errorf("configuration of %s: %w", Name, err)
		}
	}
	p.weighted = config.Weighted
	return nil
}

// prepare collects the preferred terms; required ones take no part (PRI-28). An
// annotation that cannot be read prefers nothing.
func prepare(_ *sdk.Cluster, pod *sdk.Pod) any {
	var terms []sdk.PreferredTerm
	affinities, _ := affinityannotation.Affinities(pod)
	for _, affinity := range affinities {
		terms = append(terms, affinity.Preferred...)
	}
	return terms
}

func (p *priority) score(r *sdk.Request) int64 {
	terms, ok := r.State.([]sdk.PreferredTerm)
	if !ok {
		terms = prepare(r.Cluster, r.Pod).([]sdk.PreferredTerm)
	}
	var sum int64
	for i := range terms {
		switch {
		case !terms[i].Term.Matches(r.Node):
		case p.weighted:
			sum += int64(terms[i].Weight)
		default:
			sum++
		}
	}
	return sum
}
