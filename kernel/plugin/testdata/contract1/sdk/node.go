package sdk

// Taint repels pods that do not tolerate it.
type Taint struct {
	Key, Value, Effect string
}

// Image is a container image present on a node, under all its names.
type Image struct {
	Names     []string
	SizeBytes int64
}

// Node is a node with the pods that occupy it. The guest loop keeps Pods,
// Requested and NonZero* current from deltas; a plugin only reads them.
type Node struct {
	Index         uint32
	Name          string
	UID           string
	Labels        map[string]string
	Annotations   map[string]string
	Unschedulable bool
	Taints        []Taint
	Capacity      Resources
	Allocatable   Resources
	Images        []Image

	// Pods are the pods bound to or assumed on this node, keyed by UID.
	Pods map[string]*Pod
	// Requested sums Requests over Pods; Requested.Pods counts them.
	Requested       Resources
	NonZeroMilliCPU int64
	NonZeroMemory   int64
}

// Object is a cluster object that a plugin declared to read.
type Object struct {
	Kind, Namespace, Name string
	Labels                map[string]string
	Selector              *Selector // nil: the object has none
	VolumeName            string    // claim: the bound volume
	Volume                *Volume   // persistent volume: its source
	NodeAffinity          *NodeAffinity
}

// Selector is a label selector. An empty one matches everything.
type Selector struct {
	MatchLabels      map[string]string
	MatchExpressions []Requirement
}
