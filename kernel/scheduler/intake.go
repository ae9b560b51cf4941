package scheduler

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"

	"pintle.dev/pintle/kernel/scheduler/snapshot"
)

// take brings one event into the snapshot and the queue.
func (s *Scheduler) take(e event) {
	now := s.clock.Now()
	var known *podEntry
	switch {
	case e.pod != nil:
		known = s.pods[e.pod.UID]
	case e.podGone != "":
		known = s.pods[e.podGone]
	}
	if s.counted = s.deps.Metrics == nil; !s.counted && !e.synced {
		defer s.deps.Metrics.handled(s.titleOf(&e, known), time.Now())
	}
	switch {
	case e.pod != nil:
		s.setKnownPod(known, e.pod, e.shape, now)
	case e.podGone != "":
		s.removePod(e.podGone)
	case e.node != nil:
		s.setNode(e)
	case e.nodeGone != "":
		var before *contractv1.Node
		if known := s.snapshot.ByName[e.nodeGone]; known != nil {
			before = known.Object
		}
		if s.snapshot.RemoveNode(e.nodeGone) {
			s.happened(contractv1.KindNode, contractv1.Action_DELETE, before, nil)
		}
	case e.object != nil:
		before := s.snapshot.Object(e.object.Key)
		if !s.presumes(e.object) && s.snapshot.SetObject(e.object) {
			if before == nil {
				s.happened(e.object.Key.Kind, contractv1.Action_ADD, nil, e.object)
			} else {
				s.happened(e.object.Key.Kind, contractv1.Action_UPDATE, before, e.object)
			}
		}
	case e.objectKey != nil:
		before := s.snapshot.Object(e.objectKey)
		delete(s.presumed, refOf(e.objectKey))
		if s.snapshot.RemoveObject(e.objectKey) {
			s.happened(e.objectKey.Kind, contractv1.Action_DELETE, before, nil)
		}
	case e.synced:
		s.unsynced--
		s.eager = true
	}
}

// titleOf is what happened as metrics name it, before it is taken in. Pod is the one
// that it is about, if it is known.
func (s *Scheduler) titleOf(e *event, pod *podEntry) string {
	verb := func(known bool) string {
		if known {
			return "Update"
		}
		return "Add"
	}
	switch {
	case e.pod != nil:
		switch bound := e.pod.Spec.NodeName != ""; {
		case bound && pod != nil:
			return "AssignedPodUpdate"
		case bound:
			return "AssignedPodAdd"
		case pod != nil:
			return "UnschedulablePodUpdate"
		}
		return "UnschedulablePodAdd"
	case e.podGone != "":
		if pod != nil && pod.Node != "" && !pod.assumed {
			return "AssignedPodDelete"
		}
		return "UnschedulablePodDelete"
	case e.node != nil:
		known := s.snapshot.ByName[e.node.Name]
		return contractv1.KindNode + verb(known != nil && known.Object != nil)
	case e.nodeGone != "":
		return contractv1.KindNode + "Delete"
	case e.object != nil:
		return e.object.Key.Kind + verb(s.snapshot.Object(e.object.Key) != nil)
	case e.objectKey != nil:
		return e.objectKey.Kind + "Delete"
	}
	return "Any"
}

func (s *Scheduler) setNode(e event) {
	var before *contractv1.Node
	if known := s.snapshot.ByName[e.node.Name]; known != nil {
		before = known.Object
	}
	switch added, changed := s.snapshot.SetNode(e.node); {
	case added:
		s.happened(contractv1.KindNode, contractv1.Action_ADD, nil, e.node)
	case changed:
		s.nodeChanged(before, e.node)
	}
	if e.conditions && before != nil {
		s.happened(contractv1.KindNode, contractv1.Action_UPDATE_NODE_CONDITION, before, e.node)
	}
}

func (s *Scheduler) setPod(pod *v1.Pod, sh *shape, now time.Time) {
	s.setKnownPod(s.pods[pod.UID], pod, sh, now)
}

// setKnownPod is setPod with what is known of the pod, or nil.
func (s *Scheduler) setKnownPod(p *podEntry, pod *v1.Pod, sh *shape, now time.Time) {
	fresh := p == nil
	if fresh {
		p = &podEntry{Pod: snapshot.Pod{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name}}
		s.pods[pod.UID] = p
	}
	if pod.DeletionTimestamp != nil {
		defer s.leaves(p)
	}
	var changed contractv1.Action
	before, was := p.shape, p.Object
	p.Object = pod
	grouped := p.group != nil
	s.queue.ungroup(p) // it goes by the shape
	reshaped := s.setShape(p, sh)
	if grouped {
		s.queue.enroll(p)
	}
	if !fresh {
		changed = podActions(was, pod, before, p.shape)
	}
	if node := pod.Spec.NodeName; node != "" {
		s.occupies(p, node, fresh, reshaped, before, changed)
		if !fresh && !was.Status.StartTime.Equal(pod.Status.StartTime) {
			s.startedOn(node)
		}
		return
	}

	if p.assumed {
		if reshaped || changed != 0 {
			p.changed |= uint32(changed) | ownChange
		}
		if pod.DeletionTimestamp == nil {
			return // its binding is under way
		}
		if s.waiting[p.UID] == nil {
			s.forgo(p)
			return
		}
		s.unassume(p)
		s.withdraw(p)
	}
	if p.Node != "" { // a node name does not go away; believe the object
		s.snapshot.RemovePod(&p.Pod)
		s.happened(contractv1.KindPod, contractv1.Action_DELETE, before, nil)
	}
	switch {
	case !s.decides(pod.Spec.SchedulerName):
		s.queue.remove(p)
		return
	case pod.DeletionTimestamp != nil:
		s.setLeaving(p, fresh, reshaped, now)
		return
	}
	s.nominee(p, was)
	if fresh {
		s.happened(contractv1.KindUnscheduledPod, contractv1.Action_ADD, nil, p.shape)
	}
	s.setPending(p, reshaped, changed, now)
}

