package resources

import (
	"context"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

func TestLease(t *testing.T) {
	k := leaseKind()
	o := &coordinationv1.Lease{ObjectMeta: objectMeta("node"), Spec: coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To("me"), LeaseDurationSeconds: ptr.To[int32](40), Strategy: ptr.To(coordinationv1.OldestEmulationVersion),
	}}
	sameErrors(t, created(k, o))
	if o.Spec.Strategy != nil {
		t.Error("strategy is kept, though coordinated leader election is off")
	}
	bad := o.DeepCopy()
	bad.Spec.LeaseDurationSeconds, bad.Spec.LeaseTransitions = ptr.To[int32](0), ptr.To[int32](-1)
	bad.Spec.PreferredHolder = ptr.To("you")
	sameErrors(t, k.Strategy.ValidateUpdate(context.Background(), bad, o),
		"spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
		"spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
		"spec.preferredHolder: Forbidden: may only be specified if `strategy` is defined")
	sameCells(t, k, o, "node", "me", "<unknown>")
	sameCells(t, k, &coordinationv1.Lease{ObjectMeta: objectMeta("node")}, "node", "", "<unknown>")
}

func TestPriorityClass(t *testing.T) {
	k := priorityClassKind()
	tests := []struct {
		name string
		in   schedulingv1.PriorityClass
		want []string
	}{
		{"good", schedulingv1.PriorityClass{ObjectMeta: clusterMeta("high"), Value: HighestUserPriority}, nil},
		{"too high", schedulingv1.PriorityClass{ObjectMeta: clusterMeta("high"), Value: HighestUserPriority + 1}, []string{"value: Forbidden: maximum allowed value of a user defined priority is 1000000000"}},
		{"system", schedulingv1.PriorityClass{ObjectMeta: clusterMeta("system-mine")}, []string{"metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: system-mine is not a known system priority class"}},
		{"system value", schedulingv1.PriorityClass{ObjectMeta: clusterMeta("system-node-critical"), Value: 1}, []string{"metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: value of system-node-critical PriorityClass must be 2000001000"}},
		{"policy", schedulingv1.PriorityClass{ObjectMeta: clusterMeta("a"), PreemptionPolicy: ptr.To(v1.PreemptionPolicy("Maybe"))}, []string{`preemptionPolicy: Unsupported value: "Maybe": supported values: "PreemptLowerPriority", "Never"`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { sameErrors(t, created(k, &tt.in), tt.want...) })
	}
	old := &schedulingv1.PriorityClass{ObjectMeta: clusterMeta("a"), Value: 1}
	setPriorityClassDefaults(old)
	o := old.DeepCopy()
	o.Value, o.PreemptionPolicy, o.Description = 2, ptr.To(v1.PreemptNever), "new"
	sameErrors(t, updated(k.Strategy, o, old), "value: Forbidden: may not be changed in an update.", `preemptionPolicy: Invalid value: "Never": field is immutable`)
	sameCells(t, k, old, "a", int64(1), false, "<unknown>", "PreemptLowerPriority")
}

// Scheduling names these two by name and value.
func TestSystemPriorityClasses(t *testing.T) {
	k := priorityClassKind()
	want := map[string]int32{"system-cluster-critical": 2000000000, "system-node-critical": 2000001000}
	for _, c := range SystemPriorityClasses() {
		if c.Value != want[c.Name] {
			t.Errorf("%s has value %d", c.Name, c.Value)
		}
		delete(want, c.Name)
		c.ResourceVersion = ""
		sameErrors(t, created(k, c))
	}
	if len(want) != 0 {
		t.Errorf("missing: %v", want)
	}
}

func TestPodDisruptionBudget(t *testing.T) {
	k := podDisruptionBudgetKind()
	of := func(min, max *intstr.IntOrString) *policyv1.PodDisruptionBudget {
		return &policyv1.PodDisruptionBudget{ObjectMeta: objectMeta("pdb"), Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: min, MaxUnavailable: max}}
	}
	one, percent, many := ptr.To(intstr.FromInt32(1)), ptr.To(intstr.FromString("50%")), ptr.To(intstr.FromString("101%"))
	sameErrors(t, created(k, of(one, nil)))
	sameErrors(t, created(k, of(nil, percent)))
	sameErrors(t, created(k, of(many, nil)), `spec.minAvailable: Invalid value: "101%": must not be greater than 100%`)
	sameErrors(t, created(k, of(nil, ptr.To(intstr.FromInt32(-1)))), "spec.maxUnavailable: Invalid value: -1: must be greater than or equal to 0")
	if errs := created(k, of(one, one)); len(errs) != 1 || !strings.HasSuffix(errs[0].Error(), "minAvailable and maxUnavailable cannot be both set") || errs[0].Field != "spec" {
		t.Errorf("both: %v", errs)
	}
	bad := of(one, nil)
	bad.Spec.UnhealthyPodEvictionPolicy = ptr.To(policyv1.UnhealthyPodEvictionPolicyType("Never"))
	sameErrors(t, created(k, bad), `spec.unhealthyPodEvictionPolicy: Unsupported value: "Never": supported values: "AlwaysAllow", "IfHealthyBudget"`)

	old := of(one, nil)
	old.Generation = 1
	old.Status.DisruptionsAllowed = 3
	o := old.DeepCopy()
	o.Spec.MinAvailable, o.Status.DisruptionsAllowed = percent, 0
	sameErrors(t, updated(k.Strategy, o, old))
	if o.Generation != 2 || o.Status.DisruptionsAllowed != 3 {
		t.Errorf("an update gives generation %d and status %+v", o.Generation, o.Status)
	}
	s := old.DeepCopy()
	s.Spec.MinAvailable = percent
	s.Status.CurrentHealthy = -1
	sameErrors(t, updated(k.Status, s, old), "status.currentHealthy: Invalid value: -1: must be greater than or equal to 0")
	if s.Spec.MinAvailable.IntValue() != 1 {
		t.Error("an update of the status changed the spec")
	}
	sameCells(t, k, old, "pdb", "1", "N/A", int64(3), "<unknown>")
	sameCells(t, k, of(nil, percent), "pdb", "N/A", "50%", int64(0), "<unknown>")
}

