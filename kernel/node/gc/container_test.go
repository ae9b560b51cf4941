package gc

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"pintle.dev/pintle/kernel/node/cri"
)

// TestChoose: CGC-4 … CGC-10. Containers are named <pod>/<container>/<age in minutes>; R runs.
func TestChoose(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	type ct struct {
		pod, name string
		age       int
		running   bool
	}
	three := []ct{{"a", "x", 1, false}, {"a", "x", 2, false}, {"a", "x", 3, false}}
	for _, c := range []struct {
		name   string
		policy Policy
		have   []ct
		want   []string
	}{
		{"excess of a unit, oldest first (CGC-8)", Policy{0, 1, -1}, three, []string{"a/x/2", "a/x/3"}},
		{"zero keeps none (CGC-10)", Policy{0, 0, -1}, three, []string{"a/x/1", "a/x/2", "a/x/3"}},
		{"no limits (CGC-10)", Policy{0, -1, -1}, three, nil},
		{"young ones stay (CGC-4)", Policy{150 * time.Second, 0, -1}, three, []string{"a/x/3"}},
		{"running ones stay", Policy{0, 0, -1}, []ct{{"a", "x", 9, true}, {"a", "x", 8, false}}, []string{"a/x/8"}},
		{"pods that are gone lose all (CGC-7)", Policy{0, -1, -1}, []ct{{"gone", "x", 1, false}, {"a", "x", 1, false}}, []string{"gone/x/1"}},
		{"unnamed containers (CGC-7)", Policy{0, -1, -1}, []ct{{"a", "", 1, false}}, []string{"a//1"}},
		{"shared limit (CGC-9 i)", Policy{0, -1, 2}, append(slices.Clone(three), ct{"b", "y", 5, false}, ct{"b", "y", 6, false}), []string{"a/x/2", "a/x/3", "b/y/6"}},
		{"one a unit, then the oldest over all (CGC-9 ii)", Policy{0, -1, 1}, append(slices.Clone(three), ct{"b", "y", 5, false}, ct{"c", "z", 4, false}), []string{"a/x/2", "a/x/3", "b/y/5", "c/z/4"}},
		{"limit zero over all (CGC-10)", Policy{0, -1, 0}, []ct{{"a", "x", 1, false}, {"b", "y", 2, false}}, []string{"a/x/1", "b/y/2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			pods := map[types.UID]*cri.Pod{}
			for _, h := range c.have {
				uid := types.UID(h.pod)
				if pods[uid] == nil {
					pods[uid] = &cri.Pod{UID: uid}
				}
				state := runtimeapi.ContainerState_CONTAINER_EXITED
				if h.running {
					state = runtimeapi.ContainerState_CONTAINER_RUNNING
				}
				pods[uid].Containers = append(pods[uid].Containers, &runtimeapi.Container{
					Id: fmt.Sprintf("%s/%s/%d", h.pod, h.name, h.age), State: state, Labels: map[string]string{cri.LabelContainerName: h.name},
					CreatedAt: now.Add(-time.Duration(h.age) * time.Minute).UnixNano()})
			}
			g := &Collector{policy: c.policy, now: func() time.Time { return now }, exists: func(uid types.UID) bool { return uid != "gone" }}
			var got []string
			for _, d := range g.choose(pods) {
				got = append(got, d.id)
			}
			slices.Sort(got)
			if !slices.Equal(got, c.want) {
				t.Fatalf("removes %v, want %v", got, c.want)
			}
		})
	}
}
