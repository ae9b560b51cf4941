package framework

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/kernel/scheduler/convert"
	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// A predicate of scope cluster looks at one node alone for pods that it has nothing
// to do with.
func TestPodsThatAPredicateHasToDoWith(t *testing.T) {
	all := []contractv1.PredicateInfo{{Name: "a", Scope: "cluster", Pods: string(sdk.PodsWithClaims)}, {Name: "b", Scope: "cluster"}, {Name: "c", Scope: "cluster", Pods: "unheard-of"}}
	for name, want := range map[string]string{"with": "cluster", "without": "node"} {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		if name == "with" {
			pod.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{
				PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
			}}}
		}
		converted, err := convert.NewPod(pod)
		if err != nil {
			t.Fatal(err)
		}
		got := PredicatesFor(converted, all)
		if got[0].Scope != want || got[1].Scope != "cluster" || got[2].Scope != "cluster" || all[0].Scope != "cluster" {
			t.Errorf("%s: %+v of %+v", name, got, all)
		}
	}
}
