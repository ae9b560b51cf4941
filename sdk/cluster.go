package sdk

// Cluster is a plugin's replica: every node with its pods, and the objects
// that some plugin of the bundle reads. It is kept current by the guest loop
// and must not be changed or kept by plugins.
type Cluster struct {
	Generation uint64
	nodes      []*Node // by index; nil where there is none
	classes    map[uint32]*Pod
	objects    map[string]map[string]map[string]*Object // kind, namespace, name
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