func TestRuntimeClass(t *testing.T) {
	k := runtimeClassKind()
	o := &nodev1.RuntimeClass{ObjectMeta: clusterMeta("wasm"), Handler: "wasm"}
	sameErrors(t, created(k, o))
	sameErrors(t, created(k, &nodev1.RuntimeClass{ObjectMeta: clusterMeta("a")}), "handler: Required value")
	bad := o.DeepCopy()
	bad.Handler = "Wasm"
	if errs := updated(k.Strategy, bad, o); len(errs) != 2 || errs[1].Error() != `handler: Invalid value: "Wasm": field is immutable` {
		t.Errorf("changed handler: %v", errs)
	}
	bad = o.DeepCopy()
	bad.Overhead = &nodev1.Overhead{PodFixed: quantities("cpu", "-1", "apples", "1")}
	same := v1.Toleration{Key: "a", Operator: v1.TolerationOpExists}
	bad.Scheduling = &nodev1.Scheduling{NodeSelector: map[string]string{"beta.kubernetes.io/os": "linux"}, Tolerations: []v1.Toleration{same, same}}
	errs := created(k, bad)
	for i, want := range []string{
		`overhead.limits[apples]: Invalid value: "apples": must be a standard resource type or fully qualified`,
		`overhead.limits[apples]: Invalid value: "apples": must be a standard resource for containers`,
		`overhead.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0`,
		`scheduling.tolerations[1]: Duplicate value: `,
	} {
		if i >= len(errs) || !strings.HasPrefix(errs[i].Error(), want) {
			t.Errorf("errors %v, want %s at %d", errs, want, i)
		}
	}
	if w := k.Strategy.WarningsOnCreate(context.Background(), bad); len(w) != 1 || w[0] != `scheduling.nodeSelector: deprecated since v1.14; use "kubernetes.io/os" instead` {
		t.Errorf("warnings %q", w)
	}
	huge := o.DeepCopy()
	huge.Overhead = &nodev1.Overhead{PodFixed: quantities("hugepages-2Mi", "3Mi")}
	sameErrors(t, created(k, huge), `overhead.limits[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer multiple of hugepages-2Mi`,
		"overhead: Forbidden: HugePages require cpu or memory")
	sameCells(t, k, o, "wasm", "wasm", "<unknown>")
}
