package resultcache

import (
	"context"

	"pintle.dev/pintle/kernel/scheduler/framework"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// update is bringing one class up to date, with what that takes beside what the class
// keeps: a number or more per node, so that all classes of a view share one.
type update struct {
	*Class
	view *View

	mark []uint64 // by node: it is in list if that is tick
	tick uint64
	list []uint32
	ask  []uint32
	asks [][]uint32 // by priority
	// onPods* are the plugins that are asked about nodes that got or lost a pod.
	onPodsPredicates, onPodsPriorities []int

	verdicts []uint32
	scores   []int64

	questions contractv1.Evaluation
}

// enlist has a node looked at, once.
func (u *update) enlist(n uint32) {
	if u.mark[n] != u.tick {
		u.mark[n] = u.tick
		u.list = append(u.list, n)
	}
}

// Update brings verdicts and raw scores up to date. After an error the class is
// void, so that the next attempt asks afresh.
func (c *Class) Update(ctx context.Context, policy contractv1.Policy, s *View) (err error) {
	u := s.update
	u.Class, u.view = c, s
	defer func() {
		u.Class, u.view = nil, nil
		if err != nil {
			c.Forget()
		}
	}()
	if generation := policy.Generation(); !c.known || c.policy != policy || c.generation != generation {
		c.policy, c.generation, c.at = policy, generation, framework.PluginsOf(policy)
		u.start(len(s.ByIndex))
		u.askUnaffected(ctx)
	}
	c.trouble = nil
	if c.expires && c.known {
		u.expire(s.Now())
	}
	u.findUntouched()
	u.askSkips(ctx)
	u.resize(len(s.ByIndex))
	u.askChangedNodes(ctx)
	if err := ctx.Err(); err != nil {
		return err // the nodes may be others now
	}
	u.invalidate()
	began := c.timer.start()
	if c.at.Cycler != nil {
		if err := u.narrow(ctx); err != nil {
			return err
		}
		if c.at.Has(contractv1.Point_PRE_FILTER) {
			began = c.timer.since(began, framework.PointTitle(contractv1.Point_PRE_FILTER), contractv1.CodeNames[contractv1.Code_SUCCESS])
		}
	}
	if len(u.list) > 0 {
		c.message = ""
	}
	u.invalidateScores()
	if err := u.filter(ctx); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	outcome := contractv1.Code_SUCCESS
	if len(c.fit) == 0 {
		outcome = contractv1.Code_UNSCHEDULABLE
	}
	began = c.timer.since(began, framework.TitleFilter, contractv1.CodeNames[outcome])
	if c.at.Cycler != nil {
		if err := u.preScore(ctx); err != nil {
			return err
		}
		if c.at.Has(contractv1.Point_PRE_SCORE) {
			began = c.timer.since(began, framework.PointTitle(contractv1.Point_PRE_SCORE), contractv1.CodeNames[contractv1.Code_SUCCESS])
		}
	}
	if err := u.score(ctx); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(c.fit) > 0 {
		c.timer.since(began, framework.TitleScore, contractv1.CodeNames[contractv1.Code_SUCCESS])
	}
	c.position, c.nodes, c.objects, c.known = s.Log.End(), s.NodeVersion, s.ObjectVersion, true
	return nil
}

// start forgets all answers and makes room for those of the policy's plugins.
func (u *update) start(nodes int) {
	u.infos = pluginInfos{framework.PredicatesFor(u.shape.Pod, u.policy.Predicates()), framework.PrioritiesFor(u.shape.Pod, u.policy.Priorities())}
	u.predicates, u.priorities = newPredicateCaches(u.infos.predicates), newPriorityCaches(u.infos.priorities)
	u.expires = u.infos.expire()
	u.message, u.totalled, u.changed = "", false, u.changed[:0]
	u.fail = nil
	u.narrowing = narrowing{}
	u.reserved = nil
	u.fit, u.fitOld = nil, true
	u.known = false
	u.trace.reset()
	u.resize(nodes)
}

func (u *update) resize(nodes int) {
	for p := range u.predicates {
		u.predicates[p].resize(nodes)
	}
	for i := range u.priorities {
		u.priorities[i].resize(nodes)
	}
	u.fail = grow(u.fail, nodes, absent)
	u.mark, u.asks = grow(u.mark, nodes, 0), grow(u.asks, len(u.priorities), nil)
}

// settle notes why a node fails, or that it fits.
func (u *update) settle(n uint32, fail int32) {
	if (u.fail[n] == fits) != (fail == fits) {
		u.fitOld, u.flipped = true, true
		u.change(n)
	}
	u.fail[n] = fail
	u.trace.settle(u.Class, n, fail)
}
