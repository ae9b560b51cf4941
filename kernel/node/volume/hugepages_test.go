package volume

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestHugePageSize(t *testing.T) {
	for _, c := range []struct {
		medium corev1.StorageMedium
		asked  []string
		want   int64
		fault  string
	}{
		{"HugePages", []string{"hugepages-2Mi"}, 2 << 20, ""},
		{"HugePages-1Gi", []string{"hugepages-2Mi", "hugepages-1Gi"}, 1 << 30, ""},
		{"HugePages", []string{"hugepages-2Mi", "hugepages-1Gi"}, 0, "of 2 sizes, want one"},
		{"HugePages", nil, 0, "of 0 sizes, want one"},
		{"HugePages-1Gi", []string{"hugepages-2Mi"}, 0, "no container asks"},
		{"HugePages-", []string{"hugepages-2Mi"}, 0, "names no size"},
		{"HugePages-2Mi,uid=0", []string{"hugepages-2Mi"}, 0, "names no size"},
		{"HugePages--2Mi", []string{"hugepages-2Mi"}, 0, "names no size"},
	} {
		p := &corev1.Pod{}
		for _, name := range c.asked {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Resources: corev1.ResourceRequirements{
				Limits: corev1.ResourceList{corev1.ResourceName(name): resource.MustParse("1Gi"), "hugepages-64Ki": resource.MustParse("0")},
			}})
		}
		got, err := hugePageSize(p, c.medium)
		if got != c.want || (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s of %v: %d %v, want %d %s", c.medium, c.asked, got, err, c.want, c.fault)
		}
	}
	if !isHugePages("HugePages") || !isHugePages("HugePages-2Mi") || isHugePages("Memory") || isHugePages("HugePagesX") {
		t.Error("media are told apart wrongly")
	}
}
