package scheduler

import (
	"fmt"
	"testing"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"

	"pintle.dev/pintle/kernel/scheduler/explain"
	"pintle.dev/pintle/kernel/scheduler/resultcache"
	"pintle.dev/pintle/kernel/scheduler/schedulertest"
	"pintle.dev/pintle/kernel/scheduler/snapshot"
)

// BenchmarkTell is what a shadow costs the cycle: a delta and a decision handed
// to a comparison that has no room.
func BenchmarkTell(b *testing.B) {
	for _, followers := range []int{0, 1} {
		b.Run(fmt.Sprint(followers), func(b *testing.B) {
			a := newAPI(b)
			policy := newFreePolicy(1)
			s, err := New(Config{}, Deps{Pods: a.pods, Nodes: a.nodes, Profiles: map[string]PolicySource{schedulertest.ProfileName: policy}, Bind: a.bind})
			if err != nil {
				b.Fatal(err)
			}
			for range followers {
				c, err := explain.NewComparison(explain.ComparisonConfig{Profiles: map[string]explain.PolicyPair{schedulertest.ProfileName: {Present: policy, Candidate: policy}}})
				if err != nil {
					b.Fatal(err)
				}
				s.Follow(c)
			}
			pod := schedulertest.MakePod("p", 1)
			sh, err := newShape(pod)
			if err != nil {
				b.Fatal(err)
			}
			p := &podEntry{Pod: snapshot.Pod{Object: pod, Shape: &sh.Shape}, shape: sh}
			sh.setClass(resultcache.NewClass(0, &sh.Shape))
			delta, d := &contractv1.Delta{}, &explain.Decision{Nodes: 1}
			b.ReportAllocs()
			for b.Loop() {
				s.tellDelta(delta)
				s.tellDecision(p, d, nil)
			}
		})
	}
}
