package scheduler

import (
	"context"
	"fmt"
	"slices"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// unknown marks a verdict that must be asked for.
const unknown = ^uint32(0)

// fits and absent are the values of class.fail beside the index of a failed
// predicate.
const (
	fits   = -1
	absent = -2
)

// class holds what the plugins answered for one pod shape. Vectors run by node
// index. It is brought up to date before each decision by asking only what
// may have changed: the nodes touched since, and the plugins whose objects did.
type class struct {
	id    uint32
	shape *shape
	used  uint64 // decision that used it last

	policy     Policy
	at         pointPolicy
	narrowing  narrowing
	generation uint64
	predicates []PredicateInfo
	priorities []PriorityInfo

	position uint64 // in the snapshot's change log
	nodes    uint64 // version of node objects seen
	objects  uint64 // version of all objects seen
	known    bool   // false: everything is to be asked

	verdicts [][]uint32 // by predicate
	readsP   []uint64   // sum of the versions of the kinds the predicate reads
	stale    []bool     // the predicate failed and was ignored: ask again
	fail     []int32
	// untilP and untilS are when answers end, by predicate and priority, of a class with
	// a plugin whose do; otherwise nil.
	untilP, untilS []expiry

	raw    [][]int64 // by priority
	have   [][]bool
	readsS []uint64
	staleS []bool
	voidS  []bool // all raw scores are to be asked for in this decision
	moved  []bool // raw scores changed since they were normalised

	fit    []uint32  // nodes that fit, ascending
	fitOld bool      // fit must be built again
	norm   [][]int64 // by priority, parallel to fit; only for sdk.NormalizePlugin

	least   []int64 // by priority: the smallest raw score, where the host normalises by both
	largest []int64 // by priority: the largest raw score, where the host normalises
	// tally is of the nodes that fit. changed lists those of which a raw score, or
	// whether they fit, is another since; flipped: of some the latter; unmeasured,
	// by priority: largest may be another; tallied: there is a tally.
	tally            tally
	changed          []uint32
	unmeasured       []bool
	flipped, tallied bool
	remeasured       bool     // by totals, last: scores were measured by something else
	message          string   // why no node fits, or empty: not worked out yet
	failed           *failure // what message was worked out with
	trouble          error    // what a priority failed with in this decision; it counted 0
	trace            trace    // for the record of decisions

	movesP, movesS []moves   // by predicate, by priority
	idleP, idleS   []idle    // by predicate, by priority
	aloof          *aloof    // nil: to no plugin
	calmP, calmS   pluginSet // in this decision: nothing happened to them
	zero           []bool    // by priority: normalised scores are all 0, which nobody was asked for

	// reserved are nodes that fit but for the pods nominated there; trials is what
	// was found out by taking pods off nodes.
	reserved map[uint32]bool
	trials   *trials

	*scratch // of the snapshot, while the class is brought up to date

	pace  pace                // how many pods of the class are decided about at once
	fates map[uint64]forecast // what became of a node with a pod more

	metrics *profileMetrics // of the attempt under way; nil: nobody counts
}

// scratch is what bringing one class up to date takes beside what the class keeps:
// a number or more a node each, so that all classes of a snapshot share one.
type scratch struct {
	mark []uint64 // by node: it is in list if that is tick
	tick uint64
	list []uint32
	ask  []uint32
	asks [][]uint32 // by priority
	// differ are the priorities by which the nodes of the class may differ; onPods*
	// the plugins that are asked about nodes that got or lost a pod.
	differ           []int
	onPodsP, onPodsS []int

	outP []uint32
	outS []int64

	together contractv1.Evaluation
}

// forget voids everything.
func (c *class) forget() { c.known = false }

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

// update brings verdicts and raw scores up to date. After an error the class is
// void, so that the next attempt asks afresh.
func (c *class) update(ctx context.Context, policy Policy, s *snapshot) (err error) {
	defer func() {
		if err != nil {
			c.forget()
		}
	}()
	c.scratch = s.scratch
	if generation := policy.Generation(); !c.known || c.policy != policy || c.generation != generation {
		c.policy, c.generation, c.at = policy, generation, pointsOf(policy)
		c.predicates, c.priorities = c.shape.predicates(policy.Predicates()), c.shape.priorities(policy.Priorities())
		c.start(len(s.byIndex))
		c.askAloof(ctx)
	}
	c.trouble = nil
	if c.untilP != nil && c.known {
		c.expire(s.now())
	}
	c.heedless(s)
	c.rest(ctx, s)
	c.resize(len(s.byIndex))
	c.learn(ctx, s)
	if err := ctx.Err(); err != nil {
		return err // the nodes may be others now
	}
	c.collect(s)
	began := c.metrics.start()
	if c.at.cycler != nil {
		if err := c.narrow(ctx, s); err != nil {
			return err
		}
		if c.at.has(contractv1.Point_PRE_FILTER) {
			began = c.metrics.since(began, pointTitle(contractv1.Point_PRE_FILTER), codeNames[contractv1.Code_SUCCESS])
		}
	}
	if len(c.list) > 0 {
		c.message = ""
	}
	c.voidScores(s)
	if err := c.filter(ctx, s); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	outcome := contractv1.Code_SUCCESS
	if len(c.fit) == 0 {
		outcome = contractv1.Code_UNSCHEDULABLE
	}
	began = c.metrics.since(began, titleFilter, codeNames[outcome])
	if c.at.cycler != nil {
		if err := c.preScore(ctx, s); err != nil {
			return err
		}
		if c.at.has(contractv1.Point_PRE_SCORE) {
			began = c.metrics.since(began, pointTitle(contractv1.Point_PRE_SCORE), codeNames[contractv1.Code_SUCCESS])
		}
	}
	if err := c.score(ctx, s); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(c.fit) > 0 {
		c.metrics.since(began, titleScore, codeNames[contractv1.Code_SUCCESS])
	}
	c.position, c.nodes, c.objects, c.known = s.log.end(), s.nodes, s.edits, true
	return nil
}

// start forgets all answers and makes vectors for the policy's plugins.
func (c *class) start(n int) {
	np, ns := len(c.predicates), len(c.priorities)
	c.verdicts, c.readsP, c.stale = make([][]uint32, np), make([]uint64, np), make([]bool, np)
	c.raw, c.have, c.readsS = make([][]int64, ns), make([][]bool, ns), make([]uint64, ns)
	c.staleS, c.moved, c.norm = make([]bool, ns), make([]bool, ns), make([][]int64, ns)
	c.voidS = make([]bool, ns)
	c.movesP, c.movesS, c.zero = make([]moves, np), make([]moves, ns), make([]bool, ns)
	c.idleP, c.idleS = make([]idle, np), make([]idle, ns)
	c.least, c.largest, c.message = make([]int64, ns), make([]int64, ns), ""
	c.unmeasured, c.tallied, c.changed = make([]bool, ns), false, c.changed[:0]
	c.untilP, c.untilS = nil, nil
	if c.expires() {
		c.untilP, c.untilS = make([]expiry, np), make([]expiry, ns)
	}
	c.fail = nil
	c.narrowing = narrowing{}
	c.reserved = nil
	c.fit, c.fitOld = nil, true
	c.known = false
	c.trace.reset()
	c.resize(n)
}

func (c *class) resize(n int) {
	for p := range c.verdicts {
		if c.idleP[p].now {
			c.verdicts[p] = nil // nobody asks
		} else {
			c.verdicts[p] = grow(c.verdicts[p], n, unknown)
		}
	}
	for i := range c.raw {
		if c.idleS[i].now {
			continue
		}
		c.raw[i] = grow(c.raw[i], n, 0)
		c.have[i] = grow(c.have[i], n, false)
	}
	c.fail = grow(c.fail, n, absent)
	c.mark, c.asks = grow(c.mark, n, 0), grow(c.asks, len(c.priorities), nil)
}

// filter settles the listed nodes, one predicate after the other over those
// that the ones before let pass (SCH-12).
func (c *class) filter(ctx context.Context, s *snapshot) error {
	c.unreserve()
	alive := c.list[:0:len(c.list)]
	for _, n := range c.list {
		if s.byIndex[n] != nil && c.narrowing.allows(n) {
			alive = append(alive, n)
		} else {
			c.settle(n, absent)
		}
	}
	for p := range c.predicates {
		if len(alive) == 0 {
			break
		}
		if c.idleP[p].now {
			continue
		}
		verdicts := c.verdicts[p]
		if c.listUnknown(verdicts, alive) {
			c.filterTogether(ctx, p, alive)
		}
		if c.listUnknown(verdicts, alive) {
			c.outP = grow(c.outP, len(c.ask), 0)[:len(c.ask)]
			if err := c.policy.Filter(ctx, p, c.id, c.ask, c.outP); err != nil {
				if !c.predicates[p].IgnoreFailure || ctx.Err() != nil {
					return fmt.Errorf("predicate %s: %w", c.predicates[p].Name, err)
				}
				c.stale[p] = true
				clear(c.outP)
			}
			c.verdictsUntil(p)
			for k, n := range c.ask {
				verdicts[n] = c.outP[k]
			}
		}
		passed := alive[:0]
		for _, n := range alive {
			if verdicts[n] == 0 {
				passed = append(passed, n)
			} else {
				c.settle(n, int32(p))
			}
		}
		alive = passed
	}
	alive, err := c.keepRoom(ctx, s, alive)
	if err != nil {
		return err
	}
	for _, n := range alive {
		c.settle(n, fits)
	}
	if c.fitOld {
		c.fit = c.fit[:0]
		for n, f := range c.fail {
			if f == fits {
				c.fit = append(c.fit, uint32(n))
			}
		}
	}
	return nil
}

// listUnknown fills c.ask with the nodes whose verdict must be asked for.
func (c *class) listUnknown(verdicts, nodes []uint32) bool {
	c.ask = c.ask[:0]
	for _, n := range nodes {
		if verdicts[n] == unknown {
			c.ask = append(c.ask, n)
		}
	}
	return len(c.ask) > 0
}

func (c *class) settle(n uint32, fail int32) {
	if (c.fail[n] == fits) != (fail == fits) {
		c.fitOld, c.flipped = true, true
		c.change(n)
	}
	c.fail[n] = fail
	c.trace.settle(c, n, fail)
}

// score asks for the raw scores that are missing among the nodes that fit.
func (c *class) score(ctx context.Context, s *snapshot) error {
	touched := c.touchedFit(s)
	for i := range c.priorities {
		if c.fitOld || c.nodes != s.nodes {
			c.moved[i] = true
		}
		candidates := touched
		if c.voidS[i] || c.fitOld {
			candidates = c.fit
		}
		c.asks[i] = c.asks[i][:0]
		if c.idleS[i].now {
			continue
		}
		for _, n := range candidates {
			if !c.have[i][n] {
				c.asks[i] = append(c.asks[i], n)
			}
		}
		c.askMoved(i)
	}
	c.scoreTogether(ctx)
	for i := range c.priorities {
		c.ask = c.ask[:0]
		for _, n := range c.asks[i] {
			if !c.have[i][n] {
				c.ask = append(c.ask, n)
			}
		}
		if len(c.ask) == 0 {
			continue
		}
		c.outS = grow(c.outS, len(c.ask), 0)[:len(c.ask)]
		if err := c.policy.Score(ctx, i, c.id, c.ask, c.outS); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			c.trouble = fmt.Errorf("priority %s: %w", c.priorities[i].Name, err)
			c.staleS[i] = true
			clear(c.outS)
		}
		c.scoresUntil(i)
		for k, n := range c.ask {
			c.takeScore(i, n, c.outS[k])
		}
	}
	c.fitOld = false
	return nil
}

// change notes that a node may have another total. While there is none, all are to
// be made.
func (c *class) change(n uint32) {
	if c.tallied {
		c.changed = append(c.changed, n)
	}
}

// touchedFit lists, once each, the nodes touched since the last update that fit.
func (c *class) touchedFit(s *snapshot) []uint32 {
	touched, _ := s.log.since(c.position)
	c.list = c.list[:0]
	for _, t := range touched {
		if c.fail[t.node] == fits && c.mark[t.node] == c.tick {
			c.mark[t.node] = 0 // each once
			c.list = append(c.list, t.node)
		}
	}
	return c.list
}
