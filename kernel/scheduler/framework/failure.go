package framework

import (
	"slices"
	"strings"

	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// Failure is who refused a pod, and so what can bring it back. It is shared by
// the pods of a class and never changed.
type Failure struct {
	Rejectors []Rejector
	Names     string // of the rejectors, which tell failures apart
}

// Rejector is a plugin that refused a pod.
type Rejector struct {
	Name      string
	Interests []*contractv1.Interest
}

// NewFailure is a failure by these plugins, each of which may be there more than
// once.
func NewFailure(list []Rejector) *Failure {
	slices.SortStableFunc(list, func(a, b Rejector) int { return strings.Compare(a.Name, b.Name) })
	list = slices.CompactFunc(list, func(a, b Rejector) bool { return a.Name == b.Name })
	f := &Failure{Rejectors: list}
	for k := range list {
		f.Names += list[k].Name + "\n"
	}
	return f
}

// Wants reports whether an event may help, and whether the plugins are to be
// asked about that.
func (r *Rejector) Wants(kind string, action contractv1.Action) (wants, hint bool) {
	for _, i := range r.Interests {
		if i.Matches(kind, action) {
			if !i.GetHint() {
				return true, false
			}
			wants, hint = true, true
		}
	}
	return wants, hint
}

// Wants reports whether an event may help by what the plugins declared.
func (f *Failure) Wants(kind string, action contractv1.Action) bool {
	for k := range f.Rejectors {
		if wants, _ := f.Rejectors[k].Wants(kind, action); wants {
			return true
		}
	}
	return false
}

// PredicateRejector is a predicate as a rejector.
func PredicateRejector(p *contractv1.PredicateInfo) Rejector {
	return Rejector{p.Name, interestsOf(&p.Hearing, p.Scope, p.Reads, false)}
}

// PointRejector is a plugin at a point as a rejector: scope is what it depends on, if it says nothing of events. arrivals: of pods that come to
// be, which it may have been waiting for.
func PointRejector(p *contractv1.PointInfo, scope string, arrivals bool) Rejector {
	return Rejector{p.Name, interestsOf(&p.Hearing, scope, p.Reads, arrivals)}
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

// NoNodes is the failure of pods while there is no node.
var NoNodes = NewFailure([]Rejector{{"", []*contractv1.Interest{{Kind: contractv1.KindNode, Actions: uint32(contractv1.Action_ADD)}}}})
