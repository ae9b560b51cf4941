package scheduler

import (
	"context"
	"fmt"
	"maps"
	"time"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"

	"pintle.dev/pintle/kernel/scheduler/framework"
)

// profile is a policy source with what was last seen of it.
type profile struct {
	source PolicySource
	policy Policy
	at     framework.Plugins // what policy has beside predicates and priorities
	// next is a policy that is still being fed; policy decides until it is not.
	next Policy
	// turned: policy is another than at was made of.
	turned  bool
	metrics *profileMetrics
	// removed: it decides about nothing. It stays for pods on their way to a node.
	removed bool
	// away: so many questions to its plugins have no answer yet and hold nobody else up;
	// keyless: so many about the order of the queue, which does without. feeding: its first
	// policy is. Until rests others come first. patience is how long it may keep the cycle.
	away, keyless int
	feeding       bool
	rests         time.Time
	patience      [againKinds]time.Duration
	// slots are bindings through its plugins at once.
	slots chan struct{}
}

func (s *Scheduler) newProfile(name string, source PolicySource) *profile {
	return &profile{source: source, metrics: s.deps.Metrics.profile(name), slots: make(chan struct{}, s.cfg.BindWorkers)}
}

// SetProfiles changes which profiles there are. The pods of one that is new are
// decided about; those of one that is gone wait for it, as pods of another scheduler
// do. The cycle turns to them between two decisions. Safe for concurrent use.
func (s *Scheduler) SetProfiles(sources map[string]PolicySource) error {
	for name, source := range sources {
		if source == nil {
			return fmt.Errorf("scheduler: profile %q: no policy source", name)
		}
	}
	sources = maps.Clone(sources)
	s.wanted.Store(&sources)
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return nil
}

// takeProfiles turns to the profiles that SetProfiles gave last.
func (s *Scheduler) takeProfiles(now time.Time) {
	wanted := s.wanted.Swap(nil)
	if wanted == nil {
		return
	}
	fresh := map[string]bool{}
	for name, source := range *wanted {
		p := s.profiles[name]
		switch {
		case p == nil:
			p = s.newProfile(name, source)
			p.removed = true
			s.profiles[name] = p
			s.watch(p)
		case p.source != source:
			p.source = source
			s.watch(p)
		}
		fresh[name], p.removed = p.removed, false
	}
	for name, p := range s.profiles {
		if _, stays := (*wanted)[name]; !stays {
			p.removed = true
		}
	}
	for _, p := range s.pods {
		switch name := p.Object.Spec.SchedulerName; {
		case s.profiles[name] == nil || p.Node != "" || p.Object.DeletionTimestamp != nil:
		case s.profiles[name].removed:
			s.queue.remove(p)
			s.nominated(p, "")
		case fresh[name] && p.place == nowhere:
			s.setPending(p, false, 0, now)
		}
	}
}

// decides reports whether pods with the schedulerName are this scheduler's.
func (s *Scheduler) decides(schedulerName string) bool {
	p := s.profiles[schedulerName]
	return p != nil && !p.removed
}

func (s *Scheduler) watchPolicy(ctx context.Context, changed <-chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			select {
			case s.wake <- struct{}{}:
			default:
			}
		}
	}
}

// policyChanged brings every parked pod back: other plugins, other answers. The
// new policy is fed at once, which also tells the host that it is in use.
func (s *Scheduler) policyChanged() {
	now := s.clock.Now()
	s.takeProfiles(now)
	s.eager = true
	s.queue.everything(eventForced, now)
}

// prepare reports whether some profile has a policy that can be asked, or none that
// could come to be: a first policy is being fed at the start, or when its profile is
// new, and its pods wait for that instead of failing. The host signals when it is done.
func (s *Scheduler) prepare(ctx context.Context) (some bool, err error) {
	for _, p := range s.profiles {
		if p.feeding = p.policy == nil && p.source.Policy() != nil; p.feeding {
			if err := s.flush(ctx); err != nil {
				return false, err
			}
			p.feeding = p.policy == nil
			s.heldBack = true
		}
		some = some || !p.feeding && !p.removed
	}
	return some, nil
}

// turn takes up a profile's policy; one that is not prepared yet is only fed,
// beside the one before.
func (p *profile) turn() (fresh bool) {
	policy := p.source.Policy()
	switch {
	case policy == p.policy:
		p.next = nil
	case policy == nil:
		p.turned = p.policy != nil
		p.policy, p.next = nil, nil
	case policy != p.next:
		p.next, fresh = policy, true
	}
	return fresh
}

func (s *Scheduler) settleAll(ctx context.Context) {
	for _, p := range s.profiles {
		if p.next != nil && !overtaken(ctx) {
			s.settle(ctx, p)
		}
	}
}

// settle ends the time of the policy before when the next one is prepared.
func (s *Scheduler) settle(ctx context.Context, p *profile) {
	next := p.next
	if next == nil {
		return
	}
	if preparing, ok := next.(contractv1.Preparing); ok {
		s.begin(work{profile: p})
		prepared := preparing.Prepared(ctx)
		s.end()
		if !prepared || p.next != next { // which may be another by now
			s.eager = s.eager || overtaken(ctx)
			return
		}
	}
	p.policy, p.next = next, nil
	p.turned = true
}

// flush hands the pending operations to the policies as one delta.
func (s *Scheduler) flush(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	fresh := false
	for _, p := range s.profiles {
		fresh = p.turn() || fresh
	}
	// A policy that is new learns from an empty delta that it is behind.
	if len(s.snapshot.Pending) > 0 || fresh {
		operations := s.snapshot.Pending
		s.snapshot.Pending = nil
		if err := s.applyAll(ctx, operations); err != nil {
			return err
		}
	}
	// Twice: one may wait for what another one's plugins take.
	s.settleAll(ctx)
	s.settleAll(ctx)
	turned := false
	for _, p := range s.profiles {
		turned = turned || p.turned
		p.turned = false
	}
	if turned {
		s.repoint(ctx)
	}
	if len(s.unreserves) > 0 && !overtaken(ctx) {
		s.unreserve(ctx)
	}
	if overtaken(ctx) {
		return ctx.Err()
	}
	return nil
}

// applyAll gives operations to the policies as the next delta.
func (s *Scheduler) applyAll(ctx context.Context, operations []*contractv1.Operation) error {
	delta := s.replica.Advance(operations)
	s.tellDelta(delta)
	for name, p := range s.profiles {
		for _, policy := range []Policy{p.policy, p.next} {
			if policy == nil {
				continue
			}
			if err := policy.Apply(ctx, delta); err != nil {
				return fmt.Errorf("apply delta %d to profile %s: %w", delta.Generation, name, err)
			}
		}
	}
	return nil
}
