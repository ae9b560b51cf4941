// Package noderesourcesfitscore is the priority NodeResourcesFitScore, the scoring
// half of kube-scheduler's NodeResourcesFit: how much of a node would be requested
// with the pod, by the strategy LeastAllocated (the less the better, the default),
// MostAllocated, or RequestedToCapacityRatio with a function of its own.
package noderesourcesfitscore

import (
	"fmt"
	"math"

	"pintle.dev/pintle/plugins/predicates/noderesources"
	"pintle.dev/pintle/sdk"
)

// Name is the name by which configurations switch and weigh the priority.
const Name = "NodeResourcesFitScore"

type priority struct {
	count    noderesources.Count
	strategy *noderesources.Strategy
	amounts  []noderesources.Amount // scratch
}

// New returns the priority, with LeastAllocated of CPU and memory until it is
// configured.
func New() sdk.Priority {
	p := &priority{}
	if err := p.configure(nil); err != nil {
		panic(err)
	}
	return sdk.Priority{
		Name: Name, Scope: sdk.ScopeNode, Normalize: sdk.NormalizeNone, MaxScore: sdk.MaxFrameworkScore,
		Configure: p.configure, Prepare: p.prepare, Score: p.score, ScoreNodes: p.scoreNodes,
	}
}

func (p *priority) configure(data []byte) error {
	args, err := noderesources.ParseFitArgs(data)
	if err != nil {
		return fmt.Errorf("configuration of %s: %w", Name, err)
	}
	p.strategy = args.ScoringStrategy
	p.count = noderesources.Count{Resources: p.strategy.Resources, Assume: true}
	p.amounts = make([]noderesources.Amount, len(p.strategy.Resources))
	return nil
}

func (p *priority) prepare(_ *sdk.Cluster, pod *sdk.Pod) any { return p.count.Wanted(pod) }

// scoreNodes is score. Of the default strategy the loop has no names and no calls.
func (p *priority) scoreNodes(b *sdk.Batch) {
	if p.strategy.Type != noderesources.LeastAllocated || !p.count.Plain() {
		b.ScoreEach(p.score)
		return
	}
	wanted, scores := b.State.([]int64), b.Scores()
	for k, n := range b.Nodes {
		var sum, weights int64
		if all := n.Allocatable.MilliCPU; all != 0 {
			sum, weights = least(n.NonZeroMilliCPU+wanted[0], all), 1
		}
		if all := n.Allocatable.Memory; all != 0 {
			sum, weights = sum+least(n.NonZeroMemory+wanted[1], all), weights+1
		}
		if weights == 2 {
			sum /= 2
		}
		scores[k] = sum
	}
}

// least is the score of one resource by LeastAllocated.
func least(requested, allocatable int64) int64 {
	if requested > allocatable {
		return 0
	}
	return (allocatable - requested) * sdk.MaxFrameworkScore / allocatable
}

// score is the mean of the resources' scores by their weights.
func (p *priority) score(r *sdk.Request) int64 {
	p.count.Of(r.Node, r.State.([]int64), p.amounts)
	ratio := p.strategy.Type == noderesources.RequestedToCapacityRatio
	var sum, weights int64
	for i := range p.amounts {
		a, weight := &p.amounts[i], p.strategy.Resources[i].Weight
		if a.Allocatable == 0 {
			continue
		}
		score := p.one(a)
		if ratio && score <= 0 {
			continue // as kube-scheduler does: nothing is no part of the mean
		}
		sum += score * weight
		weights += weight
	}
	switch {
	case weights == 0:
		return 0
	case ratio:
		return int64(math.Round(float64(sum) / float64(weights)))
	}
	return sum / weights
}

// one is the score of one resource, 0 to 100.
func (p *priority) one(a *noderesources.Amount) int64 {
	switch p.strategy.Type {
	case noderesources.MostAllocated:
		return min(a.Requested, a.Allocatable) * sdk.MaxFrameworkScore / a.Allocatable
	case noderesources.RequestedToCapacityRatio:
		if a.Requested > a.Allocatable {
			return noderesources.Along(p.strategy.Ratio.Shape, 100)
		}
		return noderesources.Along(p.strategy.Ratio.Shape, a.Requested*100/a.Allocatable)
	}
	return least(a.Requested, a.Allocatable)
}