// ownChange marks that a pod changed, whatever of it.
const ownChange = 1 << 31

// setPending brings a pod that waits up to date in its queue.
func (s *Scheduler) setPending(p *podEntry, reshaped bool, changed contractv1.Action, now time.Time) {
	if reshaped {
		p.keyed = false
	}
	switch p.place {
	case nowhere:
		event := eventPodAdd
		if !p.since.IsZero() {
			event = eventPodUpdate
		}
		s.queue.add(p, entry{event: event}, now)
	case active, backingOff:
		if reshaped {
			s.queue.reorder(p, now)
		}
	case unschedulable, gated:
		if (reshaped || changed != 0) && p.wantsOwn(changed) {
			s.queue.add(p, entry{event: eventPodUpdate}, now)
		}
	}
}

// setLeaving has a pod that is being deleted wait for nothing any more. In its turn
// it is passed over, which its users are told then, as by kube-scheduler.
func (s *Scheduler) setLeaving(p *podEntry, fresh, reshaped bool, now time.Time) {
	switch p.place {
	case nowhere:
		if fresh {
			s.queue.add(p, entry{event: eventPodAdd}, now)
		}
	case active, backingOff:
		if reshaped {
			s.queue.reorder(p, now)
		}
	case unschedulable, gated:
		s.queue.remove(p)
	}
}

// wantsOwn reports whether a change of the pod itself may help it. The plugins
// are not asked: it is one pod, and an attempt is as soon made.
func (p *podEntry) wantsOwn(changed contractv1.Action) bool {
	for _, action := range actions(changed) {
		if p.failed.Wants(contractv1.KindPod, action) {
			return true
		}
	}
	return false
}

// occupies takes in a pod that is on a node.
func (s *Scheduler) occupies(p *podEntry, node string, fresh, reshaped bool, before *shape, changed contractv1.Action) {
	s.queue.remove(p)
	s.nominated(p, "")
	came := p.assumed || p.Node == ""
	p.assumed, p.expected, p.preBinding, p.forgone = false, nil, nil, ""
	s.assumed.remove(p)
	delete(s.waiting, p.UID)
	switch {
	case p.Node != node:
		if p.Node != "" {
			s.takeBack(p, p.Node) // somebody else bound it elsewhere
			s.snapshot.RemovePod(&p.Pod)
			s.happened(contractv1.KindPod, contractv1.Action_DELETE, before, nil)
			came = true
		}
		s.snapshot.AddPod(&p.Pod, node)
	case reshaped:
		s.snapshot.RemovePod(&p.Pod)
		s.snapshot.AddPod(&p.Pod, node)
	}
	p.reserved = false // for good
	switch {
	case came || fresh:
		s.happened(contractv1.KindPod, contractv1.Action_ADD, nil, p.shape)
	case reshaped || changed != 0:
		for _, action := range actions(changed) {
			s.happened(contractv1.KindPod, action, before, p.shape)
		}
	}
}

func (s *Scheduler) removePod(uid types.UID) {
	p := s.pods[uid]
	if p == nil {
		return
	}
	delete(s.pods, uid)
	p.gone = true
	s.assumed.remove(p)
	s.queue.remove(p)
	s.nominated(p, "")
	if p.Node != "" {
		s.takeBack(p, p.Node)
		s.snapshot.RemovePod(&p.Pod)
		s.happened(contractv1.KindPod, contractv1.Action_DELETE, p.shape, nil)
	} else if p.forgone != "" {
		s.takeBack(p, p.forgone)
	}
	s.leaves(p)
	s.dropShape(p.shape)
	p.shape, p.Shape = nil, nil
}

// setShape gives a pod its shape, shared with all pods of the same; it reports
// whether a pod that had one has another now.
func (s *Scheduler) setShape(p *podEntry, sh *shape) bool {
	if p.shape != nil && p.shape.Key == sh.Key {
		return false
	}
	old := p.shape
	if shared := s.shapes[sh.Key]; shared != nil {
		sh = shared
	} else {
		// The inlet keeps its own; the shared one carries the cycle's fields.
		own := *sh
		sh = &own
		s.shapes[sh.Key] = sh
	}
	sh.refs++
	p.shape, p.Shape = sh, &sh.Shape
	if old == nil {
		return false
	}
	s.dropShape(old)
	return true
}

func (s *Scheduler) dropShape(sh *shape) {
	sh.refs--
	if sh.refs == 0 && sh.class == nil {
		delete(s.shapes, sh.Key)
	}
}
