package explain

import (
	"fmt"
	"strings"

	"pintle.dev/pintle/kernel/scheduler/resultcache"
	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// accountNarrowing adds the pre-filter plugins that left nodes out to an explanation: they
// speak first, as they are asked first.
func accountNarrowing(narrowed []resultcache.Narrowed, policy contractv1.Policy, plugins []PluginAccount, accounts []NodeAccount, nodes []uint32) []PluginAccount {
	if len(narrowed) == 0 {
		return plugins
	}
	origin := func(string) contractv1.Origin { return contractv1.Origin{} }
	if o, ok := policy.(contractv1.Origins); ok {
		origin = o.Origin
	}
	verdicts := make([][]VerdictAccount, len(nodes))
	var first []PluginAccount
	for _, by := range narrowed {
		reasons := []string{fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", []string{strings.TrimSuffix(by.Info.Name, "PreFilter")})}
		if by.Stop != nil {
			reasons = []string{by.Stop.Reason()}
		}
		left := map[uint32]bool{}
		for _, node := range by.Nodes {
			left[node] = true
		}
		a := accountOf(origin(by.Info.Name), by.Info.Name, sdk.KindPreFilter)
		for k, node := range nodes {
			v := VerdictAccount{Predicate: by.Info.Name, Answer: AnswerFits}
			if !left[node] {
				v.Answer, v.Reasons = AnswerRefuses, reasons
				a.Refused++
			}
			verdicts[k] = append(verdicts[k], v)
		}
		first = append(first, a)
	}
	for k := range accounts {
		accounts[k].Verdicts = append(verdicts[k], accounts[k].Verdicts...)
	}
	return append(first, plugins...)
}
