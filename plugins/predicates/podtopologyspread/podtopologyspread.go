package podtopologyspread

import (
	"fmt"

	"pintle.dev/pintle/plugins/predicates/topologyspread"
	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/contract"
)

// Name is the name by which configurations switch the predicate.
const Name = "PodTopologySpread"

// The reasons that a FailedScheduling event counts.
const (
	Reason      = "node(s) didn't match pod topology spread constraints"
	ReasonLabel = Reason + " (missing required label)"
)

// The verdicts, made once.
var (
	unfit = sdk.Unfit(Reason)
	never = sdk.Never(ReasonLabel)
)

type predicate struct{ defaults *topologyspread.Defaults }

// New returns the predicate, with the system's default constraints until it is
// configured.
func New() sdk.Predicate {
	p := &predicate{}
	if err := p.configure(nil); err != nil {
		panic(err)
	}
	return sdk.Predicate{
		Name: Name, Scope: sdk.ScopeCluster, Contract: contract.Three, Reads: topologyspread.Reads(), Events: events(),
		Configure: p.configure, Prepare: p.prepare, Follow: topologyspread.Follow, Moved: topologyspread.Moved, Idle: topologyspread.Idle, FilterNodes: filter,
	}
}

func (p *predicate) configure(data []byte) error {
	defaults, err := topologyspread.ParseArgs(data)
	if err != nil {
		return fmt.Errorf("configuration of %s: %w", Name, err)
	}
	p.defaults = defaults
	return nil
}

func (p *predicate) prepare(c *sdk.Cluster, pod *sdk.Pod) any {
	return topologyspread.New(c, pod, p.defaults, topologyspread.DoNotSchedule)
}

func filter(b *sdk.Batch) {
	s := b.State.(*topologyspread.Spread)
	if s == nil {
		return
	}
	for k, node := range b.Nodes {
		for i := range s.Constraints {
			c := &s.Constraints[i]
			if domain := c.Column.Of(node); domain == 0 {
				b.Refuse(k, never)
			} else if c.IsFull(domain) {
				b.Refuse(k, unfit)
			} else {
				continue
			}
			break
		}
	}
}
