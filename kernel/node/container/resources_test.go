package container

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestHugePageLimits: D16: a container has the huge pages that it asked for, and none of other sizes.
func TestHugePageLimits(t *testing.T) {
	c := &corev1.Container{Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"hugepages-2Mi": resource.MustParse("64Mi")}}}
	got := HugePageLimits(c, []int64{64 << 10, 2 << 20, 1 << 30})
	want := map[string]uint64{"64KB": 0, "2MB": 64 << 20, "1GB": 0}
	if len(got) != len(want) {
		t.Fatalf("%v", got)
	}
	for _, l := range got {
		if n, ok := want[l.PageSize]; !ok || n != l.Limit {
			t.Errorf("%s: %d, want %d", l.PageSize, l.Limit, n)
		}
	}
	if got := HugePageLimits(c, nil); len(got) != 0 {
		t.Errorf("a machine without huge pages: %v", got)
	}
}
