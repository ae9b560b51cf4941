package scheduler

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"pintle.dev/pintle/kernel/scheduler/convert"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// event is one change as the cycle takes it in: exactly one of its parts is
// set. Objects are converted by the reflectors' goroutines, not by the cycle.
type event struct {
	pod     *v1.Pod // set: added or changed
	shape   *shape
	podGone types.UID
	node    *contractv1.Node
	// conditions: of the node changed.
	conditions bool
	nodeGone   string
	object     *contractv1.Object
	objectKey  *contractv1.ObjectKey // gone
	synced     bool                  // a source delivered its first list
}

// inlet is the store that a reflector fills: it keeps just enough to tell what
// a new list no longer has, and passes changes on. K names an object, V is what
// is kept. Only the reflector's goroutine calls it.
type inlet[K comparable, V any] struct {
	ctx  context.Context // ends a wait for room in the inbox
	out  chan<- event
	seen map[K]V

	key func(object any) (K, error)
	// set takes an object in; keep false: the object counts as gone.
	set  func(object any, old V, known bool) (v V, keep bool, e event, changed bool, err error)
	gone func(K, V) event

	synced bool
}

var _ cache.ReflectorStore = (*inlet[string, int])(nil)

func (i *inlet[K, V]) send(e event) error {
	select {
	case i.out <- e:
		return nil
	case <-i.ctx.Done():
		return i.ctx.Err()
	}
}

func (i *inlet[K, V]) Add(object any) error { return i.Update(object) }

func (i *inlet[K, V]) Update(object any) error {
	key, err := i.key(object)
	if err != nil {
		return err
	}
	old, known := i.seen[key]
	v, keep, e, changed, err := i.set(object, old, known)
	if err != nil {
		return err
	}
	if !keep {
		return i.remove(key)
	}
	i.seen[key] = v
	if !changed {
		return nil
	}
	return i.send(e)
}

func (i *inlet[K, V]) Delete(object any) error {
	key, err := i.key(object)
	if err != nil {
		return err
	}
	return i.remove(key)
}

func (i *inlet[K, V]) remove(key K) error {
	v, known := i.seen[key]
	if !known {
		return nil
	}
	delete(i.seen, key)
	return i.send(i.gone(key, v))
}

func (i *inlet[K, V]) Replace(list []any, _ string) error {
	missing := maps.Clone(i.seen)
	for _, object := range list {
		key, err := i.key(object)
		if err != nil {
			return err
		}
		delete(missing, key)
	}
	for key := range missing {
		if err := i.remove(key); err != nil {
			return err
		}
	}
	for _, object := range list {
		if err := i.Update(object); err != nil {
			return err
		}
	}
	if !i.synced {
		i.synced = true
		return i.send(event{synced: true})
	}
	return nil
}

func (i *inlet[K, V]) Resync() error { return nil }

// podSeen is what is kept of a pod: enough to know when its shape is the same
// without converting it again.
type podSeen struct {
	pod   *v1.Pod
	shape *shape
}

// shapesKept bounds the shapes of which an inlet remembers one.
const shapesKept = 1024

// sameShapes gives equal shapes as one, as long as it remembers: a message a pod
// would be the most that is kept of it.
type sameShapes map[[sha256.Size]byte]*shape

func (s sameShapes) of(sh *shape) *shape {
	if known := s[sh.Key]; known != nil {
		return known
	}
	if len(s) >= shapesKept {
		clear(s)
	}
	s[sh.Key] = sh
	return sh
}

// newPodInlet keeps pods on nodes whole for extenders alone, who are shown victims.
func newPodInlet(ctx context.Context, out chan<- event, whole bool) *inlet[types.UID, podSeen] {
	shapes := sameShapes{}
	return &inlet[types.UID, podSeen]{
		ctx: ctx, out: out, seen: map[types.UID]podSeen{},
		key: func(object any) (types.UID, error) {
			pod, ok := object.(*v1.Pod)
			if !ok {
				return "", fmt.Errorf("source of pods gave %T", object)
			}
			return pod.UID, nil
		},
		set: func(object any, old podSeen, known bool) (podSeen, bool, event, bool, error) {
			pod := object.(*v1.Pod)
			if pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed {
				return podSeen{}, false, event{}, false, nil
			}
			now := podSeen{pod: pod}
			if known && sameShape(old.pod, pod) {
				now.shape = old.shape
			} else {
				sh, err := newShape(pod)
				if err != nil {
					return podSeen{}, false, event{}, false, err
				}
				now.shape = shapes.of(sh)
			}
			if !whole {
				now.pod = onNode(pod)
			}
			return now, true, event{pod: now.pod, shape: now.shape}, true, nil
		},
		gone: func(uid types.UID, _ podSeen) event { return event{podGone: uid} },
	}
}

