package server

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"pintle.dev/pintle/kernel/node/cri"
	"pintle.dev/pintle/kernel/node/nodestatus"
)

// collect sums up the node and its containers from the runtime's own measurements.
func (s *Server) collect(r *http.Request) (*stats.Summary, error) {
	list, err := s.deps.CRI.ListContainerStats(r.Context(), &runtimeapi.ListContainerStatsRequest{})
	if err != nil {
		return nil, err
	}
	pods, err := s.deps.CRI.List(r.Context())
	if err != nil {
		return nil, err
	}
	byID := map[string]*runtimeapi.ContainerStats{}
	for _, c := range list.Stats {
		byID[c.GetAttributes().GetId()] = c
	}
	now := metav1.Now()
	sum := &stats.Summary{Node: stats.NodeStats{NodeName: s.cfg.NodeName}, Pods: []stats.PodStats{}}
	var nodeCPU, nodeNano, nodeMemory uint64
	for _, p := range pods {
		ps := stats.PodStats{PodRef: stats.PodReference{Name: p.Name, Namespace: p.Namespace, UID: string(p.UID)}, Containers: []stats.ContainerStats{}}
		var cpu, nano, memory uint64
		for _, c := range p.Containers {
			if c.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
				continue
			}
			cs := stats.ContainerStats{Name: c.Labels[cri.LabelContainerName], StartTime: metav1.Unix(0, c.CreatedAt)}
			if m := byID[c.Id]; m != nil {
				if v := m.GetCpu(); v != nil {
					cs.CPU = &stats.CPUStats{Time: metav1.Unix(0, v.Timestamp), UsageCoreNanoSeconds: value(v.UsageCoreNanoSeconds), UsageNanoCores: value(v.UsageNanoCores)}
					cpu += v.GetUsageCoreNanoSeconds().GetValue()
					nano += v.GetUsageNanoCores().GetValue()
				}
				if v := m.GetMemory(); v != nil {
					cs.Memory = &stats.MemoryStats{Time: metav1.Unix(0, v.Timestamp), WorkingSetBytes: value(v.WorkingSetBytes), UsageBytes: value(v.UsageBytes),
						AvailableBytes: value(v.AvailableBytes), RSSBytes: value(v.RssBytes), PageFaults: value(v.PageFaults), MajorPageFaults: value(v.MajorPageFaults)}
					memory += v.GetWorkingSetBytes().GetValue()
				}
				if v := m.GetWritableLayer(); v != nil {
					cs.Rootfs = &stats.FsStats{Time: metav1.Unix(0, v.Timestamp), UsedBytes: value(v.UsedBytes), InodesUsed: value(v.InodesUsed)}
				}
			}
			ps.Containers = append(ps.Containers, cs)
		}
		if len(ps.Containers) == 0 {
			continue
		}
		if len(p.Sandboxes) > 0 {
			ps.StartTime = metav1.Unix(0, p.Sandboxes[0].CreatedAt)
		}
		ps.CPU = &stats.CPUStats{Time: now, UsageCoreNanoSeconds: &cpu, UsageNanoCores: &nano}
		ps.Memory = &stats.MemoryStats{Time: now, WorkingSetBytes: &memory}
		nodeCPU, nodeNano, nodeMemory = nodeCPU+cpu, nodeNano+nano, nodeMemory+memory
		sum.Pods = append(sum.Pods, ps)
	}
	slices.SortFunc(sum.Pods, func(a, b stats.PodStats) int {
		return strings.Compare(a.PodRef.Namespace+"/"+a.PodRef.Name, b.PodRef.Namespace+"/"+b.PodRef.Name)
	})
	// The node is all of the machine; what its pods use together is a part of it.
	if err := s.meter.Node(&sum.Node); err != nil {
		s.deps.Logger.Debug("statistics of the machine are not whole", "err", err)
	}
	sum.Node.SystemContainers = []stats.ContainerStats{{
		Name: stats.SystemContainerPods, StartTime: sum.Node.StartTime,
		CPU:    &stats.CPUStats{Time: now, UsageCoreNanoSeconds: &nodeCPU, UsageNanoCores: &nodeNano},
		Memory: &stats.MemoryStats{Time: now, WorkingSetBytes: &nodeMemory},
	}}
	if fs, err := s.deps.CRI.ImageFsInfo(r.Context(), &runtimeapi.ImageFsInfoRequest{}); err == nil && len(fs.ImageFilesystems) > 0 {
		image := fs.ImageFilesystems[0]
		if capacity, available, inodes, free, err := nodestatus.Disk(image.GetFsId().GetMountpoint()); err == nil {
			c, a, n, f := uint64(capacity), uint64(available), uint64(inodes), uint64(free)
			sum.Node.Runtime = &stats.RuntimeStats{ImageFs: &stats.FsStats{
				Time: metav1.Unix(0, image.Timestamp), CapacityBytes: &c, AvailableBytes: &a, Inodes: &n, InodesFree: &f,
				UsedBytes: value(image.UsedBytes), InodesUsed: value(image.InodesUsed),
			}}
		}
	}
	if capacity, available, inodes, free, err := nodestatus.Disk(s.cfg.RootDir); err == nil {
		c, a, used, n, f := uint64(capacity), uint64(available), uint64(capacity-available), uint64(inodes), uint64(free)
		sum.Node.Fs = &stats.FsStats{Time: now, CapacityBytes: &c, AvailableBytes: &a, UsedBytes: &used, Inodes: &n, InodesFree: &f}
	}
	return sum, nil
}

