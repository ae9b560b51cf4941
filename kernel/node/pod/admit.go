package pod

import (
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"pintle.dev/pintle/kernel/node/container"
	"pintle.dev/pintle/kernel/node/listener"
)

// admission is the node's own last check: what the scheduler saw may be outdated, and pods may name their node.
type admission struct {
	mu       sync.Mutex
	admitted map[types.UID]*corev1.Pod
	// listening are the ports that the kernel and the agent serve on; nil: none.
	listening func() listener.Set
}

// admitted checks the pod against the node. Labels and taints may be newer than what is known here: the scheduler may
// have placed the pod because of them.
func (m *Manager) admitted(ctx context.Context, pod *corev1.Pod, running bool) *end {
	refused := m.admit.check(pod, m.deps.Node.Object(), running)
	if refused == nil || refused.reason != "NodeAffinity" && refused.reason != "TaintToleration" {
		return refused
	}
	node, err := m.deps.Node.Refresh(ctx)
	if err != nil {
		m.deps.Logger.Warn("node could not be read anew", "pod", name(pod), "err", err)
		return refused
	}
	return m.admit.check(pod, node, running)
}

// check admits the pod or answers why not, in the kubelet's words.
func (a *admission) check(pod *corev1.Pod, node *corev1.Node, running bool) *end {
	a.mu.Lock()
	defer a.mu.Unlock()
	// Those that run already, too: their host port is what nobody gets past.
	if e := a.hides(pod); e != nil {
		return e
	}
	if !running && node != nil {
		if e := a.refuse(pod, node); e != nil {
			return e
		}
	}
	a.admitted[pod.UID] = pod
	return nil
}

// keep notes a pod that was admitted before, with the resources that it was granted.
func (a *admission) keep(pod *corev1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.admitted[pod.UID] = pod
}

func (a *admission) release(uid types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.admitted, uid)
}

// resize admits new resources of a pod that is here already, or answers why not: the node will never have them
// (Infeasible), or others have them now (Deferred).
func (a *admission) resize(pod *corev1.Pod, node *corev1.Node) *end {
	a.mu.Lock()
	defer a.mu.Unlock()
	if node != nil {
		if message := exceeds(pod, node); message != "" {
			return &end{corev1.PodReasonInfeasible, message}
		}
		if e := fits(pod, node, a.others(pod)); e != nil {
			return &end{corev1.PodReasonDeferred, e.message}
		}
	}
	a.admitted[pod.UID] = pod
	return nil
}

// exceeds says which request is larger than all that the node gives to pods.
func exceeds(pod *corev1.Pod, node *corev1.Node) string {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		request, capacity := requests[name], node.Status.Allocatable[name]
		if request.Cmp(capacity) <= 0 {
			continue
		}
		r, c := request.Value(), capacity.Value()
		if name == corev1.ResourceCPU {
			r, c = request.MilliValue(), capacity.MilliValue()
		}
		return fmt.Sprintf("Node didn't have enough capacity: %s, requested: %d, capacity: %d", name, r, c)
	}
	return ""
}

func (a *admission) others(pod *corev1.Pod) []*corev1.Pod {
	others := make([]*corev1.Pod, 0, len(a.admitted))
	for uid, p := range a.admitted {
		if uid != pod.UID {
			others = append(others, p)
		}
	}
	return others
}

func (a *admission) refuse(pod *corev1.Pod, node *corev1.Node) *end {
	if err := forbiddenSysctl(pod); err != nil {
		return &end{"SysctlForbidden", fmt.Sprintf("forbidden sysctl: %v", err)}
	}
	if pod.Spec.OS != nil && pod.Spec.OS.Name != corev1.Linux {
		return &end{"PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"}
	}
	if pod.Spec.HostUsers != nil && !*pod.Spec.HostUsers {
		// Its root would be the node's, of which the pod asked to be kept apart.
		return &end{"UserNamespacesNotSupported", "Failed to admit pod as spec.hostUsers is false and the node agent has no user namespaces"}
	}
	if want := pod.Spec.NodeSelector[corev1.LabelOSStable]; want != "" && want != node.Labels[corev1.LabelOSStable] {
		return &end{"PodOSSelectorNodeLabelDoesNotMatch", "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"}
	}
	if e := pressed(pod, node); e != nil {
		return e
	}
	others := a.others(pod)
	if e := fits(pod, node, others); e != nil {
		return e
	}
	if ok, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node); err != nil || !ok {
		return &end{"NodeAffinity", "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"}
	}
	if pod.Spec.NodeName != "" && pod.Spec.NodeName != node.Name {
		return &end{"NodeName", "Predicate NodeName failed: node(s) didn't match the requested node name"}
	}
	if conflict(pod, others) {
		return &end{"NodePorts", "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"}
	}
	if _, untolerated := corev1helpers.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, pod.Spec.Tolerations, func(t *corev1.Taint) bool { return t.Effect == corev1.TaintEffectNoExecute }, true); untolerated {
		return &end{"TaintToleration", "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"}
	}
	return nil
}

