package contractv1

// PredicateInfo describes one predicate of a profile to the scheduler.
type PredicateInfo struct {
	Name  string
	Scope string   // sdk.ScopeNodeObject, sdk.ScopeNode or sdk.ScopeCluster
	Pods  string   // that it has to do with: sdk.Pods
	Reads []string // kinds of cluster objects whose change voids cached verdicts
	// IgnoreFailure: a call that fails counts as "fits" instead of "unfit"
	// (manifest onFailure: ignore).
	IgnoreFailure bool
	Hearing
	// Group: plugins of the same group, unless it is 0, can be asked together
	// by Evaluator.
	Group int
	// Expires: verdicts end with time, see Expirer.
	Expires bool
}

// PriorityInfo describes one priority of a profile to the scheduler.
type PriorityInfo struct {
	Name          string
	Scope         string
	Pods          string // as of PredicateInfo
	Normalize     string // sdk.Normalize*
	MaxScore      int64  // what normalised scores go up to; 0: 10
	KeepsZero     bool   // with sdk.NormalizePlugin: raw scores that are all 0 stay so, unasked
	Reads         []string
	Weight        int64
	IgnoreFailure bool
	Group         int // as of PredicateInfo
	Expires       bool
}

// Most is what normalised scores go up to.
func (p *PriorityInfo) Most() int64 {
	if p.MaxScore == 0 {
		return 10
	}
	return p.MaxScore
}
