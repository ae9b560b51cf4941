package sdk

import "fmt"

// maxNodeIndex bounds the node table: an index is a position in it.
const maxNodeIndex = 1 << 20

// Cluster is a plugin's replica: every node with its pods, and the objects
// that some plugin of the bundle reads. It is kept current by the guest loop
// and must not be changed or kept by plugins.
type Cluster struct {
	Generation uint64
	nodes      []*Node // by index; nil where there is none
	count      int     // of nodes
	classes    map[uint32]*Pod
	objects    map[string]map[string]map[string]*Object // kind, namespace, name

	objectGeneration map[string]uint64 // kind → generation of its last change
	objectEpoch      uint64            // the last of objectGeneration
	nodeSets         uint64            // how often nodes were set or removed
	epoch            uint64            // counts deltas; stamps prepared states
	gone             []uint32          // classes set or removed since the guest looked
	changes          changeLog
	columns          map[string]*Column
	void             bool // states may know columns that are no more
	affine           affine
	shapes           podShapes
	words            words
	placed           []placed // memory of readPlaced
}

// Node returns the node at an index, or nil.
func (c *Cluster) Node(index uint32) *Node {
	if int(index) >= len(c.nodes) {
		return nil
	}
	return c.nodes[index]
}

// Nodes calls yield for each node in order of index.
func (c *Cluster) Nodes(yield func(*Node) bool) {
	for _, n := range c.nodes {
		if n != nil && !yield(n) {
			return
		}
	}
}

// Object returns one object, or nil.
func (c *Cluster) Object(kind, namespace, name string) *Object {
	return c.objects[kind][namespace][name]
}

// Objects calls yield for each object of a kind in a namespace, in no order.
func (c *Cluster) Objects(kind, namespace string, yield func(*Object) bool) {
	for _, o := range c.objects[kind][namespace] {
		if !yield(o) {
			return
		}
	}
}

// AllObjects calls yield for each object of a kind in all namespaces, in no order.
func (c *Cluster) AllObjects(kind string, yield func(*Object) bool) {
	for _, names := range c.objects[kind] {
		for _, o := range names {
			if !yield(o) {
				return
			}
		}
	}
}

// NodeChanges counts how often nodes came, went or changed themselves; pods that
// come and go are no such change.
func (c *Cluster) NodeChanges() uint64 { return c.nodeSets }

func (c *Cluster) reset() {
	c.nodeSets++
	for class := range c.classes {
		c.gone = append(c.gone, class)
	}
	c.nodes, c.count, c.columns, c.void = nil, 0, nil, true
	c.affine = affine{}
	c.changes.forget()
	c.classes = map[uint32]*Pod{}
	c.objects = map[string]map[string]map[string]*Object{}
	if c.objectGeneration == nil {
		c.objectGeneration = map[string]uint64{}
	}
	c.epoch++
	c.objectEpoch = c.epoch
	for kind := range c.objectGeneration {
		c.objectGeneration[kind] = c.epoch
	}
}

// stamp is what a prepared state of a plugin depends on beside its class: the
// objects it reads, and the whole replica where its scope is the cluster and it
// does not follow.
func (c *Cluster) stamp(p *servedState) uint64 {
	if p.scope == ScopeCluster && p.follow == nil {
		return c.epoch
	}
	if p.stampedAt != c.objectEpoch {
		p.stampedAt, p.stamped = c.objectEpoch, 0
		for _, kind := range p.readList {
			p.stamped = max(p.stamped, c.objectGeneration[kind])
		}
	}
	return p.stamped
}

func (c *Cluster) setNode(n *Node) error {
	if n.Index >= maxNodeIndex {
		return fmt.Errorf("%w: node index %d is larger than %d", ErrDelta, n.Index, maxNodeIndex-1)
	}
	for int(n.Index) >= len(c.nodes) {
		c.nodes = append(c.nodes, nil)
	}
	n.Labels, n.Annotations = c.words.mapOf(n.Labels), c.words.mapOf(n.Annotations)
	old := c.nodes[n.Index]
	if old != nil {
		n.Pods, n.Requested = old.Pods, old.Requested
		n.NonZeroMilliCPU, n.NonZeroMemory = old.NonZeroMilliCPU, old.NonZeroMemory
	} else {
		n.Pods = map[string]*Pod{}
		c.count++
	}
	c.nodes[n.Index] = n
	c.nodeSets++
	c.setColumns(n)
	if c.changes.kept {
		c.changePods(PodRemoved, old)
		c.changes.add(Change{Kind: NodeSet, Node: n, Old: old})
		if old != nil {
			c.changePods(PodAdded, n)
		}
	}
	return nil
}

