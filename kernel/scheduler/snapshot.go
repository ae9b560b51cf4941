package scheduler

import (
	"context"
	"maps"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// nodeEntry is a node by name. It outlives the node object while pods are still
// bound to the name, so that a node that comes back has its pods.
type nodeEntry struct {
	name  string
	index uint32
	node  *contractv1.Node // nil: pods only, no such node
	pods  map[types.UID]*podEntry
}

// snapshot is the cycle's picture of the cluster: nodes with their bound and
// assumed pods, and the objects that plugins read. Every change is kept as an
// operation for the plugins' replicas and in the log of touched nodes, from
// which each class learns what to ask again. Only the cycle uses it.
type snapshot struct {
	byName  map[string]*nodeEntry
	byIndex []*nodeEntry // nil where no node is
	free    []uint32
	count   int      // nodes that exist
	listed  []string // their names by index, or nil: made when asked for
	objects map[string]map[types.NamespacedName]*contractv1.Object

	pending []*contractv1.Operation

	// nominees are the pods nominated to nodes, by node; suppose hands plugins what
	// is not so, or is nil.
	nominees map[string][]*podEntry
	suppose  func(ctx context.Context, operations []*contractv1.Operation) error

	scratch *scratch // of the class that is being brought up to date
	now     func() time.Time

	log   changeLog
	nodes uint64            // grows with each change of a node object
	kinds map[string]uint64 // grows with each change of an object of the kind
	edits uint64            // grows with all of them
}

func newSnapshot() *snapshot {
	return &snapshot{
		byName:  map[string]*nodeEntry{},
		objects: map[string]map[types.NamespacedName]*contractv1.Object{},
		kinds:   map[string]uint64{},
		scratch: &scratch{}, now: time.Now,
	}
}

func (s *snapshot) entry(name string) *nodeEntry {
	e := s.byName[name]
	if e == nil {
		e = &nodeEntry{name: name, pods: map[types.UID]*podEntry{}}
		s.byName[name] = e
	}
	return e
}

// setNode adds or replaces a node; it reports whether it is new and whether
// anything that plugins see changed.
func (s *snapshot) setNode(node *contractv1.Node) (added, changed bool) {
	e := s.entry(node.Name)
	if e.node != nil {
		if proto.Equal(e.node, node) {
			return false, false
		}
		e.node = node
		s.log.add(touch{node: e.index, object: true})
		s.nodes++
		s.pending = append(s.pending, opNodeSet(e))
		return false, true
	}
	if n := len(s.free); n > 0 {
		e.index, s.free = s.free[n-1], s.free[:n-1]
		s.byIndex[e.index] = e
	} else {
		e.index = uint32(len(s.byIndex))
		s.byIndex = append(s.byIndex, e)
	}
	e.node = node
	s.listed = nil
	s.count++
	s.nodes++
	s.log.add(touch{node: e.index, object: true})
	s.pending = append(s.pending, opNodeSet(e))
	for _, pod := range e.pods {
		s.pending = append(s.pending, opPodAdd(e, pod))
	}
	return true, true
}

func (s *snapshot) removeNode(name string) bool {
	e := s.byName[name]
	if e == nil || e.node == nil {
		return false
	}
	e.node = nil
	s.listed = nil
	s.count--
	s.nodes++
	s.byIndex[e.index] = nil
	s.free = append(s.free, e.index)
	s.log.add(touch{node: e.index, object: true})
	s.pending = append(s.pending, &contractv1.Operation{Op: &contractv1.Operation_NodeRemove{NodeRemove: e.index}})
	if len(e.pods) == 0 {
		delete(s.byName, name)
	}
	return true
}

// addPod puts a pod on the node it names (bound) or is assumed on.
func (s *snapshot) addPod(pod *podEntry, node string) {
	s.addPodTo(pod, s.entry(node))
}

func (s *snapshot) addPodTo(pod *podEntry, e *nodeEntry) {
	pod.node = e.name
	e.pods[pod.uid] = pod
	if e.node != nil {
		pod.ignored = pod.shape.ignoredBy()
		s.log.add(touch{node: e.index, by: pod.ignored})
		s.pending = append(s.pending, opPodAdd(e, pod))
	}
}

func (s *snapshot) removePod(pod *podEntry) {
	e := s.byName[pod.node]
	pod.node = ""
	if e == nil {
		return
	}
	delete(e.pods, pod.uid)
	if e.node != nil {
		s.log.add(touch{node: e.index, by: pod.ignored})
		s.pending = append(s.pending, &contractv1.Operation{Op: &contractv1.Operation_PodRemove{
			PodRemove: &contractv1.PodRemove{Node: e.index, Uid: string(pod.uid)}}})
	} else if len(e.pods) == 0 {
		delete(s.byName, e.name)
	}
}

// setObject reports whether anything that plugins see changed.
func (s *snapshot) setObject(o *contractv1.Object) bool {
	kind := s.objects[o.Key.Kind]
	if kind == nil {
		kind = map[types.NamespacedName]*contractv1.Object{}
		s.objects[o.Key.Kind] = kind
	}
	key := types.NamespacedName{Namespace: o.Key.Namespace, Name: o.Key.Name}
	if old := kind[key]; old != nil && proto.Equal(old, o) {
		return false
	}
	kind[key] = o
	s.edited(o.Key.Kind)
	s.pending = append(s.pending, &contractv1.Operation{Op: &contractv1.Operation_ObjectSet{ObjectSet: o}})
	return true
}

func (s *snapshot) removeObject(key *contractv1.ObjectKey) bool {
	kind := s.objects[key.Kind]
	name := types.NamespacedName{Namespace: key.Namespace, Name: key.Name}
	if kind[name] == nil {
		return false
	}
	delete(kind, name)
	s.edited(key.Kind)
	s.pending = append(s.pending, &contractv1.Operation{Op: &contractv1.Operation_ObjectRemove{ObjectRemove: key}})
	return true
}

func (s *snapshot) edited(kind string) {
	s.kinds[kind]++
	s.edits++
}

func opNodeSet(e *nodeEntry) *contractv1.Operation {
	return &contractv1.Operation{Op: &contractv1.Operation_NodeSet{NodeSet: &contractv1.NodeSet{Index: e.index, Node: e.node}}}
}

// opPodAdd tells of a pod whole, and of its class where the plugins know it and it
// is placed as it asked.
func opPodAdd(e *nodeEntry, pod *podEntry) *contractv1.Operation {
	op := &struct { // one piece of memory instead of three
		operation contractv1.Operation
		of        contractv1.Operation_PodAdd
		add       contractv1.PodAdd
	}{}
	op.operation.Op, op.of.PodAdd = &op.of, &op.add
	op.add.Node, op.add.Pod = e.index, pod.shape.Occupant(pod.name, string(pod.uid), e.name)
	if start := pod.startTold; start != 0 {
		op.add.Pod.StartTimeUnix = start
	} else if class := pod.shape.class; class != nil && !pod.shape.PlacedApart() {
		op.add.Class = class.id
	}
	return &op.operation
}

// tellStarts tells plugins when the pods of a node started, which matters to who
// chooses among them alone: it is told when somebody is about to choose, and no
// reason to ask anything again.
func (s *snapshot) tellStarts(e *nodeEntry) {
	for _, pod := range e.pods {
		if start := pod.pod.Status.StartTime; start != nil && start.Unix() != pod.startTold {
			pod.startTold = start.Unix()
			s.pending = append(s.pending, opPodAdd(e, pod))
		}
	}
}

// touch is a change of a node: of the object, or of the pods on it alone.
type touch struct {
	node   uint32
	object bool
	by     *unaffected // plugins that ignore the pod which came or went; nil: it may concern all
}

// changeLog remembers which nodes were touched, in order. Positions only grow;
// old ones fall out, and who reads from before them starts afresh.
type changeLog struct {
	first uint64 // position of entries[0]
	items []touch
}

const changeLogLimit = 1 << 15

func (l *changeLog) add(t touch) {
	if len(l.items) >= changeLogLimit {
		half := len(l.items) / 2
		l.items = append(l.items[:0], l.items[half:]...)
		l.first += uint64(half)
	}
	l.items = append(l.items, t)
}

func (l *changeLog) end() uint64 { return l.first + uint64(len(l.items)) }

// since returns the changes from a position on; false: too long ago.
func (l *changeLog) since(position uint64) ([]touch, bool) {
	if position < l.first {
		return nil, false
	}
	return l.items[position-l.first:], true
}

// replica is the copy of what the plugins were told, from which a new or
// restarted one is fed. It follows the deltas, not the snapshot, so that its
// generation names its content exactly. Safe for concurrent use.
type replica struct {
	mu         sync.Mutex
	generation uint64
	nodes      map[uint32]*contractv1.Node
	pods       map[uint32]map[string]*contractv1.Pod
	classes    map[uint32]*contractv1.Pod
	objects    map[string]map[types.NamespacedName]*contractv1.Object
}

// newReplica is empty, with a generation after which deltas follow.
func newReplica(first uint64) *replica {
	return &replica{
		generation: first,
		nodes:      map[uint32]*contractv1.Node{}, pods: map[uint32]map[string]*contractv1.Pod{},
		classes: map[uint32]*contractv1.Pod{}, objects: map[string]map[types.NamespacedName]*contractv1.Object{},
	}
}

func objectName(k *contractv1.ObjectKey) types.NamespacedName {
	return types.NamespacedName{Namespace: k.Namespace, Name: k.Name}
}

// advance turns operations into the next delta and takes them into the copy.
func (r *replica) advance(operations []*contractv1.Operation) *contractv1.Delta {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.generation++
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
			r.classes[op.ClassSet.Class] = op.ClassSet.Pod
		case *contractv1.Operation_ClassRemove:
			delete(r.classes, op.ClassRemove)
		case *contractv1.Operation_ObjectSet:
			kind := r.objects[op.ObjectSet.Key.Kind]
			if kind == nil {
				kind = map[types.NamespacedName]*contractv1.Object{}
				r.objects[op.ObjectSet.Key.Kind] = kind
			}
			kind[objectName(op.ObjectSet.Key)] = op.ObjectSet
		case *contractv1.Operation_ObjectRemove:
			delete(r.objects[op.ObjectRemove.Kind], objectName(op.ObjectRemove))
		}
	}
	return &contractv1.Delta{Generation: r.generation, Operations: operations}
}

// full is everything as one delta that starts from nothing.
func (r *replica) full() *contractv1.Delta {
	r.mu.Lock()
	defer r.mu.Unlock()
	delta := &contractv1.Delta{Generation: r.generation, Reset_: true}
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
	for id, pod := range r.classes {
		add(&contractv1.Operation{Op: &contractv1.Operation_ClassSet{ClassSet: &contractv1.ClassSet{Class: id, Pod: pod}}})
	}
	return delta
}
