package sdk

import (
	"runtime"
	"unsafe"
)

// Scope says what a plugin's answer for a node depends on, and so when the
// host may reuse a cached one.
type Scope string

const (
	// ScopeNode: the pod class, that node with its pods, and the objects the
	// plugin declared to read. The host asks again only about changed nodes.
	ScopeNode Scope = "node"
	// ScopeNodeObject: as ScopeNode, but for the pods on the node, which the plugin
	// does not look at. Pods that come and go, the most frequent change, void none
	// of its answers, and a bundle all of whose plugins say so is told of no pods on
	// nodes. Of predicates, priorities and reserve plugins; PreBind, Bind and PostBind,
	// which are shown none, have it of themselves. Contract 3.
	ScopeNodeObject Scope = "node-object"
	// ScopeCluster: also other nodes. The host asks about every node again
	// when any of them changed.
	ScopeCluster Scope = "cluster"
)

// Pods says which pods a plugin has to do with; the zero value is all. About others
// a pre-filter, reserve or pre-bind plugin is not asked, and a predicate or
// priority of ScopeCluster is of ScopeNode: it does not look at other nodes then.
type Pods string

// PodsWithClaims are those with a volume that stands for a claim.
const PodsWithClaims Pods = "claims"

// Normalize says how raw scores become 0–10.
type Normalize string

const (
	NormalizeNone       Normalize = "none"        // already 0–10
	NormalizeMax        Normalize = "max"         // 10 × score / largest
	NormalizeReverseMax Normalize = "reverse-max" // 10 × (largest − score) / largest
	NormalizePlugin     Normalize = "plugin"      // the plugin's own NormalizeFunc
	// NormalizePluginNonzero is NormalizePlugin of a plugin that leaves raw scores
	// which are all 0 as they are, and is not asked about them. Contract 3.
	NormalizePluginNonzero Normalize = "plugin-nonzero"
	// NormalizeMinMax is 10 × (score − smallest) / (largest − smallest), rounded
	// down, and 0 where the two are the same. Contract 3.
	NormalizeMinMax Normalize = "min-max"
	// NormalizeReverse is 10 − (10 × score / largest), and 10 where the largest
	// is 0: kube-scheduler's way, which rounds to the other side. Contract 3.
	NormalizeReverse Normalize = "reverse"
)

// The largest scores: of classic priorities (requirement SCH-16), and of those of
// the scheduling framework (KEP-624), which say so in Priority.MaxScore.
const (
	MaxScore          = 10
	MaxFrameworkScore = 100
)

// Request is one question: this pod on this node. State is what the plugin's
// Prepare returned for the pod's class, or nil.
type Request struct {
	Pod     *Pod
	Node    *Node
	Cluster *Cluster
	State   any

	clock *clock
}

// Verdict is the answer of a predicate. The zero value means that the pod fits.
type Verdict struct {
	// Reasons says why not, in the words that FailedScheduling events count.
	Reasons []string
	// Unresolvable says that the pod would not fit either if pods were evicted.
	// It tells a post-filter plugin to leave the node out. Contract 3.
	Unresolvable bool
}

// Fits is the verdict of a node that can run the pod.
func Fits() Verdict { return Verdict{} }

// Unfit is the verdict of a node that cannot, with at least one reason. Give
// the same constant words for the same cause: events count them, and an answer
// that equals the one before costs nothing.
func Unfit(reasons ...string) Verdict {
	switch {
	case len(reasons) == 0:
		return Verdict{Reasons: []string{"node(s) did not satisfy a predicate"}}
	case len(reasons) > 1 || runtime.GOARCH != "wasm":
		return Verdict{Reasons: append([]string(nil), reasons...)}
	}
	// A WASM module has one thread, and its garbage collector is the dearest
	// part of a pass over many nodes; the caller's slice stays on its stack.
	if len(lastUnfit) == 0 || unsafe.StringData(lastUnfit[0]) != unsafe.StringData(reasons[0]) || len(lastUnfit[0]) != len(reasons[0]) {
		lastUnfit = []string{reasons[0]}
	}
	return Verdict{Reasons: lastUnfit}
}

// Never is Unfit of a node that no eviction could make fit.
func Never(reasons ...string) Verdict {
	v := Unfit(reasons...)
	v.Unresolvable = true
	return v
}

// lastUnfit is what Unfit returned last, in WASM modules only; it is never
// written to.
var lastUnfit []string

// Fit reports whether the pod fits.
func (v Verdict) Fit() bool { return len(v.Reasons) == 0 }

