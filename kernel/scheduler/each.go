package scheduler

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// Each explains pods on a picture of a cluster, each as if it alone had come: what
// every predicate says of every node, and every priority of the nodes that fit.
// No pod is placed, so none is in another's way. Arguments and errors are those of
// Simulate. generation is where the generations of deltas begin, so that one
// source of policies can be asked about one picture after the other: far beyond
// those of the picture before.
func Each(ctx context.Context, cluster *Cluster, pods []*v1.Pod, profiles map[string]PolicySource, feed func(ReplicaSource), generation uint64, o ExplainOptions) ([]*Explanation, error) {
	if len(pods) > SimulationMax {
		return nil, fmt.Errorf("explain: %d pods; at most %d", len(pods), SimulationMax)
	}
	none := &cache.ListWatch{}
	s, err := New(Config{BindWorkers: 1, Explain: 1, FirstGeneration: generation}, Deps{
		Pods: none, Nodes: none, Profiles: profiles,
		Bind: func(context.Context, *v1.Binding) error { return nil },
	})
	if err != nil {
		return nil, err
	}
	s.unsynced = 0
	if feed != nil {
		feed(s)
	}
	if err := s.load(cluster); err != nil {
		return nil, err
	}
	if err := s.awaitPolicies(ctx); err != nil {
		return nil, err
	}
	now := s.clock.Now()
	out := make([]*Explanation, len(pods))
	for i, p := range pods {
		p = p.DeepCopy()
		if p.UID == "" || s.pods[p.UID] != nil {
			p.UID = types.UID(fmt.Sprintf("explained-%d", i))
		}
		p.Spec.NodeName, p.DeletionTimestamp = "", nil
		complete(p)
		sh, err := newShape(p)
		if err != nil {
			return nil, err
		}
		s.setPod(p, sh, now.Add(time.Duration(i)))
		entry := s.pods[p.UID]
		if entry == nil {
			return nil, fmt.Errorf("explain pod %s/%s: %w", p.Namespace, p.Name, ErrUnknownPod)
		}
		if out[i], err = s.evaluate(ctx, entry, o); err != nil {
			return nil, fmt.Errorf("explain pod %s/%s: %w", p.Namespace, p.Name, err)
		}
	}
	return out, nil
}
