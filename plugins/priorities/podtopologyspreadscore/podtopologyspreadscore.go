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

	// scratch of normalize: which domains nodes that fit are in, by constraint
	seen    [][]uint32
	tick    uint32
	weights []float64
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
		Configure: p.configure, Prepare: p.prepare, Follow: follow, Moved: moved, ScoreNodes: score, NormalizeFunc: p.normalize,
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

func follow(_ *sdk.Cluster, _ *sdk.Pod, state any, changes []sdk.Change) any {
	if s := state.(*topologyspread.Spread); s != nil {
		s.Follow(changes)
	}
	return state
}

func moved(state any) ([]uint32, bool) {
	if s := state.(*topologyspread.Spread); s != nil {
		return s.Moved(), false
	}
	return nil, false
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
	p.weigh(s, nodes, scores)
	least, most := int64(math.MaxInt64), int64(0)
	for k, node := range nodes {
		if scores[k] == ignored {
			continue
		}
		var sum float64
		for i := range s.Constraints {
			c := &s.Constraints[i]
			domain := c.Column.Of(node)
			if domain == 0 {
				continue
			}
			var pods int64
			if c.OnNode != nil {
				pods = int64(c.OnNode[node.Index])
			} else if int(domain) < len(c.Pods) {
				pods = c.Pods[domain]
			}
			// maxSkew waters the differences down.
			sum += float64(pods)*p.weights[i] + float64(c.MaxSkew-1)
		}
		scores[k] = int64(math.Round(sum))
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

// weigh fills in the weights, by the logarithm of how many domains there are, so
// that many small domains do not drown a few large ones; and marks in scores the
// nodes that are ignored.
func (p *priority) weigh(s *topologyspread.Spread, nodes []*sdk.Node, scores []int64) {
	n := len(s.Constraints)
	p.weights = topology.Grown(p.weights, n)
	p.seen = topology.Grown(p.seen, n)
	if p.tick++; p.tick == 0 {
		clear(p.seen)
		p.tick = 1
	}
	left := len(nodes)
	for k, node := range nodes {
		scores[k] = 0
		if !s.All {
			continue
		}
		for i := range s.Constraints {
			if s.Constraints[i].Column.Of(node) == 0 {
				scores[k] = ignored
				left--
				break
			}
		}
	}
	for i := range s.Constraints {
		c, size := &s.Constraints[i], left
		if c.OnNode == nil {
			size = 0
			// Nodes without the label are as one domain more, which kube-scheduler
			// calls by an empty name.
			seen, empty := topology.Grown(p.seen[i], c.Column.Len()), c.Column.Number("")
			for k, node := range nodes {
				if scores[k] == ignored {
					continue
				}
				domain := c.Column.Of(node)
				if domain == 0 {
					domain = empty
				}
				if seen[domain] != p.tick {
					seen[domain] = p.tick
					size++
				}
			}
			p.seen[i] = seen
		}
		p.weights[i] = math.Log(float64(size + 2))
	}
}