// hides refuses a host port that the kernel or the agent listens on: the rules of the pod network would lead everybody
// who calls them to the pod instead.
func (a *admission) hides(pod *corev1.Pod) *end {
	if a.listening == nil {
		return nil
	}
	for _, p := range hostPorts(pod) {
		if l, taken := a.listening().Taken(p.protocol, p.ip, p.number); taken {
			return &end{"NodePorts", fmt.Sprintf("Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports: %s listens on host port %d", l.Owner, p.number)}
		}
	}
	return nil
}

// pressed refuses what the node's pressures leave no room for, as the kubelet does: under pressure of memory what asks
// for none of it, under any other every pod, but for critical ones.
func pressed(pod *corev1.Pod, node *corev1.Node) *end {
	if pod.Spec.Priority != nil && *pod.Spec.Priority >= systemCritical {
		return nil
	}
	var has []string
	for _, c := range node.Status.Conditions {
		switch {
		case c.Status != corev1.ConditionTrue:
		case c.Type == corev1.NodeDiskPressure, c.Type == corev1.NodePIDPressure, c.Type == corev1.NodeMemoryPressure:
			has = append(has, string(c.Type))
		}
	}
	if len(has) == 0 {
		return nil
	}
	if len(has) == 1 && has[0] == string(corev1.NodeMemoryPressure) {
		tolerates := slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
			return t.ToleratesTaint(klog.Background(), &corev1.Taint{Key: corev1.TaintNodeMemoryPressure, Effect: corev1.TaintEffectNoSchedule}, true)
		})
		if tolerates || container.QOS(pod) != corev1.PodQOSBestEffort {
			return nil
		}
	}
	return &end{"Evicted", fmt.Sprintf("The node had condition: %v. ", has)}
}

func fits(pod *corev1.Pod, node *corev1.Node, others []*corev1.Pod) *end {
	allocatable := node.Status.Allocatable
	lacks := func(name corev1.ResourceName, requested, used, capacity int64) *end {
		return &end{"OutOf" + string(name), fmt.Sprintf("Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d", name, requested, used, capacity)}
	}
	if q, ok := allocatable[corev1.ResourcePods]; ok && int64(len(others)+1) > q.Value() {
		return lacks(corev1.ResourcePods, 1, int64(len(others)), q.Value())
	}
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	names := make([]corev1.ResourceName, 0, len(requests))
	for name, q := range requests {
		if !q.IsZero() {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	used := corev1.ResourceList{}
	for _, other := range others {
		for name, q := range resourcehelper.PodRequests(other, resourcehelper.PodResourcesOptions{}) {
			sum := used[name]
			sum.Add(q)
			used[name] = sum
		}
	}
	value := func(name corev1.ResourceName, q resource.Quantity) int64 {
		if name == corev1.ResourceCPU {
			return q.MilliValue()
		}
		return q.Value()
	}
	slices.Sort(names)
	for _, name := range names {
		capacity, ok := allocatable[name]
		if !ok && name != corev1.ResourceCPU && name != corev1.ResourceMemory && name != corev1.ResourceEphemeralStorage {
			continue // an extended resource that is gone from the node: the scheduler's business
		}
		if r, u, c := value(name, requests[name]), value(name, used[name]), value(name, capacity); r > c-u {
			return lacks(name, r, u, c)
		}
	}
	return nil
}

type port struct {
	protocol corev1.Protocol
	ip       string
	number   int32
}

func hostPorts(pod *corev1.Pod) []port {
	var out []port
	add := func(list []corev1.Container) {
		for i := range list {
			for _, p := range list[i].Ports {
				if p.HostPort > 0 {
					h := port{p.Protocol, p.HostIP, p.HostPort}
					if h.protocol == "" {
						h.protocol = corev1.ProtocolTCP
					}
					if h.ip == "" {
						h.ip = "0.0.0.0"
					}
					out = append(out, h)
				}
			}
		}
	}
	for i := range pod.Spec.InitContainers {
		if r := pod.Spec.InitContainers[i].RestartPolicy; r != nil && *r == corev1.ContainerRestartPolicyAlways {
			add(pod.Spec.InitContainers[i : i+1])
		}
	}
	add(pod.Spec.Containers)
	return out
}

func conflict(pod *corev1.Pod, others []*corev1.Pod) bool {
	wanted := hostPorts(pod)
	if len(wanted) == 0 {
		return false
	}
	for _, other := range others {
		for _, have := range hostPorts(other) {
			for _, want := range wanted {
				if have.protocol == want.protocol && have.number == want.number &&
					(have.ip == want.ip || have.ip == "0.0.0.0" || want.ip == "0.0.0.0") {
					return true
				}
			}
		}
	}
	return false
}
