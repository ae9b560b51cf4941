package resultcache

import (
	"slices"
	"time"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// Answers of plugins that say so end with time (sdk.Request.Until). A class remembers
// by plugin when the first of them ends; from then on all of that plugin's are asked
// for again. A pod that such a plugin refused
// is tried again at that time.

// expiry is when the first of a plugin's answers ends, in Unix milliseconds; 0: time
// does not end them.
type expiry int64

// sooner takes in when further answers end.
func (e *expiry) sooner(until int64) {
	if until != 0 && (*e == 0 || expiry(until) < *e) {
		*e = expiry(until)
	}
}

// expire reports whether a plugin has answers that end with time.
func (i *pluginInfos) expire() bool {
	return slices.ContainsFunc(i.predicates, func(p contractv1.PredicateInfo) bool { return p.Expires }) ||
		slices.ContainsFunc(i.priorities, func(p contractv1.PriorityInfo) bool { return p.Expires })
}

// expire voids the answers that ended.
func (u *update) expire(now time.Time) {
	at := expiry(now.UnixMilli())
	for p := range u.predicates {
		u.predicates[p].expire(at)
	}
	for i := range u.priorities {
		u.priorities[i].expire(at)
	}
}

func (p *pluginCache) expire(at expiry) {
	if p.until != 0 && p.until <= at {
		p.until, p.stale = 0, true
	}
}

// verdictsUntil notes when the answers to the last Filter of predicate p end.
func (u *update) verdictsUntil(p int) {
	if u.predicates[p].Expires {
		if e, ok := u.policy.(contractv1.Expirer); ok {
			u.predicates[p].until.sooner(e.VerdictsUntil(p))
		}
	}
}

// scoresUntil notes when the answers to the last Score of priority i end.
func (u *update) scoresUntil(i int) {
	if u.priorities[i].Expires {
		if e, ok := u.policy.(contractv1.Expirer); ok {
			u.priorities[i].until.sooner(e.ScoresUntil(i))
		}
	}
}

// UnfitUntil is when a pod of the class, which fits nowhere, may fit by time alone;
// zero: never.
func (c *Class) UnfitUntil() time.Time {
	if !c.expires {
		return time.Time{}
	}
	var first expiry
	for p := range c.predicates {
		first.sooner(int64(c.predicates[p].until))
	}
	if first == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(first))
}
