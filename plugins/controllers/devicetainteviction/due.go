package devicetainteviction

import (
	"fmt"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

// Indexes of the shared informers. A driver's name has no slash, and neither has a device's.
const (
	claimsByDevice  = "pintle.dev/devices-of-resourceclaims"
	slicesByPool    = "pintle.dev/pools-of-resourceslices"
	slicesByTainted = "pintle.dev/tainted-devices-of-resourceslices"
)

func (p pool) key() string                 { return p.driver + "/" + p.name }
func (p pool) device(device string) string { return p.key() + "/" + device }

func devicesOfClaim(obj any) ([]string, error) {
	claim, ok := obj.(*resourcev1.ResourceClaim)
	if !ok || claim.Status.Allocation == nil {
		return nil, nil
	}
	var keys []string
	for _, r := range claim.Status.Allocation.Devices.Results {
		keys = append(keys, pool{r.Driver, r.Pool}.device(r.Device))
	}
	return keys, nil
}

func poolOfSlice(obj any) ([]string, error) {
	slice, ok := obj.(*resourcev1.ResourceSlice)
	if !ok {
		return nil, nil
	}
	return []string{pool{slice.Spec.Driver, slice.Spec.Pool.Name}.key()}, nil
}

func taintedOfSlice(obj any) ([]string, error) {
	slice, ok := obj.(*resourcev1.ResourceSlice)
	if !ok {
		return nil, nil
	}
	var keys []string
	for i := range slice.Spec.Devices {
		if d := &slice.Spec.Devices[i]; evicts(d) {
			keys = append(keys, pool{slice.Spec.Driver, slice.Spec.Pool.Name}.device(d.Name))
		}
	}
	return keys, nil
}

func evicts(d *resourcev1.Device) bool {
	return slices.ContainsFunc(d.Taints, func(t resourcev1.DeviceTaint) bool { return t.Effect == resourcev1.DeviceTaintEffectNoExecute })
}

func tainted(slice *resourcev1.ResourceSlice) bool {
	for i := range slice.Spec.Devices {
		if evicts(&slice.Spec.Devices[i]) {
			return true
		}
	}
	return false
}

// newest are the slices of a pool that count: those of its newest generation.
func (e *evictor) newest(p pool) (newest []*resourcev1.ResourceSlice, err error) {
	objs, err := e.slices.ByIndex(slicesByPool, p.key())
	if err != nil {
		return nil, fmt.Errorf("find the slices of pool %s: %w", p.key(), err)
	}
	for _, obj := range objs {
		slice, ok := obj.(*resourcev1.ResourceSlice)
		switch {
		case !ok:
		case len(newest) == 0 || slice.Spec.Pool.Generation > newest[0].Spec.Pool.Generation:
			newest = []*resourcev1.ResourceSlice{slice}
		case slice.Spec.Pool.Generation == newest[0].Spec.Pool.Generation:
			newest = append(newest, slice)
		}
	}
	return newest, nil
}

// taintedOf are the devices of a pool that have a NoExecute taint.
func (e *evictor) taintedOf(p pool) (map[string]struct{}, error) {
	newest, err := e.newest(p)
	if err != nil {
		return nil, err
	}
	devices := map[string]struct{}{}
	for _, slice := range newest {
		for i := range slice.Spec.Devices {
			if d := &slice.Spec.Devices[i]; evicts(d) {
				devices[d.Name] = struct{}{}
			}
		}
	}
	return devices, nil
}

// taints are the NoExecute taints of a device, each with the time from when it counts.
func (e *evictor) taints(p pool, device string) (taints []resourcev1.DeviceTaint, err error) {
	if keys, err := e.slices.IndexKeys(slicesByTainted, p.device(device)); err != nil || len(keys) == 0 {
		return nil, err
	}
	newest, err := e.newest(p)
	if err != nil {
		return nil, err
	}
	for _, slice := range newest {
		for i := range slice.Spec.Devices {
			if slice.Spec.Devices[i].Name != device {
				continue
			}
			for _, t := range slice.Spec.Devices[i].Taints {
				if t.Effect != resourcev1.DeviceTaintEffectNoExecute {
					continue
				}
				if t.TimeAdded == nil { // the API sets it
					t.TimeAdded = &slice.CreationTimestamp
				}
				taints = append(taints, t)
			}
		}
	}
	return taints, nil
}

// judge returns when a pod is to be deleted; due is false where it may stay.
func (e *evictor) judge(pod *corev1.Pod) (p plan, due bool, err error) {
	p.uid = pod.UID
	if pod.Spec.NodeName == "" {
		return p, false, nil
	}
	for i := range pod.Spec.ResourceClaims {
		name, owned, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil || name == nil {
			continue // it has no claim, and so no device
		}
		claim, err := e.claims.ResourceClaims(pod.Namespace).Get(*name)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return p, false, err
		}
		if claim.Status.Allocation == nil || owned && resourceclaim.IsForPod(pod, claim, false) != nil || !resourceclaim.IsReservedForPod(pod, claim, false) {
			continue // the pod does not use it
		}
		for j := range claim.Status.Allocation.Devices.Results {
			r := &claim.Status.Allocation.Devices.Results[j]
			of := pool{r.Driver, r.Pool}
			taints, err := e.taints(of, r.Device)
			if err != nil {
				return p, false, err
			}
			for k := range taints {
				at, ends := end(&taints[k], r.Tolerations)
				if !ends {
					continue
				}
				if !slices.Contains(p.pools, of) {
					p.pools = append(p.pools, of)
				}
				if !due || at.Before(p.due) {
					p.due = at
				}
				due = true
			}
		}
	}
	return p, due, nil
}

// end is when a taint ends the use of a device; ends is false where it is tolerated without an end.
func end(taint *resourcev1.DeviceTaint, tolerations []resourcev1.DeviceToleration) (at time.Time, ends bool) {
	tolerated, least := false, int64(math.MaxInt64)
	for i := range tolerations {
		t := &tolerations[i]
		if t.Effect != resourcev1.DeviceTaintEffectNoExecute || !resourceclaim.ToleratesTaint(*t, *taint) {
			continue
		}
		// What a duration cannot hold has no end either.
		if t.TolerationSeconds == nil || *t.TolerationSeconds > math.MaxInt64/int64(time.Second) {
			return time.Time{}, false
		}
		tolerated, least = true, min(least, max(*t.TolerationSeconds, 0))
	}
	at = taint.TimeAdded.Time
	if tolerated {
		at = at.Add(time.Duration(least) * time.Second)
	}
	return at, true
}
