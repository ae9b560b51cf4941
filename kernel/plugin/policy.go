package plugin

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"pintle.dev/pintle/kernel/plugin/guest"
	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// ReplicaSource hands out the whole replica as one delta with reset set; the
// scheduler implements it and answers from a copy.
type ReplicaSource = contractv1.ReplicaSource

var (
	_ contractv1.Policy       = (*Policy)(nil)
	_ contractv1.Versioned    = (*Policy)(nil)
	_ contractv1.PolicySource = (*Source)(nil)
)

// unavailableVerdict is the verdict of every predicate that is down.
const unavailableVerdict = 1<<32 - 2

// Policy is one profile: an ordered set of predicates and priorities over the
// bundles that hold them. It implements the scheduler's Policy. The scheduling
// cycle calls it from one goroutine.
type Policy struct {
	host       *Host
	predicates []contractv1.PredicateInfo
	priorities []contractv1.PriorityInfo
	filters    []place
	scorers    []place
	points     contractv1.Points
	places     map[contractv1.Point][]place // parallel to points
	units      []*unit
	generation atomic.Uint64
	replica    uint64
	asking     names // of the evaluation under way

	versions []contractv1.BundleVersion
	// reconfigurations are to be over before it is in use.
	reconfigurations []*reconfiguration

	used sync.Once
	// inUse is closed when the scheduler has turned to this policy.
	inUse chan struct{}

	gone sync.Once
	// replaced is closed when another policy took its place.
	replaced chan struct{}
}

func (p *Policy) replace() { p.gone.Do(func() { close(p.replaced) }) }

// place is where a plugin of the profile lives; name may be that of an instance.
type place struct {
	unit *unit
	name string
	seat seat // guarded by the unit's mu
	// expires: its answers end with time; until is when those to the last question do.
	expires bool
	until   int64
}

// Generation changes when any answer may have changed without a delta.
func (p *Policy) Generation() uint64 { return p.generation.Load() }

// Predicates describes the predicates in the order of the profile.
func (p *Policy) Predicates() []contractv1.PredicateInfo { return p.predicates }

// Priorities describes the priorities in the order of the profile.
func (p *Policy) Priorities() []contractv1.PriorityInfo { return p.priorities }

// Versions are the builds of the policy's bundles.
func (p *Policy) Versions() []contractv1.BundleVersion { return p.versions }

