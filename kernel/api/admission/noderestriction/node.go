package noderestriction

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apiserver/pkg/admission"
)

// ownLabels are the kubernetes.io and k8s.io labels that describe the machine
// and may therefore be written by its agent.
var ownLabels = []string{
	corev1.LabelHostname, corev1.LabelTopologyZone, corev1.LabelTopologyRegion,
	corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion,
	corev1.LabelInstanceType, corev1.LabelInstanceTypeStable,
	corev1.LabelOSStable, corev1.LabelArchStable,
	"beta.kubernetes.io/os", "beta.kubernetes.io/arch", corev1.LabelWindowsBuild,
}

// ownLabelNamespaces may be written below as well.
var ownLabelNamespaces = []string{"kubelet.kubernetes.io", "node.kubernetes.io"}

func admitNode(name string, a admission.Attributes) error {
	// A create without a name in the path has it in the body.
	asked := a.GetName()
	if asked == "" {
		asked = nameOf(a)
	}
	if asked != name {
		return refuse(a, "node %q is not allowed to modify node %q", name, asked)
	}
	switch a.GetOperation() {
	case admission.Create:
		node, ok := a.GetObject().(*corev1.Node)
		if !ok {
			return refuse(a, "unexpected type %T", a.GetObject())
		}
		if node.Spec.ConfigSource != nil {
			return refuse(a, "node %q is not allowed to create pods with a non-nil configSource", name)
		}
		if labels := forbiddenLabels(node.Labels, nil); len(labels) > 0 {
			return refuse(a, "node %q is not allowed to set the following labels: %s", name, strings.Join(labels, ", "))
		}
	case admission.Update:
		node, ok := a.GetObject().(*corev1.Node)
		if !ok {
			return refuse(a, "unexpected type %T", a.GetObject())
		}
		old, ok := a.GetOldObject().(*corev1.Node)
		if !ok {
			return refuse(a, "unexpected type %T", a.GetOldObject())
		}
		if node.Spec.ConfigSource != nil && !equality.Semantic.DeepEqual(node.Spec.ConfigSource, old.Spec.ConfigSource) {
			return refuse(a, "node %q is not allowed to update configSource to a new non-nil configSource", name)
		}
		if !equality.Semantic.DeepEqual(node.Spec.Taints, old.Spec.Taints) {
			return refuse(a, "node %q is not allowed to modify taints", name)
		}
		if !equality.Semantic.DeepEqual(node.OwnerReferences, old.OwnerReferences) {
			return refuse(a, "node %q is not allowed to modify ownerReferences", name)
		}
		if labels := forbiddenLabels(node.Labels, old.Labels); len(labels) > 0 {
			return refuse(a, "is not allowed to modify labels: %s", strings.Join(labels, ", "))
		}
	}
	return nil
}

// forbiddenLabels returns the changed labels that a node must not write.
func forbiddenLabels(now, before map[string]string) []string {
	var out []string
	consider := func(key string) {
		if !ownLabel(key) && !slices.Contains(out, key) {
			out = append(out, key)
		}
	}
	for key, value := range now {
		if old, ok := before[key]; !ok || old != value {
			consider(key)
		}
	}
	for key := range before {
		if _, ok := now[key]; !ok {
			consider(key)
		}
	}
	slices.Sort(out)
	return out
}

func ownLabel(key string) bool {
	namespace, _, ok := strings.Cut(key, "/")
	if !ok {
		return true
	}
	if within(namespace, corev1.LabelNamespaceNodeRestriction) {
		return false
	}
	if !within(namespace, "kubernetes.io") && !within(namespace, "k8s.io") {
		return true
	}
	return slices.Contains(ownLabels, key) ||
		slices.ContainsFunc(ownLabelNamespaces, func(own string) bool { return within(namespace, own) })
}

func within(namespace, domain string) bool {
	return namespace == domain || strings.HasSuffix(namespace, "."+domain)
}
