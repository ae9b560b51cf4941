package scheduler

import (
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
	pods  map[types.UID]*clusterPod
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

	// nominees are the pods nominated to nodes, by node.
	nominees map[string][]*clusterPod

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
	}
}

func (s *snapshot) entry(name string) *nodeEntry {
	e := s.byName[name]
	if e == nil {
		e = &nodeEntry{name: name, pods: map[types.UID]*clusterPod{}}
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
func (s *snapshot) addPod(pod *clusterPod, node string) {
	s.addPodTo(pod, s.entry(node))
}

func (s *snapshot) addPodTo(pod *clusterPod, e *nodeEntry) {
	pod.node = e.name
	e.pods[pod.uid] = pod
	if e.node != nil {
		pod.ignored = pod.base.ignoredBy()
		s.log.add(touch{node: e.index, by: pod.ignored})
		s.pending = append(s.pending, opPodAdd(e, pod))
	}
}

func (s *snapshot) removePod(pod *clusterPod) {
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
func opPodAdd(e *nodeEntry, pod *clusterPod) *contractv1.Operation {
	op := &struct { // one piece of memory instead of three
		operation contractv1.Operation
		of        contractv1.Operation_PodAdd
		add       contractv1.PodAdd
	}{}
	op.operation.Op, op.of.PodAdd = &op.of, &op.add
	op.add.Node, op.add.Pod = e.index, pod.base.Occupant(pod.name, string(pod.uid), e.name)
	if start := pod.startTold; start != 0 {
		op.add.Pod.StartTimeUnix = start
	} else if class := pod.base.of; class != nil && !pod.base.PlacedApart() {
		op.add.Class = class.Number()
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

func opPodRemove(e *nodeEntry, uid string) *contractv1.Operation {
	return &contractv1.Operation{Op: &contractv1.Operation_PodRemove{PodRemove: &contractv1.PodRemove{Node: e.index, Uid: uid}}}
}

// names are the nodes' names by index. The slice is never changed again.
func (s *snapshot) names() []string {
	if s.listed == nil {
		s.listed = make([]string, len(s.byIndex))
		for i, e := range s.byIndex {
			if e != nil {
				s.listed[i] = e.name
			}
		}
	}
	return s.listed
}

// version is the sum of the versions of kinds of objects.
func (s *snapshot) version(kinds []string) uint64 {
	var sum uint64
	for _, kind := range kinds {
		sum += s.kinds[kind]
	}
	return sum
}

// object is an object as it was seen last, or nil.
func (s *snapshot) object(key *contractv1.ObjectKey) *contractv1.Object {
	return s.objects[key.Kind][objectName(key)]
}
