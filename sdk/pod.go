package sdk

// The types below are the guest's view of the scheduling contract
// (sdk/contract/v1/scheduling.proto). They hold no pointers into Kubernetes'
// own packages, so that a WASM module stays small. Plugins must treat them as
// immutable: one replica is shared by every plugin of a bundle.

// Resources is an amount of what a node offers or a pod asks for.
type Resources struct {
	MilliCPU         int64
	Memory           int64 // bytes
	EphemeralStorage int64 // bytes
	Pods             int64 // count; nodes only
	Scalar           map[string]int64
}

// Requirement is one expression of a label or field selector; Operator is one
// of In, NotIn, Exists, DoesNotExist, Gt, Lt.
type Requirement struct {
	Key      string
	Operator string
	Values   []string
}

// NodeSelectorTerm matches a node when every requirement in it does. An empty
// term matches nothing, as in Kubernetes.
type NodeSelectorTerm struct {
	MatchExpressions []Requirement
	MatchFields      []Requirement
}

// PreferredTerm is a node selector term with a weight from 1 to 100.
type PreferredTerm struct {
	Weight int32
	Term   NodeSelectorTerm
}

// NodeAffinity is a pod's required and preferred node terms. Required terms
// are ORed; HasRequired with no terms matches no node.
type NodeAffinity struct {
	HasRequired bool
	Required    []NodeSelectorTerm
	Preferred   []PreferredTerm
}

// Toleration is core/v1 Toleration without its seconds.
type Toleration struct {
	Key, Operator, Value, Effect string
}

// HostPort is a container port that asks for a port of the host (1–65535).
type HostPort struct {
	Port     int32
	Protocol string
	HostIP   string
}

// Container is what predicates and priorities may know of a container.
type Container struct {
	Name, Image string
}

// Volume is one volume of a pod, or what a PersistentVolume is made of. Type
// is the set member of core/v1 VolumeSource in lower camel case; ID names the
// disk within its type.
type Volume struct {
	Name     string
	Type     string
	ID       string
	ReadOnly bool
	Monitors []string // rbd only
	// InTreePlugin is set where CSI drivers have taken over the volumes of the
	// plugin that the source belongs to: kubernetes.io/aws-ebs …
	InTreePlugin string
	// Driver and Handle are what a persistent volume of CSI says, and what an
	// in-tree source is translated to; empty where it cannot be translated.
	Driver, Handle string
}

// OwnerReference names an owner of a pod.
type OwnerReference struct {
	APIVersion, Kind, Name, UID string
	Controller                  bool
}

// Pod is a pod that is asked about (a class) or that occupies a node.
type Pod struct {
	Namespace      string
	Name           string
	UID            string
	Labels         map[string]string
	Annotations    map[string]string
	NodeName       string // spec.nodeName
	SchedulerName  string
	Priority       int32
	NodeSelector   map[string]string
	NodeAffinity   *NodeAffinity
	Tolerations    []Toleration
	Containers     []Container
	InitContainers []Container
	HostPorts      []HostPort
	Volumes        []Volume
	// Requests is the effective request of the whole pod as upstream computes it.
	Requests Resources
	// NonZeroMilliCPU and NonZeroMemory are the requests with 100m and 200Mi
	// for each container that names none.
	NonZeroMilliCPU int64
	NonZeroMemory   int64
	Owners          []OwnerReference
	Terminating     bool
	StartTimeUnix   int64 // status.startTime; 0: not yet, and in classes

	// PodAffinity and PodAntiAffinity are nil where the pod has none.
	PodAffinity     *PodAffinity
	PodAntiAffinity *PodAffinity
	TopologySpread  []TopologySpreadConstraint
	SchedulingGates []string
	// PreemptionPolicy is PreemptLowerPriority or Never; empty: the former.
	PreemptionPolicy string
	ResourceClaims   []string
	// NominatedNodeName is status.nominatedNodeName; pods on nodes only.
	NominatedNodeName string
}

// PodAffinity is what a pod wants, or with anti-affinity does not want, to share
// a domain of nodes with.
type PodAffinity struct {
	Required  []PodAffinityTerm
	Preferred []PodAffinityTerm // with weights
}

// PodAffinityTerm selects pods by labels and namespaces: those that are listed and
// those that NamespaceSelector selects. matchLabelKeys are part of Selector.
type PodAffinityTerm struct {
	Selector          *Selector // nil: no pod
	Namespaces        []string
	NamespaceSelector *Selector // nil: none but Namespaces
	TopologyKey       string
	Weight            int32 // preferred terms: 1 to 100
}

// TopologySpreadConstraint is core/v1's; MatchLabelKeys are those that are not
// part of Selector yet.
type TopologySpreadConstraint struct {
	MaxSkew            int32
	TopologyKey        string
	WhenUnsatisfiable  string    // DoNotSchedule, ScheduleAnyway
	Selector           *Selector // nil: no pod
	MinDomains         int32     // 0: one
	NodeAffinityPolicy string    // Honor, Ignore; empty: Honor
	NodeTaintsPolicy   string    // Honor, Ignore; empty: Ignore
	MatchLabelKeys     []string
}
