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

	UID         string
	Annotations map[string]string
	Terminating bool
	// Storage is set of claims, persistent volumes and storage capacities; the
	// others of the kind of their name, DisruptionBudget of PodDisruptionBudgets.
	Storage          *Storage
	StorageClass     *StorageClass
	Drivers          []Driver // CSINode
	CSIDriver        *CSIDriver
	Attachment       *Attachment // VolumeAttachment
	DisruptionBudget *DisruptionBudget
	// MigratedNodeAffinity is that of a persistent volume with an InTreePlugin, on
	// the nodes whose CSINode says that they turned to its driver.
	MigratedNodeAffinity *NodeAffinity
}

// Storage is what a claim asks for, a persistent volume has, or a CSI driver has
// left for a class and the nodes that Selector selects.
type Storage struct {
	ClassName    string
	HasClassName bool // claims: false asks for the default class
	AccessModes  []string
	Bytes        int64 // asked for, or the capacity
	VolumeMode   string
	Phase        string
	Selector     *Selector // claims: of volumes; storage capacities: of nodes
	// Claim is a persistent volume's spec.claimRef; nil: it is free.
	Claim *ClaimReference
	// Owner is a claim's controlling owner, or nil.
	Owner                 *OwnerReference
	MaximumVolumeBytes    int64 // storage capacities; 0: not said, -1: none
	VolumeAttributesClass string
}

// ClaimReference names a claim; UID is empty where the reference has none.
type ClaimReference struct {
	Namespace, Name, UID string
}

// StorageClass says how volumes of a class come to be.
type StorageClass struct {
	Provisioner       string
	VolumeBindingMode string             // Immediate, WaitForFirstConsumer
	AllowedTopologies []NodeSelectorTerm // ORed; empty: everywhere
	Driver            string             // that took over from the provisioner, if it is in-tree
}

// Driver is a CSI driver on a node.
type Driver struct {
	Name, NodeID string
	HasLimit     bool
	Limit        int32 // volumes that the node takes
	TopologyKeys []string
}

// CSIDriver is what the scheduler may know of a driver.
type CSIDriver struct {
	StorageCapacity, AttachRequired, PreventPodSchedulingIfMissing bool
}

// Attachment is a volume that is, or is being, attached to a node.
type Attachment struct {
	Attacher, NodeName, PersistentVolumeName string
	Attached                                 bool
}

// DisruptionBudget is a PodDisruptionBudget's status; the pods that it covers are
// its object's Selector, of which an empty one covers all of the namespace.
type DisruptionBudget struct {
	DisruptionsAllowed int32
	DisruptedPods      []string
}

// Selector is a label selector. An empty one matches everything.
type Selector struct {
	MatchLabels      map[string]string
	MatchExpressions []Requirement
}