// onNode is what is kept of a pod on a node beside its shape: what the scheduler reads of it
// later. Containers, volumes, what became of them and managed fields are most of a pod, and
// stay with the API, whose other readers have the same object. One that waits is kept whole:
// its binding is made of it.
func onNode(pod *v1.Pod) *v1.Pod {
	if pod.Spec.NodeName == "" {
		return pod
	}
	spec, status := &pod.Spec, &pod.Status
	kept := &v1.Pod{
		TypeMeta: pod.TypeMeta, ObjectMeta: pod.ObjectMeta,
		Spec: v1.PodSpec{
			NodeName: spec.NodeName, SchedulerName: spec.SchedulerName, SchedulingGates: spec.SchedulingGates, Tolerations: spec.Tolerations,
			Priority: spec.Priority, PriorityClassName: spec.PriorityClassName, PreemptionPolicy: spec.PreemptionPolicy,
		},
		Status: v1.PodStatus{
			Phase: status.Phase, StartTime: status.StartTime, NominatedNodeName: status.NominatedNodeName, ResourceClaimStatuses: status.ResourceClaimStatuses,
		},
	}
	kept.ManagedFields = nil
	for i := range status.Conditions {
		switch c := &status.Conditions[i]; c.Type {
		case v1.DisruptionTarget, v1.PodResizePending, v1.PodResizeInProgress:
			kept.Status.Conditions = append(kept.Status.Conditions, *c)
		}
	}
	return kept
}

// sameShape reports whether two states of a pod surely have one shape. The spec
// is compared by generation, so one that is not counted is converted again.
// Statuses count only while a resize is going on.
func sameShape(a, b *v1.Pod) bool {
	return a.Generation != 0 && a.Generation == b.Generation &&
		(a.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil) &&
		len(a.OwnerReferences) == 0 == (len(b.OwnerReferences) == 0) &&
		maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations) &&
		!resizing(a) && !resizing(b)
}

func resizing(pod *v1.Pod) bool {
	for i := range pod.Status.Conditions {
		switch pod.Status.Conditions[i].Type {
		case v1.PodResizePending, v1.PodResizeInProgress:
			return true
		}
	}
	return false
}

// nodeSeen is what is kept of a node: what plugins see, and the states of its
// conditions, without their times.
type nodeSeen struct {
	node       *contractv1.Node
	conditions map[v1.NodeConditionType]v1.ConditionStatus
}

func newNodeInlet(ctx context.Context, out chan<- event, whole *wholeNodes) *inlet[string, nodeSeen] {
	return &inlet[string, nodeSeen]{
		ctx: ctx, out: out, seen: map[string]nodeSeen{},
		key: func(object any) (string, error) {
			node, ok := object.(*v1.Node)
			if !ok {
				return "", fmt.Errorf("source of nodes gave %T", object)
			}
			return node.Name, nil
		},
		set: func(object any, old nodeSeen, known bool) (nodeSeen, bool, event, bool, error) {
			node := object.(*v1.Node)
			whole.set(node)
			now := nodeSeen{convert.Node(node), make(map[v1.NodeConditionType]v1.ConditionStatus, len(node.Status.Conditions))}
			for i := range node.Status.Conditions {
				now.conditions[node.Status.Conditions[i].Type] = node.Status.Conditions[i].Status
			}
			e := event{node: now.node, conditions: known && !maps.Equal(old.conditions, now.conditions)}
			if known && proto.Equal(old.node, now.node) {
				now.node, e.node = old.node, old.node
				return now, true, e, e.conditions, nil
			}
			return now, true, e, true, nil
		},
		gone: func(name string, _ nodeSeen) event {
			whole.remove(name)
			return event{nodeGone: name}
		},
	}
}

func newObjectInlet(ctx context.Context, out chan<- event) *inlet[types.NamespacedName, *contractv1.Object] {
	type named interface {
		GetNamespace() string
		GetName() string
	}
	return &inlet[types.NamespacedName, *contractv1.Object]{
		ctx: ctx, out: out, seen: map[types.NamespacedName]*contractv1.Object{},
		key: func(object any) (types.NamespacedName, error) {
			o, ok := object.(named)
			if !ok {
				return types.NamespacedName{}, fmt.Errorf("source of objects gave %T", object)
			}
			return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}, nil
		},
		set: func(object any, old *contractv1.Object, known bool) (*contractv1.Object, bool, event, bool, error) {
			o, err := convert.Object(object)
			if err != nil {
				return nil, false, event{}, false, err
			}
			if known && proto.Equal(old, o) {
				return old, true, event{}, false, nil
			}
			return o, true, event{object: o}, true, nil
		},
		gone: func(_ types.NamespacedName, o *contractv1.Object) event { return event{objectKey: o.Key} },
	}
}
