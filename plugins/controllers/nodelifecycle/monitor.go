package nodelifecycle

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/component-helpers/node/topology"
)

// health is when this process last saw a node move.
type health struct {
	seen      time.Time
	heartbeat metav1.Time
	renewed   metav1.MicroTime
	ready     bool // a Ready condition was there
}

// monitor looks at every node once.
func (l *lifecycle) monitor(ctx context.Context) {
	nodes, err := l.nodes.List(labels.Everything())
	if err != nil {
		utilruntime.HandleErrorWithContext(ctx, err, "List nodes")
		return
	}
	l.forgetGone(nodes)
	var mu sync.Mutex
	ready, all := map[string]int{}, map[string]int{}
	status := make([]corev1.ConditionStatus, len(nodes))
	workqueue.ParallelizeUntil(ctx, workers, len(nodes), func(i int) {
		status[i] = l.look(ctx, nodes[i])
		mu.Lock()
		defer mu.Unlock()
		if _, excluded := nodes[i].Labels["node.kubernetes.io/exclude-disruption"]; excluded {
			return
		}
		zone := topology.GetZoneKey(nodes[i])
		all[zone]++
		if status[i] == corev1.ConditionTrue {
			ready[zone]++
		}
	})
	l.disrupt(ready, all)
	for i, node := range nodes {
		l.judge(ctx, node, status[i])
	}
}

// forgetGone drops what is known of nodes that are not there any more.
func (l *lifecycle) forgetGone(nodes []*corev1.Node) {
	there := map[string]bool{}
	for _, n := range nodes {
		there[n.Name] = true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for name := range l.health {
		if !there[name] {
			delete(l.health, name)
			l.recorder.Eventf(&corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: name}, corev1.EventTypeNormal, "RemovingNode",
				"Node %s event: Removing Node %s from Controller", name, name)
		}
	}
}

// look updates what is known of a node's heartbeats, sets its conditions to
// Unknown when they stopped (NDC-2), and returns the status of Ready.
func (l *lifecycle) look(ctx context.Context, node *corev1.Node) corev1.ConditionStatus {
	ready := condition(&node.Status, corev1.NodeReady)
	lease, err := l.leases.Leases(corev1.NamespaceNodeLease).Get(node.Name)
	if err != nil {
		lease = nil
	}
	if !l.late(node, ready, lease) {
		if ready == nil {
			return corev1.ConditionUnknown
		}
		return ready.Status
	}
	if ready != nil && ready.Status == corev1.ConditionUnknown {
		return corev1.ConditionUnknown
	}
	changed := node.DeepCopy()
	setUnknown(changed, metav1.NewTime(l.now()))
	if _, err := l.client.CoreV1().Nodes().UpdateStatus(ctx, changed, metav1.UpdateOptions{}); err != nil {
		if !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			utilruntime.HandleErrorWithContext(ctx, err, "Set the conditions of a node to Unknown", "node", node.Name)
		}
		if ready == nil {
			return corev1.ConditionUnknown
		}
		return ready.Status // the next pass tries again
	}
	if ready != nil && ready.Status == corev1.ConditionTrue {
		l.recorder.Eventf(nodeReference(node), corev1.EventTypeNormal, "NodeNotReady", "Node %s status is now: %s", node.Name, "NodeNotReady")
	}
	return corev1.ConditionUnknown
}

