package resultcache

import (
	"slices"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"

	"pintle.dev/pintle/kernel/scheduler/framework"
	"pintle.dev/pintle/kernel/scheduler/snapshot"
)

// unknown marks a verdict that must be asked for.
const unknown = ^uint32(0)

// fits and absent are the values of class.fail beside the index of a failed
// predicate.
const (
	fits   = -1
	absent = -2
)

// Class holds what the plugins answered for one pod shape. Vectors run by node
// index. It is brought up to date before each decision by asking only what
// may have changed: the nodes touched since, and the plugins whose objects did.
type Class struct {
	id    uint32
	shape *snapshot.Shape

	policy     contractv1.Policy
	at         framework.Plugins
	generation uint64
	infos      pluginInfos
	narrowing  narrowing
	predicates []predicateCache
	priorities []priorityCache
	expires    bool // a plugin has answers that end with time

	position uint64 // in the snapshot's change log
	nodes    uint64 // version of node objects seen
	objects  uint64 // version of all objects seen
	known    bool   // false: everything is to be asked

	fail   []int32  // why a node does not fit, or fits, or absent
	fit    []uint32 // nodes that fit, ascending
	fitOld bool     // fit must be built again

	// totals is of the nodes that fit. changed lists those of which a raw score, or
	// whether they fit, is another since; flipped: of some the latter; totalled: there
	// are totals.
	totals            Totals
	differ            []int // priorities by which the nodes may differ
	changed           []uint32
	flipped, totalled bool
	remeasured        bool               // when totals were made last, scores were measured by something else
	message           string             // why no node fits, or empty: not worked out yet
	failed            *framework.Failure // what message was worked out with
	trouble           error              // what a priority failed with in this decision; it counted 0
	trace             failureCodes       // for the record of decisions

	unaffected *snapshot.Unaffected // plugins that pods of the class do not concern; nil: none
	// In this decision: plugins to which nothing happened.
	untouchedPredicates, untouchedPriorities snapshot.PluginSet

	reserved map[uint32]bool // nodes that fit but for the pods nominated there

	predictor Predictor

	timer stopwatch // of the attempt under way
}

// pluginInfos are the plugins of a policy as they are for pods of a class. They are
// never changed.
type pluginInfos struct {
	predicates []contractv1.PredicateInfo
	priorities []contractv1.PriorityInfo
}

// Time has the steps counted by a timer; nil: nobody counts.
func (c *Class) Time(t Timer) { c.timer = stopwatch{t} }

// NewClass is a class of which nothing is known. Plugins know it by its number.
func NewClass(number uint32, shape *snapshot.Shape) *Class {
	c := &Class{id: number, shape: shape}
	c.predictor.class = c
	return c
}

// Number implements snapshot.Class.
func (c *Class) Number() uint32 { return c.id }

// Unaffected implements snapshot.Class.
func (c *Class) Unaffected() *snapshot.Unaffected { return c.unaffected }

// Forget voids everything.
func (c *Class) Forget() { c.known = false }

func grow[T any](s []T, n int, fill T) []T {
	have := len(s)
	if have >= n {
		return s
	}
	s = slices.Grow(s, n-have)[:n]
	for i := have; i < n; i++ {
		s[i] = fill
	}
	return s
}

func setAll[T any](s []T, to T) {
	for i := range s {
		s[i] = to
	}
}

// change notes that a node may have another total. While there are no totals, all are
// to be made.
func (c *Class) change(n uint32) {
	if c.totalled {
		c.changed = append(c.changed, n)
	}
}

// Totals are the total scores that were made last.
func (c *Class) Totals() *Totals { return &c.totals }

// Verdicts are what the predicates said at the last update.
func (c *Class) Verdicts() Verdicts { return Verdicts{c} }

// Predictor guesses what becomes of totals.
func (c *Class) Predictor() *Predictor { return &c.predictor }

// WhatIf asks about what is not so.
func (c *Class) WhatIf() WhatIf { return WhatIf{c} }
