package sdk

import (
	"fmt"
	"slices"
)

// Failure is a pod that fits nowhere.
type Failure struct {
	Cluster *Cluster
	Pod     *QueuedPod
	// Refused are all nodes, each with what refused it first. The list is good until
	// the plugin answers.
	Refused []RefusedNode
	// Nominated is the node of the pod's own status.nominatedNodeName: nil if it
	// has none, or one that is gone. Leaving are pods of it that a preemption ended
	// and that are still terminating.
	Nominated *Node
	Leaving   []*Pod
	// Helpful is the number of nodes on which fewer pods might help.
	Helpful int
}

// RefusedNode is a node that does not fit and why not.
type RefusedNode struct {
	Node    *Node
	Plugin  string   // the predicate, or the PreFilter that left the node out
	Reasons []string // shared by all nodes of one reason
	// Unresolvable: fewer pods on the node would not change it.
	Unresolvable bool
}

// Refusal returns what refused a node, or nil.
func (f *Failure) Refusal(n *Node) *RefusedNode {
	for k := range f.Refused {
		if f.Refused[k].Node == n {
			return &f.Refused[k]
		}
	}
	return nil
}

// Nomination is a node on which the pod is expected to fit when Victims, pods of
// that node with a lower priority than the pod, have been evicted.
type Nomination struct {
	Node    *Node
	Victims []*Pod
}

// Trial asks the host on which nodes the pod would fit without which pods. It
// tries nodes in this order until Wanted candidates are found, of which at least
// one violates no disruption budget.
type Trial struct {
	Nodes  []*Node
	Wanted int

	sampled bool
	first   int
}

// Sample is a Trial of all nodes on which fewer pods might help, whichever they are,
// in the order of their indexes: from number First on, which is less than
// Failure.Helpful, and then those before.
type Sample struct {
	First  int
	Wanted int
}

// Victims are the pods that may go from a node, in the order in which the host
// tries to spare them when the pod fits without all of them: first those whose
// eviction violates a disruption budget, Violations of them, then the others.
// Without any, Reasons say why.
type Victims struct {
	Pods       []*Pod
	Violations int
	Reasons    []string
}

// Candidate is a node on which the pod fits without the victims.
type Candidate struct {
	Node       *Node
	Victims    []*Pod // in the order of Victims.Pods
	Violations int    // of them violate a disruption budget
}

// Tried is what the host found out.
type Tried struct {
	Cluster    *Cluster
	Pod        *QueuedPod
	Candidates []Candidate
	// Refused are nodes that were tried and do not fit without all that may go; the
	// list is good until the plugin answers.
	Refused []RefusedNode
}

// PostFilter is asked when no node is left. With Success, the host evicts the
// victims and notes the node in the pod's status; with Unschedulable the next
// plugin is asked. It either knows by itself which pods have to go (Nominate), or
// has the host find that out by all predicates of the profile (Try, Victims and
// Choose): the host takes all that may go off a node, asks, and spares one after
// the other as long as the pod fits. A status of Try or Choose that is not Success
// and Withdraws takes back the pod's nomination.
//
// Sample, in place of Try, and Rank, beside Choose, say the same in a form that
// costs the same for a thousand nodes as for one.
type PostFilter struct {
	Name      string
	Reads     []string
	Configure func(config []byte) error
	Nominate  func(f *Failure) (Nomination, Status)

	Try func(f *Failure) (Trial, Status)
	// Sample is told of the nominated node alone what refused it, and how many nodes
	// are Helpful.
	Sample func(f *Failure) (Sample, Status)
	// Victims is asked once a node; the host keeps the answer for all pods of the
	// class until the node or an object that the plugin reads changes.
	Victims func(c *Cluster, pod *QueuedPod, node *Node) Victims
	Choose  func(t *Tried) (Nomination, Status)
	// Rank is how a candidate compares with any other: the host takes the smallest,
	// number by number, and of equals the first. It depends on the candidate alone,
	// and the host keeps it until the node changes. Without numbers it is not to be
	// chosen. Choose is asked when there is none to choose, and where others have a
	// say in the candidates.
	Rank func(c *Candidate) []int64
}

// trying are the steps of a plugin that has the host try.
func (p *PostFilter) trying() map[point]step {
	return map[point]step{
		pointPostFilter: func(c *cycleCall, _ *cycleStep, r *stepResult) {
			var t Trial
			if f := c.failure(); p.Try != nil {
				t, r.status = p.Try(f)
			} else {
				var of Sample
				of, r.status = p.Sample(f)
				t = c.sample(f, of)
			}
			if r.status.Code == Success {
				r.trial = &t
			}
		},
		pointVictims: func(c *cycleCall, _ *cycleStep, r *stepResult) {
			r.candidates = make([]victims, len(c.nodes))
			for k, n := range c.nodes {
				r.candidates[k] = victims{n.Index, p.Victims(c.cluster, c.pod(), n)}
			}
		},
		pointChoose: func(c *cycleCall, _ *cycleStep, r *stepResult) {
			t := &Tried{Cluster: c.cluster, Pod: c.pod(), Refused: c.refusedNodes(), Candidates: c.candidatesThere()}
			t.Candidates = slices.DeleteFunc(t.Candidates, func(of Candidate) bool { return of.Node == nil })
			r.nomination, r.status = p.Choose(t)
		},
		pointRank: func(c *cycleCall, _ *cycleStep, r *stepResult) {
			list := c.candidatesThere()
			r.ranks = make([][]int64, len(list))
			for k := range list {
				if p.Rank != nil && list[k].Node != nil {
					r.ranks[k] = p.Rank(&list[k])
				}
			}
		},
	}
}

