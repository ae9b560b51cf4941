package schedulertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/proto"

	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// Test plugins, one of each sort: a predicate a node, one that reads objects,
// one over the cluster; priorities of each normalization and scope.

var FitCPU = sdk.Predicate{Name: "FitCPU", Filter: func(r *sdk.Request) sdk.Verdict {
	var reasons []string
	if r.Node.Requested.Pods+1 > r.Node.Allocatable.Pods {
		reasons = append(reasons, "Too many pods")
	}
	if r.Pod.Requests.MilliCPU > r.Node.Allocatable.MilliCPU-r.Node.Requested.MilliCPU {
		reasons = append(reasons, "Insufficient cpu")
	}
	if len(reasons) > 0 {
		return sdk.Unfit(reasons...)
	}
	return sdk.Fits()
}}

var SelectNode = sdk.Predicate{Name: "SelectNode", Filter: func(r *sdk.Request) sdk.Verdict {
	for k, v := range r.Pod.NodeSelector {
		if r.Node.Labels[k] != v {
			return sdk.Unfit("node(s) didn't match Pod's node affinity/selector")
		}
	}
	return sdk.Fits()
}}

// ZoneVolume reads claims: a claim's label "zone" must be the node's.
var ZoneVolume = sdk.Predicate{Name: "ZoneVolume", Reads: []string{"PersistentVolumeClaim"}, Idle: func(pod *sdk.Pod, _ any) bool {
	return !slices.ContainsFunc(pod.Volumes, func(v sdk.Volume) bool { return v.Type == "persistentVolumeClaim" })
}, Filter: func(r *sdk.Request) sdk.Verdict {
	for _, v := range r.Pod.Volumes {
		if v.Type != "persistentVolumeClaim" {
			continue
		}
		claim := r.Cluster.Object("PersistentVolumeClaim", r.Pod.Namespace, v.ID)
		if claim == nil || claim.Labels["zone"] != r.Node.Labels["zone"] {
			return sdk.Unfit("node(s) had no available volume zone")
		}
	}
	return sdk.Fits()
}}

// meek pods have no part in perZone.
func meek(pod *sdk.Pod) bool { return pod.Labels["exclusive"] == "" }

// PerZone is of cluster scope: at most three pods labelled exclusive a zone.
var PerZone = sdk.Predicate{Name: "PerZone", Scope: sdk.ScopeCluster, Aloof: meek, Filter: func(r *sdk.Request) sdk.Verdict {
	if r.Pod.Labels["exclusive"] == "" {
		return sdk.Fits()
	}
	count := 0
	for n := range r.Cluster.Nodes {
		if n.Labels["zone"] != r.Node.Labels["zone"] {
			continue
		}
		for _, p := range n.Pods {
			if p.Labels["exclusive"] != "" {
				count++
			}
		}
	}
	if count >= 3 {
		return sdk.Unfit("node(s) didn't match pod anti-affinity rules")
	}
	return sdk.Fits()
}}

var LeastCPU = sdk.Priority{Name: "LeastCPU", Score: func(r *sdk.Request) int64 {
	if r.Node.Allocatable.MilliCPU == 0 {
		return 0
	}
	return (r.Node.Allocatable.MilliCPU - r.Node.Requested.MilliCPU) * 10 / r.Node.Allocatable.MilliCPU
}}

var FewPods = sdk.Priority{Name: "FewPods", Normalize: sdk.NormalizeReverseMax, Score: func(r *sdk.Request) int64 {
	return r.Node.Requested.Pods
}}

var BigNode = sdk.Priority{Name: "BigNode", Normalize: sdk.NormalizeMax, Score: func(r *sdk.Request) int64 {
	return r.Node.Allocatable.MilliCPU
}}

// Spread counts a node's pods with the same app, and projects by zone.
var Spread = sdk.Priority{
	Name: "Spread", Normalize: sdk.NormalizePlugin, Reads: []string{"Service"},
	Prepare: func(c *sdk.Cluster, pod *sdk.Pod) any {
		selected := false
		c.Objects("Service", pod.Namespace, func(o *sdk.Object) bool {
			selected = selected || o.Selector.Matches(pod.Labels)
			return true
		})
		return selected
	},
	Idle: func(_ *sdk.Pod, selected any) bool { return !selected.(bool) },
	Score: func(r *sdk.Request) int64 {
		var n, services int64
		r.Cluster.Objects("Service", r.Pod.Namespace, func(o *sdk.Object) bool {
			if o.Selector.Matches(r.Pod.Labels) {
				services++
			}
			return true
		})
		for _, p := range r.Node.Pods {
			if p.Labels["app"] == r.Pod.Labels["app"] {
				n++
			}
		}
		return n * services
	},
	NormalizeFunc: func(_ *sdk.Cluster, _ *sdk.Pod, _ any, nodes []*sdk.Node, scores []int64) {
		zones := map[string]int64{}
		var most int64
		for i, n := range nodes {
			zones[n.Labels["zone"]] += scores[i]
			most = max(most, zones[n.Labels["zone"]])
		}
		for i, n := range nodes {
			if scores[i] = 10; most > 0 {
				scores[i] = 10 * (most - zones[n.Labels["zone"]]) / most
			}
		}
	},
}

