// Package cri is the node agent's view of a container runtime: one connection that speaks runtime.v1 (k8s.io/cri-api),
// the labels and annotations by which the agent finds its own sandboxes and containers again after a restart, and
// PodStatus, a snapshot of one pod as the runtime sees it.
//
// Promises: each call carries the gRPC metadata pintle-node, so that one runtime may serve several agents over one
// connection, and is bounded in time. A snapshot is never changed after it was handed out.
//
// It knows no API objects beyond what labels need, takes no decisions, and must not import other packages of
// kernel/node. Labels and annotations are those that the kubelet writes (io.kubernetes.*), so that crictl and a
// kubelet's tools understand them.
package cri
