// Package nodelifecycle is the controller that judges nodes by their
// heartbeats (000 NDC-1 to NDC-3, 003 NC-3 to NC-7).
//
// Every 5 seconds it looks at each node. A node whose status and lease have
// both not moved for the grace period gets its conditions set to Unknown, and
// its pods are marked not ready. Conditions become NoSchedule taints at once
// and NoExecute taints at a limited rate for each zone: 0.1 nodes a second,
// 0.01 in a large zone that is partly down, none in a small one, and none at
// all while every zone is down. The controller tainteviction deletes the pods that
// do not tolerate a NoExecute taint.
//
// The old names of the labels for operating system and architecture follow the
// new ones. All numbers can be set (Config).
//
// The grace period is 50 seconds as in Kubernetes 1.36; 004 [7.5] has 40. The
// node itself is never deleted for bad health (NDC-4 and NDC-5 say otherwise,
// 1.36 does not), and pods of nodes that are gone (NDC-13) are the podgc
// controller's. Time is that of this process: clocks of nodes are not trusted.
package nodelifecycle
