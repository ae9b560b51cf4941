// Package tainteviction is the controller that deletes pods which do not tolerate
// the NoExecute taints of their node (000 NDC-10 and NDC-14).
//
// A pod without a toleration for each of these taints goes at once. One whose
// tolerations have a time goes when the shortest of them is over, counted from when
// the controller first saw pod and taint together. That deadline stays: a toleration
// that is changed later moves it only by being infinite or by being gone. The end of
// all taints cancels it. A node that is gone leaves deadlines as they are.
//
// Of each pod an event TaintManagerEviction says that it is marked, and one says when
// a planned deletion is cancelled. The condition DisruptionTarget says why, before the
// pod is deleted. Both name the pod's UID, so that another pod of the name is spared.
//
// Pods are worked on in the order of their deadlines, and those of one node by name,
// eight at a time. A write that fails is tried again with back-off for as long as the
// pod and its node's taint are there; kube-controller-manager gives up after five
// tries. Times that an int64 of nanoseconds cannot hold are infinite.
//
// Who taints nodes is no matter of this package. It imports sdk/controller and its
// neighbours queue and nodepods, and no other controller.
package tainteviction
