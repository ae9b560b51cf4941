package maintenance

import (
	"github.com/prometheus/client_golang/prometheus"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"pintle.dev/pintle/kernel/bus"
	"pintle.dev/pintle/kernel/store"
)

// Collectors gives the metrics of a store and its bus: their own, pintle_store_* and pintle_bus_*, and those that
// kube-apiserver has of its storage, under its names.
func Collectors(s *store.Store, b *bus.Bus) []prometheus.Collector {
	return []prometheus.Collector{s.Collector(), b.Collector(), collector{s}}
}

type collector struct{ s *store.Store }

var descs = struct{ storageObjects, resourceObjects, resourceSize, storageSize *prometheus.Desc }{
	storageObjects: prometheus.NewDesc("apiserver_storage_objects",
		"[STABLE] Number of stored objects split by kind; deprecated, see apiserver_resource_objects.", []string{"resource"}, nil),
	resourceObjects: prometheus.NewDesc("apiserver_resource_objects",
		"[ALPHA] Number of stored objects split by kind.", []string{"group", "resource"}, nil),
	resourceSize: prometheus.NewDesc("apiserver_resource_size_estimate_bytes",
		"[ALPHA] Size of stored objects split by kind, as they are encoded.", []string{"group", "resource"}, nil),
	storageSize: prometheus.NewDesc("apiserver_storage_size_bytes",
		"[STABLE] Size of the storage database physically allocated in bytes.", []string{"storage_cluster_id"}, nil),
}

func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descs.storageObjects, descs.resourceObjects, descs.resourceSize, descs.storageSize} {
		out <- d
	}
}

func (c collector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, r := range resourcesOf(c.s) {
		gr := schema.GroupResource{Group: r.Group, Resource: r.Resource}
		gauge(descs.storageObjects, float64(r.Objects), gr.String())
		gauge(descs.resourceObjects, float64(r.Objects), r.Group, r.Resource)
		gauge(descs.resourceSize, float64(r.Bytes), r.Group, r.Resource)
	}
	st, err := c.s.Stats()
	if err != nil {
		out <- prometheus.NewInvalidMetric(descs.storageSize, err)
		return
	}
	gauge(descs.storageSize, float64(st.Disk.Total()), "pintle-"+st.ID)
}
