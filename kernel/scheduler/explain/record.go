package explain

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"

	"pintle.dev/pintle/kernel/scheduler/framework"
	"pintle.dev/pintle/kernel/scheduler/resultcache"
)

// Decision is what the scheduler last did about a pod.
type Decision struct {
	Namespace, Name string
	UID             types.UID
	Time            time.Time
	Attempt         int
	// Nodes and Feasible count the nodes there were and those that fit.
	Nodes, Feasible int
	// Node is where the pod was put; empty: nowhere, and Message says why.
	Node    string
	Total   int64
	Scores  []PriorityScore
	Message string
	// Outcomes are what plugins at points of the cycle beside predicates and
	// priorities said about it, other than to let it pass.
	Outcomes []framework.Outcome
	// Versions are the builds of the bundles that were asked; shared, not to be
	// changed.
	Versions []contractv1.BundleVersion

	Snapshot *resultcache.DecisionSnapshot // what it was made on; nil: on nothing
}

// PriorityScore is one priority's part in a decision.
type PriorityScore struct {
	Name          string
	Score, Weight int64
}

// Record keeps the last decisions, one a pod, oldest out first. Safe for
// concurrent use.
type Record struct {
	mu    sync.Mutex
	limit int
	ByPod map[types.NamespacedName]*Decision
	ring  []types.NamespacedName
	next  int
}

func NewRecord(limit int) *Record {
	return &Record{limit: limit, ByPod: map[types.NamespacedName]*Decision{}}
}

func (r *Record) Keep(d *Decision) {
	if r.limit == 0 {
		return
	}
	key := types.NamespacedName{Namespace: d.Namespace, Name: d.Name}
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := len(r.ByPod)
	if r.ByPod[key] = d; len(r.ByPod) == kept {
		return // in the place of one that is in the ring
	}
	if len(r.ring) < r.limit {
		r.ring = append(r.ring, key)
		return
	}
	delete(r.ByPod, r.ring[r.next])
	r.ring[r.next] = key
	r.next = (r.next + 1) % r.limit
}

// Pods are those with a decision that is kept, in the order of their first, as far as no
// decision had to make room for another.
func (r *Record) Pods() []types.NamespacedName {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.ring)
}

func (r *Record) Last(namespace, name string) (Decision, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d, ok := r.ByPod[types.NamespacedName{Namespace: namespace, Name: name}]
	if !ok {
		return Decision{}, false
	}
	return *d, true
}

// WinnerScores are the scores of the node that a decision was for.
func WinnerScores(e *resultcache.DecisionSnapshot) []PriorityScore {
	if e == nil || len(e.Top) == 0 {
		return nil
	}
	scores := make([]PriorityScore, len(e.Priorities))
	for i := range scores {
		scores[i] = PriorityScore{Name: e.Priorities[i].Name, Score: e.Scores[0][i].Score, Weight: e.Priorities[i].Weight}
	}
	return scores
}

// Explanation tells a decision that was kept.
func (d *Decision) Explanation(o Options, note string) *Explanation {
	x := &Explanation{
		Namespace: d.Namespace, Pod: d.Name, State: "bound", Source: SourceDecision, Note: note, Time: d.Time, Attempt: d.Attempt,
		Nodes: d.Nodes, Feasible: d.Feasible, Node: d.Node, Message: d.Message, Outcomes: d.Outcomes,
	}
	if d.Snapshot != nil {
		Tell(d.Snapshot, x, o.Limit())
	}
	return x
}