// candidatesThere are the candidates of the call; of those whose node is gone Node is
// nil.
func (c *cycleCall) candidatesThere() []Candidate {
	list, pods := make([]Candidate, len(c.candidates)), make([]*Pod, 0, len(c.victims))
	for k, w := range c.candidates {
		n := c.cluster.Node(w.node)
		if n == nil {
			continue
		}
		first := len(pods)
		for _, uid := range c.victims[w.first:w.behind] {
			if pod := n.Pods[string(uid)]; pod != nil {
				pods = append(pods, pod)
			}
		}
		list[k] = Candidate{n, pods[first:len(pods):len(pods)], w.violations}
	}
	return list
}

// sample is a sample as a trial. A host that listed all nodes instead of counting
// those that are helpful is answered with a list.
func (c *cycleCall) sample(f *Failure, of Sample) Trial {
	t := Trial{Wanted: of.Wanted, sampled: c.helpful > 0, first: of.First}
	if t.sampled {
		return t
	}
	for k := range f.Refused {
		if !f.Refused[k].Unresolvable {
			t.Nodes = append(t.Nodes, f.Refused[k].Node)
		}
	}
	if at := of.First; at > 0 && at < len(t.Nodes) {
		t.Nodes = slices.Concat(t.Nodes[at:], t.Nodes[:at])
	}
	return t
}

// victims is a Candidate of the contract before it is encoded.
type victims struct {
	node uint32
	Victims
}

// wireCandidate is a Candidate of the contract as it was decoded; its victims are
// those of the call from first on.
type wireCandidate struct {
	node          uint32
	first, behind int
	violations    int
}

// standing is a Standing of the contract.
type standing struct {
	node    uint32
	known   bool
	leaving []string
}

// podsOf are those of the pods, by UID, that are on the node.
func (n *Node) podsOf(uids []string) []*Pod {
	list := make([]*Pod, 0, len(uids))
	for _, uid := range uids {
		if pod := n.Pods[uid]; pod != nil {
			list = append(list, pod)
		}
	}
	return list
}

func (c *cycleCall) failure() *Failure {
	f := &Failure{Cluster: c.cluster, Pod: c.pod(), Refused: c.refusedNodes(), Helpful: int(c.helpful)}
	for k := range f.Refused {
		if c.helpful == 0 && !f.Refused[k].Unresolvable {
			f.Helpful++
		}
	}
	if c.standing.known {
		if f.Nominated = c.cluster.Node(c.standing.node); f.Nominated != nil {
			f.Leaving = f.Nominated.podsOf(c.standing.leaving)
		}
	}
	return f
}

// candidate takes in a Candidate; the UIDs of its victims stay where they are.
func (c *cycleCall) candidate(data []byte) error {
	of := wireCandidate{first: len(c.victims)}
	w, f := wire{data: data}, field{}
	for w.next(&f) {
		switch f.tag {
		case 1:
			of.node = uint32(f.number)
		case 2:
			c.victims = append(c.victims, f.bytes)
		case 3:
			of.violations = int(uint32(f.number))
		}
	}
	if w.bad {
		return fmt.Errorf("%w: candidate", ErrDelta)
	}
	of.behind = len(c.victims)
	c.candidates = append(c.candidates, of)
	return nil
}

func decodeStanding(data []byte) (standing, error) {
	var s standing
	err := message(data, "standing", func(f *field) error {
		switch f.tag {
		case 2:
			s.known = f.number != 0
		case 3:
			s.node = uint32(f.number)
		case 4:
			s.leaving = append(s.leaving, f.text())
		}
		return nil
	})
	return s, err
}

// appendTrial appends what post-filter plugins answer that have the host try.
func appendTrial(m []byte, r *stepResult) []byte {
	if t := r.trial; t != nil {
		packed := make([]byte, 0, 3*len(t.Nodes))
		for _, n := range t.Nodes {
			packed = appendVarint(packed, uint64(n.Index))
		}
		trial := appendNumber(appendBytes(nil, 1, packed), 2, uint64(max(t.Wanted, 0)))
		m = appendBytes(m, 14, appendNumber(appendNumber(trial, 3, boolean(t.sampled)), 4, uint64(max(t.first, 0))))
	}
	for k := range r.candidates {
		v := &r.candidates[k]
		candidate := appendNumber(nil, 1, uint64(v.node))
		for _, pod := range v.Pods {
			candidate = appendBytes(candidate, 2, []byte(pod.UID))
		}
		candidate = appendNumber(candidate, 3, uint64(max(v.Violations, 0)))
		for _, reason := range v.Reasons {
			candidate = appendText(candidate, 4, reason)
		}
		m = appendBytes(m, 15, candidate)
	}
	for _, numbers := range r.ranks {
		var packed []byte
		for _, n := range numbers {
			packed = appendVarint(packed, uint64(n))
		}
		m = appendBytes(m, 18, appendBytes(nil, 1, packed))
	}
	return appendNumber(m, 16, boolean(r.status.withdrawn))
}
