package daemonset

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
)

// placement is what of a set's template decides about nodes.
type placement struct {
	nodeName    string
	affinity    nodeaffinity.RequiredNodeAffinity
	tolerations []corev1.Toleration
}

func placementOf(ds *appsv1.DaemonSet) *placement {
	spec := ds.Spec.Template.Spec.DeepCopy()
	tolerate(spec)
	return &placement{
		nodeName:    spec.NodeName,
		affinity:    nodeaffinity.NewRequiredNodeAffinity(spec.NodeSelector, spec.Affinity),
		tolerations: spec.Tolerations,
	}
}

// on says whether a pod should run on the node, and whether a running pod may stay.
// A taint NoSchedule that the pods do not tolerate keeps new pods out. Running pods stay.
func (p *placement) on(node *corev1.Node) (run, stay bool) {
	if p.nodeName != "" && p.nodeName != node.Name {
		return false, false
	}
	// An affinity that cannot be read matches no node.
	if fits, _ := p.affinity.Match(node); !fits {
		return false, false
	}
	if p.tolerates(node, corev1.TaintEffectNoExecute, corev1.TaintEffectNoSchedule) {
		return true, true
	}
	return false, p.tolerates(node, corev1.TaintEffectNoExecute, corev1.TaintEffectNoExecute)
}

func (p *placement) tolerates(node *corev1.Node, a, b corev1.TaintEffect) bool {
	_, found := corev1helpers.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, p.tolerations, func(t *corev1.Taint) bool {
		return t.Effect == a || t.Effect == b
	}, false) // the gate TaintTolerationComparisonOperators is alpha, and off
	return !found
}
