// Package defaultpreemption is the post-filter plugin DefaultPreemption: for a
// pod that fits nowhere it finds a node where it would fit if pods with a lower
// priority were gone, and names those that have to go. It decides on candidates,
// on the order in which pods are spared, and on the node; the host tries each
// candidate with all predicates of the profile.
package defaultpreemption

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"pintle.dev/pintle/sdk"
)

// Name is the name by which configurations switch the plugin.
const Name = "DefaultPreemption"

const kindBudget = "PodDisruptionBudget"

// Config is the plugin's configuration, as DefaultPreemptionArgs of
// kubescheduler.config.k8s.io/v1.
type Config struct {
	// MinCandidateNodesPercentage of the nodes that could do, and
	// MinCandidateNodesAbsolute of them, are found before one is chosen. 0 to 100,
	// and 0 or more; not both 0. Defaults 10 and 100.
	MinCandidateNodesPercentage *int32 `json:"minCandidateNodesPercentage"`
	MinCandidateNodesAbsolute   *int32 `json:"minCandidateNodesAbsolute"`
}

type plugin struct {
	percentage, absolute int32
	// offset is where in a list of n nodes to begin.
	offset func(n int) int
}

// New returns the plugin with its defaults.
func New() sdk.PostFilter { return build(rand.IntN) }

func build(offset func(n int) int) sdk.PostFilter {
	p := &plugin{percentage: 10, absolute: 100, offset: offset}
	return sdk.PostFilter{
		Name: Name, Reads: []string{kindBudget}, Configure: p.configure,
		Sample: p.sample, Victims: victims, Choose: choose, Rank: rank,
	}
}

func (p *plugin) configure(data []byte) error {
	var config Config
	if len(data) > 0 {
		if err := json.Unmarshal(data, &config); err != nil {
			return fmt.Errorf("configuration of %s: %w", Name, err)
		}
	}
	percentage, absolute := int32(10), int32(100)
	if config.MinCandidateNodesPercentage != nil {
		percentage = *config.MinCandidateNodesPercentage
	}
	if config.MinCandidateNodesAbsolute != nil {
		absolute = *config.MinCandidateNodesAbsolute
	}
	switch {
	case percentage < 0 || percentage > 100:
		return fmt.Errorf("configuration of %s: minCandidateNodesPercentage %d: not in the range [0, 100]", Name, percentage)
	case absolute < 0:
		return fmt.Errorf("configuration of %s: minCandidateNodesAbsolute %d: not in the range [0, inf)", Name, absolute)
	case percentage == 0 && absolute == 0:
		return fmt.Errorf("configuration of %s: minCandidateNodesPercentage and minCandidateNodesAbsolute cannot be zero at the same time", Name)
	}
	p.percentage, p.absolute = percentage, absolute
	return nil
}

// sample is the nodes on which fewer pods might help, beginning anywhere.
func (p *plugin) sample(f *sdk.Failure) (sdk.Sample, sdk.Status) {
	if f.Pod.PreemptionPolicy == "Never" {
		return sdk.Sample{}, sdk.Refuse("preemption: not eligible due to preemptionPolicy=Never.")
	}
	if n := f.Nominated; n != nil {
		refusal := f.Refusal(n)
		if (refusal == nil || !refusal.Unresolvable) && slices.ContainsFunc(f.Leaving, func(v *sdk.Pod) bool { return v.Priority < f.Pod.Priority }) {
			return sdk.Sample{}, sdk.Refuse("preemption: not eligible due to a terminating pod on the nominated node.")
		}
	}
	n := f.Helpful
	if n == 0 {
		return sdk.Sample{}, nothing(f.Cluster, nil)
	}
	wanted := min(max(int(int64(n)*int64(p.percentage)/100), int(p.absolute)), n)
	return sdk.Sample{First: p.offset(n), Wanted: wanted}, sdk.Status{}
}

// nothing says that preemption does not help, in the words of the nodes that were
// tried.
func nothing(c *sdk.Cluster, tried []sdk.RefusedNode) sdk.Status {
	counts, all := map[string]int{}, 0
	for range c.Nodes {
		all++
	}
	for k := range tried {
		for _, reason := range tried[k].Reasons {
			counts[reason]++
		}
	}
	if rest := all - len(tried); rest > 0 {
		counts["Preemption is not helpful for scheduling"] += rest
	}
	lines := make([]string, 0, len(counts))
	for reason, count := range counts {
		lines = append(lines, fmt.Sprintf("%d %s", count, reason))
	}
	slices.Sort(lines)
	message := fmt.Sprintf("preemption: 0/%d nodes are available:", all)
	if len(lines) > 0 {
		message += " " + strings.Join(lines, ", ") + "."
	}
	return sdk.Refuse(message).Withdraw()
}