func value(v *runtimeapi.UInt64Value) *uint64 {
	if v == nil {
		return nil
	}
	n := v.Value
	return &n
}

func (s *Server) summary(w http.ResponseWriter, r *http.Request) {
	sum, err := s.collect(r)
	if err != nil {
		http.Error(w, cri.Message(err), http.StatusInternalServerError)
		return
	}
	writeJSON(w, sum)
}

// metrics answers what the node runs in the text format of Prometheus, under the kubelet's names.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	pods, err := s.deps.CRI.List(r.Context())
	if err != nil {
		http.Error(w, cri.Message(err), http.StatusInternalServerError)
		return
	}
	states := map[string]int{"running": 0, "exited": 0, "created": 0, "unknown": 0}
	running := 0
	for _, p := range pods {
		for _, c := range p.Containers {
			states[strings.ToLower(strings.TrimPrefix(c.State.String(), "CONTAINER_"))]++
		}
		if len(p.Sandboxes) > 0 && p.Sandboxes[0].State == runtimeapi.PodSandboxState_SANDBOX_READY {
			running++
		}
	}
	seen, _ := s.deps.Healthy(time.Now())
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	fmt.Fprintf(w, "# HELP kubelet_node_name The node's name. The count is always 1.\n# TYPE kubelet_node_name gauge\nkubelet_node_name{node=%q} 1\n", s.cfg.NodeName)
	fmt.Fprintf(w, "# HELP kubelet_running_pods Number of pods that have a running pod sandbox\n# TYPE kubelet_running_pods gauge\nkubelet_running_pods %d\n", running)
	fmt.Fprint(w, "# HELP kubelet_running_containers Number of containers currently running\n# TYPE kubelet_running_containers gauge\n")
	for _, state := range []string{"created", "exited", "running", "unknown"} {
		fmt.Fprintf(w, "kubelet_running_containers{container_state=%q} %d\n", state, states[state])
	}
	fmt.Fprintf(w, "# HELP kubelet_pleg_last_seen_seconds Timestamp in seconds when PLEG was last seen active.\n# TYPE kubelet_pleg_last_seen_seconds gauge\nkubelet_pleg_last_seen_seconds %d\n", seen.Unix())
	fmt.Fprintf(w, "# HELP kubelet_desired_pods The number of pods the kubelet is being instructed to run.\n# TYPE kubelet_desired_pods gauge\nkubelet_desired_pods %d\n", len(s.deps.Pods.List()))
}
