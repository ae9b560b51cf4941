// Package podtopologyspreadscore is the priority PodTopologySpreadScore, the
// scoring half of kube-scheduler's PodTopologySpread: the fewer pods the domains of
// a node have, by the constraints that say ScheduleAnyway, the better.
package podtopologyspreadscore

import (
	"fmt"
	"math"

	"pintle.dev/pintle/plugins/predicates/topology"
	"pintle.dev/pintle/plugins/predicates/topologyspread"
	"pintle.dev/pintle/sdk"
)

// Name is the name by which configurations switch and weigh the priority.
const Name = "PodTopologySpreadScore"

type priority struct {
	defaults *topologyspread.Defaults

	scratch []scratch // by constraint
}

// New returns the priority, with the system's default constraints until it is
// configured.
//
// How much a domain counts depends on the domains of the nodes that fit, so that
// scores come when they are normalised. Raw ones are 1, or 0 for pods without
// constraints.
func New() sdk.Priority {
	p := &priority{}
	if err := p.configure(nil); err != nil {
		panic(err)
	}
	return sdk.Priority{
		Name: Name, Scope: sdk.ScopeCluster, Normalize: sdk.NormalizePluginNonzero, MaxScore: sdk.MaxFrameworkScore, Reads: topologyspread.Reads(),
		Configure: p.configure, Prepare: p.prepare, Follow: topologyspread.Follow, Moved: topologyspread.Moved, Idle: topologyspread.Idle, ScoreNodes: score, NormalizeFunc: p.normalize,
	}
}

func (p *priority) configure(data []byte) error {
	defaults, err := topologyspread.ParseArgs(data)
	if err != nil {
		return fmt.Errorf("configuration of %s: %w", Name, err)
	}
	p.defaults = defaults
	return nil
}

func (p *priority) prepare(c *sdk.Cluster, pod *sdk.Pod) any {
	return topologyspread.New(c, pod, p.defaults, topologyspread.ScheduleAnyway)
}

func score(b *sdk.Batch) {
	if b.State.(*topologyspread.Spread) == nil {
		return
	}
	scores := b.Scores()
	for k := range scores {
		scores[k] = 1
	}
}

// ignored is the raw score of a node without the label of a constraint, while
// scores are worked out.
const ignored = -1

func (p *priority) normalize(_ *sdk.Cluster, _ *sdk.Pod, state any, nodes []*sdk.Node, scores []int64) {
	s := state.(*topologyspread.Spread)
	if s == nil {
		return
	}
	p.look(s, nodes, scores)
	for i := range s.Constraints {
		p.scratch[i].weigh(&s.Constraints[i])
	}
	least, most := int64(math.MaxInt64), int64(0)
	for k, node := range nodes {
		if scores[k] == ignored {
			continue
		}
		var sum float64
		for i := range s.Constraints {
			x := &p.scratch[i]
			switch c := &s.Constraints[i]; {
			case x.domains[k] == 0: // of a default constraint
			case c.OnNode != nil:
				sum += float64(c.OnNode[node.Index])*x.weight + float64(c.MaxSkew-1)
			default:
				sum += x.parts[x.domains[k]]
			}
		}
		// To the nearest; math.Round takes longer.
		whole := math.Trunc(sum)
		if sum-whole >= 0.5 {
			whole++
		}
		scores[k] = int64(whole)
		least, most = min(least, scores[k]), max(most, scores[k])
	}
	// A division is dear in WASM, and most nodes score as the one before.
	last, result := int64(math.MinInt64), int64(0)
	for k, score := range scores {
		switch {
		case score == ignored:
			scores[k] = 0
		case most == 0:
			scores[k] = sdk.MaxFrameworkScore
		default:
			if score != last {
				last, result = score, sdk.MaxFrameworkScore*(most+least-score)/most
			}
			scores[k] = result
		}
	}
}

// scratch is what normalize works out for one constraint.
type scratch struct {
	domains []uint32  // by position among the nodes that fit
	seen    []bool    // by domain: one of them is in it
	size    int       // how many domains they are in
	weight  float64   // of a pod
	parts   []float64 // by domain: its part of the score
}

// look finds the domains of the nodes that fit, and marks those that are ignored.
func (p *priority) look(s *topologyspread.Spread, nodes []*sdk.Node, scores []int64) {
	p.scratch = topology.Grown(p.scratch, len(s.Constraints))
	clear(scores)
	left := len(nodes)
	for i := range s.Constraints {
		c, x := &s.Constraints[i], &p.scratch[i]
		x.domains = topology.Grown(x.domains, len(nodes))[:len(nodes)]
		for k, node := range nodes {
			domain := c.Column.Of(node)
			if x.domains[k] = domain; domain == 0 && s.All && scores[k] != ignored {
				scores[k] = ignored
				left--
			}
		}
	}
	for i := range s.Constraints {
		c, x := &s.Constraints[i], &p.scratch[i]
		if x.size = left; c.OnNode != nil {
			continue
		}
		x.size = 0
		x.seen = topology.Grown(x.seen, c.Column.Len())
		clear(x.seen)
		// Nodes without the label are as one domain more, which kube-scheduler
		// calls by an empty name.
		empty := c.Column.Number("")
		for k, domain := range x.domains {
			if scores[k] == ignored {
				continue
			}
			if domain == 0 {
				domain = empty
			}
			if !x.seen[domain] {
				x.seen[domain] = true
				x.size++
			}
		}
	}
}

// weigh works out the parts of the constraint's domains. A pod weighs the
// logarithm of how many domains there are, so that many small ones do not drown a
// few large ones; maxSkew waters the differences down.
func (x *scratch) weigh(c *topologyspread.Constraint) {
	x.weight = math.Log(float64(x.size + 2))
	if c.OnNode != nil {
		return
	}
	x.parts = topology.Grown(x.parts, c.Column.Len())
	for domain := range x.parts {
		var pods int64
		if domain < len(c.Pods) {
			pods = c.Pods[domain]
		}
		x.parts[domain] = float64(pods)*x.weight + float64(c.MaxSkew-1)
	}
}
