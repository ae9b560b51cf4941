package scheduler

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/kernel/scheduler/schedulertest"
	"pintle.dev/pintle/sdk"
)

const claimKind = "PersistentVolumeClaim"

func uses(claim string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "data", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}})
	}
}

// What a reserve plugin assumes of an object is seen by the next decision, until
// the object changes or the pod gives up its place.
func TestAssumptionsAreSeen(t *testing.T) {
	const taken = "example.com/taken"
	noted := &journal{}
	free := sdk.Predicate{Name: "Free", Reads: []string{claimKind}, Filter: func(r *sdk.Request) sdk.Verdict {
		if o := r.Cluster.Object(claimKind, "a", "data"); o != nil && o.Annotations[taken] != "" && r.Pod.Volumes != nil {
			return sdk.Unfit("node(s) had it taken")
		}
		return sdk.Fits()
	}}
	take := sdk.Reserve{Name: "Take", Pods: sdk.PodsWithClaims, Reads: []string{claimKind}, Reserve: func(p *sdk.Placement) sdk.Status {
		noted.note("reserve:%s", p.Pod.Name)
		p.Assume(sdk.Assumption{Kind: claimKind, Namespace: "a", Name: "data", Annotations: map[string]string{taken: p.Pod.Name}})
		p.Assume(sdk.Assumption{Kind: claimKind, Namespace: "a", Name: "none", Annotations: map[string]string{taken: p.Pod.Name}})
		return sdk.Status{}
	}, Unreserve: func(p *sdk.Placement) { noted.note("unreserve:%s", p.Pod.Name) }}
	refused := make(chan struct{})
	before := sdk.PreBind{Name: "Before", Pods: sdk.PodsWithClaims, PreBind: func(b *sdk.Binding) sdk.Status {
		if b.Pod.Labels["wait"] != "" {
			<-refused
			return sdk.Refuse("not now")
		}
		return sdk.Status{}
	}}
	claim := func(version string) *v1.PersistentVolumeClaim {
		return &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "data", Labels: map[string]string{"version": version}}}
	}
	c, _ := startCycle(t, 1, []any{free, take, before}, func(c *cluster) { c.claims.Add(claim("1")) })

	// Given up: as if it had never been.
	c.addPod(schedulertest.MakePod("unlucky", 1, uses("data"), label("wait", "yes")))
	eventually(t, "unlucky has its place", func() bool { return strings.Contains(noted.all(), "reserve:unlucky") })
	c.addPod(schedulertest.MakePod("second", 1, uses("data")))
	eventually(t, "second is told that it is taken", func() bool {
		d, _ := c.sched.Explain("a", "second")
		return strings.Contains(d.Message, "had it taken")
	})
	close(refused)
	eventually(t, "one of both has it", func() bool { return strings.Contains(noted.all(), "reserve:second") })
	c.eventuallyBound(t, "second", "n0")

	// Bound: it stands until the object says something else.
	c.addPod(schedulertest.MakePod("third", 1, uses("data")))
	eventually(t, "third is told that it is taken", func() bool {
		d, _ := c.sched.Explain("a", "third")
		return strings.Contains(d.Message, "had it taken")
	})
	c.claims.Modify(claim("1"))
	c.addPod(schedulertest.MakePod("plain", 1))
	c.eventuallyBound(t, "plain", "n0")
	if strings.Contains(noted.all(), "plain") {
		t.Errorf("a pod without claims was reserved for: %s", noted.all())
	}
	if strings.Contains(noted.all(), "reserve:third") {
		t.Error("third has it, though nothing has changed")
	}
	c.claims.Modify(claim("2"))
	c.eventuallyBound(t, "third", "n0")
}
