package scheduler

import (
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

	evidence *resultcache.DecisionSnapshot // what it was made on; nil: on nothing
}

// PriorityScore is one priority's part in a decision.
type PriorityScore struct {
	Name          string
	Score, Weight int64
}

// record keeps the last decisions, one a pod, oldest out first. Safe for
// concurrent use.
type record struct {
	mu    sync.Mutex
	limit int
	byPod map[types.NamespacedName]*Decision
	ring  []types.NamespacedName
	next  int
}

func newRecord(limit int) *record {
	return &record{limit: limit, byPod: map[types.NamespacedName]*Decision{}}
}

func (r *record) keep(d *Decision) {
	if r.limit == 0 {
		return
	}
	key := types.NamespacedName{Namespace: d.Namespace, Name: d.Name}
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := len(r.byPod)
	if r.byPod[key] = d; len(r.byPod) == kept {
		return // in the place of one that is in the ring
	}
	if len(r.ring) < r.limit {
		r.ring = append(r.ring, key)
		return
	}
	delete(r.byPod, r.ring[r.next])
	r.ring[r.next] = key
	r.next = (r.next + 1) % r.limit
}

func (r *record) last(namespace, name string) (Decision, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d, ok := r.byPod[types.NamespacedName{Namespace: namespace, Name: name}]
	if !ok {
		return Decision{}, false
	}
	return *d, true
}

// Explain returns the last decision about a pod, if it is still kept.
func (s *Scheduler) Explain(namespace, name string) (Decision, bool) {
	d, ok := s.record.last(namespace, name)
	if ok && d.Node != "" {
		d.Scores = winnerScores(d.evidence)
	}
	return d, ok
}

// winnerScores are the scores of the node that a decision was for.
func winnerScores(e *resultcache.DecisionSnapshot) []PriorityScore {
	if e == nil || len(e.Top) == 0 {
		return nil
	}
	scores := make([]PriorityScore, len(e.Priorities))
	for i := range scores {
		scores[i] = PriorityScore{Name: e.Priorities[i].Name, Score: e.Scores[0][i].Score, Weight: e.Priorities[i].Weight}
	}
	return scores
}
