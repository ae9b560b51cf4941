package snapshot

import (
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// Replica is the copy of what the plugins were told, from which a new or
// restarted one is fed. It follows the deltas, not the snapshot, so that its
// generation names its content exactly. Safe for concurrent use.
type Replica struct {
	mu         sync.Mutex
	Generation uint64
	nodes      map[uint32]*contractv1.Node
	pods       map[uint32]map[string]*contractv1.Pod
	Classes    map[uint32]*contractv1.Pod
	objects    map[string]map[types.NamespacedName]*contractv1.Object
}

// NewReplica is empty, with a generation after which deltas follow.
func NewReplica(first uint64) *Replica {
	return &Replica{
		Generation: first,
		nodes:      map[uint32]*contractv1.Node{}, pods: map[uint32]map[string]*contractv1.Pod{},
		Classes: map[uint32]*contractv1.Pod{}, objects: map[string]map[types.NamespacedName]*contractv1.Object{},
	}
}

func ObjectName(k *contractv1.ObjectKey) types.NamespacedName {
	return types.NamespacedName{Namespace: k.Namespace, Name: k.Name}
}

// Advance turns operations into the next delta and takes them into the copy.
func (r *Replica) Advance(operations []*contractv1.Operation) *contractv1.Delta {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Generation++
	for _, operation := range operations {
		switch op := operation.Op.(type) {
		case *contractv1.Operation_NodeSet:
			r.nodes[op.NodeSet.Index] = op.NodeSet.Node
		case *contractv1.Operation_NodeRemove:
			delete(r.nodes, op.NodeRemove)
			delete(r.pods, op.NodeRemove)
		case *contractv1.Operation_PodAdd:
			pods := r.pods[op.PodAdd.Node]
			if pods == nil {
				pods = map[string]*contractv1.Pod{}
				r.pods[op.PodAdd.Node] = pods
			}
			pods[op.PodAdd.Pod.Uid] = op.PodAdd.Pod
		case *contractv1.Operation_PodRemove:
			delete(r.pods[op.PodRemove.Node], op.PodRemove.Uid)
		case *contractv1.Operation_ClassSet:
			r.Classes[op.ClassSet.Class] = op.ClassSet.Pod
		case *contractv1.Operation_ClassRemove:
			delete(r.Classes, op.ClassRemove)
		case *contractv1.Operation_ObjectSet:
			kind := r.objects[op.ObjectSet.Key.Kind]
			if kind == nil {
				kind = map[types.NamespacedName]*contractv1.Object{}
				r.objects[op.ObjectSet.Key.Kind] = kind
			}
			kind[ObjectName(op.ObjectSet.Key)] = op.ObjectSet
		case *contractv1.Operation_ObjectRemove:
			delete(r.objects[op.ObjectRemove.Kind], ObjectName(op.ObjectRemove))
		}
	}
	return &contractv1.Delta{Generation: r.Generation, Operations: operations}
}

// Full is everything as one delta that starts from nothing.
func (r *Replica) Full() *contractv1.Delta {
	r.mu.Lock()
	defer r.mu.Unlock()
	delta := &contractv1.Delta{Generation: r.Generation, Reset_: true}
	add := func(op *contractv1.Operation) { delta.Operations = append(delta.Operations, op) }
	for index, node := range r.nodes {
		add(&contractv1.Operation{Op: &contractv1.Operation_NodeSet{NodeSet: &contractv1.NodeSet{Index: index, Node: node}}})
		for pod := range maps.Values(r.pods[index]) {
			add(&contractv1.Operation{Op: &contractv1.Operation_PodAdd{PodAdd: &contractv1.PodAdd{Node: index, Pod: pod}}})
		}
	}
	for _, kind := range r.objects {
		for _, object := range kind {
			add(&contractv1.Operation{Op: &contractv1.Operation_ObjectSet{ObjectSet: object}})
		}
	}
	for id, pod := range r.Classes {
		add(&contractv1.Operation{Op: &contractv1.Operation_ClassSet{ClassSet: &contractv1.ClassSet{Class: id, Pod: pod}}})
	}
	return delta
}

// Reset makes the copy what a whole replica says.
func (r *Replica) Reset(full *contractv1.Delta) {
	fresh := NewReplica(full.Generation - 1)
	fresh.Advance(full.Operations)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Generation, r.nodes, r.pods, r.Classes, r.objects = fresh.Generation, fresh.nodes, fresh.pods, fresh.Classes, fresh.objects
}
