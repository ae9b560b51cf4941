package quota

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
)

// newDeviceClaims charges ResourceClaims by their number and by devices of a class,
// gpu.deviceclass.resource.k8s.io/devices. What a class stands for as an extended
// resource is charged to pods alone.
func newDeviceClaims(list quota.ListerForResourceFunc) quota.Evaluator {
	kind := resourcev1.SchemeGroupVersion.WithResource("resourceclaims")
	e := evaluator{resource: kind, list: generic.ListResourceUsingListerFunc(list, kind)}
	e.matching = func(names []corev1.ResourceName) []corev1.ResourceName {
		out := []corev1.ResourceName{}
		for _, name := range names {
			if name == countName(kind) || strings.HasSuffix(string(name), corev1.ResourceClaimsPerClass) {
				out = append(out, name)
			}
		}
		return out
	}
	e.inScope = generic.MatchesNoScopeFunc
	e.usage = deviceClaimUsage
	e.handles = func(a admission.Attributes) bool {
		return a.GetSubresource() == "" && (a.GetOperation() == admission.Create || a.GetOperation() == admission.Update)
	}
	return &e
}

// deviceClaimUsage: of alternatives the most that each class could give.
func deviceClaimUsage(obj runtime.Object) (corev1.ResourceList, error) {
	claim, ok := obj.(*resourcev1.ResourceClaim)
	if !ok {
		return corev1.ResourceList{}, fmt.Errorf("expect *v1.ResourceClaim, got %T", obj)
	}
	out := corev1.ResourceList{countName(resourcev1.SchemeGroupVersion.WithResource("resourceclaims")): count(1)}
	add := func(class string, n int64) {
		name := corev1.ResourceName(class + corev1.ResourceClaimsPerClass)
		sum := out[name] // which no number of devices overflows
		sum.Add(*resource.NewQuantity(n, resource.DecimalSI))
		out[name] = sum
	}
	for _, r := range claim.Spec.Devices.Requests {
		if len(r.FirstAvailable) == 0 && r.Exactly != nil {
			add(r.Exactly.DeviceClassName, mostDevices(r.Exactly.AllocationMode, r.Exactly.Count))
			continue
		}
		most := map[string]int64{}
		for _, s := range r.FirstAvailable {
			most[s.DeviceClassName] = max(most[s.DeviceClassName], mostDevices(s.AllocationMode, s.Count))
		}
		for class, n := range most {
			add(class, n)
		}
	}
	return out, nil
}

func mostDevices(mode resourcev1.DeviceAllocationMode, count int64) int64 {
	switch mode {
	case resourcev1.DeviceAllocationModeExactCount:
		return max(count, 0)
	case resourcev1.DeviceAllocationModeAll:
		return resourcev1.AllocationResultsMaxSize
	}
	return 0 // of a newer version
}
