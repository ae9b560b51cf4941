// Package node is the node agent, the kubelet's part of Pintle: it registers its Node, takes the pods bound to it and
// makes them run over CRI (runtime.v1), and serves their logs and streams.
//
// # What it owns
//
// One Agent owns one node: its Lease in kube-node-lease (heartbeat; renewed every 10 s, valid 40 s), its Node status (written
// when it changed, at least every 5 min), the sandboxes and containers that carry its pods' io.kubernetes.* labels,
// the files below Config.RootDir and Config.LogDir, and the pod cgroups below Config.CgroupRoot.
//
// # How data passes through
//
//	API ──PodSource──▶ pod (one worker a pod) ──cri──▶ runtime
//	        object ──▶  ▲ volume, image, sandbox,        │
//	        (ConfigMap, │ container, probe, lifecycle    │
//	        Secret)     └────────── pleg ◀── events, lists
//	API ◀──status── pod        API ◀──nodestatus, heartbeat
//	kubelet clients ──▶ server ──▶ cri (logs, exec, attach, port-forward)
//
// Sub-packages import downwards only: pod may import all but server; container, sandbox, volume, image, probe,
// lifecycle, status, pleg, gc, logs, nodestatus, heartbeat, cgroup know the pure packages client, cri and container at
// most. Each says so in its own documentation. What is done again and again is a task of the timetable.
//
// # Promises
//
// Containers of a pod that nobody touched go on running through a stop of the agent and are taken over by the next
// start; nothing about a pod is kept that could not be found again in the API and the runtime, but for back-offs. With
// Config.TearDownOnStop, or by TearDown, everything on the node ends and its mounts and cgroups are removed; API
// objects stay, and the next start makes the pods again.
//
// Many agents may run in one process: Deps carries a shared pod source, watch of nodes, service lister, event
// broadcaster, CRI connection, reader of the runtime's events and timetable, and an agent at rest then has no
// goroutine, no timer and no connection of its own. What runs of it is a round for a pod, a status that is written, or a task that is due.
//
// # What it needs to be allowed
//
// get, list, watch pods, services, configmaps, secrets, runtimeclasses, nodes; create, update, patch nodes and
// nodes/status; patch pods/status; delete pods; create serviceaccounts/token; create, patch events; create, get,
// update leases in kube-node-lease; create tokenreviews and subjectaccessreviews. Group system:nodes and user
// system:node:<name> by convention.
//
// # What is not there
//
// Ranked eviction by memory, soft thresholds, static and mirror pods, CSI, devices and
// dynamic resources, user namespaces, swap, checkpoints, the read-only port (KLT-36), cAdvisor's own URLs (CAD-1 to
// CAD-4, which Kubernetes removed; /stats/summary tells the same), /metrics/cadvisor and /metrics/probes. What a pod asks
// of these is refused with an event that says so, or has no effect where the API leaves it to the node.
//
// It must not import kernel/api, kernel/store, kernel/scheduler or any plugin: it is an ordinary client.
package node
