package nodeaffinity

import (
	"encoding/json"
	"fmt"

	"pintle.dev/pintle/plugins/predicates/nodeselector"
)

// Args is kube-scheduler's NodeAffinityArgs. NodeAffinity takes its required
// terms, NodeAffinityScore its preferred ones.
type Args struct {
	// AddedAffinity holds for every pod, beside its own.
	AddedAffinity *nodeselector.Document `json:"addedAffinity"`
}

// ParseArgs reads a configuration; none is an empty one.
func ParseArgs(data []byte) (Args, error) {
	var args Args
	if len(data) == 0 {
		return args, nil
	}
	if err := json.Unmarshal(data, &args); err != nil {
		return Args{}, fmt.Errorf("configuration of %s: %w", Name, err)
	}
	if err := nodeselector.Check(args.AddedAffinity.Affinity()); err != nil {
		return Args{}, fmt.Errorf("configuration of %s: addedAffinity.%w", Name, err)
	}
	return args, nil
}
