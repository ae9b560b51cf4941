package sdk

// point is a place in the cycle; the numbers are those of contract/v1/cycle.proto.
type point uint8

const (
	pointPreEnqueue point = iota + 1
	pointQueueSort
	pointPreFilter
	pointPostFilter
	pointPreScore
	pointReserve
	pointUnreserve
	pointPermit
	pointPermitReview
	pointPreBind
	pointBind
	pointPostBind
	pointQueueingHint
	pointVictims
	pointChoose
	pointRank
)

// beside reports whether calls run beside others.
func (p point) beside() bool { return p == pointPreBind || p == pointBind || p == pointPostBind }

// stops reports whether an answer ends the steps behind it.
func (p point) stops(c Code) bool {
	return c != Success && c != Skip && c != Wait && p != pointUnreserve && p != pointPostBind
}

// step answers one point for a plugin.
type step func(c *cycleCall, s *cycleStep, r *stepResult)

// steps returns what a plugin of the cycle answers, or nil where the value is
// none, with its name and what its functions want.
func steps(plugin any) (s served, at map[point]step, ok bool) {
	switch p := plugin.(type) {
	case PreEnqueue:
		s = served{name: p.Name, kind: KindPreEnqueue, scope: p.Scope, readList: p.Reads, configure: p.Configure, interests: p.Events, byClass: p.ByClass}
		return s, points(p.Admit != nil, pointPreEnqueue, func(c *cycleCall, _ *cycleStep, r *stepResult) {
			r.admissions = make([]Status, len(c.pods))
			for k := range c.pods {
				r.admissions[k] = p.Admit(c.cluster, &c.pods[k])
			}
		}), true
	case QueueSort:
		s = served{name: p.Name, kind: KindQueueSort, configure: p.Configure, byClass: p.ByClass}
		return s, points(p.Key != nil, pointQueueSort, func(c *cycleCall, _ *cycleStep, r *stepResult) {
			r.keys = make([]SortKey, len(c.pods))
			for k := range c.pods {
				r.keys[k] = p.Key(&c.pods[k])
			}
		}), true
	case PreFilter:
		s = served{name: p.Name, kind: KindPreFilter, scope: p.Scope, pods: p.Pods, readList: p.Reads, configure: p.Configure, interests: p.Events}
		return s, points(p.Narrow != nil, pointPreFilter, func(c *cycleCall, _ *cycleStep, r *stepResult) {
			var nodes []*Node
			nodes, r.status = p.Narrow(c.cluster, c.class)
			r.narrowed = nodes != nil
			for _, n := range nodes {
				r.nodes = append(r.nodes, n.Index)
			}
		}), true
	case PostFilter:
		s = served{name: p.Name, kind: KindPostFilter, readList: p.Reads, configure: p.Configure, samples: p.Sample != nil, ranks: p.Rank != nil}
		tries := p.Try != nil || p.Sample != nil
		if p.Try != nil && p.Sample != nil || tries != (p.Victims != nil) || tries != (p.Choose != nil) || tries == (p.Nominate != nil) || s.ranks && !tries {
			return s, nil, true // one way or the other, whole
		}
		if tries {
			return s, p.trying(), true
		}
		return s, points(p.Nominate != nil, pointPostFilter, func(c *cycleCall, _ *cycleStep, r *stepResult) {
			r.nomination, r.status = p.Nominate(c.failure())
		}), true
	case PreScore:
		s = served{name: p.Name, kind: KindPreScore, configure: p.Configure}
		return s, points(p.Look != nil, pointPreScore, func(c *cycleCall, _ *cycleStep, r *stepResult) {
			r.status = p.Look(c.cluster, c.class, c.nodes)
		}), true
	case Reserve:
		s = served{name: p.Name, kind: KindReserve, scope: p.Scope, pods: p.Pods, readList: p.Reads, configure: p.Configure, interests: p.Events}
		at = points(p.Reserve != nil, pointReserve, func(c *cycleCall, _ *cycleStep, r *stepResult) {
			placement := c.placement()
			r.status = p.Reserve(placement)
			r.assumed = placement.assumed
		})
		if at != nil {
			at[pointUnreserve] = func(c *cycleCall, _ *cycleStep, _ *stepResult) {
				if p.Unreserve != nil {
					p.Unreserve(c.placement())
				}
			}
		}
		return s, at, true
	case Permit:
		s = served{name: p.Name, kind: KindPermit, configure: p.Configure, interests: p.Events}
		at = points(p.Permit != nil, pointPermit, func(c *cycleCall, s *cycleStep, r *stepResult) {
			request := &PermitRequest{Placement: *c.placement(), Waiting: c.waiting(s)}
			r.status = p.Permit(request)
			r.decisions = request.list
		})
		if at != nil {
			at[pointPermitReview] = func(c *cycleCall, s *cycleStep, r *stepResult) {
				if p.Review == nil {
					return
				}
				request := &ReviewRequest{Cluster: c.cluster, Waiting: c.waiting(s)}
				p.Review(request)
				r.decisions = request.list
			}
		}
		return s, at, true
	case PreBind:
		s = served{name: p.Name, kind: KindPreBind, scope: ScopeNodeObject, pods: p.Pods, configure: p.Configure}
		return s, points(p.PreBind != nil, pointPreBind, func(c *cycleCall, s *cycleStep, r *stepResult) {
			r.status = p.PreBind(c.binding(s))
		}), true
	case Bind:
		s = served{name: p.Name, kind: KindBind, scope: ScopeNodeObject, configure: p.Configure}
		return s, points(p.Bind != nil, pointBind, func(c *cycleCall, s *cycleStep, r *stepResult) {
			b := c.binding(s)
			r.status = p.Bind(b)
			r.annotations = b.Annotations
		}), true
	case PostBind:
		s = served{name: p.Name, kind: KindPostBind, scope: ScopeNodeObject, configure: p.Configure}
		return s, points(p.PostBind != nil, pointPostBind, func(c *cycleCall, s *cycleStep, _ *stepResult) {
			p.PostBind(c.binding(s))
		}), true
	}
	return s, nil, false
}

func points(there bool, at point, run step) map[point]step {
	if !there {
		return nil
	}
	return map[point]step{at: run}
}
