package resultcache

import (
	"fmt"
	"slices"
	"strings"

	"pintle.dev/pintle/kernel/scheduler/framework"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// Why words, as kube-scheduler does, on what the nodes failed: how many nodes
// give each reason, sorted as text. The predicate that failed first counts.
func (c *Class) Why(nodes int) (string, *framework.Failure) {
	if c.message != "" {
		return c.message, c.failed
	}
	type verdict struct {
		predicate int32
		id        uint32
	}
	counts := map[verdict]int{}
	narrowed := nodes
	for n, f := range c.fail {
		if f >= 0 {
			counts[verdict{f, c.predicates[f].verdicts[n]}]++
			narrowed--
		}
	}
	reasons := map[string]int{}
	var by []framework.Rejector
	for v, count := range counts {
		for _, reason := range c.policy.Reasons(int(v.predicate), v.id) {
			reasons[reason] += count
		}
		by = append(by, framework.PredicateRejector(c.predicates[v.predicate].PredicateInfo))
	}
	if refused := c.narrowing.tell(narrowed, c.at.Points[contractv1.Point_PRE_FILTER], reasons, &by); refused != "" {
		c.message, c.failed = fmt.Sprintf("0/%d nodes are available: %s.", nodes, refused), framework.NewFailure(by)
		return c.message, c.failed
	}
	c.message, c.failed = UnfitMessage(nodes, reasons), framework.NewFailure(by)
	return c.message, c.failed
}

// UnfitMessage words how many nodes gave which reason, as kube-scheduler's FitError does.
func UnfitMessage(nodes int, reasons map[string]int) string {
	lines := make([]string, 0, len(reasons))
	for reason, count := range reasons {
		lines = append(lines, fmt.Sprintf("%d %s", count, reason))
	}
	slices.Sort(lines)
	message := fmt.Sprintf("0/%d nodes are available:", nodes)
	if len(lines) > 0 {
		message += " " + strings.Join(lines, ", ") + "."
	}
	return message
}
