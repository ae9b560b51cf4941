package conformance

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"google.golang.org/protobuf/proto"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// Class is the class that questions of this package are asked about.
const Class = 1

// Vocabulary is what random nodes and pods are made of, beside the standard
// one: a plugin that looks at its own labels is asked about them only if they
// are among its words.
type Vocabulary struct {
	Labels      map[string][]string // key → values, of nodes, pods and node selectors
	Annotations map[string][]string
	Taints      []*contractv1.Taint
	Reads       []string // kinds of cluster objects
}

// standard are words of any cluster.
var standard = Vocabulary{
	Labels: map[string][]string{
		"topology.kubernetes.io/zone":      {"north", "south", "west"},
		"disk":                             {"ssd", "hdd"},
		"app":                              {"web", "store", "batch"},
		"node.kubernetes.io/instance-type": {"small", "large"},
	},
	Annotations: map[string][]string{"note": {"", "kept", "7"}},
	Taints: []*contractv1.Taint{
		{Key: "dedicated", Value: "batch", Effect: "NoSchedule"},
		{Key: "node.kubernetes.io/unreachable", Effect: "NoExecute"},
		{Key: "slow", Value: "yes", Effect: "PreferNoSchedule"},
	},
	Reads: []string{"Service", "ReplicaSet", "PersistentVolumeClaim", "Namespace"},
}

// With returns the vocabulary with another's words added.
func (v Vocabulary) With(other Vocabulary) Vocabulary {
	join := func(a, b map[string][]string) map[string][]string {
		out := maps.Clone(a)
		if out == nil {
			out = map[string][]string{}
		}
		for key, values := range b {
			for _, value := range values {
				if !slices.Contains(out[key], value) {
					out[key] = append(slices.Clone(out[key]), value)
				}
			}
		}
		return out
	}
	reads := slices.Clone(v.Reads)
	for _, kind := range other.Reads {
		if !slices.Contains(reads, kind) {
			reads = append(reads, kind)
		}
	}
	return Vocabulary{
		Labels: join(v.Labels, other.Labels), Annotations: join(v.Annotations, other.Annotations),
		Taints: append(slices.Clone(v.Taints), other.Taints...), Reads: reads,
	}
}

// World is a random cluster that changes. The same seed and vocabulary give the
// same cluster and the same changes.
type World struct {
	rand       *rand.Rand
	words      Vocabulary
	generation uint64
	nodes      map[uint32]*contractv1.Node
	placed     map[uint32][]*contractv1.Pod
	objects    map[string]*contractv1.Object
	class      *contractv1.Pod
	pods       int
}

// NewWorld returns a cluster of size nodes with some pods and objects on it.
func NewWorld(seed uint64, size int, words Vocabulary) *World {
	w := &World{
		rand: rand.New(rand.NewPCG(seed, 0x70696e746c65)), words: standard.With(words),
		nodes: map[uint32]*contractv1.Node{}, placed: map[uint32][]*contractv1.Pod{}, objects: map[string]*contractv1.Object{},
	}
	for i := range size {
		w.setNode(uint32(i))
	}
	for range 2 * size {
		w.addPod()
	}
	for range 6 {
		w.setObject()
	}
	w.class = w.pod()
	w.generation = 1
	return w
}

// Nodes are the indexes of the nodes, in order.
func (w *World) Nodes() []uint32 { return slices.Sorted(maps.Keys(w.nodes)) }