// Crowd is of cluster scope: the number of pods in the node's zone.
var Crowd = sdk.Priority{Name: "Crowd", Scope: sdk.ScopeCluster, Normalize: sdk.NormalizeReverseMax, Score: func(r *sdk.Request) int64 {
	var n int64
	for node := range r.Cluster.Nodes {
		if node.Labels["zone"] == r.Node.Labels["zone"] {
			n += int64(len(node.Pods))
		}
	}
	return n
}}

var ErrBroken = errors.New("plugin is broken")

// GuestPolicy serves sdk plugins in the test's own process, the way the plugin
// host does: it feeds a guest that is behind from the replica.
type GuestPolicy struct {
	Guest          *sdk.Guest
	Replica        func() *contractv1.Delta
	have           uint64
	PredicateInfos []contractv1.PredicateInfo
	PriorityInfos  []contractv1.PriorityInfo
	offset         int // of priorities in the guest

	Moment     atomic.Uint64
	Unprepared atomic.Bool
	Together   int         // evaluations asked for
	Some       func() bool // of an evaluation's questions, those that are answered; nil: all
	Broken     atomic.Bool // every question fails
	Asked      int         // node verdicts and scores asked for
	Resets     int
}

func NewGuestPolicy(t testing.TB, source func() *contractv1.Delta, predicates []sdk.Predicate, priorities []sdk.Priority) *GuestPolicy {
	t.Helper()
	p := &GuestPolicy{Replica: source, offset: len(predicates)}
	var plugins []any
	for _, x := range predicates {
		plugins = append(plugins, x)
		scope := x.Scope
		if scope == "" {
			scope = sdk.ScopeNode
		}
		p.PredicateInfos = append(p.PredicateInfos, contractv1.PredicateInfo{Name: x.Name, Scope: string(scope), Reads: x.Reads, Expires: x.Expires})
	}
	for i, x := range priorities {
		plugins = append(plugins, x)
		scope := x.Scope
		if scope == "" {
			scope = sdk.ScopeNode
		}
		p.PriorityInfos = append(p.PriorityInfos, contractv1.PriorityInfo{Name: x.Name, Scope: string(scope), Normalize: string(x.Normalize), KeepsZero: x.Name == "Quiet" || x.Name == "ServedPlugin", Reads: x.Reads, Weight: int64(i%3 + 1), Expires: x.Expires})
	}
	guest, err := sdk.GuestOf(plugins...)
	if err != nil {
		t.Fatal(err)
	}
	p.Guest = guest
	return p
}

func (p *GuestPolicy) Generation() uint64                     { return p.Moment.Load() }
func (p *GuestPolicy) Predicates() []contractv1.PredicateInfo { return p.PredicateInfos }
func (p *GuestPolicy) Priorities() []contractv1.PriorityInfo  { return p.PriorityInfos }

func (p *GuestPolicy) Apply(_ context.Context, delta *contractv1.Delta) error {
	if delta.Generation != p.have+1 {
		delta = p.Replica()
		p.Resets++
	}
	data, err := proto.Marshal(delta)
	if err != nil {
		return err
	}
	if err := p.Guest.Apply(data); err != nil {
		return fmt.Errorf("a delta the guest refuses: %w", err)
	}
	p.have = delta.Generation
	return nil
}

// IdleVerdict and IdleScore are what the guest says, too.
func (p *GuestPolicy) IdleVerdict(_ context.Context, i int, class uint32) bool {
	idle, err := p.Guest.Idle(i, class)
	return err == nil && idle
}

func (p *GuestPolicy) IdleScore(ctx context.Context, i int, class uint32) bool {
	return p.IdleVerdict(ctx, p.offset+i, class)
}

