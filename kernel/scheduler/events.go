package scheduler

import (
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// Where pods wait and how they come there, as metrics name it.
const (
	queueActive        = "active"
	queueBackoff       = "backoff"
	queueUnschedulable = "unschedulable"
	queueGated         = "gated"

	eventPodAdd          = "UnschedulablePodAdd"
	eventPodUpdate       = "UnschedulablePodUpdate"
	eventAttemptFailed   = "ScheduleAttemptFailure"
	eventBackoffComplete = "BackoffComplete"
	eventPopped          = "PopFromBackoffQ"
	eventForced          = "ForceActivate"
	eventTimeout         = "UnschedulableTimeout"
	eventExpired         = "AnswerExpired"
	eventMany            = "Any" // more happened than was kept
)

// clusterEvent is a change that may help pods of the pool. Equal ones are one.
type clusterEvent struct {
	eventKey
	seq uint64 // of the last such
}

// eventKey is what events are told apart by. Before and after are pointers to a
// contractv1.Node, a shape or a contractv1.Object, or nil.
type eventKey struct {
	kind          string
	action        contractv1.Action
	before, after any
	own           uint64 // keeps it apart from all others
	// ceiling: it helps pods up to a priority only.
	capped  bool
	ceiling int32
}

// eventsMax bounds the events that are kept; if there are more, all pods that
// they could have helped are tried again.
const eventsMax = 1024

// happened notes a change for the pods of the pool, and for those that wait on
// their nodes, should they lose them.
func (s *Scheduler) happened(kind string, action contractv1.Action, before, after any) {
	s.note(eventKey{kind: kind, action: action, before: before, after: after})
}

// vacated notes that a pod left its node by the scheduler's own doing, and returns
// the event's number, for the pod itself is not helped by that.
func (s *Scheduler) vacated(sh *shape) uint64 {
	s.note(eventKey{kind: contractv1.KindPod, action: contractv1.Action_DELETE, before: sh, own: s.eventSeq + 1})
	return s.eventSeq
}

func (s *Scheduler) note(key eventKey) {
	s.eventSeq++
	if len(s.queue.groups) == 0 && len(s.waiting) == 0 && !s.deciding {
		return
	}
	if at, known := s.eventAt[key]; known {
		s.events[at].seq = s.eventSeq
		return
	}
	if len(s.events) >= eventsMax {
		s.lost = s.eventSeq
		s.forgetEvents()
	}
	if s.eventAt == nil {
		s.eventAt = map[eventKey]int{}
	}
	s.eventAt[key] = len(s.events)
	s.events = append(s.events, clusterEvent{key, s.eventSeq})
}

func (s *Scheduler) forgetEvents() {
	clear(s.events)
	s.events = s.events[:0]
	clear(s.eventAt)
}

// label is the event's name in metrics.
func (k *eventKey) label() string {
	kind := k.kind
	switch kind {
	case contractv1.KindPod:
		kind = "AssignedPod"
	case contractv1.KindUnscheduledPod:
		kind = "UnschedulablePod"
	}
	return kind + actionName(k.action)
}

// actionName is as the scheduling framework names an action: NodeAdd is the event
// Add of a Node.
func actionName(a contractv1.Action) string {
	var name strings.Builder
	for word := range strings.SplitSeq(a.String(), "_") {
		name.WriteString(word[:1] + strings.ToLower(word[1:]))
	}
	return name.String()
}

// message is the event as plugins see it.
func (k *eventKey) message() *contractv1.Event {
	e := &contractv1.Event{Kind: k.kind, Action: uint32(k.action)}
	switch o := k.before.(type) {
	case *contractv1.Node:
		e.OldNode = o
	case *shape:
		e.OldPod = o.Message
	case *contractv1.Object:
		e.OldObject = o
	}
	switch o := k.after.(type) {
	case *contractv1.Node:
		e.NewNode = o
	case *shape:
		e.NewPod = o.Message
	case *contractv1.Object:
		e.NewObject = o
	}
	return e
}

// nodeChanged notes what changed of a node, one event a property; a change that
// none of them names, such as of its capacity, is an update without a name.
func (s *Scheduler) nodeChanged(before, after *contractv1.Node) {
	named := false
	for action, changed := range map[contractv1.Action]bool{
		contractv1.Action_UPDATE_NODE_ALLOCATABLE: !proto.Equal(before.GetAllocatable(), after.GetAllocatable()),
		contractv1.Action_UPDATE_NODE_LABEL:       !maps.Equal(before.GetLabels(), after.GetLabels()),
		contractv1.Action_UPDATE_NODE_ANNOTATION:  !maps.Equal(before.GetAnnotations(), after.GetAnnotations()),
		contractv1.Action_UPDATE_NODE_TAINT: before.GetUnschedulable() && !after.GetUnschedulable() ||
			!slices.EqualFunc(before.GetTaints(), after.GetTaints(), func(a, b *contractv1.Taint) bool { return proto.Equal(a, b) }),
	} {
		if changed {
			named = true
			s.happened(contractv1.KindNode, action, before, after)
		}
	}
	if !named {
		s.happened(contractv1.KindNode, contractv1.Action_UPDATE, before, after)
	}
}

// podActions are what changed of a pod, as a sum.
func podActions(before, after *v1.Pod, old, now *shape) (sum contractv1.Action) {
	if old != now { // which say the same of all of this
		sum = shapeActions(before, after, old, now)
	}
	if !slices.EqualFunc(before.Status.ResourceClaimStatuses, after.Status.ResourceClaimStatuses, func(a, b v1.PodResourceClaimStatus) bool {
		return a.Name == b.Name && (a.ResourceClaimName == nil) == (b.ResourceClaimName == nil) &&
			(a.ResourceClaimName == nil || *a.ResourceClaimName == *b.ResourceClaimName)
	}) {
		sum |= contractv1.Action_UPDATE_POD_GENERATED_RESOURCE_CLAIM
	}
	return sum
}

// shapeActions are what changed of a pod that its shape says.
func shapeActions(before, after *v1.Pod, old, now *shape) (sum contractv1.Action) {
	if !maps.Equal(before.Labels, after.Labels) {
		sum |= contractv1.Action_UPDATE_POD_LABEL
	}
	if shrunk(old.Message.GetRequests(), now.Message.GetRequests()) {
		sum |= contractv1.Action_UPDATE_POD_SCALE_DOWN
	}
	if len(before.Spec.SchedulingGates) > 0 && len(after.Spec.SchedulingGates) == 0 {
		sum |= contractv1.Action_UPDATE_POD_SCHEDULING_GATES_ELIMINATED
	}
	if len(before.Spec.Tolerations) != len(after.Spec.Tolerations) {
		sum |= contractv1.Action_UPDATE_POD_TOLERATION
	}
	return sum
}

// actions are the actions of a sum; an update that has no name of its own if
// there are none.
func actions(sum contractv1.Action) []contractv1.Action {
	if sum == 0 {
		return []contractv1.Action{contractv1.Action_UPDATE}
	}
	var list []contractv1.Action
	for a := contractv1.Action_UPDATE_POD_LABEL; a <= contractv1.Action_UPDATE_POD_GENERATED_RESOURCE_CLAIM; a <<= 1 {
		if sum&a != 0 {
			list = append(list, a)
		}
	}
	return list
}

// shrunk reports whether any request is smaller than it was.
func shrunk(before, after *contractv1.Resources) bool {
	if before.GetMilliCpu() > after.GetMilliCpu() || before.GetMemory() > after.GetMemory() || before.GetEphemeralStorage() > after.GetEphemeralStorage() {
		return true
	}
	for name, quantity := range before.GetScalar() {
		if quantity > after.GetScalar()[name] {
			return true
		}
	}
	return false
}
