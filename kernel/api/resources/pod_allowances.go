package resources

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
)

// PodAllowances are the rules that an update of a pod, or of a pod template, does
// not check, since the stored one breaks them: it was written before the rule
// was there, and whatever else it says must stay changeable. The zero value
// checks all of them, as for a new object. They are Kubernetes' own: a rule that
// is not here is checked on every update.
type PodAllowances struct {
	// SelectorValues: values of labels in the selectors of pod affinity.
	SelectorValues bool

	nodeValues      bool // values of labels in the required node affinity
	spreadSelectors bool // the selectors of topology spread constraints
	spreadKeys      bool // matchLabelKeys that the selector has too are told apart as before 1.34
	deletionCost    bool // the annotation of a pod's deletion cost
	hugePages       bool // amounts of huge pages that are no whole pages
	tokenPaths      bool // paths of projected tokens that leave their volume
	hostSysctls     bool // sysctls of a namespace that is the host's
	initRestarts    bool // a resize policy that restarts an init container which ends
	userDevices     bool // block devices in a user namespace
	userNetwork     bool // the host's network in a user namespace
	anyChangePolicy bool // a policy of SELinux labels that is behind a gate
	comparisons     bool // tolerations that compare numbers, which are behind a gate
}

// AllowancesOf are those of a stored template; nil has none.
func AllowancesOf(old *corev1.PodTemplateSpec) PodAllowances {
	if old == nil {
		return PodAllowances{}
	}
	return allowancesOf(old.Annotations, &old.Spec)
}

func allowancesOf(annotations map[string]string, s *corev1.PodSpec) PodAllowances {
	a := PodAllowances{
		deletionCost: !isDeletionCost(annotations),
		hugePages:    brokenHugePages(s),
		tokenPaths:   tokensElsewhere(s),
		initRestarts: restartsInit(s),
		comparisons: slices.ContainsFunc(s.Tolerations, func(t corev1.Toleration) bool {
			return t.Operator == corev1.TolerationOpLt || t.Operator == corev1.TolerationOpGt
		}),
	}
	if !ptr.Deref(s.HostUsers, true) {
		a.userNetwork = s.HostNetwork
		a.userDevices = slices.ContainsFunc(allContainers(s), func(c *corev1.Container) bool { return len(c.VolumeDevices) > 0 })
	}
	if sc := s.SecurityContext; sc != nil {
		a.anyChangePolicy = sc.SELinuxChangePolicy != nil
		a.hostSysctls = slices.ContainsFunc(sc.Sysctls, func(c corev1.Sysctl) bool { return hostSysctl(c.Name, s) != "" })
	}
	for i := range s.TopologySpreadConstraints {
		c := &s.TopologySpreadConstraints[i]
		a.spreadSelectors = a.spreadSelectors || badSelector(c.LabelSelector)
		a.spreadKeys = a.spreadKeys || len(validateSpreadKeys(c, false, nil)) > 0
	}
	a.allowAffinity(s.Affinity)
	return a
}

func (a *PodAllowances) allowAffinity(of *corev1.Affinity) {
	if of == nil {
		return
	}
	if n := of.NodeAffinity; n != nil {
		a.nodeValues = badNodeValues(n.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	var terms []corev1.PodAffinityTerm
	var weighted []corev1.WeightedPodAffinityTerm
	if p := of.PodAffinity; p != nil {
		terms, weighted = p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution
	}
	if p := of.PodAntiAffinity; p != nil {
		terms = slices.Concat(terms, p.RequiredDuringSchedulingIgnoredDuringExecution)
		weighted = slices.Concat(weighted, p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	for i := range weighted {
		terms = slices.Concat(terms, []corev1.PodAffinityTerm{weighted[i].PodAffinityTerm})
	}
	a.SelectorValues = slices.ContainsFunc(terms, func(t corev1.PodAffinityTerm) bool {
		return badSelector(t.LabelSelector) || badSelector(t.NamespaceSelector)
	})
}

// isDeletionCost: a number of 32 bits, without a plus sign or zeros before it.
func isDeletionCost(annotations map[string]string) bool {
	v, ok := annotations[corev1.PodDeletionCost]
	if !ok {
		return true
	}
	_, err := strconv.ParseInt(v, 10, 32)
	return err == nil && v[0] != '+' && (v[0] != '0' || v == "0")
}

func badSelector(s *metav1.LabelSelector) bool {
	return len(metav1validation.ValidateLabelSelector(s, metav1validation.LabelSelectorValidationOptions{}, nil)) > 0
}

// badNodeValues: a label's value that no node can have.
func badNodeValues(s *corev1.NodeSelector) bool {
	return s != nil && slices.ContainsFunc(s.NodeSelectorTerms, func(t corev1.NodeSelectorTerm) bool {
		return slices.ContainsFunc(t.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool {
			return slices.ContainsFunc(r.Values, func(v string) bool { return len(validation.IsValidLabelValue(v)) > 0 })
		})
	})
}

func brokenHugePages(s *corev1.PodSpec) bool {
	broken := func(list corev1.ResourceList) bool {
		for name, q := range list {
			if len(checkHugePages(name, q, nil)) > 0 {
				return true
			}
		}
		return false
	}
	return broken(s.Overhead) || slices.ContainsFunc(allContainers(s), func(c *corev1.Container) bool {
		return broken(c.Resources.Limits) || broken(c.Resources.Requests)
	})
}

func tokensElsewhere(s *corev1.PodSpec) bool {
	for i := range s.Volumes {
		p := s.Volumes[i].Projected
		if p != nil && slices.ContainsFunc(p.Sources, func(v corev1.VolumeProjection) bool {
			return v.ServiceAccountToken != nil && len(validateFileName(v.ServiceAccountToken.Path, nil)) > 0
		}) {
			return true
		}
	}
	return false
}

func restartsInit(s *corev1.PodSpec) bool {
	return slices.ContainsFunc(s.InitContainers, func(c corev1.Container) bool {
		return !isSidecar(&c) && slices.ContainsFunc(c.ResizePolicy, func(r corev1.ContainerResizePolicy) bool {
			return r.RestartPolicy == corev1.RestartContainer
		})
	})
}

// allContainers are those of a spec, of all three lists.
func allContainers(s *corev1.PodSpec) []*corev1.Container {
	out := make([]*corev1.Container, 0, len(s.Containers)+len(s.InitContainers)+len(s.EphemeralContainers))
	for i := range s.InitContainers {
		out = append(out, &s.InitContainers[i])
	}
	for i := range s.Containers {
		out = append(out, &s.Containers[i])
	}
	for i := range s.EphemeralContainers {
		out = append(out, (*corev1.Container)(&s.EphemeralContainers[i].EphemeralContainerCommon))
	}
	return out
}