// Predicate answers whether a pod can run on a node (requirement SCH-11).
type Predicate struct {
	Name  string
	Scope Scope // defaults to ScopeNode
	Pods  Pods
	// Contract is the oldest version of the contract that has what the predicate
	// needs; it defaults to the kind's. See sdk/contract.
	Contract uint32
	// Reads lists the kinds of cluster objects the plugin looks at; a change
	// of one of them makes the host ask again.
	Reads []string
	// Events are those that can help a pod that the predicate refused; nil: it
	// says nothing about that.
	Events []Interest
	// Configure receives the plugin's configuration as JSON; may be nil. No bytes are
	// no configuration: the plugin goes by its defaults. It is called again, with
	// other bytes or none, when the operator changes it; an error leaves the one
	// before in force.
	Configure func(config []byte) error
	// Prepare is called once a class and object generation; may be nil.
	Prepare func(c *Cluster, pod *Pod) any
	// Follow brings a state of Prepare up to date, so that ScopeCluster need not
	// prepare it anew at each change. It may change state in place and returns the
	// new one; nil asks for Prepare. changes are all since the state was made or
	// followed last, in order; where they are no longer known, and when an object
	// of Reads changed, Prepare is called instead. May be nil; ScopeCluster only.
	Follow func(c *Cluster, pod *Pod, state any, changes []Change) any
	// Moved is called after each Follow and lists the nodes, by index, about which
	// verdicts may be others for what that Follow took in; all: any of them. Nodes
	// that changed themselves, or whose pods did, need not be named for that alone,
	// but for what happened on others. With it a change costs as many questions as it
	// moved nodes; without, all of them.
	Moved func(state any) (nodes []uint32, all bool)
	// Idle reports that the pod fits all nodes, whatever they are and have, as long as
	// its class and the objects of Reads stay as they are: the rule is about something
	// that the pod does not ask for. The host asks about no node then. State is that
	// of Prepare, or nil. May be nil.
	Idle func(pod *Pod, state any) bool
	// Indifferent reports that pods of the class do not concern each other: where one
	// is put, nothing changes for the next one on any other node, as long as the
	// class and the objects of Reads stay as they are. The host may then decide about
	// several at once. State is that of Prepare, or nil. A plugin of ScopeNode is
	// indifferent by itself. May be nil.
	Indifferent func(pod *Pod, state any) bool
	// Aloof reports that pods of the class and those of the other classes of which it
	// reports so do not concern each other at all: one that comes to a node, or goes,
	// changes no verdict about another on any node, its own included, whatever else
	// there is. A rule between pods says so of those that have no part in it. The host
	// does not ask about a node again for such a pod. What is aloof is Indifferent too.
	// May be nil.
	Aloof func(pod *Pod) bool
	// Expires: verdicts may depend on the time, which is Request.Now, and say by
	// Request.Until when they end. What Prepare, Idle, Indifferent and Aloof answer may
	// not depend on it. Contract 4.
	Expires bool
	// Filter must be pure: the same replica, and with Expires the same time, gives the
	// same verdict.
	Filter func(r *Request) Verdict
	// FilterNodes is Filter for many nodes, faster; one of both is enough.
	FilterNodes func(b *Batch)
}

// Priority answers how well a pod that fits would run on a node.
type Priority struct {
	Name      string
	Scope     Scope // defaults to ScopeNode
	Pods      Pods
	Normalize Normalize // defaults to NormalizeNone
	// MaxScore is what normalised scores go up to, 1 to 100; it defaults to 10.
	// Where it stands above "10" stands for it. Contract 3.
	MaxScore  int64
	Contract  uint32 // as of Predicate
	Reads     []string
	Configure func(config []byte) error
	Prepare   func(c *Cluster, pod *Pod) any
	// Follow is as a predicate's.
	Follow func(c *Cluster, pod *Pod, state any, changes []Change) any
	// Moved is as a predicate's, of raw scores. Where nodes are named, all scores
	// are normalised anew; where none is, not even that.
	Moved func(state any) (nodes []uint32, all bool)
	// Idle is as a predicate's: the raw score of every node is 0.
	Idle func(pod *Pod, state any) bool
	// Indifferent is as a predicate's, of raw scores.
	Indifferent func(pod *Pod, state any) bool
	// Aloof is as a predicate's, of raw scores.
	Aloof func(pod *Pod) bool
	// Expires is as a predicate's, of raw scores.
	Expires bool
	// Score returns the raw score of one node.
	Score func(r *Request) int64
	// ScoreNodes is Score for many nodes, faster; one of both is enough.
	ScoreNodes func(b *Batch)
	// NormalizeFunc rewrites the raw scores of all feasible nodes in place;
	// only for NormalizePlugin and NormalizePluginNonzero. nodes and scores run in
	// parallel.
	NormalizeFunc func(c *Cluster, pod *Pod, state any, nodes []*Node, scores []int64)
}
