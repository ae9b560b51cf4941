package noderesources

import (
	"encoding/json"
	"fmt"
	"strings"

	"pintle.dev/pintle/sdk"
)

// The types of a scoring strategy.
const (
	LeastAllocated           = "LeastAllocated"
	MostAllocated            = "MostAllocated"
	RequestedToCapacityRatio = "RequestedToCapacityRatio"
)

// FitArgs is kube-scheduler's NodeResourcesFitArgs. The predicate takes what is
// ignored, the priority the strategy.
type FitArgs struct {
	IgnoredResources      []string  `json:"ignoredResources"`
	IgnoredResourceGroups []string  `json:"ignoredResourceGroups"`
	ScoringStrategy       *Strategy `json:"scoringStrategy"`
}

// Strategy says how scores come from amounts.
type Strategy struct {
	Type      string     `json:"type"` // LeastAllocated, MostAllocated or RequestedToCapacityRatio
	Resources []Resource `json:"resources"`
	// Ratio is set of RequestedToCapacityRatio only.
	Ratio *struct {
		Shape []Point `json:"shape"`
	} `json:"requestedToCapacityRatio"`
}

// Point is one of a function of segments: a use in percent, a score from 0 to 10.
type Point struct {
	Utilization int64 `json:"utilization"`
	Score       int64 `json:"score"`
}

// ParseFitArgs reads a configuration, with its defaults; none is an empty one.
func ParseFitArgs(data []byte) (*FitArgs, error) {
	args := &FitArgs{}
	if len(data) > 0 {
		if err := json.Unmarshal(data, args); err != nil {
			return nil, err
		}
	}
	if args.ScoringStrategy == nil {
		args.ScoringStrategy = &Strategy{Type: LeastAllocated}
	}
	s := args.ScoringStrategy
	if len(s.Resources) == 0 {
		s.Resources = Default()
	}
	for i := range s.Resources {
		if s.Resources[i].Weight == 0 {
			s.Resources[i].Weight = 1
		}
		if w := s.Resources[i].Weight; w < 1 || w > 100 {
			return nil, fmt.Errorf("scoringStrategy.resources[%d].weight: %d; use 1 to 100", i, w)
		}
	}
	for i, group := range args.IgnoredResourceGroups {
		if strings.Contains(group, "/") {
			return nil, fmt.Errorf("ignoredResourceGroups[%d]: %q; a group has no '/'", i, group)
		}
	}
	switch s.Type {
	case LeastAllocated, MostAllocated:
		if s.Ratio != nil {
			return nil, fmt.Errorf("scoringStrategy.requestedToCapacityRatio: goes with type %s only", RequestedToCapacityRatio)
		}
	case RequestedToCapacityRatio:
		if s.Ratio == nil {
			return nil, fmt.Errorf("scoringStrategy.requestedToCapacityRatio: type %s needs it", s.Type)
		}
		if err := CheckShape(s.Ratio.Shape); err != nil {
			return nil, fmt.Errorf("scoringStrategy.requestedToCapacityRatio.shape%w", err)
		}
	default:
		return nil, fmt.Errorf("scoringStrategy.type: %q; use %s, %s or %s", s.Type, LeastAllocated, MostAllocated, RequestedToCapacityRatio)
	}
	return args, nil
}

// CheckShape checks a function of segments; its errors go on where the caller has
// named the field.
func CheckShape(shape []Point) error {
	if len(shape) == 0 {
		return fmt.Errorf(": at least one point is needed")
	}
	for i, p := range shape {
		switch {
		case i > 0 && p.Utilization <= shape[i-1].Utilization:
			return fmt.Errorf("[%d].utilization: %d; points go up", i, p.Utilization)
		case p.Utilization < 0 || p.Utilization > 100:
			return fmt.Errorf("[%d].utilization: %d; use 0 to 100", i, p.Utilization)
		case p.Score < 0 || p.Score > 10:
			return fmt.Errorf("[%d].score: %d; use 0 to 10", i, p.Score)
		}
	}
	return nil
}

// Along is the value of a function of segments, whose scores go from 0 to 10, as 0
// to 100.
func Along(shape []Point, use int64) int64 {
	const scale = sdk.MaxFrameworkScore / sdk.MaxScore
	for i, p := range shape {
		if use > p.Utilization {
			continue
		}
		if i == 0 {
			return p.Score * scale
		}
		before := shape[i-1]
		return before.Score*scale + (p.Score-before.Score)*scale*(use-before.Utilization)/(p.Utilization-before.Utilization)
	}
	return shape[len(shape)-1].Score * scale
}
