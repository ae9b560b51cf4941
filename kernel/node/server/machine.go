package server

import (
	"errors"
	"io/fs"
	"net/http"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
)

// machineLogs is the folder of the machine's own logs.
const machineLogs = "/var/log"

// systemLogs answers the machine's own logs, and folders as lists. A pod may have the folder mounted and put links into
// it: none leads out of it.
func (s *Server) systemLogs(w http.ResponseWriter, r *http.Request) {
	dir := s.cfg.SystemLogs
	if dir == "" {
		dir = machineLogs
	}
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		http.NotFound(w, r)
		return
	}
	if err != nil {
		http.Error(w, "the machine's logs cannot be read", http.StatusInternalServerError)
		return
	}
	defer root.Close()
	http.StripPrefix("/logs/", http.FileServerFS(regular{root.FS()})).ServeHTTP(w, r)
}

// regular opens files and folders, and nothing that a read could wait for or change, such as pipes.
type regular struct{ fs.FS }

func (r regular) Open(name string) (fs.File, error) {
	info, err := fs.Stat(r.FS, name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() && !info.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return r.FS.Open(name)
}

// configz answers the node's settings as the kubelet tells its own.
func (s *Server) configz(w http.ResponseWriter, r *http.Request) {
	if s.cfg.Settings == nil {
		http.NotFound(w, r)
		return
	}
	writeJSON(w, map[string]*kubeletv1beta1.KubeletConfiguration{"kubeletconfig": s.cfg.Settings})
}

var (
	containerCPU    = prometheus.NewDesc("container_cpu_usage_seconds_total", "[STABLE] Cumulative cpu time consumed by the container in core-seconds", []string{"container", "namespace", "pod"}, nil)
	containerMemory = prometheus.NewDesc("container_memory_working_set_bytes", "[STABLE] Current working set of the container in bytes", []string{"container", "namespace", "pod"}, nil)
	containerStart  = prometheus.NewDesc("container_start_time_seconds", "[STABLE] Start time of the container since unix epoch in seconds", []string{"container", "namespace", "pod"}, nil)
	podCPU          = prometheus.NewDesc("pod_cpu_usage_seconds_total", "[STABLE] Cumulative cpu time consumed by the pod in core-seconds", []string{"namespace", "pod"}, nil)
	podMemory       = prometheus.NewDesc("pod_memory_working_set_bytes", "[STABLE] Current working set of the pod in bytes", []string{"namespace", "pod"}, nil)
	nodeCPU         = prometheus.NewDesc("node_cpu_usage_seconds_total", "[STABLE] Cumulative cpu time consumed by the node in core-seconds", nil, nil)
	nodeMemory      = prometheus.NewDesc("node_memory_working_set_bytes", "[STABLE] Current working set of the node in bytes", nil, nil)
	scrapeError     = prometheus.NewDesc("resource_scrape_error", "[STABLE] 1 if there was an error while getting container metrics, 0 otherwise", nil, nil)
)

// resources collects /metrics/resource for one request.
type resources struct {
	*Server
	r *http.Request
}

// Describe implements prometheus.Collector: what is there is known by collecting.
func (resources) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c resources) Collect(out chan<- prometheus.Metric) {
	failed := 0.0
	sum, err := c.collect(c.r)
	if err != nil {
		out <- prometheus.MustNewConstMetric(scrapeError, prometheus.GaugeValue, 1)
		return
	}
	put := func(d *prometheus.Desc, t prometheus.ValueType, n *uint64, unit float64, labels ...string) {
		if n != nil {
			out <- prometheus.MustNewConstMetric(d, t, float64(*n)/unit, labels...)
		}
	}
	const ns = 1e9
	if v := sum.Node.CPU; v != nil {
		put(nodeCPU, prometheus.CounterValue, v.UsageCoreNanoSeconds, ns)
	} else {
		failed = 1
	}
	if v := sum.Node.Memory; v != nil {
		put(nodeMemory, prometheus.GaugeValue, v.WorkingSetBytes, 1)
	} else {
		failed = 1
	}
	for _, p := range sum.Pods {
		namespace, name := p.PodRef.Namespace, p.PodRef.Name
		if v := p.CPU; v != nil {
			put(podCPU, prometheus.CounterValue, v.UsageCoreNanoSeconds, ns, namespace, name)
		}
		if v := p.Memory; v != nil {
			put(podMemory, prometheus.GaugeValue, v.WorkingSetBytes, 1, namespace, name)
		}
		for _, ct := range p.Containers {
			if v := ct.CPU; v != nil {
				put(containerCPU, prometheus.CounterValue, v.UsageCoreNanoSeconds, ns, ct.Name, namespace, name)
			}
			if v := ct.Memory; v != nil {
				put(containerMemory, prometheus.GaugeValue, v.WorkingSetBytes, 1, ct.Name, namespace, name)
			}
			started := float64(ct.StartTime.UnixNano()) / ns
			out <- prometheus.MustNewConstMetric(containerStart, prometheus.GaugeValue, started, ct.Name, namespace, name)
		}
	}
	out <- prometheus.MustNewConstMetric(scrapeError, prometheus.GaugeValue, failed)
}

// resourceMetrics answers what metrics-server reads.
func (s *Server) resourceMetrics(w http.ResponseWriter, r *http.Request) {
	registry := prometheus.NewRegistry()
	if err := registry.Register(resources{s, r}); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, r)
}