// IndifferentVerdict and IndifferentScore are what the guest says, too.
func (p *GuestPolicy) IndifferentVerdict(_ context.Context, i int, class uint32) bool {
	indifferent, err := p.Guest.Indifferent(i, class)
	return err == nil && indifferent
}

func (p *GuestPolicy) IndifferentScore(ctx context.Context, i int, class uint32) bool {
	return p.IndifferentVerdict(ctx, p.offset+i, class)
}

// AloofVerdict and AloofScore are what the guest says, too.
func (p *GuestPolicy) AloofVerdict(_ context.Context, i int, class uint32) bool {
	aloof, err := p.Guest.Aloof(i, class)
	return err == nil && aloof
}

func (p *GuestPolicy) AloofScore(ctx context.Context, i int, class uint32) bool {
	return p.AloofVerdict(ctx, p.offset+i, class)
}

func (p *GuestPolicy) MovedVerdicts(_ context.Context, i int, class uint32, since uint64) (uint64, []uint32, bool) {
	now, nodes, all, err := p.Guest.Moved(i, class, since)
	return now, nodes, !all && err == nil
}

func (p *GuestPolicy) MovedScores(ctx context.Context, i int, class uint32, since uint64) (uint64, []uint32, bool) {
	return p.MovedVerdicts(ctx, p.offset+i, class, since)
}

func (p *GuestPolicy) Filter(_ context.Context, i int, class uint32, nodes, out []uint32) error {
	if p.Broken.Load() {
		return ErrBroken
	}
	p.Asked += len(nodes)
	return p.Guest.Filter(i, class, nodes, out)
}

func (p *GuestPolicy) VerdictsUntil(i int) int64 {
	until, err := p.Guest.Until(i)
	if err != nil {
		panic(err)
	}
	return until
}

func (p *GuestPolicy) ScoresUntil(i int) int64 { return p.VerdictsUntil(p.offset + i) }

func (p *GuestPolicy) Reasons(i int, verdict uint32) []string { return p.Guest.Reasons(i, verdict) }

func (p *GuestPolicy) Score(_ context.Context, i int, class uint32, nodes []uint32, out []int64) error {
	if p.Broken.Load() {
		return ErrBroken
	}
	p.Asked += len(nodes)
	return p.Guest.Score(p.offset+i, class, nodes, out)
}

func (p *GuestPolicy) Normalize(_ context.Context, i int, class uint32, nodes []uint32, scores []int64) error {
	return p.Guest.Normalize(p.offset+i, class, nodes, scores)
}

func (p *GuestPolicy) Prepared(context.Context) bool { return !p.Unprepared.Load() }

// Evaluate answers in order and stops where some says so.
func (p *GuestPolicy) Evaluate(ctx context.Context, e *contractv1.Evaluation) {
	if p.Broken.Load() {
		return
	}
	p.Together++
	var narrowing contractv1.Narrowing
	left := func(nodes []uint32) []uint32 {
		if nodes == nil {
			nodes = e.Nodes
		}
		return narrowing.Left(nodes)
	}
	for k := range e.Filters {
		q := &e.Filters[k]
		nodes := left(q.Nodes)
		verdicts := make([]uint32, len(nodes))
		if p.Some != nil && !p.Some() || p.Filter(ctx, q.Predicate, e.Class, nodes, verdicts) != nil {
			return
		}
		narrowing.Refuse(nodes, verdicts)
		q.Answered, q.Verdicts = nodes, verdicts
		if p.PredicateInfos[q.Predicate].Expires {
			q.Until = p.VerdictsUntil(q.Predicate)
		}
	}
	for k := range e.Scores {
		q := &e.Scores[k]
		nodes := left(q.Nodes)
		scores := make([]int64, len(nodes))
		if p.Some != nil && !p.Some() || p.Score(ctx, q.Priority, e.Class, nodes, scores) != nil {
			return
		}
		q.Answered, q.Scores = nodes, scores
		if p.PriorityInfos[q.Priority].Expires {
			q.Until = p.ScoresUntil(q.Priority)
		}
	}
}

// Group puts the plugins into groups: as many first predicates into group 1,
// the rest into group 2, and so the priorities.
func (p *GuestPolicy) Group(predicates, priorities int) {
	for i := range p.PredicateInfos {
		p.PredicateInfos[i].Group = 1
		if i >= predicates {
			p.PredicateInfos[i].Group = 2
		}
	}
	for i := range p.PriorityInfos {
		p.PriorityInfos[i].Group = 1
		if i >= priorities {
			p.PriorityInfos[i].Group = 2
		}
	}
}
