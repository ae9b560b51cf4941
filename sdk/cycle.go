package sdk

import (
	"context"
	"time"
)

// The kinds below are the points of the Kubernetes scheduling framework
// (KEP-624) that are asked once a pod or once a class. The order of the cycle is
// PreEnqueue, QueueSort; PreFilter, predicates, PostFilter if no node is left;
// PreScore, priorities; Reserve, Permit; and beside the next pods' decisions
// PreBind, Bind, PostBind. Whatever fails from Reserve on, Unreserve is called of
// every Reserve plugin, in reverse order.
//
// All but PreBind, Bind and PostBind are called by the scheduling goroutine and
// hold it up: they are to answer from the replica. None may change or keep what
// it is given.

// QueuedPod is a pod with its name and UID, and how long it has been waiting.
type QueuedPod struct {
	*Pod
	Queued   time.Time // entered the queue first
	Created  time.Time // metadata.creationTimestamp, in seconds
	Attempts int       // made so far
}

// PreEnqueue says whether a pod may enter the queue. One that may not waits
// until it, a kind that the plugin reads or, with ScopeCluster, anything in the
// cluster has changed. Nobody is told of it: the pod is not ready to be tried.
type PreEnqueue struct {
	Name   string
	Scope  Scope // defaults to ScopeNode
	Reads  []string
	Events []Interest // that can change the answer; nil: it says nothing about that
	// ByClass: the answer depends on what all pods of a class have in common, so
	// that one answer does for all of them. Names, UIDs and times are not told then.
	ByClass   bool
	Configure func(config []byte) error
	Admit     func(c *Cluster, pod *QueuedPod) Status
}

// SortKey orders the queue by Number and then by Text, smallest first.
type SortKey struct {
	Number int64
	Text   string
}

// QueueSort orders the queue; all profiles of a scheduler share one. It gives a
// key a pod instead of comparing two: a heap of 10,000 pods compares 130,000
// times to empty itself, each of which would be a crossing into the plugin, while
// keys are asked for in batches, once a pod. Pods of one key go first come, first
// served. A key may depend on the pod alone.
type QueueSort struct {
	Name      string
	ByClass   bool // as of PreEnqueue
	Configure func(config []byte) error
	Key       func(pod *QueuedPod) SortKey
}

// PreFilter is asked once a class before its predicates, and again when
// something changed that it depends on: with ScopeNode nodes themselves and the
// kinds it reads, with ScopeCluster anything. It returns the nodes that are worth
// asking about, nil for all of them, or refuses the pod.
//
// State that one predicate needs once a class is made by its own Prepare.
type PreFilter struct {
	Name      string
	Scope     Scope // defaults to ScopeNode
	Pods      Pods
	Reads     []string
	Events    []Interest // that can help a pod which it refused, or whose nodes it left out; nil: it says nothing
	Configure func(config []byte) error
	Narrow    func(c *Cluster, pod *Pod) ([]*Node, Status)
}

// PreScore is told which nodes fit before priorities are asked about them, in
// each decision for which something changed.
type PreScore struct {
	Name      string
	Configure func(config []byte) error
	Look      func(c *Cluster, pod *Pod, nodes []*Node) Status
}

// Placement is a pod with the node that was chosen for it. The replica has it
// among the pods of that node already.
type Placement struct {
	Cluster  *Cluster
	Pod      *QueuedPod
	Node     *Node // nil where it is gone, which Unreserve may see
	NodeName string

	assumed []Assumption
}

// Assume has the host show all plugins an object as it will be when what Reserve
// decided is done: the next decision sees it. It holds until the object changes or
// the pod is unreserved. Only Reserve can assume.
func (p *Placement) Assume(a Assumption) { p.assumed = append(p.assumed, a) }

// Assumption is an object with what is taken for true of it.
type Assumption struct {
	Kind, Namespace, Name string
	Claim                 *ClaimReference   // of a persistent volume
	Annotations           map[string]string // beside those that there are
}

// Reserve keeps count of what a pod is given on its node beside what nodes have
// in Kubernetes. Unreserve takes that back and does nothing where there is
// nothing to take back; it may come without Reserve, more than once, and after
// the plugin was started anew. A pod that is bound is not unreserved.
type Reserve struct {
	Name string
	// Scope is empty or ScopeNodeObject: the plugin does not look at pods on nodes.
	Scope     Scope
	Pods      Pods
	Reads     []string   // kinds of objects that it looks at
	Events    []Interest // that can help a pod which it refused; nil: it says nothing
	Configure func(config []byte) error
	Reserve   func(p *Placement) Status
	Unreserve func(p *Placement) // may be nil
}

// Waiting is a pod that waits for the plugin's word.
type Waiting struct {
	Pod   *Pod // as the replica has it
	Node  *Node
	Since time.Duration // how long ago it began to wait
}

// PermitRequest is a placement, with the pods that wait for this plugin.
type PermitRequest struct {
	Placement
	Waiting []Waiting
	decisions
}

// ReviewRequest is the pods that wait for this plugin.
type ReviewRequest struct {
	Cluster *Cluster
	Waiting []Waiting
	decisions
}

type decision struct {
	uid, reason string
	allow       bool
}

type decisions struct{ list []decision }

// Allow lets a waiting pod go on to be bound, unless other plugins still hold it.
func (d *decisions) Allow(uid string) { d.list = append(d.list, decision{uid: uid, allow: true}) }

// Reject refuses a waiting pod; it gives up its node and is tried again later.
func (d *decisions) Reject(uid, reason string) {
	d.list = append(d.list, decision{uid: uid, reason: reason})
}

// Permit has the last word before a pod is bound: Success, a refusal, or WaitFor,
// with which the pod keeps its node until the plugin allows or rejects it, or the
// time is over, which is a refusal. It can allow and reject others from Permit
// (the last member of a group arrived) and from Review, which is asked about all
// waiting pods four times a second as long as there are any.
type Permit struct {
	Name      string
	Events    []Interest // that can help a pod which it refused; nil: it says nothing
	Configure func(config []byte) error
	Permit    func(r *PermitRequest) Status
	Review    func(r *ReviewRequest) // may be nil
}

// Binding is a pod that is about to be bound, or was. Calls with it run beside
// the scheduling: in a process several at once and beside the other kinds, so
// that what they share needs a lock; in a WASM module one at a time.
type Binding struct {
	Context  context.Context // ends with the call's deadline; PreBind's also when another takes the pod's place
	Pod      *QueuedPod
	Node     *Node // a copy without pods; nil where it is gone
	NodeName string
	// Socket of the API that speaks with the plugin's own identity, for
	// processes whose manifest gives the plugin rules (controller.ConfigFor
	// makes a client configuration of it). Empty: there is none, or not yet.
	Socket string
	// Annotations, which Bind may fill in, are set on the pod by the binding
	// that the host writes.
	Annotations map[string]string
}

// PreBind does what must be done before the binding, such as to make a volume.
type PreBind struct {
	Name      string
	Pods      Pods
	Configure func(config []byte) error
	PreBind   func(b *Binding) Status
}

// Bind binds. Success asks the host to write the binding to this node, which is
// all that a WASM module can do; Bound says that it was written; Skip leaves it
// to the next plugin and in the end to the host.
type Bind struct {
	Name      string
	Configure func(config []byte) error
	Bind      func(b *Binding) Status
}

// PostBind is told of a binding that succeeded.
type PostBind struct {
	Name      string
	Configure func(config []byte) error
	PostBind  func(b *Binding)
}
