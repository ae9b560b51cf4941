package resources

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// oldNodeLabels are labels of nodes that others have replaced.
var oldNodeLabels = map[string]string{
	"beta.kubernetes.io/arch":                       `deprecated since v1.14; use "kubernetes.io/arch" instead`,
	"beta.kubernetes.io/os":                         `deprecated since v1.14; use "kubernetes.io/os" instead`,
	"failure-domain.beta.kubernetes.io/region":      `deprecated since v1.17; use "topology.kubernetes.io/region" instead`,
	"failure-domain.beta.kubernetes.io/zone":        `deprecated since v1.17; use "topology.kubernetes.io/zone" instead`,
	"beta.kubernetes.io/instance-type":              `deprecated since v1.17; use "node.kubernetes.io/instance-type" instead`,
	"app.kubernetes.io/created-by":                  "deprecated since v1.9",
	"scheduler.alpha.kubernetes.io/preferAvoidPods": "deprecated since v1.22; use Taints and Tolerations instead",
	"node-role.kubernetes.io/master":                `use "node-role.kubernetes.io/control-plane" instead`,
}

func nodeSelectorWarnings(s *corev1.NodeSelector, p *field.Path) []string {
	var w []string
	for i := range s.NodeSelectorTerms {
		w = append(w, nodeTermWarnings(&s.NodeSelectorTerms[i], p.Child("nodeSelectorTerms").Index(i))...)
	}
	return w
}

func nodeTermWarnings(t *corev1.NodeSelectorTerm, p *field.Path) []string {
	var w warnings
	for i, e := range t.MatchExpressions {
		if msg := oldNodeLabels[e.Key]; msg != "" {
			w.add(p.Child("matchExpressions").Index(i).Child("key"), "%s is %s", e.Key, msg)
		}
	}
	return w
}
