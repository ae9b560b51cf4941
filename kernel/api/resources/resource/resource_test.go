package resource

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// Upstream's answers are compared in kernel/api (TestPeer). Here is what it has no
// answer to, and what is out of all proportion.
func TestCapacityRange(t *testing.T) {
	q := func(s string) *resource.Quantity { return ptr.To(resource.MustParse(s)) }
	for name, tc := range map[string]struct {
		r    resourcev1.CapacityRequestPolicyRange
		want string
	}{
		"no step":         {resourcev1.CapacityRequestPolicyRange{Min: q("1"), Step: q("0")}, "step: Invalid value: \"0\": must be greater than zero"},
		"step":            {resourcev1.CapacityRequestPolicyRange{Min: q("1"), Step: q("2")}, "value is not a multiple of a given step (2) from (1)"},
		"negative step":   {resourcev1.CapacityRequestPolicyRange{Min: q("1"), Step: q("-1")}, ""},
		"beyond an int64": {resourcev1.CapacityRequestPolicyRange{Min: q("99999999999999999999"), Step: q("99999999999999999999")}, "min is larger than capacity value"},
	} {
		t.Run(name, func(t *testing.T) {
			err := validateCapacity(&resourcev1.DeviceCapacity{Value: *q("10"), RequestPolicy: &resourcev1.CapacityRequestPolicy{Default: q("4"), ValidRange: &tc.r}}, true, field.NewPath("c")).ToAggregate()
			if (tc.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}

func TestBounds(t *testing.T) {
	long := strings.Repeat("x", 10<<10)
	path := field.NewPath("p")
	for name, tc := range map[string]struct {
		errs field.ErrorList
		want string
	}{
		"long expression":          {validateExpression(`device.driver == "`+long+`"`, false, path), "Too long: may not be more than 10240 bytes"},
		"deep expression":          {validateExpression(strings.Repeat("(", 3000)+"true"+strings.Repeat(")", 3000), false, path), "recursion"},
		"costly expression":        {validateExpression(`device.attributes["a"].all(a, device.attributes["b"].all(b, device.attributes["c"].all(c, device.attributes["d"].all(d, a.matches(b)))))`, false, path), "too complex, exceeds cost limit"},
		"long parameters":          {validateObject(runtime.RawExtension{Raw: []byte(`{"a":"` + long + `"}`)}, false, 10<<10, path), "Too long"},
		"parameters stored before": {validateObject(runtime.RawExtension{Raw: []byte(`{"a":"` + long + `"}`)}, true, 10<<10, path), ""},
		"not JSON":                 {validateObject(runtime.RawExtension{Raw: []byte(`{"a":`)}, false, 10<<10, path), "error parsing data as JSON"},
		"long key": {byKey(map[string]int{long: 1}, -1, 20, path, validateLabel, func(_ int, p *field.Path) field.ErrorList {
			return field.ErrorList{field.Required(p, fmt.Sprint(len(p.String())))}
		}), "p[xxxxxxxxx...xxxxxxxx]: Required value: 23"},
	} {
		err := tc.errs.ToAggregate()
		if (tc.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.want) {
			s := fmt.Sprint(err)
			t.Errorf("%s: %s, want %q", name, s[:min(len(s), 500)], tc.want)
		}
	}
}

// Who cannot be asked does not say yes.
func TestNobodyToAsk(t *testing.T) {
	claim := &resourcev1.ResourceClaim{Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{
		{Name: "a", Exactly: &resourcev1.ExactDeviceRequest{AdminAccess: ptr.To(true)}}}}}}
	allocated := claim.DeepCopy()
	allocated.Status.Allocation = &resourcev1.AllocationResult{}
	broken := Access{Namespace: func(context.Context, string) (*corev1.Namespace, error) { return nil, errors.New("broken") }}
	for name, errs := range map[string]field.ErrorList{
		"claim":         Access{}.admitsClaim(t.Context(), claim),
		"broken":        broken.admitsClaim(t.Context(), claim),
		"status":        Access{}.admitsStatus(t.Context(), allocated, claim),
		"without asker": Access{}.admitsStatus(context.Background(), allocated, claim),
	} {
		if len(errs) != 1 || errs[0].Type != field.ErrorTypeInternal {
			t.Errorf("%s: %v", name, errs)
		}
	}
}