// victims are the pods of a node with a lower priority, the most important first,
// and before all others those whose disruption budget has nothing left.
func victims(c *sdk.Cluster, pod *sdk.QueuedPod, node *sdk.Node) sdk.Victims {
	var list []*sdk.Pod
	for _, p := range node.Pods {
		if p.Priority < pod.Priority {
			list = append(list, p)
		}
	}
	if len(list) == 0 {
		return sdk.Victims{Reasons: []string{"No preemption victims found for incoming pod"}}
	}
	slices.SortFunc(list, byImportance)
	violating, others := split(c, list)
	return sdk.Victims{Pods: append(violating, others...), Violations: len(violating)}
}

// byImportance puts a higher priority first, and of one priority the pod that
// started first; one that has not started, started just now.
func byImportance(a, b *sdk.Pod) int {
	switch {
	case a.Priority != b.Priority:
		if a.Priority > b.Priority {
			return -1
		}
		return 1
	case a.StartTimeUnix != b.StartTimeUnix:
		if b.StartTimeUnix == 0 || a.StartTimeUnix != 0 && a.StartTimeUnix < b.StartTimeUnix {
			return -1
		}
		return 1
	}
	return strings.Compare(a.UID, b.UID)
}

// split takes the pods apart whose eviction, after that of those before them,
// would violate a disruption budget.
func split(c *sdk.Cluster, list []*sdk.Pod) (violating, others []*sdk.Pod) {
	allowed := map[*sdk.Object]int32{}
	for _, pod := range list {
		violates := false
		if len(pod.Labels) > 0 {
			c.Objects(kindBudget, pod.Namespace, func(o *sdk.Object) bool {
				// A budget without a selector, or with an empty one, covers nothing here.
				if o.DisruptionBudget == nil || empty(o.Selector) || !o.Selector.Matches(pod.Labels) ||
					slices.Contains(o.DisruptionBudget.DisruptedPods, pod.Name) {
					return true
				}
				left, known := allowed[o]
				if !known {
					left = o.DisruptionBudget.DisruptionsAllowed
				}
				left--
				allowed[o] = left
				violates = violates || left < 0
				return true
			})
		}
		if violates {
			violating = append(violating, pod)
		} else {
			others = append(others, pod)
		}
	}
	return violating, others
}

func empty(s *sdk.Selector) bool {
	return s == nil || len(s.MatchLabels)+len(s.MatchExpressions) == 0
}

// choose takes the candidate with the smallest rank, and of those the first.
func choose(t *sdk.Tried) (sdk.Nomination, sdk.Status) {
	if len(t.Candidates) == 0 {
		return sdk.Nomination{}, nothing(t.Cluster, t.Refused)
	}
	var best *sdk.Candidate
	var least []int64
	for k := range t.Candidates {
		c := &t.Candidates[k]
		if r := rank(c); len(r) > 0 && (best == nil || slices.Compare(r, least) < 0) {
			best, least = c, r
		}
	}
	if best == nil {
		return sdk.Nomination{}, sdk.Refuse("preemption: no candidate node for preemption")
	}
	slices.SortFunc(best.Victims, byImportance)
	return sdk.Nomination{Node: best.Node, Victims: best.Victims}, sdk.Status{}
}

// rank compares candidates: the fewest violations of budgets, the lowest highest
// priority, the smallest sum of priorities, the fewest pods, the latest start of the
// earliest of the highest priority. A node from which nobody has to go is none.
func rank(c *sdk.Candidate) []int64 {
	if len(c.Victims) == 0 {
		return nil
	}
	var sum int64
	highest, earliest := c.Victims[0].Priority, started(c.Victims[0])
	for _, pod := range c.Victims {
		// As if priorities began at 0, or a few pods with a negative one would go
		// before one of them.
		sum += int64(pod.Priority) + 1<<31
		switch at := started(pod); {
		case pod.Priority > highest:
			highest, earliest = pod.Priority, at
		case pod.Priority == highest:
			earliest = min(earliest, at)
		}
	}
	return []int64{int64(c.Violations), int64(highest), sum, int64(len(c.Victims)), -earliest}
}

// started is when a pod started; later than any other if it has not yet.
func started(pod *sdk.Pod) int64 {
	if pod.StartTimeUnix == 0 {
		return 1 << 62
	}
	return pod.StartTimeUnix
}
