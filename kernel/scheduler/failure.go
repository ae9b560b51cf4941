package scheduler

import (
	"slices"
	"strings"

	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// failure is who refused a pod, and so what can bring it back. It is shared by
// the pods of a class and never changed.
type failure struct {
	rejectors []rejector
	names     string // of the rejectors, which tell failures apart
}

// rejector is a plugin that refused a pod.
type rejector struct {
	name      string
	interests []*contractv1.Interest
}

// newFailure is a failure by these plugins, each of which may be there more than
// once.
func newFailure(list []rejector) *failure {
	slices.SortStableFunc(list, func(a, b rejector) int { return strings.Compare(a.name, b.name) })
	list = slices.CompactFunc(list, func(a, b rejector) bool { return a.name == b.name })
	f := &failure{rejectors: list}
	for k := range list {
		f.names += list[k].name + "\n"
	}
	return f
}

// wants reports whether an event may help, and whether the plugins are to be
// asked about that.
func (r *rejector) wants(kind string, action contractv1.Action) (wants, hint bool) {
	for _, i := range r.interests {
		if i.Matches(kind, action) {
			if !i.GetHint() {
				return true, false
			}
			wants, hint = true, true
		}
	}
	return wants, hint
}

// wants reports whether an event may help by what the plugins declared.
func (f *failure) wants(kind string, action contractv1.Action) bool {
	for k := range f.rejectors {
		if wants, _ := f.rejectors[k].wants(kind, action); wants {
			return true
		}
	}
	return false
}

// rejection is a predicate as a rejector.
func rejection(p *PredicateInfo) rejector {
	return rejector{p.Name, interestsOf(&p.Hearing, p.Scope, p.Reads, false)}
}

// rejectionAt is a plugin at a point as a rejector: scope is what it depends on, if it says nothing of events. arrivals: of pods that come to
// be, which it may have been waiting for.
func rejectionAt(p *contractv1.PointInfo, scope string, arrivals bool) rejector {
	return rejector{p.Name, interestsOf(&p.Hearing, scope, p.Reads, arrivals)}
}

const anyUpdate = uint32(contractv1.Action_UPDATE)

// interestsOf are the declared interests of a plugin. Of one that declared none,
// whatever its scope and what it reads leave possible: more room on nodes always,
// and with scope cluster whatever happens to nodes and pods.
func interestsOf(h *contractv1.Hearing, scope string, reads []string, arrivals bool) []*contractv1.Interest {
	if h.Hears {
		return h.Events
	}
	node := uint32(contractv1.Action_ADD) | anyUpdate
	pod := uint32(contractv1.Action_DELETE) | anyUpdate
	if scope == string(sdk.ScopeCluster) {
		node, pod = uint32(contractv1.Action_ALL), uint32(contractv1.Action_ALL)
	}
	list := []*contractv1.Interest{{Kind: contractv1.KindNode, Actions: node}, {Kind: contractv1.KindPod, Actions: pod}}
	if arrivals {
		list = append(list, &contractv1.Interest{Kind: contractv1.KindUnscheduledPod, Actions: uint32(contractv1.Action_ADD)})
	}
	for _, kind := range reads {
		list = append(list, &contractv1.Interest{Kind: kind, Actions: uint32(contractv1.Action_ALL)})
	}
	return list
}

// nodeless is the failure of pods while there is no node.
var nodeless = newFailure([]rejector{{"", []*contractv1.Interest{{Kind: contractv1.KindNode, Actions: uint32(contractv1.Action_ADD)}}}})

// podGroup is the pods of the pool that are alike: what helps one of them helps
// all, so that plugins are asked once.
type podGroup struct {
	groupKey
	failed *failure
	pods   map[*podEntry]struct{}
	from   uint64 // events after this one were not looked at
	// except is an event that was the pod's own doing; of a group of one.
	except uint64
}

type groupKey struct {
	scheduler string
	shape     *shape
	names     string
	alone     *podEntry // the pod has a group of its own
}

// enroll puts a pod of the pool into its group.
func (q *queue) enroll(p *podEntry) {
	key := groupKey{scheduler: p.pod.Spec.SchedulerName, shape: p.shape, names: p.failed.names}
	if p.except > p.seen {
		key.alone = p
	}
	g := q.groups[key]
	if g == nil {
		g = &podGroup{groupKey: key, failed: p.failed, pods: map[*podEntry]struct{}{}, from: p.seen}
		if key.alone != nil {
			g.except = p.except
		}
		q.groups[key] = g
	}
	g.from = min(g.from, p.seen)
	g.pods[p] = struct{}{}
	p.group = g
}

func (q *queue) ungroup(p *podEntry) {
	g := p.group
	if g == nil {
		return
	}
	p.group = nil
	delete(g.pods, p)
	if len(g.pods) == 0 {
		delete(q.groups, g.groupKey)
	}
}
