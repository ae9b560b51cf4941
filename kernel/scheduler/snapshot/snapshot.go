package snapshot

import (
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// Node is a node by name. It outlives the node object while pods are still
// bound to the name, so that a node that comes back has its pods.
type Node struct {
	Name   string
	Index  uint32
	Object *contractv1.Node // nil: pods only, no such node
	Pods   map[types.UID]*Pod
}

// Snapshot is the cycle's picture of the cluster: nodes with their bound and
// assumed pods, and the objects that plugins read. Every change is kept as an
// operation for the plugins' replicas and in the log of touched nodes, from
// which each class learns what to ask again. Only the cycle uses it.
type Snapshot struct {
	ByName  map[string]*Node
	ByIndex []*Node // nil where no node is
	free    []uint32
	Count   int      // nodes that exist
	listed  []string // their names by index, or nil: made when asked for
	objects map[string]map[types.NamespacedName]*contractv1.Object

	Pending []*contractv1.Operation

	// Nominees are the pods nominated to nodes, by node.
	Nominees map[string][]*Pod

	Log           ChangeLog
	NodeVersion   uint64            // grows with each change of a node object
	kindVersions  map[string]uint64 // grows with each change of an object of the kind
	ObjectVersion uint64            // grows with all of them
}

func NewSnapshot() *Snapshot {
	return &Snapshot{
		ByName:       map[string]*Node{},
		objects:      map[string]map[types.NamespacedName]*contractv1.Object{},
		kindVersions: map[string]uint64{},
	}
}

func (s *Snapshot) entry(name string) *Node {
	e := s.ByName[name]
	if e == nil {
		e = &Node{Name: name, Pods: map[types.UID]*Pod{}}
		s.ByName[name] = e
	}
	return e
}

// SetNode adds or replaces a node; it reports whether it is new and whether
// anything that plugins see changed.
func (s *Snapshot) SetNode(node *contractv1.Node) (added, changed bool) {
	e := s.entry(node.Name)
	if e.Object != nil {
		if proto.Equal(e.Object, node) {
			return false, false
		}
		e.Object = node
		s.Log.Add(Touch{Node: e.Index, Object: true})
		s.NodeVersion++
		s.Pending = append(s.Pending, nodeSet(e))
		return false, true
	}
	if n := len(s.free); n > 0 {
		e.Index, s.free = s.free[n-1], s.free[:n-1]
		s.ByIndex[e.Index] = e
	} else {
		e.Index = uint32(len(s.ByIndex))
		s.ByIndex = append(s.ByIndex, e)
	}
	e.Object = node
	s.listed = nil
	s.Count++
	s.NodeVersion++
	s.Log.Add(Touch{Node: e.Index, Object: true})
	s.Pending = append(s.Pending, nodeSet(e))
	for _, pod := range e.Pods {
		s.Pending = append(s.Pending, PodAdd(e, pod))
	}
	return true, true
}

func (s *Snapshot) RemoveNode(name string) bool {
	e := s.ByName[name]
	if e == nil || e.Object == nil {
		return false
	}
	e.Object = nil
	s.listed = nil
	s.Count--
	s.NodeVersion++
	s.ByIndex[e.Index] = nil
	s.free = append(s.free, e.Index)
	s.Log.Add(Touch{Node: e.Index, Object: true})
	s.Pending = append(s.Pending, &contractv1.Operation{Op: &contractv1.Operation_NodeRemove{NodeRemove: e.Index}})
	if len(e.Pods) == 0 {
		delete(s.ByName, name)
	}
	return true
}

// AddPod puts a pod on the node it names (bound) or is assumed on.
func (s *Snapshot) AddPod(pod *Pod, node string) {
	s.AddPodTo(pod, s.entry(node))
}

func (s *Snapshot) AddPodTo(pod *Pod, e *Node) {
	pod.Node = e.Name
	e.Pods[pod.UID] = pod
	if e.Object != nil {
		pod.ignored = pod.Shape.ignoredBy()
		s.Log.Add(Touch{Node: e.Index, IgnoredBy: pod.ignored})
		s.Pending = append(s.Pending, PodAdd(e, pod))
	}
}

func (s *Snapshot) RemovePod(pod *Pod) {
	e := s.ByName[pod.Node]
	pod.Node = ""
	if e == nil {
		return
	}
	delete(e.Pods, pod.UID)
	if e.Object != nil {
		s.Log.Add(Touch{Node: e.Index, IgnoredBy: pod.ignored})
		s.Pending = append(s.Pending, &contractv1.Operation{Op: &contractv1.Operation_PodRemove{
			PodRemove: &contractv1.PodRemove{Node: e.Index, Uid: string(pod.UID)}}})
	} else if len(e.Pods) == 0 {
		delete(s.ByName, e.Name)
	}
}

// SetObject reports whether anything that plugins see changed.
func (s *Snapshot) SetObject(o *contractv1.Object) bool {
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
	s.objectChanged(o.Key.Kind)
	s.Pending = append(s.Pending, &contractv1.Operation{Op: &contractv1.Operation_ObjectSet{ObjectSet: o}})
	return true
}

func (s *Snapshot) RemoveObject(key *contractv1.ObjectKey) bool {
	kind := s.objects[key.Kind]
	name := types.NamespacedName{Namespace: key.Namespace, Name: key.Name}
	if kind[name] == nil {
		return false
	}
	delete(kind, name)
	s.objectChanged(key.Kind)
	s.Pending = append(s.Pending, &contractv1.Operation{Op: &contractv1.Operation_ObjectRemove{ObjectRemove: key}})
	return true
}

func (s *Snapshot) objectChanged(kind string) {
	s.kindVersions[kind]++
	s.ObjectVersion++
}

func nodeSet(e *Node) *contractv1.Operation {
	return &contractv1.Operation{Op: &contractv1.Operation_NodeSet{NodeSet: &contractv1.NodeSet{Index: e.Index, Node: e.Object}}}
}

// PodAdd tells of a pod whole, and of its class where the plugins know it and it
// is placed as it asked.
func PodAdd(e *Node, pod *Pod) *contractv1.Operation {
	op := &struct { // one piece of memory instead of three
		operation contractv1.Operation
		of        contractv1.Operation_PodAdd
		add       contractv1.PodAdd
	}{}
	op.operation.Op, op.of.PodAdd = &op.of, &op.add
	op.add.Node, op.add.Pod = e.Index, pod.Shape.Occupant(pod.Name, string(pod.UID), e.Name)
	if start := pod.startTold; start != 0 {
		op.add.Pod.StartTimeUnix = start
	} else if class := pod.Shape.Class; class != nil && !pod.Shape.PlacedApart() {
		op.add.Class = class.Number()
	}
	return &op.operation
}

// TellStarts tells plugins when the pods of a node started, which matters to who
// chooses among them alone: it is told when somebody is about to choose, and no
// reason to ask anything again.
func (s *Snapshot) TellStarts(e *Node) {
	for _, pod := range e.Pods {
		if start := pod.Object.Status.StartTime; start != nil && start.Unix() != pod.startTold {
			pod.startTold = start.Unix()
			s.Pending = append(s.Pending, PodAdd(e, pod))
		}
	}
}

func PodRemove(e *Node, uid string) *contractv1.Operation {
	return &contractv1.Operation{Op: &contractv1.Operation_PodRemove{PodRemove: &contractv1.PodRemove{Node: e.Index, Uid: uid}}}
}

// Names are the nodes' names by index. The slice is never changed again.
func (s *Snapshot) Names() []string {
	if s.listed == nil {
		s.listed = make([]string, len(s.ByIndex))
		for i, e := range s.ByIndex {
			if e != nil {
				s.listed[i] = e.Name
			}
		}
	}
	return s.listed
}

// Version is the sum of the versions of kinds of objects.
func (s *Snapshot) Version(kinds []string) uint64 {
	var sum uint64
	for _, kind := range kinds {
		sum += s.kindVersions[kind]
	}
	return sum
}

// Object is an object as it was seen last, or nil.
func (s *Snapshot) Object(key *contractv1.ObjectKey) *contractv1.Object {
	return s.objects[key.Kind][ObjectName(key)]
}
