// Package noderesourcesbalancedallocation is the priority
// NodeResourcesBalancedAllocation: the more the pod brings the requested parts of a
// node's resources closer to each other, the better.
package noderesourcesbalancedallocation

import (
	"encoding/json"
	"fmt"
	"math"

	"pintle.dev/pintle/plugins/predicates/noderesources"
	"pintle.dev/pintle/sdk"
)

// Name is the name by which configurations switch and weigh the priority.
const Name = "NodeResourcesBalancedAllocation"

// Args is kube-scheduler's NodeResourcesBalancedAllocationArgs.
type Args struct {
	Resources []noderesources.Resource `json:"resources"` // weights are 1
}

type priority struct {
	count   noderesources.Count
	amounts []noderesources.Amount // scratch
}

// New returns the priority over CPU and memory until it is configured.
func New() sdk.Priority {
	p := &priority{}
	p.take(noderesources.Default())
	return sdk.Priority{
		Name: Name, Scope: sdk.ScopeNode, Normalize: sdk.NormalizeNone, MaxScore: sdk.MaxFrameworkScore,
		Configure: p.configure, Prepare: p.prepare, Idle: idle, Score: p.score, ScoreNodes: p.scoreNodes,
	}
}

func (p *priority) take(resources []noderesources.Resource) {
	p.count = noderesources.Count{Resources: resources}
	p.amounts = make([]noderesources.Amount, len(resources))
}

func (p *priority) configure(data []byte) error {
	var args Args
	if len(data) > 0 {
		if err := json.Unmarshal(data, &args); err != nil {
			return fmt.Errorf("configuration of %s: %w", Name, err)
		}
	}
	seen := map[string]bool{}
	for i, r := range args.Resources {
		if r.Weight != 0 && r.Weight != 1 {
			return fmt.Errorf("configuration of %s: resources[%d].weight: %d; must be 1", Name, i, r.Weight)
		}
		if seen[r.Name] {
			return fmt.Errorf("configuration of %s: resources[%d].name: %q stands there twice", Name, i, r.Name)
		}
		seen[r.Name] = true
	}
	if len(args.Resources) == 0 {
		args.Resources = noderesources.Default()
	}
	p.take(args.Resources)
	return nil
}

// prepare returns what the pod asks for, or nil: of nothing at all, and then each
// node is as good.
func (p *priority) prepare(_ *sdk.Cluster, pod *sdk.Pod) any {
	wanted := p.count.Wanted(pod)
	for _, amount := range wanted {
		if amount != 0 {
			return wanted
		}
	}
	return []int64(nil)
}

func idle(_ *sdk.Pod, state any) bool { return state.([]int64) == nil }

// scoreNodes is score. Of the default resources the loop has no names and no calls.
func (p *priority) scoreNodes(b *sdk.Batch) {
	if !p.count.Plain() {
		b.ScoreEach(p.score)
		return
	}
	wanted, scores := b.State.([]int64), b.Scores()
	for k, n := range b.Nodes {
		var with, without float64
		if cpu, memory := n.Allocatable.MilliCPU, n.Allocatable.Memory; cpu != 0 && memory != 0 {
			with = deviation(share(n.Requested.MilliCPU+wanted[0], cpu), share(n.Requested.Memory+wanted[1], memory))
			without = deviation(share(n.Requested.MilliCPU, cpu), share(n.Requested.Memory, memory))
		}
		scores[k] = gain(scoreOf(with), scoreOf(without))
	}
}

// deviation is the standard deviation of two numbers; it rounds otherwise than the
// square root of a square.
func deviation(first, second float64) float64 { return math.Abs((first - second) / 2) }

func share(requested, allocatable int64) float64 {
	return min(float64(requested)/float64(allocatable), 1)
}

func scoreOf(deviation float64) int64 { return int64((1 - deviation) * sdk.MaxFrameworkScore) }

// gain: half of the score is for free, so that a change for the worse shows too.
func gain(with, without int64) int64 {
	const half = sdk.MaxFrameworkScore / 2
	return half + (half+with-without)/2
}

func (p *priority) score(r *sdk.Request) int64 {
	wanted := r.State.([]int64)
	if wanted == nil {
		return 0
	}
	p.count.Of(r.Node, wanted, p.amounts)
	with := balance(p.amounts, func(a *noderesources.Amount) int64 { return a.Requested })
	without := balance(p.amounts, func(a *noderesources.Amount) int64 { return a.Allocated })
	return gain(with, without)
}

// balance is 100 less a hundred times the standard deviation of the requested parts.
func balance(amounts []noderesources.Amount, requested func(*noderesources.Amount) int64) int64 {
	var sum, first, second float64
	n := 0
	for i := range amounts {
		if amounts[i].Allocatable == 0 {
			continue
		}
		f := part(&amounts[i], requested)
		sum += f
		if n++; n == 1 {
			first = f
		} else {
			second = f
		}
	}
	apart := 0.0
	switch {
	case n == 2:
		apart = deviation(first, second)
	case n > 2:
		mean, squares := sum/float64(n), 0.0
		for i := range amounts {
			if amounts[i].Allocatable != 0 {
				f := part(&amounts[i], requested)
				squares += (f - mean) * (f - mean)
			}
		}
		apart = math.Sqrt(squares / float64(n))
	}
	return scoreOf(apart)
}

func part(a *noderesources.Amount, requested func(*noderesources.Amount) int64) float64 {
	return share(requested(a), a.Allocatable)
}
