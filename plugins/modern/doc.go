// Modern is the bundle of the default policy of kube-scheduler 1.36: its plugins,
// each decided as there, that share one replica, built to one WASM module
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -o modern.wasm ./plugins/modern
//
// or, from the same source, to one process plugin (go build). Each plugin has a
// folder under plugins and a name by which a profile switches it: kube-scheduler's
// own, with Score behind it for the scoring half of a plugin that filters too, and
// with the point's name behind it for what else such a plugin does.
//
// That of VolumeBinding which writes to the API is the bundle plugins/volumebinding,
// a process, since a module cannot.
//
// Left out of what 1.36.3 has in its default profile or behind a feature gate, and
// why:
//
//   - DynamicResources (DynamicResourceAllocation is on): resource.k8s.io is not
//     served, so no claim can be allocated. A predicate of that name refuses pods that
//     have claims, for otherwise they would be placed as if they had asked for nothing.
//   - NodeDeclaredFeatures (beta, on since 1.36): it compares what a pod needs with
//     the features that nodes declare in their status. Nodes of this kernel declare
//     none, and a pod that needs one is placed as by 1.35.
//   - GangScheduling, TopologyAwareWorkloadScheduling, WorkloadAwarePreemption (alpha,
//     off), and with them TopologyPlacementGenerator and PodGroupPodsCount: the
//     Workload and PodGroup API is not served. A gang plugin is in plugins/examples.
//   - VolumeLimitScaling (alpha, off): NodeVolumeLimits does not ask whether a driver
//     is installed.
//   - StorageCapacityScoring (alpha, off): VolumeBindingScore is there, and no profile
//     that ships names it.
//   - DefaultBinder: the kernel writes the binding where no bind plugin does.
//
// The bundle owns the list of its plugins and nothing else. It must import sdk
// and plugin folders only.
package main
