package resultcache

import (
	"fmt"
	"strings"

	"pintle.dev/pintle/kernel/scheduler/framework"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// refusals collects what refused nodes, each cause once.
type refusals struct {
	class *Class
	call  *contractv1.CycleCall
	at    map[causeKey]uint32
	// last is the ruling that was added before: most nodes have that of their neighbour.
	last   Verdict
	lastAt uint32
	some   bool
}

type causeKey struct {
	Verdict
	plugin, reasons string
}

func NewRefusals(c *Class, call *contractv1.CycleCall) *refusals {
	return &refusals{class: c, call: call, at: map[causeKey]uint32{}}
}

// Add notes that a predicate refused a node, or another plugin for reasons that
// nobody's leaving changes.
func (r *refusals) Add(n uint32, v Verdict, plugin string, reasons []string) {
	if plugin == "" && r.some && v == r.last {
		r.call.Nodes, r.call.Refused = append(r.call.Nodes, n), append(r.call.Refused, r.lastAt)
		return
	}
	key := causeKey{Verdict: v}
	if plugin != "" {
		key = causeKey{plugin: plugin, reasons: strings.Join(reasons, "\n")}
	}
	k, known := r.at[key]
	if !known {
		cause := &contractv1.Refusal{Plugin: plugin, Reasons: reasons, Code: contractv1.Code_UNSCHEDULABLE_AND_UNRESOLVABLE}
		if plugin == "" && v.predicate >= 0 {
			cause.Plugin, cause.Reasons = r.class.predicates[v.predicate].Name, r.class.policy.Reasons(int(v.predicate), v.Code)
			if resolver, ok := r.class.policy.(contractv1.Resolver); !ok || !resolver.Unresolvable(int(v.predicate), v.Code) {
				cause.Code = contractv1.Code_UNSCHEDULABLE
			}
		}
		k = uint32(len(r.call.Refusals))
		r.call.Refusals, r.at[key] = append(r.call.Refusals, cause), k
	}
	if plugin == "" {
		r.last, r.lastAt, r.some = v, k, true
	}
	r.call.Nodes, r.call.Refused = append(r.call.Nodes, n), append(r.call.Refused, k)
}

// Refusals are all nodes with what refused the class, as a call without steps.
func (c *Class) Refusals(s *View) *contractv1.CycleCall {
	call := &contractv1.CycleCall{Class: c.id, Nodes: make([]uint32, 0, s.Count), Refused: make([]uint32, 0, s.Count)}
	list := NewRefusals(c, call)
	for n, e := range s.ByIndex {
		if e == nil {
			continue
		}
		v := Verdict{predicate: c.fail[n]}
		switch {
		case v.predicate >= 0:
			v.Code = c.predicates[v.predicate].verdicts[n]
			list.Add(uint32(n), v, "", nil)
		case c.narrowing.stop != nil && c.narrowing.stop.Code == contractv1.Code_UNSCHEDULABLE:
			list.resolvable(uint32(n), c.narrowing.stop)
		case c.narrowing.stop != nil:
			list.Add(uint32(n), v, c.narrowing.stop.Info.Name, c.narrowing.stop.Reasons)
		case len(c.narrowing.by) > 0:
			list.Add(uint32(n), v, c.narrowing.by[0], []string{fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", c.narrowing.by)})
		}
	}
	return call
}

// resolvable is add of a pre-filter's ruling that others' leaving may change.
func (r *refusals) resolvable(n uint32, stop *framework.Status) {
	before := len(r.call.Refusals)
	r.Add(n, Verdict{predicate: absent}, stop.Info.Name, stop.Reasons)
	if len(r.call.Refusals) > before {
		r.call.Refusals[before].Code = contractv1.Code_UNSCHEDULABLE
	}
}
