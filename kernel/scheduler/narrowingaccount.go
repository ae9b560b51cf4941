package scheduler

import (
	"fmt"
	"strings"

	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// accountNarrowing adds the pre-filter plugins that left nodes out to an explanation: they
// speak first, as they are asked first.
func accountNarrowing(n *narrowing, infos []contractv1.PointInfo, policy contractv1.Policy, plugins []PluginAccount, accounts []NodeAccount, nodes []uint32) []PluginAccount {
	if n.stop == nil && n.allowed == nil {
		return plugins
	}
	origin := func(string) contractv1.Origin { return contractv1.Origin{} }
	if o, ok := policy.(contractv1.Origins); ok {
		origin = o.Origin
	}
	verdicts := make([][]VerdictAccount, len(nodes))
	var first []PluginAccount
	for i := range n.answers {
		r, info := n.answers[i].result, &infos[i]
		stops := n.stop != nil && n.stop.Info == info
		if !stops && !r.GetNarrowed() {
			continue
		}
		reasons := []string{fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", []string{strings.TrimSuffix(info.Name, "PreFilter")})}
		left := map[uint32]bool{}
		if stops {
			reasons = []string{n.stop.Reason()}
		} else {
			for _, node := range r.GetNodes() {
				left[node] = true
			}
		}
		a := accountOf(origin(info.Name), info.Name, sdk.KindPreFilter)
		for k, node := range nodes {
			v := VerdictAccount{Predicate: info.Name, Answer: AnswerFits}
			if !left[node] {
				v.Answer, v.Reasons = AnswerRefuses, reasons
				a.Refused++
			}
			verdicts[k] = append(verdicts[k], v)
		}
		first = append(first, a)
		if stops {
			break // nobody was asked after it
		}
	}
	for k := range accounts {
		accounts[k].Verdicts = append(verdicts[k], accounts[k].Verdicts...)
	}
	return append(first, plugins...)
}
