package resultcache

import (
	"context"
	"slices"
	"time"

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
	totals            totalIndex
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

	*scratch // of the view, while the class is brought up to date

	predictions map[uint64]Prediction // what became of a node with a pod more

	timer Timer // of the attempt under way; nil: nobody counts
}

// pluginInfos are the plugins of a policy as they are for pods of a class. They are
// never changed.
type pluginInfos struct {
	predicates []contractv1.PredicateInfo
	priorities []contractv1.PriorityInfo
}

// scratch is what bringing one class up to date takes beside what the class keeps:
// a number or more per node, so that all classes of a snapshot share one.
type scratch struct {
	mark []uint64 // by node: it is in list if that is tick
	tick uint64
	list []uint32
	ask  []uint32
	asks [][]uint32 // by priority
	// differ are the priorities by which the nodes of the class may differ; onPods*
	// the plugins that are asked about nodes that got or lost a pod.
	differ                             []int
	onPodsPredicates, onPodsPriorities []int

	verdicts []uint32
	scores   []int64

	questions contractv1.Evaluation
}

// enlist has a node looked at, once.
func (l *scratch) enlist(n uint32) {
	if l.mark[n] != l.tick {
		l.mark[n] = l.tick
		l.list = append(l.list, n)
	}
}

// Timer counts how long the steps of an attempt take.
type Timer interface {
	Start() time.Time
	// Since counts the time that a point took, and returns when it ended.
	Since(began time.Time, title, status string) time.Time
}

// Time has the steps counted by a timer; nil: nobody counts.
func (c *Class) Time(t Timer) { c.timer = t }

func (c *Class) now() time.Time {
	if c.timer == nil {
		return time.Time{}
	}
	return c.timer.Start()
}

func (c *Class) since(began time.Time, title, status string) time.Time {
	if c.timer == nil {
		return began
	}
	return c.timer.Since(began, title, status)
}

// NewClass is a class of which nothing is known. Plugins know it by its number.
func NewClass(number uint32, shape *snapshot.Shape) *Class { return &Class{id: number, shape: shape} }

// Number implements shapeClass.
func (c *Class) Number() uint32 { return c.id }

// Unaffected implements shapeClass.
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

// Update brings verdicts and raw scores up to date. After an error the class is
// void, so that the next attempt asks afresh.
func (c *Class) Update(ctx context.Context, policy contractv1.Policy, s *View) (err error) {
	defer func() {
		if err != nil {
			c.Forget()
		}
	}()
	c.scratch = s.scratch
	if generation := policy.Generation(); !c.known || c.policy != policy || c.generation != generation {
		c.policy, c.generation, c.at = policy, generation, framework.PluginsOf(policy)
		c.start(len(s.ByIndex))
		c.askUnaffected(ctx)
	}
	c.trouble = nil
	if c.expires && c.known {
		c.expire(s.Now())
	}
	c.findUntouched(s)
	c.askSkips(ctx, s)
	c.resize(len(s.ByIndex))
	c.askChangedNodes(ctx, s)
	if err := ctx.Err(); err != nil {
		return err // the nodes may be others now
	}
	c.invalidate(s)
	began := c.now()
	if c.at.Cycler != nil {
		if err := c.narrow(ctx, s); err != nil {
			return err
		}
		if c.at.Has(contractv1.Point_PRE_FILTER) {
			began = c.since(began, framework.PointTitle(contractv1.Point_PRE_FILTER), contractv1.CodeNames[contractv1.Code_SUCCESS])
		}
	}
	if len(c.list) > 0 {
		c.message = ""
	}
	c.invalidateScores(s)
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
	began = c.since(began, framework.TitleFilter, contractv1.CodeNames[outcome])
	if c.at.Cycler != nil {
		if err := c.preScore(ctx, s); err != nil {
			return err
		}
		if c.at.Has(contractv1.Point_PRE_SCORE) {
			began = c.since(began, framework.PointTitle(contractv1.Point_PRE_SCORE), contractv1.CodeNames[contractv1.Code_SUCCESS])
		}
	}
	if err := c.score(ctx, s); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(c.fit) > 0 {
		c.since(began, framework.TitleScore, contractv1.CodeNames[contractv1.Code_SUCCESS])
	}
	c.position, c.nodes, c.objects, c.known = s.Log.End(), s.NodeVersion, s.ObjectVersion, true
	return nil
}

// start forgets all answers and makes room for those of the policy's plugins.
func (c *Class) start(nodes int) {
	c.infos = pluginInfos{framework.PredicatesFor(c.shape.Pod, c.policy.Predicates()), framework.PrioritiesFor(c.shape.Pod, c.policy.Priorities())}
	c.predicates, c.priorities = newPredicateCaches(c.infos.predicates), newPriorityCaches(c.infos.priorities)
	c.expires = c.infos.expire()
	c.message, c.totalled, c.changed = "", false, c.changed[:0]
	c.fail = nil
	c.narrowing = narrowing{}
	c.reserved = nil
	c.fit, c.fitOld = nil, true
	c.known = false
	c.trace.reset()
	c.resize(nodes)
}

func (c *Class) resize(nodes int) {
	for p := range c.predicates {
		c.predicates[p].resize(nodes)
	}
	for i := range c.priorities {
		c.priorities[i].resize(nodes)
	}
	c.fail = grow(c.fail, nodes, absent)
	c.mark, c.asks = grow(c.mark, nodes, 0), grow(c.asks, len(c.priorities), nil)
}

// settle notes why a node fails, or that it fits.
func (c *Class) settle(n uint32, fail int32) {
	if (c.fail[n] == fits) != (fail == fits) {
		c.fitOld, c.flipped = true, true
		c.change(n)
	}
	c.fail[n] = fail
	c.trace.settle(c, n, fail)
}

// change notes that a node may have another total. While there are no totals, all are
// to be made.
func (c *Class) change(n uint32) {
	if c.totalled {
		c.changed = append(c.changed, n)
	}
}
