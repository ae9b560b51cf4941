package topologyspread

import (
	"encoding/json"
	"fmt"

	"pintle.dev/pintle/sdk"
)

// The actions of a constraint.
const (
	DoNotSchedule  = "DoNotSchedule"
	ScheduleAnyway = "ScheduleAnyway"
)

// Hostname is the label whose domains are single nodes.
const Hostname = "kubernetes.io/hostname"

// Defaults are the constraints of pods that name none, without selectors: those
// come from the services and owners of the pod.
type Defaults struct {
	Constraints []sdk.TopologySpreadConstraint
	// System: they are Kubernetes' own, which also count nodes without one of the
	// labels.
	System bool
}

// args is kube-scheduler's PodTopologySpreadArgs.
type args struct {
	DefaultConstraints []struct {
		MaxSkew            int32           `json:"maxSkew"`
		TopologyKey        string          `json:"topologyKey"`
		WhenUnsatisfiable  string          `json:"whenUnsatisfiable"`
		LabelSelector      json.RawMessage `json:"labelSelector"`
		MinDomains         *int32          `json:"minDomains"`
		NodeAffinityPolicy string          `json:"nodeAffinityPolicy"`
		NodeTaintsPolicy   string          `json:"nodeTaintsPolicy"`
	} `json:"defaultConstraints"`
	DefaultingType string `json:"defaultingType"`
}

// ParseArgs reads a configuration; none asks for the system's defaults.
func ParseArgs(data []byte) (*Defaults, error) {
	var a args
	if len(data) > 0 {
		if err := json.Unmarshal(data, &a); err != nil {
			return nil, err
		}
	}
	switch a.DefaultingType {
	case "", "System":
		if len(a.DefaultConstraints) > 0 {
			return nil, fmt.Errorf("defaultingType: System goes without defaultConstraints; use List")
		}
		return &Defaults{System: true, Constraints: []sdk.TopologySpreadConstraint{
			{TopologyKey: Hostname, WhenUnsatisfiable: ScheduleAnyway, MaxSkew: 3},
			{TopologyKey: "topology.kubernetes.io/zone", WhenUnsatisfiable: ScheduleAnyway, MaxSkew: 5},
		}}, nil
	case "List":
	default:
		return nil, fmt.Errorf("defaultingType: %q; use System or List", a.DefaultingType)
	}
	out := &Defaults{}
	type pair struct{ key, action string }
	seen := map[pair]bool{}
	for i, c := range a.DefaultConstraints {
		p := pair{c.TopologyKey, c.WhenUnsatisfiable}
		switch {
		case c.MaxSkew <= 0:
			return nil, fmt.Errorf("defaultConstraints[%d].maxSkew: %d; use 1 or more", i, c.MaxSkew)
		case c.TopologyKey == "":
			return nil, fmt.Errorf("defaultConstraints[%d].topologyKey: name a label", i)
		case c.WhenUnsatisfiable != DoNotSchedule && c.WhenUnsatisfiable != ScheduleAnyway:
			return nil, fmt.Errorf("defaultConstraints[%d].whenUnsatisfiable: %q; use %s or %s", i, c.WhenUnsatisfiable, DoNotSchedule, ScheduleAnyway)
		case len(c.LabelSelector) > 0 && string(c.LabelSelector) != "null":
			return nil, fmt.Errorf("defaultConstraints[%d].labelSelector: it comes from the services and owners of each pod", i)
		case seen[p]:
			return nil, fmt.Errorf("defaultConstraints[%d]: %s %s stands there twice", i, p.key, p.action)
		}
		seen[p] = true
		constraint := sdk.TopologySpreadConstraint{
			MaxSkew: c.MaxSkew, TopologyKey: c.TopologyKey, WhenUnsatisfiable: c.WhenUnsatisfiable,
			NodeAffinityPolicy: c.NodeAffinityPolicy, NodeTaintsPolicy: c.NodeTaintsPolicy,
		}
		if c.MinDomains != nil {
			constraint.MinDomains = *c.MinDomains
		}
		out.Constraints = append(out.Constraints, constraint)
	}
	return out, nil
}
