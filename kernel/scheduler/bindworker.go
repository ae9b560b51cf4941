package scheduler

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"

	"pintle.dev/pintle/kernel/scheduler/explain"
	"pintle.dev/pintle/kernel/scheduler/framework"
)

type bindRequest struct {
	entry           *podEntry // for the cycle alone
	uid             types.UID
	namespace, name string
	profile         string  // its schedulerName
	pod             *v1.Pod // as Deps.Pods gave it
	node            string
	annotations     map[string]string // that the binding sets on the pod
}

func (r *bindRequest) binding() v1.Binding {
	return v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: r.name, UID: r.uid, Annotations: r.annotations},
		Target:     v1.ObjectReference{Kind: "Node", Name: r.node},
	}
}

func (s *Scheduler) request(p *podEntry, node string) bindRequest {
	return bindRequest{entry: p, uid: p.UID, namespace: p.Namespace, name: p.Name, profile: p.Object.Spec.SchedulerName, pod: p.Object, node: node}
}

type bindResult struct {
	entry *podEntry // nil: it is found by the UID
	uid   types.UID
	node  string
	err   error
	stop  *framework.Status // a plugin kept the pod from being bound
}

// send hands a binding to the workers. While all of them are busy it takes in what
// they have done, so that none waits for the cycle.
func (s *Scheduler) send(ctx context.Context, r bindRequest) bool {
	for {
		select {
		case s.binds <- r:
			return true
		case result := <-s.results:
			s.bound(result)
		case <-ctx.Done():
			return false
		}
	}
}

func (s *Scheduler) bindWorker(ctx context.Context) {
	var requests []bindRequest
	var results []bindResult
	for {
		select {
		case <-ctx.Done():
			return
		case r := <-s.binds:
			requests = append(requests[:0], r)
		}
		results = results[:0]
		if s.together() {
			requests = s.behind(requests)
			results = s.writeAll(ctx, requests, results)
		} else {
			r := &requests[0]
			results = append(results, bindResult{entry: r.entry, uid: r.uid, node: r.node, err: s.write(ctx, *r)})
		}
		for _, result := range results {
			select {
			case s.results <- result:
			case <-ctx.Done():
				return
			}
		}
		clear(requests)
		clear(results)
	}
}

// behind adds to a binding those that wait behind it.
func (s *Scheduler) behind(requests []bindRequest) []bindRequest {
	for len(requests) < writtenTogether {
		select {
		case r := <-s.binds:
			requests = append(requests, r)
		default:
			return requests
		}
	}
	return requests
}

// writeAll writes bindings together, and adds how they ended to results.
func (s *Scheduler) writeAll(ctx context.Context, requests []bindRequest, results []bindResult) []bindResult {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	bindings, pods := make([]*v1.Binding, len(requests)), make([]*v1.Pod, len(requests))
	all := make([]v1.Binding, len(requests)) // one allocation for all
	for i := range requests {
		all[i] = requests[i].binding()
		bindings[i], pods[i] = &all[i], requests[i].pod
	}
	began := s.deps.Metrics.binds(len(requests))
	for i, err := range s.deps.BindAll(ctx, bindings, pods) {
		results = append(results, bindResult{entry: requests[i].entry, uid: requests[i].uid, node: requests[i].node, err: err})
	}
	s.deps.Metrics.wrote(began, requests, results)
	return results
}

// together reports whether bindings are written together: few workers then
// gather what came while the writes before were under way.
func (s *Scheduler) together() bool { return s.deps.BindAll != nil && len(s.deps.Extenders) == 0 }

// gatherers is the number of workers that write bindings together.
const gatherers = 3

// writtenTogether is how many bindings are written together at most: as many as are
// decided about while the ones before are written, as each group of writes is synced.
const writtenTogether = 256

// writeTimeout ends a write that the API does not answer, so that its worker and
// the assumed pod are not held for ever. A binding that was taken after all is
// seen by the watch, and a second one is refused.
const writeTimeout = 30 * time.Second

func (s *Scheduler) write(ctx context.Context, r bindRequest) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	began := s.deps.Metrics.binds(1)
	binding := r.binding()
	bound, err := s.extendersBind(ctx, r.pod, &binding)
	if !bound {
		err = s.deps.Bind(ctx, &binding)
	}
	s.deps.Metrics.wrote(began, []bindRequest{r}, []bindResult{{err: err}})
	return err
}

// bound takes in how a binding ended. The pod may be gone, or seen bound
// already, by then.
func (s *Scheduler) bound(r bindResult) {
	p := r.entry
	if p == nil || p.gone {
		p = s.pods[r.uid]
	}
	now := s.clock.Now()
	if r.err == nil && r.stop == nil {
		if p != nil {
			if p.assumed {
				p.boundAt = now
			}
			s.attempted(p, resultScheduled)
			s.counts.scheduled(p, now)
			s.report.success(p.Object, r.node)
		}
		return
	}
	if p == nil || !p.assumed || p.Node != r.node {
		if p != nil && p.forgone == r.node {
			s.forwent(p)
		}
		if p != nil {
			s.leaves(p) // it did not; whoever takes its place is to look again
		}
		return
	}
	s.unassume(p)
	s.leaves(p)
	if p.Object.DeletionTimestamp != nil {
		s.withdraw(p)
		return
	}
	if r.stop != nil {
		d := &explain.Decision{Namespace: p.Namespace, Name: p.Name, UID: p.UID, Time: now, Attempt: p.attempts, Nodes: s.snapshot.Count}
		s.refusedAt(p, r.stop, d)
		s.record.Keep(d)
		return
	}
	s.attempted(p, resultError)
	s.withdraw(p)
	s.queue.retry(p, now)
	if apierrors.IsNotFound(r.err) || apierrors.IsConflict(r.err) {
		// The watch will tell what became of the pod.
		s.log.Debug("binding rejected", "pod", p.Namespace+"/"+p.Name, "node", r.node, "err", r.err)
		return
	}
	s.log.Warn("binding failed", "pod", p.Namespace+"/"+p.Name, "node", r.node, "err", r.err)
	s.tell(p, v1.PodReasonSchedulerError, &explain.Decision{Message: fmt.Sprintf("running %s plugin %q: %v", framework.PointTitle(contractv1.Point_BIND), framework.DefaultBinder, r.err), Time: now})
}
