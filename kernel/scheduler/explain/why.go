package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"

	"pintle.dev/pintle/kernel/scheduler/snapshot"
)

// whyBest says in words how the first of best won; the others follow by total.
func whyBest(best []NodeAccount, feasible, tied int) string {
	winner := &best[0]
	switch {
	case feasible == 1:
		return fmt.Sprintf("%s is the only node that fits", winner.Node)
	case tied > 1:
		return fmt.Sprintf("%s was picked at random among %d nodes with the best total, %d", winner.Node, tied, winner.Total)
	case len(best) < 2:
		return fmt.Sprintf("%s has the best total, %d", winner.Node, winner.Total)
	}
	second := &best[1]
	var ahead, behind []string
	for i := range winner.Scores {
		name, by := winner.Scores[i].Priority, winner.Scores[i].Weighted-second.Scores[i].Weighted
		switch {
		case by > 0:
			ahead = append(ahead, fmt.Sprintf("%s +%d", name, by))
		case by < 0:
			behind = append(behind, fmt.Sprintf("%s %d", name, by))
		}
	}
	return fmt.Sprintf("%s has the best total, %d; the next is %s with %d (%s)", winner.Node, winner.Total, second.Node, second.Total,
		strings.Join(append(ahead, behind...), ", "))
}

// Change says what would have to change for a pod that fits on no node.
type Change struct {
	// Nearest is the node with the fewest predicates against it.
	Nearest *NodeAccount `json:"nearest,omitempty"`
	// Predicates that refuse some node, those first that stand alone most often.
	Predicates []Obstacle `json:"predicates"`
	// Reasons are the same by the words of a refusal.
	Reasons []Obstacle `json:"reasons"`
}

// Obstacle is a predicate, or one reason that a predicate gives.
type Obstacle struct {
	Predicate string `json:"predicate"`
	Reason    string `json:"reason,omitempty"`
	// Refused counts the nodes it stands against, Alone those on which nothing
	// else does: so many would fit without it.
	Refused int `json:"refused"`
	Alone   int `json:"alone"`
	// Least is where the least of a resource is lacking, for reasons that are
	// about one.
	Least *Lack `json:"least,omitempty"`
}

// Lack is how much of a resource a pod asks for and a node has left. CPU is in
// thousandths; Text has units.
type Lack struct {
	Node     string `json:"node"`
	Resource string `json:"resource"`
	Asked    int64  `json:"asked"`
	Free     int64  `json:"free"`
	Lacking  int64  `json:"lacking"`
	Text     string `json:"text"`
}

// insufficient begins the reasons that are about a resource, as in Kubernetes.
const insufficient = "Insufficient "

// tooManyPods is Kubernetes' reason for the resource pods.
const tooManyPods = "Too many pods"

// lackOf works out the amounts behind a reason; nil where it is not about a
// resource or the amounts do not bear it out.
func lackOf(n *snapshot.Node, pod *contractv1.Pod, reason string) *Lack {
	name, ok := strings.CutPrefix(reason, insufficient)
	if reason == tooManyPods {
		name, ok = "pods", true
	}
	if !ok || n.Object == nil {
		return nil
	}
	amount := func(r *contractv1.Resources) int64 {
		switch name {
		case "cpu":
			return r.GetMilliCpu()
		case "memory":
			return r.GetMemory()
		case "ephemeral-storage":
			return r.GetEphemeralStorage()
		case "pods":
			return r.GetPods()
		}
		return r.GetScalar()[name]
	}
	asked := amount(pod.GetRequests())
	var used int64
	for _, p := range n.Pods {
		if name == "pods" {
			used++
		} else {
			used += amount(p.Shape.Message.GetRequests())
		}
	}
	if name == "pods" {
		asked = 1
	}
	// Which of the two a predicate goes by is its own affair; the one that
	// bears out what it said is meant, the larger one first.
	for _, has := range []int64{amount(n.Object.GetCapacity()), amount(n.Object.GetAllocatable())} {
		if free := has - used; asked > free {
			l := &Lack{Node: n.Name, Resource: name, Asked: asked, Free: free, Lacking: asked - free}
			l.Text = fmt.Sprintf("asks for %s, %s of %s free", l.amount(asked), l.amount(free), l.amount(has))
			return l
		}
	}
	return nil
}

func (l *Lack) amount(n int64) string {
	switch l.Resource {
	case "cpu":
		return resource.NewMilliQuantity(n, resource.DecimalSI).String()
	case "memory", "ephemeral-storage":
		return resource.NewQuantity(n, resource.BinarySI).String()
	}
	return resource.NewQuantity(n, resource.DecimalSI).String()
}

// Missing is how much is lacking, with its unit.
func (l *Lack) Missing() string { return l.amount(l.Lacking) }

// changeFor works out from every predicate's verdict on every node what stands
// against the pod.
func changeFor(nodes []NodeAccount) *Change {
	c := &Change{}
	predicates, reasons := map[string]*Obstacle{}, map[[2]string]*Obstacle{}
	for i := range nodes {
		node := &nodes[i]
		var by []*Obstacle
		var words []*Obstacle
		for k := range node.Verdicts {
			v := &node.Verdicts[k]
			if v.Answer == AnswerFits {
				continue
			}
			o := predicates[v.Predicate]
			if o == nil {
				o = &Obstacle{Predicate: v.Predicate}
				predicates[v.Predicate] = o
			}
			o.Refused++
			by = append(by, o)
			for _, reason := range v.Reasons {
				key := [2]string{v.Predicate, reason}
				r := reasons[key]
				if r == nil {
					r = &Obstacle{Predicate: v.Predicate, Reason: reason}
					reasons[key] = r
				}
				r.Refused++
				words = append(words, r)
				for l := range v.Lacks {
					if lack := &v.Lacks[l]; (reason == insufficient+lack.Resource || reason == tooManyPods && lack.Resource == "pods") &&
						(r.Least == nil || lack.Lacking < r.Least.Lacking) {
						r.Least = lack
					}
				}
			}
		}
		if len(by) == 1 {
			by[0].Alone++
		}
		if len(words) == 1 && len(by) == 1 {
			words[0].Alone++
		}
	}
	c.Predicates, c.Reasons = ranked(predicates), ranked(reasons)
	if len(nodes) > 0 {
		nearest := nodes[0] // they come ordered
		c.Nearest = &nearest
	}
	return c
}

func ranked[K comparable](m map[K]*Obstacle) []Obstacle {
	out := make([]Obstacle, 0, len(m))
	for _, o := range m {
		out = append(out, *o)
	}
	slices.SortFunc(out, func(a, b Obstacle) int {
		return cmp.Or(cmp.Compare(b.Alone, a.Alone), cmp.Compare(b.Refused, a.Refused),
			cmp.Compare(a.Predicate, b.Predicate), cmp.Compare(a.Reason, b.Reason))
	})
	return out
}

// refusals counts the predicates against a node, and the reasons.
func (a *NodeAccount) refusals() (predicates, reasons int) {
	for i := range a.Verdicts {
		if a.Verdicts[i].Answer != AnswerFits {
			predicates++
			reasons += len(a.Verdicts[i].Reasons)
		}
	}
	return predicates, reasons
}
