package persistentvolumebinder

import (
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
)

// Metrics have kube-controller-manager's names: volumes by plugin and mode, and both by what they are bound to.
func TestMetrics(t *testing.T) {
	w := newWorld(t,
		newVolume("pv-1", "1Gi"), newVolume("pv-2", "1Gi", func(v *corev1.PersistentVolume) {
			v.Spec.HostPath, v.Spec.NFS, v.Spec.StorageClassName = nil, &corev1.NFSVolumeSource{Server: "s", Path: "/"}, "slow"
		}),
		newVolume("pv-3", "1Gi", func(v *corev1.PersistentVolume) {
			v.Spec.HostPath, v.Spec.Local, v.Spec.VolumeMode, v.Spec.StorageClassName = nil, &corev1.LocalVolumeSource{Path: "/"}, ptr.To(corev1.PersistentVolumeBlock), "slow"
		}),
		newClaim("a", "1Gi"), newClaim("b", "1Gi", ofClass("nothing"), func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeAttributesClassName = ptr.To("gold") }))
	w.settle()
	var c counter
	registry := prometheus.NewRegistry()
	registry.MustRegister(&c)
	end := c.of(w.k)
	const want = `# HELP pv_collector_bound_pv_count Volumes that are bound, by class.
# TYPE pv_collector_bound_pv_count gauge
pv_collector_bound_pv_count{storage_class=""} 1
# HELP pv_collector_bound_pvc_count Claims that are bound.
# TYPE pv_collector_bound_pvc_count gauge
pv_collector_bound_pvc_count{namespace="default",storage_class="",volume_attributes_class=""} 1
# HELP pv_collector_total_pv_count Volumes by plugin and mode.
# TYPE pv_collector_total_pv_count gauge
pv_collector_total_pv_count{plugin_name="N/A",volume_mode="Block"} 1
pv_collector_total_pv_count{plugin_name="kubernetes.io/host-path",volume_mode="Filesystem"} 1
pv_collector_total_pv_count{plugin_name="kubernetes.io/nfs",volume_mode="Filesystem"} 1
# HELP pv_collector_unbound_pv_count Volumes that are not bound, by class.
# TYPE pv_collector_unbound_pv_count gauge
pv_collector_unbound_pv_count{storage_class="slow"} 2
# HELP pv_collector_unbound_pvc_count Claims that are not bound.
# TYPE pv_collector_unbound_pvc_count gauge
pv_collector_unbound_pvc_count{namespace="default",storage_class="nothing",volume_attributes_class="gold"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	end()
	if n, err := testutil.GatherAndCount(registry); err != nil || n != 0 {
		t.Errorf("%d series of a controller that has ended, %v", n, err)
	}
}

// A class that is assigned later is counted, and so is one that cannot be.
func TestAssignmentsAreCounted(t *testing.T) {
	before, faults := testutil.ToFloat64(assignments), testutil.ToFloat64(assignmentFaults)
	w := newWorld(t, newClass("standard", "example.com/p", byDefault), newClaim("a", "1Gi", func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = nil }))
	refused := false
	w.Client.PrependReactor("update", "persistentvolumeclaims", func(a k8stesting.Action) (bool, runtime.Object, error) {
		if refused || a.GetSubresource() != "" {
			return false, nil, nil
		}
		refused = true
		return true, nil, errors.New("refused")
	})
	if err := w.pass(true); err == nil {
		t.Error("no fault")
	}
	w.settle()
	if a, f := testutil.ToFloat64(assignments)-before, testutil.ToFloat64(assignmentFaults)-faults; a != 2 || f != 1 {
		t.Errorf("%g assignments, %g faults", a, f)
	}
}
