package quota

import (
	"math"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
)

// A claim costs what it may get at most, by class.
func TestDeviceClaims(t *testing.T) {
	exactly := func(class string, mode resourcev1.DeviceAllocationMode, n int64) resourcev1.DeviceRequest {
		return resourcev1.DeviceRequest{Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class, AllocationMode: mode, Count: n}}
	}
	either := func(subs ...resourcev1.DeviceSubRequest) resourcev1.DeviceRequest {
		return resourcev1.DeviceRequest{FirstAvailable: subs}
	}
	sub := func(class string, mode resourcev1.DeviceAllocationMode, n int64) resourcev1.DeviceSubRequest {
		return resourcev1.DeviceSubRequest{DeviceClassName: class, AllocationMode: mode, Count: n}
	}
	const exact, all = resourcev1.DeviceAllocationModeExactCount, resourcev1.DeviceAllocationModeAll
	for name, tc := range map[string]struct {
		requests []resourcev1.DeviceRequest
		want     map[string]int64
	}{
		"none":         {nil, nil},
		"one class":    {[]resourcev1.DeviceRequest{exactly("a", exact, 2), exactly("a", exact, 1), exactly("b", exact, 4)}, map[string]int64{"a": 3, "b": 4}},
		"all":          {[]resourcev1.DeviceRequest{exactly("a", all, 0)}, map[string]int64{"a": 32}},
		"newer":        {[]resourcev1.DeviceRequest{exactly("a", "Some", 3), {}}, map[string]int64{"a": 0}},
		"alternatives": {[]resourcev1.DeviceRequest{either(sub("a", exact, 2), sub("a", exact, 5), sub("b", all, 0)), exactly("a", exact, 1)}, map[string]int64{"a": 6, "b": 32}},
	} {
		t.Run(name, func(t *testing.T) {
			e := newDeviceClaims(nil)
			have, err := e.Usage(&resourcev1.ResourceClaim{Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: tc.requests}}})
			if err != nil || len(have) != len(tc.want)+1 {
				t.Fatalf("%v, %v", have, err)
			}
			names := []corev1.ResourceName{"count/resourceclaims.resource.k8s.io"}
			if q := have[names[0]]; q.Value() != 1 {
				t.Errorf("%v", have)
			}
			for class, n := range tc.want {
				name := corev1.ResourceName(class + ".deviceclass.resource.k8s.io/devices")
				if q := have[name]; q.Value() != n {
					t.Errorf("%s: %v, want %d", class, q, n)
				}
				names = append(names, name)
			}
			if got := e.MatchingResources(append(names, "pods", "requests.storage")); len(got) != len(names) {
				t.Errorf("matches %v", got)
			}
		})
	}
	huge := exactly("a", exact, math.MaxInt64)
	have, err := newDeviceClaims(nil).Usage(&resourcev1.ResourceClaim{Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{huge, huge, huge}}}})
	if q := have["a.deviceclass.resource.k8s.io/devices"]; err != nil || q.CmpInt64(math.MaxInt64) <= 0 {
		t.Errorf("more than can be counted: %s, %v", q.String(), err)
	}
	if _, err := newDeviceClaims(nil).Usage(&corev1.Pod{}); err == nil {
		t.Error("a pod")
	}
}