func (c *Cluster) removeNode(index uint32) {
	if n := c.Node(index); n != nil {
		c.nodes[index] = nil
		c.count--
		for _, l := range c.columns {
			l.put(index, 0)
		}
		c.affine.drop(index)
		c.nodeSets++
		if c.changes.kept {
			c.changePods(PodRemoved, n)
			c.changes.add(Change{Kind: NodeRemoved, Node: n})
		}
	}
}

// changePods notes that each pod of a node was added or removed.
func (c *Cluster) changePods(kind ChangeKind, n *Node) {
	if n == nil {
		return
	}
	for _, pod := range n.Pods {
		c.changes.add(Change{Kind: kind, Node: n, Pod: pod})
	}
}

func (c *Cluster) addPod(index uint32, pod *Pod) error {
	n := c.Node(index)
	if n == nil {
		return fmt.Errorf("%w: pod %s/%s is added to node %d, which is not there", ErrDelta, pod.Namespace, pod.Name, index)
	}
	if old := n.Pods[pod.UID]; old != nil {
		n.account(old, -1)
		c.affine.count(index, old, -1)
		c.changes.add(Change{Kind: PodRemoved, Node: n, Pod: old})
	}
	n.Pods[pod.UID] = pod
	n.account(pod, 1)
	c.affine.count(index, pod, 1)
	c.changes.add(Change{Kind: PodAdded, Node: n, Pod: pod})
	return nil
}

func (c *Cluster) removePod(index uint32, uid string) {
	n := c.Node(index)
	if n == nil {
		return
	}
	if old := n.Pods[uid]; old != nil {
		delete(n.Pods, uid)
		n.account(old, -1)
		c.affine.count(index, old, -1)
		c.changes.add(Change{Kind: PodRemoved, Node: n, Pod: old})
	}
}

func (c *Cluster) setClass(class uint32, pod *Pod) {
	c.classes[class] = pod
	c.gone = append(c.gone, class)
}

func (c *Cluster) removeClass(class uint32) {
	delete(c.classes, class)
	c.gone = append(c.gone, class)
}

func (c *Cluster) setObject(o *Object) {
	spaces := c.objects[o.Kind]
	if spaces == nil {
		spaces = map[string]map[string]*Object{}
		c.objects[o.Kind] = spaces
	}
	names := spaces[o.Namespace]
	if names == nil {
		names = map[string]*Object{}
		spaces[o.Namespace] = names
	}
	names[o.Name] = o
	c.objectGeneration[o.Kind], c.objectEpoch = c.epoch, c.epoch
}

func (c *Cluster) removeObject(kind, namespace, name string) {
	delete(c.objects[kind][namespace], name)
	c.objectGeneration[kind], c.objectEpoch = c.epoch, c.epoch
}

// account adds (sign 1) or takes away (sign -1) what a pod asks for.
func (n *Node) account(pod *Pod, sign int64) {
	r := &pod.Requests
	n.Requested.MilliCPU += sign * r.MilliCPU
	n.Requested.Memory += sign * r.Memory
	n.Requested.EphemeralStorage += sign * r.EphemeralStorage
	n.Requested.Pods += sign
	if len(r.Scalar) > 0 {
		n.accountScalar(r, sign)
	}
	n.NonZeroMilliCPU += sign * pod.NonZeroMilliCPU
	n.NonZeroMemory += sign * pod.NonZeroMemory
}

func (n *Node) accountScalar(r *Resources, sign int64) {
	for name, quantity := range r.Scalar {
		if n.Requested.Scalar == nil {
			n.Requested.Scalar = map[string]int64{}
		}
		n.Requested.Scalar[name] += sign * quantity
	}
}
