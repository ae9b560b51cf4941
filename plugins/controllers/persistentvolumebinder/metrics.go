package persistentvolumebinder

import (
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/sdk/metrics"
)

const subsystem = "pv_collector"

// kube-controller-manager's metrics of this controller, under its names.
var (
	assignments = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "retroactive_storageclass_total", Help: "Attempts to set the default class of claims without a class.",
	})
	assignmentFaults = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "retroactive_storageclass_errors_total", Help: "Failed attempts to set the default class of claims.",
	})
	totalVolumes   = describe("total_pv_count", "Volumes by plugin and mode.", "plugin_name", "volume_mode")
	boundVolumes   = describe("bound_pv_count", "Volumes that are bound, by class.", "storage_class")
	unboundVolumes = describe("unbound_pv_count", "Volumes that are not bound, by class.", "storage_class")
	boundClaims    = describe("bound_pvc_count", "Claims that are bound.", "namespace", "storage_class", "volume_attributes_class")
	unboundClaims  = describe("unbound_pvc_count", "Claims that are not bound.", "namespace", "storage_class", "volume_attributes_class")

	counted  counter
	register = sync.OnceFunc(func() { metrics.Register(assignments, assignmentFaults, &counted) })
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName("", subsystem, name), help, labels, nil)
}

func countAssignment(assigned bool, err error) {
	if assigned || err != nil {
		assignments.Inc()
	}
	if err != nil {
		assignmentFaults.Inc()
	}
}

// counter counts what the running controller knows when metrics are read.
type counter struct{ keeper atomic.Pointer[keeper] }

var _ prometheus.Collector = (*counter)(nil)

// of makes the counter count what a controller knows, until the function is called that it returns.
func (c *counter) of(k *keeper) func() {
	c.keeper.Store(k)
	return func() { c.keeper.CompareAndSwap(k, nil) }
}

// Describe implements prometheus.Collector.
func (c *counter) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{totalVolumes, boundVolumes, unboundVolumes, boundClaims, unboundClaims} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *counter) Collect(ch chan<- prometheus.Metric) {
	k := c.keeper.Load()
	if k == nil {
		return
	}
	type series struct {
		desc   *prometheus.Desc
		labels [3]string
		n      int
	}
	counts := map[series]float64{}
	add := func(d *prometheus.Desc, labels ...string) {
		s := series{desc: d, n: len(labels)}
		copy(s.labels[:], labels)
		counts[s]++
	}
	for _, obj := range k.volumes.store.List() {
		pv, ok := obj.(*corev1.PersistentVolume)
		if !ok {
			continue
		}
		add(totalVolumes, pluginOf(pv), string(ptr.Deref(pv.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)))
		if pv.Status.Phase == corev1.VolumeBound {
			add(boundVolumes, pv.Spec.StorageClassName)
		} else {
			add(unboundVolumes, pv.Spec.StorageClassName)
		}
	}
	for _, obj := range k.claims.store.List() {
		claim, ok := obj.(*corev1.PersistentVolumeClaim)
		if !ok {
			continue
		}
		d := unboundClaims
		if claim.Status.Phase == corev1.ClaimBound {
			d = boundClaims
		}
		add(d, claim.Namespace, volume.GetPersistentVolumeClaimClass(claim), ptr.Deref(claim.Spec.VolumeAttributesClassName, ""))
	}
	for s, n := range counts {
		ch <- prometheus.MustNewConstMetric(s.desc, prometheus.GaugeValue, n, s.labels[:s.n]...)
	}
}

// pluginOf is the plugin of a volume, of those that kube-controller-manager's binder has.
func pluginOf(pv *corev1.PersistentVolume) string {
	switch {
	case pv.Spec.HostPath != nil:
		return "kubernetes.io/host-path"
	case pv.Spec.NFS != nil:
		return "kubernetes.io/nfs"
	}
	return "N/A"
}