// Shuffled are the same in a random order.
func (w *World) Shuffled() []uint32 {
	list := w.Nodes()
	w.rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// Absent is an index that no node has.
func (w *World) Absent() uint32 {
	i := uint32(0)
	for w.nodes[i] != nil {
		i++
	}
	return i
}

// Whole is the cluster as one delta with reset set.
func (w *World) Whole() *contractv1.Delta {
	d := &contractv1.Delta{Generation: w.generation, Reset_: true}
	for _, i := range w.Nodes() {
		d.Operations = append(d.Operations, nodeSet(i, w.nodes[i]))
		for _, p := range w.placed[i] {
			d.Operations = append(d.Operations, podAdd(i, p))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(w.objects)) {
		d.Operations = append(d.Operations, objectSet(w.objects[key]))
	}
	d.Operations = append(d.Operations, classSet(w.class))
	return proto.Clone(d).(*contractv1.Delta)
}

// Step changes the cluster in up to six places and returns the delta.
func (w *World) Step() *contractv1.Delta {
	w.generation++
	d := &contractv1.Delta{Generation: w.generation}
	for range 1 + w.rand.IntN(6) {
		d.Operations = append(d.Operations, w.change()...)
	}
	return proto.Clone(d).(*contractv1.Delta)
}

func (w *World) change() []*contractv1.Operation {
	switch n := w.rand.IntN(20); {
	case n < 4: // a node is there or changes
		i := uint32(w.rand.IntN(len(w.nodes) + 2))
		w.setNode(i)
		return []*contractv1.Operation{nodeSet(i, w.nodes[i])}
	case n < 5 && len(w.nodes) > 1: // a node goes, with its pods
		i := w.anyNode()
		delete(w.nodes, i)
		delete(w.placed, i)
		return []*contractv1.Operation{{Op: &contractv1.Operation_NodeRemove{NodeRemove: i}}}
	case n < 11:
		i, pod := w.addPod()
		return []*contractv1.Operation{podAdd(i, pod)}
	case n < 12: // a pod that is there already changes
		i := w.anyNode()
		if len(w.placed[i]) == 0 {
			return nil
		}
		k := w.rand.IntN(len(w.placed[i]))
		pod := w.pod()
		pod.Uid = w.placed[i][k].Uid
		w.placed[i][k] = pod
		return []*contractv1.Operation{podAdd(i, pod)}
	case n < 15:
		i := w.anyNode()
		uid := "not-there" // removing what is not there does nothing
		if len(w.placed[i]) > 0 {
			k := w.rand.IntN(len(w.placed[i]))
			uid = w.placed[i][k].Uid
			w.placed[i] = slices.Delete(w.placed[i], k, k+1)
		}
		return []*contractv1.Operation{{Op: &contractv1.Operation_PodRemove{PodRemove: &contractv1.PodRemove{Node: i, Uid: uid}}}}
	case n < 17:
		return []*contractv1.Operation{objectSet(w.setObject())}
	case n < 18:
		keys := slices.Sorted(maps.Keys(w.objects))
		if len(keys) == 0 {
			return nil
		}
		key := keys[w.rand.IntN(len(keys))]
		o := w.objects[key]
		delete(w.objects, key)
		return []*contractv1.Operation{{Op: &contractv1.Operation_ObjectRemove{ObjectRemove: o.Key}}}
	case n < 19: // class numbers are used again
		w.class = w.pod()
		return []*contractv1.Operation{{Op: &contractv1.Operation_ClassRemove{ClassRemove: Class}}, classSet(w.class)}
	}
	w.class = w.pod()
	return []*contractv1.Operation{classSet(w.class)}
}

func (w *World) anyNode() uint32 {
	list := w.Nodes()
	return list[w.rand.IntN(len(list))]
}

func (w *World) setNode(i uint32) {
	cpu, memory := 1000*int64(1+w.rand.IntN(16)), int64(1+w.rand.IntN(64))<<30
	offers := &contractv1.Resources{MilliCpu: cpu, Memory: memory, EphemeralStorage: 100 << 30, Pods: 110}
	if w.rand.IntN(4) == 0 {
		offers.Scalar = map[string]int64{"example.com/gpu": int64(w.rand.IntN(4))}
	}
	name := fmt.Sprintf("node-%d", i)
	n := &contractv1.Node{
		Name: name, Uid: "uid-" + name, Labels: w.some(w.words.Labels, 3), Annotations: w.some(w.words.Annotations, 3),
		Unschedulable: w.rand.IntN(10) == 0, Capacity: offers, Allocatable: offers,
	}
	n.Labels["kubernetes.io/hostname"] = name
	for _, t := range w.words.Taints {
		if w.rand.IntN(5) == 0 {
			n.Taints = append(n.Taints, t)
		}
	}
	for k := range w.rand.IntN(3) {
		n.Images = append(n.Images, &contractv1.Image{Names: []string{fmt.Sprintf("registry.example.com/image-%d:1", k)}, SizeBytes: int64(w.rand.IntN(1 << 30))})
	}
	w.nodes[i] = n
}

// some picks a share of the keys, one in each, in an order of its own.
func (w *World) some(words map[string][]string, each int) map[string]string {
	out := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(words)) {
		if values := words[key]; len(values) > 0 && w.rand.IntN(each+1) > 0 {
			out[key] = values[w.rand.IntN(len(values))]
		}
	}
	return out
}

func (w *World) addPod() (uint32, *contractv1.Pod) {
	i, pod := w.anyNode(), w.pod()
	w.placed[i] = append(w.placed[i], pod)
	return i, pod
}

// pod is what is asked about or placed.
func (w *World) pod() *contractv1.Pod {
	w.pods++
	r := w.rand
	p := &contractv1.Pod{
		Namespace: []string{"default", "shop"}[r.IntN(2)], Name: fmt.Sprintf("pod-%d", w.pods), Uid: fmt.Sprintf("uid-pod-%d", w.pods),
		Labels: w.some(w.words.Labels, 1), Annotations: w.some(w.words.Annotations, 1), SchedulerName: "default-scheduler",
		Priority:    int32(r.IntN(3) - 1),
		Containers:  []*contractv1.Container{{Name: "c", Image: fmt.Sprintf("registry.example.com/image-%d:1", r.IntN(4))}},
		Requests:    &contractv1.Resources{MilliCpu: int64(r.IntN(8)) * 250, Memory: int64(r.IntN(8)) << 28},
		Terminating: r.IntN(20) == 0, StartTimeUnix: int64(r.IntN(1000)),
	}
	p.NonZeroMilliCpu, p.NonZeroMemory = max(p.Requests.MilliCpu, 100), max(p.Requests.Memory, 200<<20)
	if r.IntN(3) == 0 {
		p.NodeSelector = w.some(w.words.Labels, 0)
		for _, key := range slices.Sorted(maps.Keys(w.words.Labels)) {
			if r.IntN(4) == 0 {
				if p.NodeSelector == nil {
					p.NodeSelector = map[string]string{}
				}
				p.NodeSelector[key] = w.words.Labels[key][r.IntN(len(w.words.Labels[key]))]
			}
		}
	}
	if r.IntN(4) == 0 {
		p.NodeAffinity = &contractv1.NodeAffinity{
			HasRequired: true,
			Required: []*contractv1.NodeSelectorTerm{{MatchExpressions: []*contractv1.Requirement{
				{Key: "disk", Operator: []string{"In", "NotIn", "Exists", "DoesNotExist"}[r.IntN(4)], Values: []string{"ssd"}},
			}}},
			Preferred: []*contractv1.PreferredTerm{{Weight: int32(1 + r.IntN(100)), Term: &contractv1.NodeSelectorTerm{
				MatchExpressions: []*contractv1.Requirement{{Key: "topology.kubernetes.io/zone", Operator: "In", Values: []string{"north", "west"}}},
			}}},
		}
	}
	for _, t := range w.words.Taints {
		if r.IntN(3) == 0 {
			p.Tolerations = append(p.Tolerations, &contractv1.Toleration{Key: t.Key, Operator: "Exists", Effect: t.Effect})
		}
	}
	if r.IntN(5) == 0 {
		p.HostPorts = append(p.HostPorts, &contractv1.HostPort{Port: int32(8080 + r.IntN(2)), Protocol: "TCP"})
	}
	if r.IntN(5) == 0 {
		p.Volumes = append(p.Volumes, &contractv1.Volume{Name: "data", Type: "persistentVolumeClaim", Id: fmt.Sprintf("name-%d", r.IntN(4))})
	}
	if r.IntN(2) == 0 {
		p.Owners = append(p.Owners, &contractv1.OwnerReference{ApiVersion: "apps/v1", Kind: "ReplicaSet", Name: "name-1", Uid: "owner-1", Controller: true})
	}
	return p
}

func (w *World) setObject() *contractv1.Object {
	r := w.rand
	key := &contractv1.ObjectKey{
		Kind:      w.words.Reads[r.IntN(len(w.words.Reads))],
		Namespace: []string{"default", "shop"}[r.IntN(2)], Name: fmt.Sprintf("name-%d", r.IntN(4)),
	}
	if key.Kind == "Namespace" || key.Kind == "PersistentVolume" {
		key.Namespace = ""
	}
	o := &contractv1.Object{Key: key, Labels: w.some(w.words.Labels, 1)}
	switch key.Kind {
	case "PersistentVolumeClaim":
		o.VolumeName = fmt.Sprintf("name-%d", r.IntN(4))
	case "PersistentVolume":
		o.Volume = &contractv1.Volume{Type: "gcePersistentDisk", Id: key.Name}
	case "Namespace":
	default:
		o.HasSelector = true
		o.Selector = &contractv1.Selector{MatchLabels: map[string]string{"app": w.words.Labels["app"][r.IntN(len(w.words.Labels["app"]))]}}
	}
	w.objects[key.Kind+"/"+key.Namespace+"/"+key.Name] = o
	return o
}

func nodeSet(i uint32, n *contractv1.Node) *contractv1.Operation {
	return &contractv1.Operation{Op: &contractv1.Operation_NodeSet{NodeSet: &contractv1.NodeSet{Index: i, Node: n}}}
}

func podAdd(i uint32, p *contractv1.Pod) *contractv1.Operation {
	return &contractv1.Operation{Op: &contractv1.Operation_PodAdd{PodAdd: &contractv1.PodAdd{Node: i, Pod: p}}}
}

func objectSet(o *contractv1.Object) *contractv1.Operation {
	return &contractv1.Operation{Op: &contractv1.Operation_ObjectSet{ObjectSet: o}}
}

func classSet(p *contractv1.Pod) *contractv1.Operation {
	return &contractv1.Operation{Op: &contractv1.Operation_ClassSet{ClassSet: &contractv1.ClassSet{Class: Class, Pod: p}}}
}

// Touch changes one node and returns the delta.
func (w *World) Touch(index uint32) *contractv1.Delta {
	w.generation++
	w.setNode(index)
	return proto.Clone(&contractv1.Delta{Generation: w.generation, Operations: []*contractv1.Operation{nodeSet(index, w.nodes[index])}}).(*contractv1.Delta)
}
