package volumebinding

import (
	"encoding/json"
	"fmt"

	"pintle.dev/pintle/plugins/predicates/noderesources"
	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/contract"
)

// Name is the name by which configurations switch the predicate.
const Name = "VolumeBinding"

// What FailedScheduling events count.
const (
	ReasonBind   = "node(s) didn't find available persistent volumes to bind"
	ReasonNode   = "node(s) didn't match PersistentVolume's node affinity"
	ReasonSpace  = "node(s) did not have enough free storage"
	ReasonVolume = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
)

// Reads are the kinds that Find looks at.
func Reads() []string {
	return []string{"PersistentVolumeClaim", "PersistentVolume", "StorageClass", "CSINode", "CSIDriver", "CSIStorageCapacity"}
}

// New returns the predicate.
func New() sdk.Predicate {
	return sdk.Predicate{
		Name: Name, Scope: sdk.ScopeNode, Contract: contract.Three, Reads: Reads(), Events: Events(), Configure: Configure,
		Prepare: func(c *sdk.Cluster, pod *sdk.Pod) any { return ClaimsOf(c, pod) },
		Idle: func(_ *sdk.Pod, state any) bool {
			p := state.(*PodClaims)
			return p.Refusal == "" && len(p.Bound)+len(p.Waiting) == 0
		},
		Filter: func(r *sdk.Request) sdk.Verdict {
			p := r.State.(*PodClaims)
			if p.Refusal != "" {
				return sdk.Never(p.Refusal)
			}
			if len(p.Bound)+len(p.Waiting) == 0 {
				return sdk.Fits()
			}
			if _, reasons := p.Find(r.Cluster, r.Node); len(reasons) > 0 {
				return sdk.Never(reasons...)
			}
			return sdk.Fits()
		},
	}
}

// Config is VolumeBindingArgs, of which each point reads its own part.
type Config struct {
	// BindTimeoutSeconds is how long VolumeBindingPreBind waits until claims are
	// bound; 600 by default.
	BindTimeoutSeconds *int64 `json:"bindTimeoutSeconds"`
	// Shape is what VolumeBindingScore scores by.
	Shape []noderesources.Point `json:"shape"`
}

// Configure checks a configuration; the predicate has use for none of it.
func Configure(data []byte) error {
	_, err := ReadConfig(data)
	return err
}

// ReadConfig reads a configuration and completes it.
func ReadConfig(data []byte) (Config, error) {
	var c Config
	if len(data) > 0 {
		if err := json.Unmarshal(data, &c); err != nil {
			return c, fmt.Errorf("configuration of %s: %w", Name, err)
		}
	}
	if c.BindTimeoutSeconds == nil {
		seconds := int64(600)
		c.BindTimeoutSeconds = &seconds
	}
	if *c.BindTimeoutSeconds < 0 {
		return c, fmt.Errorf("bindTimeoutSeconds: Invalid value: %d: invalid BindTimeoutSeconds, should not be a negative value", *c.BindTimeoutSeconds)
	}
	if len(c.Shape) == 0 {
		c.Shape = []noderesources.Point{{Utilization: 0, Score: 10}, {Utilization: 100, Score: 0}}
	}
	if err := noderesources.CheckShape(c.Shape); err != nil {
		return c, fmt.Errorf("configuration of %s: shape%w", Name, err)
	}
	return c, nil
}
