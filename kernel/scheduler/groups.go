package scheduler

import (
	"pintle.dev/pintle/kernel/scheduler/framework"
)

// podGroup is the pods of the pool that are alike: what helps one of them helps
// all, so that plugins are asked once.
type podGroup struct {
	groupKey
	failed *framework.Failure
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
	key := groupKey{scheduler: p.Object.Spec.SchedulerName, shape: p.shape, names: p.failed.Names}
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