// Apply brings every bundle's replica up to date; the delta is encoded once. A
// bundle that cannot take it is restarted and fed in full, one that is behind is
// fed, both outside the cycle. Apply fails only when ctx ends.
func (p *Policy) Apply(ctx context.Context, delta *contractv1.Delta) error {
	whole, err := guest.NewPart(delta)
	if err != nil {
		return err
	}
	p.replica = delta.GetGeneration()
	all := &guest.Parts{Whole: whole}
	for _, u := range p.units {
		if err := u.apply(ctx, all); err != nil {
			return err
		}
	}
	if beside := p.host.beside.Load(); beside != nil {
		for _, u := range *beside {
			if err := u.apply(ctx, all); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// Prepared reports whether each bundle has what Apply gave it or is out of
// order, and has the policy's configuration; from then on the policy is in use, whatever comes.
func (p *Policy) Prepared(ctx context.Context) bool {
	for _, u := range p.units {
		if !u.settled() {
			return false
		}
	}
	for _, r := range p.reconfigurations {
		over := false
		if r.claimed && !slices.Contains(p.units, r.unit) {
			over = r.settled() // those who ask its plugins wait for it
		} else {
			over = r.attempt(ctx)
		}
		if !over || r.err != nil {
			return false // the host takes back a policy that a plugin refused
		}
		if ctx.Err() != nil {
			return false // it asks again for the others
		}
	}
	p.used.Do(func() { close(p.inUse) })
	return true
}

// Filter asks predicate i about nodes. A predicate that fails answers "not
// available" for each node at once; one that may be ignored returns the error
// instead, as the scheduler does not keep such answers.
func (p *Policy) Filter(ctx context.Context, i int, class uint32, nodes, out []uint32) error {
	at := &p.filters[i]
	done, err := false, error(nil)
	if len(nodes) == 1 && !at.expires {
		done, err = at.filterOne(ctx, p.replica, class, nodes, out)
	}
	if !done {
		err = at.unit.ask(ctx, at.name, "filter", p.replica, func(ctx context.Context, g guest.Guest, k int) error {
			at.unit.brief = len(nodes) == 1
			err := g.Filter(ctx, k, class, nodes, out)
			if err == nil {
				err = at.ends(g, k, at.expires)
			}
			if err == nil {
				at.unit.answered = filtered(out, func(v uint32) bool { return g.Unresolvable(k, v) })
			}
			return err
		})
	}
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if p.predicates[i].IgnoreFailure {
		clear(out)
		return fmt.Errorf("predicate %s: %w", guest.PluginOf(at.name), err)
	}
	// The generation moves when the bundle is back; an answer that failed
	// without a restart must not be kept either.
	p.host.touch(p)
	for k := range out {
		out[k] = unavailableVerdict
	}
	return nil
}

// Reasons returns the words behind a verdict of predicate i.
func (p *Policy) Reasons(i int, verdict uint32) []string {
	at := &p.filters[i]
	if verdict == unavailableVerdict {
		return []string{"plugin " + guest.PluginOf(at.name) + " is not available"}
	}
	at.unit.mu.Lock()
	defer at.unit.mu.Unlock()
	if at.unit.guest == nil {
		return []string{"plugin " + guest.PluginOf(at.name) + " is not available"}
	}
	return at.unit.guest.Reasons(at.unit.index[at.name], verdict)
}

// Unresolvable reports whether a verdict of predicate i says that no eviction
// would help. One that was not given is none of these.
func (p *Policy) Unresolvable(i int, verdict uint32) bool {
	at := &p.filters[i]
	if verdict == unavailableVerdict {
		return false
	}
	at.unit.mu.Lock()
	defer at.unit.mu.Unlock()
	return at.unit.guest != nil && at.unit.guest.Unresolvable(at.unit.index[at.name], verdict)
}

// Score asks priority i for raw scores. When it fails out is all zero. A
// priority that declares no normalization must score 0 to 10 (SCH-16).
func (p *Policy) Score(ctx context.Context, i int, class uint32, nodes []uint32, out []int64) error {
	at := &p.scorers[i]
	check := func() error {
		if p.priorities[i].Normalize == string(sdk.NormalizeNone) {
			return inRange(at.name, p.priorities[i].Most(), nodes, out)
		}
		return nil
	}
	done, err := false, error(nil)
	if len(nodes) == 1 && !at.expires {
		done, err = at.scoreOne(ctx, p.replica, class, nodes, out, check)
	}
	if !done {
		err = at.unit.ask(ctx, at.name, "score", p.replica, func(ctx context.Context, g guest.Guest, k int) error {
			at.unit.brief = len(nodes) == 1
			if err := g.Score(ctx, k, class, nodes, out); err != nil {
				return err
			}
			if err := at.ends(g, k, at.expires); err != nil {
				return err
			}
			return check()
		})
	}
	return p.scored(ctx, out, err)
}

// Normalize rewrites raw scores in place. When it fails they are all zero.
func (p *Policy) Normalize(ctx context.Context, i int, class uint32, nodes []uint32, scores []int64) error {
	at := &p.scorers[i]
	err := at.unit.ask(ctx, at.name, "normalize", p.replica, func(ctx context.Context, g guest.Guest, k int) error {
		if err := g.Normalize(ctx, k, class, nodes, scores); err != nil {
			return err
		}
		return inRange(at.name, p.priorities[i].Most(), nodes, scores)
	})
	return p.scored(ctx, scores, err)
}

func (p *Policy) scored(ctx context.Context, out []int64, err error) error {
	if err == nil {
		return nil
	}
	clear(out)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err // concluded named it
}

func inRange(name string, most int64, nodes []uint32, scores []int64) error {
	for k, s := range scores {
		if s < 0 || s > most {
			name = guest.PluginOf(name)
			return fmt.Errorf("plugin %s: answer out of range: score %d for node %d, want 0 to %d", name, s, nodes[k], most)
		}
	}
	return nil
}

// Source hands out the present policy of one profile.
type Source struct {
	policy  atomic.Pointer[Policy]
	changed chan struct{}
}

// Policy returns the policy, or nil before the profile's bundles have started.
func (s *Source) Policy() contractv1.Policy {
	if p := s.policy.Load(); p != nil {
		return p
	}
	return nil
}

// Changed is signalled after a swap, and when a bundle went down or came back.
func (s *Source) Changed() <-chan struct{} { return s.changed }

func (s *Source) signal() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}
