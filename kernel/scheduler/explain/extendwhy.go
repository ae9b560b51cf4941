package explain

import (
	"pintle.dev/pintle/kernel/scheduler/resultcache"
)

// ExtenderTitle tells an extender apart from plugins.
func ExtenderTitle(name string) string { return "Extender " + name }

// extenderAccounts adds extenders to the plugins of an explanation: those that
// filter to the predicates, those that score to the priorities.
func extenderAccounts(plugins []PluginAccount, said []*resultcache.ExtenderAnswer) []PluginAccount {
	for _, e := range said {
		if e.Filters {
			plugins = append(plugins, PluginAccount{Name: ExtenderTitle(e.Name), Kind: "predicate", Transport: "http", Refused: len(e.Refused)})
		}
	}
	for _, e := range said {
		if e.Scores != nil {
			plugins = append(plugins, PluginAccount{Name: ExtenderTitle(e.Name), Kind: "priority", Transport: "http", Weight: 1})
		}
	}
	return plugins
}

// extend adds what extenders said about a node to what plugins said.
func (a *NodeAccount) extend(said []*resultcache.ExtenderAnswer, n uint32) {
	asked := a.Fits
	for _, e := range said {
		if !e.Filters {
			continue
		}
		v := VerdictAccount{Predicate: ExtenderTitle(e.Name), Answer: AnswerNotAsked}
		reasons, refused := e.Refused[n]
		switch {
		case !asked:
		case e.Fault != "":
			v.Answer, v.Reasons = AnswerFailed, []string{e.Fault}
			a.Fits = a.Fits && e.Ignorable
		case refused:
			v.Answer, v.Reasons = AnswerRefuses, reasons
			a.Fits, asked = false, false
		default:
			v.Answer = AnswerFits
		}
		a.Verdicts = append(a.Verdicts, v)
	}
	if !a.Fits || !a.ScoresKept {
		return
	}
	for _, e := range said {
		if e.Scores != nil {
			score := e.Scores[n]
			a.Scores = append(a.Scores, ScoreAccount{Priority: ExtenderTitle(e.Name), Raw: score, Score: score, Weight: 1, Weighted: score})
		}
	}
}
