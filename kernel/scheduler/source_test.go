package scheduler

import (
	"sync/atomic"

	"pintle.dev/pintle/kernel/scheduler/schedulertest"
)

// testSource is a policy source whose policy a test can swap.
type testSource struct {
	cycle   atomic.Pointer[cyclePolicy] // instead of policy
	policy  atomic.Pointer[schedulertest.GuestPolicy]
	changed chan struct{}
}

func newTestSource(p *schedulertest.GuestPolicy) *testSource {
	s := &testSource{changed: make(chan struct{}, 1)}
	s.policy.Store(p)
	return s
}

func (s *testSource) Policy() Policy {
	if p := s.cycle.Load(); p != nil {
		return p
	}
	if p := s.policy.Load(); p != nil {
		return p
	}
	return nil
}

func (s *testSource) Changed() <-chan struct{} { return s.changed }

func (s *testSource) swap(p *schedulertest.GuestPolicy) {
	s.policy.Store(p)
	s.changed <- struct{}{}
}