// late says whether a node has sent nothing for its grace period.
func (l *lifecycle) late(node *corev1.Node, ready *corev1.NodeCondition, lease *coordinationv1.Lease) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	h := l.health[node.Name]
	if h == nil {
		h = &health{seen: now}
		if ready == nil {
			h.seen = node.CreationTimestamp.Time
		}
		l.health[node.Name] = h
		l.recorder.Eventf(nodeReference(node), corev1.EventTypeNormal, "RegisteredNode", "Node %s event: Registered Node %s in Controller", node.Name, node.Name)
	}
	if l.zones[topology.GetZoneKey(node)] == nil {
		l.zones[topology.GetZoneKey(node)] = &zone{limiter: rate.NewLimiter(rate.Limit(l.config.NodeEvictionRate), 1)}
	}
	if ready != nil && (!h.ready || !ready.LastHeartbeatTime.Equal(&h.heartbeat)) {
		h.seen, h.heartbeat, h.ready = now, ready.LastHeartbeatTime, true
	}
	if lease != nil && lease.Spec.RenewTime != nil && h.renewed.Before(lease.Spec.RenewTime) {
		h.seen, h.renewed = now, *lease.Spec.RenewTime
	}
	grace := l.config.NodeMonitorGracePeriod.Duration
	if ready == nil {
		grace = l.config.NodeStartupGracePeriod.Duration
	}
	return now.After(h.seen.Add(grace))
}

// setUnknown sets the conditions that come from the node.
func setUnknown(node *corev1.Node, now metav1.Time) {
	for _, kind := range []corev1.NodeConditionType{corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		c := condition(&node.Status, kind)
		switch {
		case c == nil:
			node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
				Type: kind, Status: corev1.ConditionUnknown, Reason: "NodeStatusNeverUpdated", Message: "Kubelet never posted node status.",
				LastHeartbeatTime: node.CreationTimestamp, LastTransitionTime: now,
			})
		case c.Status != corev1.ConditionUnknown:
			c.Status, c.Reason, c.Message = corev1.ConditionUnknown, "NodeStatusUnknown", "Kubelet stopped posting node status."
			c.LastTransitionTime = now
		}
	}
}

// judge queues a node for its NoExecute taint or takes that off, and marks the
// pods of a node that is silent. One that says itself that it is not ready
// answers for its pods, and would take the mark off again.
func (l *lifecycle) judge(ctx context.Context, node *corev1.Node, status corev1.ConditionStatus) {
	if condition(&node.Status, corev1.NodeReady) == nil && status != corev1.ConditionTrue {
		return // it never said anything; the cache shows the verdict next time
	}
	l.mu.Lock()
	z := l.zones[topology.GetZoneKey(node)]
	if z == nil {
		l.mu.Unlock()
		return
	}
	i := slices.Index(z.waiting, node.Name)
	tainted := hasOwnNoExecute(node)
	switch {
	case status == corev1.ConditionTrue && i >= 0:
		z.waiting = slices.Delete(z.waiting, i, i+1)
	case status != corev1.ConditionTrue && !tainted && i < 0:
		z.waiting = append(z.waiting, node.Name)
	}
	l.mu.Unlock()
	var err error
	switch {
	case status == corev1.ConditionTrue, l.down:
		err = l.setTaints(ctx, node, noExecuteTaints(false))
	case tainted:
		err = l.setTaints(ctx, node, noExecuteTaints(true)) // from one taint to the other needs no rate
	}
	if err != nil {
		utilruntime.HandleErrorWithContext(ctx, err, "Set taints of a node")
	}
	if status == corev1.ConditionUnknown {
		l.markPods(ctx, node.Name)
	}
}

// taintUnhealthy taints the waiting nodes as fast as their zones allow.
func (l *lifecycle) taintUnhealthy(ctx context.Context) {
	var names []string
	l.mu.Lock()
	for _, z := range l.zones {
		if z.limiter.Limit() > 0 && len(z.waiting) > 0 && z.limiter.AllowN(l.now(), 1) {
			names = append(names, z.waiting[0])
			z.waiting = z.waiting[1:]
		}
	}
	l.mu.Unlock()
	for _, name := range names {
		node, err := l.nodes.Get(name)
		if err == nil {
			err = l.setTaints(ctx, node, noExecuteTaints(true))
		}
		if err != nil && !apierrors.IsNotFound(err) {
			utilruntime.HandleErrorWithContext(ctx, err, "Taint a node that is not ready")
		}
	}
}

func hasOwnNoExecute(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectNoExecute && (t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable)
	})
}

func nodeReference(node *corev1.Node) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}
}
