package scheduler

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// take brings one event into the snapshot and the queue.
func (s *Scheduler) take(e event) {
	now := s.clock.Now()
	s.counted = s.deps.Metrics == nil
	switch {
	case e.pod != nil:
		s.setPod(e.pod, e.shape, now)
	case e.podGone != "":
		s.removePod(e.podGone, now)
	case e.node != nil:
		if _, changed := s.snapshot.setNode(e.node); changed {
			s.queue.release(now, nil)
		}
	case e.nodeGone != "":
		// Fewer nodes help nobody but who spreads over them.
		if s.snapshot.removeNode(e.nodeGone) {
			s.queue.release(now, func(f failure) bool { return f.cluster })
		}
	case e.object != nil:
		if s.snapshot.setObject(e.object) {
			s.releaseReaders(e.object.Key.Kind, now)
		}
	case e.objectKey != nil:
		if s.snapshot.removeObject(e.objectKey) {
			s.releaseReaders(e.objectKey.Kind, now)
		}
	case e.synced:
		s.unsynced--
		s.eager = true
	}
}

func (s *Scheduler) releaseReaders(kind string, now time.Time) {
	s.queue.release(now, func(f failure) bool { return f.kinds[kind] })
}

func (s *Scheduler) setPod(pod *v1.Pod, sh *shape, now time.Time) {
	p := s.pods[pod.UID]
	fresh := p == nil
	if fresh {
		p = &podEntry{uid: pod.UID, namespace: pod.Namespace, name: pod.Name}
		s.pods[pod.UID] = p
	}
	gatesBefore := !fresh && len(p.pod.Spec.SchedulingGates) > 0
	p.pod = pod
	reshaped := s.setShape(p, sh)
	if reshaped && p.node != "" {
		node := p.node
		s.snapshot.removePod(p)
		s.snapshot.addPod(p, node)
		s.queue.release(now, nil) // it may have shrunk
	}

	if node := pod.Spec.NodeName; node != "" {
		s.queue.remove(p)
		p.assumed = false
		delete(s.assumed, p.uid)
		delete(s.waiting, p.uid)
		if p.node != node {
			if p.node != "" {
				s.takeBack(p, p.node) // somebody else bound it elsewhere
				s.snapshot.removePod(p)
				s.queue.release(now, nil)
			}
			s.snapshot.addPod(p, node)
		}
		p.reserved = false // for good
		if fresh || reshaped {
			s.queue.release(now, func(f failure) bool { return f.cluster })
		}
		return
	}

	if p.assumed {
		if s.waiting[p.uid] == nil || pod.DeletionTimestamp == nil {
			return // its binding is under way
		}
		s.unassume(p)
	}
	if p.node != "" { // a node name does not go away; believe the object
		s.snapshot.removePod(p)
		s.queue.release(now, nil)
	}
	if s.profiles[pod.Spec.SchedulerName] == nil || pod.DeletionTimestamp != nil {
		s.queue.remove(p)
		return
	}
	if fresh && s.pointed {
		s.arrived = true
	}
	if reshaped {
		p.keyed = false
	}
	if p.place == nowhere || reshaped || gatesBefore != (len(pod.Spec.SchedulingGates) > 0) {
		s.queue.add(p, now)
	}
}

func (s *Scheduler) removePod(uid types.UID, now time.Time) {
	p := s.pods[uid]
	if p == nil {
		return
	}
	delete(s.pods, uid)
	delete(s.assumed, uid)
	s.queue.remove(p)
	if p.node != "" {
		s.takeBack(p, p.node)
		s.snapshot.removePod(p)
		s.queue.release(now, nil)
	}
	s.dropShape(p.shape)
	p.shape = nil
}

// setShape gives a pod its shape, shared with all pods of the same; it reports
// whether a pod that had one has another now.
func (s *Scheduler) setShape(p *podEntry, sh *shape) bool {
	if p.shape != nil && p.shape.key == sh.key {
		return false
	}
	old := p.shape
	if shared := s.shapes[sh.key]; shared != nil {
		sh = shared
	} else {
		// The inlet keeps its own; the shared one carries the cycle's fields.
		sh = &shape{key: sh.key, pod: sh.pod}
		s.shapes[sh.key] = sh
	}
	sh.refs++
	p.shape = sh
	if old == nil {
		return false
	}
	s.dropShape(old)
	return true
}

func (s *Scheduler) dropShape(sh *shape) {
	sh.refs--
	if sh.refs == 0 && sh.class == nil {
		delete(s.shapes, sh.key)
	}
}
