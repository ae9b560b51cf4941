package resultcache

// Verdicts are what the predicates said about nodes, at the last update of their class.
type Verdicts struct{ c *Class }

// Nodes is how many indexes of nodes the class has answers for.
func (v Verdicts) Nodes() int { return len(v.c.fail) }

// Considered reports whether the predicates were asked about a node: it exists, and no
// pre-filter plugin left it out.
func (v Verdicts) Considered(n uint32) bool { return v.c.fail[n] != absent }

// Fits reports whether a node fits.
func (v Verdicts) Fits(n uint32) bool { return v.c.fail[n] == fits }

// RefusedBy is the predicate that refuses a node; empty: none does.
func (v Verdicts) RefusedBy(n uint32) string {
	if f := v.c.fail[n]; f >= 0 {
		return v.c.predicates[f].Name
	}
	return ""
}

// Reasons are the words of the predicate that refuses a node.
func (v Verdicts) Reasons(n uint32) []string {
	f := v.c.fail[n]
	if f < 0 {
		return nil
	}
	return v.c.policy.Reasons(int(f), v.c.predicates[f].verdicts[n])
}

// FitsAlone reports whether a node fits as it is, nominated pods aside.
func (v Verdicts) FitsAlone(n uint32) bool { return v.c.fail[n] == fits || v.c.reserved[n] }

// FailedPredicate is the first predicate that failed and was ignored.
func (v Verdicts) FailedPredicate() (name string, some bool) {
	for p := range v.c.predicates {
		if v.c.predicates[p].stale {
			return v.c.predicates[p].Name, true
		}
	}
	return "", false
}

// CountReasons counts what the predicates said against nodes, with what extenders did.
func (v Verdicts) CountReasons(said []*ExtenderAnswer) map[string]int {
	reasons := map[string]int{}
	for n, f := range v.c.fail {
		if f < 0 {
			continue
		}
		for _, reason := range v.c.policy.Reasons(int(f), v.c.predicates[f].verdicts[n]) {
			reasons[reason]++
		}
	}
	for _, e := range said {
		for _, refused := range e.Refused {
			for _, reason := range refused {
				reasons[reason]++
			}
		}
	}
	return reasons
}
