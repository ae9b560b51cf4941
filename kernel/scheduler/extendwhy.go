package scheduler

// extenderTitle tells an extender apart from plugins.
func extenderTitle(name string) string { return "Extender " + name }

// extenderAccounts adds extenders to the plugins of an explanation: those that
// filter to the predicates, those that score to the priorities.
func extenderAccounts(plugins []PluginAccount, said []*extenderEvidence) []PluginAccount {
	for _, e := range said {
		if e.filters {
			plugins = append(plugins, PluginAccount{Name: extenderTitle(e.name), Kind: "predicate", Transport: "http", Refused: len(e.refused)})
		}
	}
	for _, e := range said {
		if e.scores != nil {
			plugins = append(plugins, PluginAccount{Name: extenderTitle(e.name), Kind: "priority", Transport: "http", Weight: 1})
		}
	}
	return plugins
}

// extend adds what extenders said about a node to what plugins said.
func (a *NodeAccount) extend(said []*extenderEvidence, n uint32) {
	asked := a.Fits
	for _, e := range said {
		if !e.filters {
			continue
		}
		v := VerdictAccount{Predicate: extenderTitle(e.name), Answer: AnswerNotAsked}
		reasons, refused := e.refused[n]
		switch {
		case !asked:
		case e.fault != "":
			v.Answer, v.Reasons = AnswerFailed, []string{e.fault}
			a.Fits = a.Fits && e.ignorable
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
		if e.scores != nil {
			score := e.scores[n]
			a.Scores = append(a.Scores, ScoreAccount{Priority: extenderTitle(e.name), Raw: score, Score: score, Weight: 1, Weighted: score})
		}
	}
}
