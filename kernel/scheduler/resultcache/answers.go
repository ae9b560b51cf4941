package resultcache

import (
	"pintle.dev/pintle/kernel/scheduler/framework"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// Policy is whose answers the class has, and Generation that of the policy then.
func (c *Class) Policy() contractv1.Policy { return c.policy }
func (c *Class) Generation() uint64        { return c.generation }

// Trouble is what a priority failed with in the last decision; it counted 0.
func (c *Class) Trouble() error { return c.trouble }

// PredicateInfos and PriorityInfos are the plugins as they are for pods of the class; not
// to be changed.
func (c *Class) PredicateInfos() []contractv1.PredicateInfo { return c.infos.predicates }
func (c *Class) PriorityInfos() []contractv1.PriorityInfo   { return c.infos.priorities }

// Reserved are the nodes that fit but for the pods nominated there; not to be changed.
func (c *Class) Reserved() map[uint32]bool { return c.reserved }

// AppendRaw appends the raw score of each priority for a node that fits.
func (c *Class) AppendRaw(out []int64, n uint32) []int64 {
	for i := range c.priorities {
		out = append(out, c.priorities[i].rawOf(n))
	}
	return out
}

// Narrowed is what a pre-filter plugin that left nodes out said.
type Narrowed struct {
	Info  *contractv1.PointInfo
	Stop  *framework.Status // it refused the pod; nil: it left Nodes
	Nodes []uint32
}

// Narrowed are those plugins, in their order. Behind one that refused the pod nobody was
// asked.
func (c *Class) Narrowed() []Narrowed {
	n, infos := &c.narrowing, c.at.Points[contractv1.Point_PRE_FILTER]
	if n.stop == nil && n.allowed == nil {
		return nil
	}
	var list []Narrowed
	for i := range n.answers {
		r, info := n.answers[i].result, &infos[i]
		if n.stop != nil && n.stop.Info == info {
			return append(list, Narrowed{Info: info, Stop: n.stop})
		}
		if r.GetNarrowed() {
			list = append(list, Narrowed{Info: info, Nodes: r.GetNodes()})
		}
	}
	return list
}
