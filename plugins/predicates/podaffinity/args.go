package podaffinity

import (
	"encoding/json"
	"fmt"
)

// Args is kube-scheduler's InterPodAffinityArgs.
type Args struct {
	// HardPodAffinityWeight is what a required affinity of a pod on a node counts
	// for pods that it selects, 0 to 100; by default 1.
	HardPodAffinityWeight int64 `json:"hardPodAffinityWeight"`
	// IgnorePreferredTermsOfExistingPods: only pods with preferred terms of their
	// own are scored.
	IgnorePreferredTermsOfExistingPods bool `json:"ignorePreferredTermsOfExistingPods"`
}

// ParseArgs reads a configuration; none is an empty one.
func ParseArgs(data []byte) (Args, error) {
	args := Args{HardPodAffinityWeight: 1}
	if len(data) > 0 {
		if err := json.Unmarshal(data, &args); err != nil {
			return args, fmt.Errorf("configuration of InterPodAffinity: %w", err)
		}
	}
	if w := args.HardPodAffinityWeight; w < 0 || w > 100 {
		return args, fmt.Errorf("configuration of InterPodAffinity: hardPodAffinityWeight: %d; use 0 to 100", w)
	}
	return args, nil
}
