package resources

import (
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"
)

// validatePodSpec checks a spec at path; podName is empty for templates.
func validatePodSpec(s *corev1.PodSpec, podName string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	add := func(e field.ErrorList) { errs = append(errs, e...) }
	if s.TerminationGracePeriodSeconds == nil {
		errs = append(errs, field.Required(path.Child("terminationGracePeriodSeconds"), ""))
	}
	v := &specValidator{spec: s, volumes: map[string]*corev1.VolumeSource{}}
	add(v.validateVolumes(podName, path.Child("volumes")))
	add(v.validateContainers(path.Child("containers")))
	add(v.validateInitContainers(path.Child("initContainers")))
	add(v.validateEphemeral(path.Child("ephemeralContainers")))
	if s.Resources != nil {
		add(validatePodLevelResources(s, path.Child("resources")))
	}
	if s.HostNetwork {
		for i := range s.Containers {
			for j, p := range s.Containers[i].Ports {
				// A template may leave the host port to the pod's defaults.
				if (podName != "" || p.HostPort != 0) && p.HostPort != p.ContainerPort {
					errs = append(errs, field.Invalid(path.Child("containers").Index(i).Child("ports").Index(j).Child("hostPort"), p.HostPort,
						"must match `containerPort` when `hostNetwork` is true"))
				}
			}
		}
	}
	add(listed(path.Child("restartPolicy"), s.RestartPolicy, corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever))
	add(listed(path.Child("dnsPolicy"), s.DNSPolicy, corev1.DNSClusterFirstWithHostNet, corev1.DNSClusterFirst, corev1.DNSDefault, corev1.DNSNone))
	add(metav1validation.ValidateLabels(s.NodeSelector, path.Child("nodeSelector")))
	add(validatePodSecurity(s, path))
	add(validateAffinity(s.Affinity, path.Child("affinity")))
	add(validateDNSConfig(s, path.Child("dnsConfig")))
	for i, g := range s.ReadinessGates {
		add(invalidAll(path.Child("readinessGates").Index(i).Child("conditionType"), string(g.ConditionType), validation.IsQualifiedName(string(g.ConditionType))))
	}
	for i, g := range s.SchedulingGates {
		p := path.Child("schedulingGates").Index(i)
		add(invalidAll(p, g.Name, validation.IsQualifiedName(g.Name)))
		if slices.Contains(s.SchedulingGates[:i], g) {
			errs = append(errs, field.Duplicate(p, g.Name))
		}
	}
	add(validateSpread(s.TopologySpreadConstraints, path.Child("topologySpreadConstraints")))
	for _, f := range []struct {
		name, value string
		rule        func(string) []string
	}{
		{"serviceAccountName", s.ServiceAccountName, validation.IsDNS1123Subdomain},
		{"nodeName", s.NodeName, validation.IsDNS1123Subdomain},
		{"hostname", s.Hostname, validation.IsDNS1123Label},
		{"subdomain", s.Subdomain, validation.IsDNS1123Label},
		{"priorityClassName", s.PriorityClassName, validation.IsDNS1123Subdomain},
	} {
		if f.value != "" {
			add(invalidAll(path.Child(f.name), f.value, f.rule(f.value)))
		}
	}
	if d := s.ActiveDeadlineSeconds; d != nil {
		add(inRange(path.Child("activeDeadlineSeconds"), *d, *d, 1, math.MaxInt32))
	}
	add(validateTolerations(s.Tolerations, path.Child("tolerations")))
	for i, a := range s.HostAliases {
		p := path.Child("hostAliases").Index(i)
		add(validation.IsValidIPForLegacyField(p.Child("ip"), a.IP, strictIPs, nil))
		for j, h := range a.Hostnames {
			add(invalidAll(p.Child("hostnames").Index(j), h, validation.IsDNS1123Subdomain(h)))
		}
	}
	if n := s.RuntimeClassName; n != nil {
		add(invalidAll(path.Child("runtimeClassName"), *n, apivalidation.NameIsDNSSubdomain(*n, false)))
	}
	if p := s.PreemptionPolicy; p != nil {
		add(listed(path.Child("preemptionPolicy"), *p, corev1.PreemptLowerPriority, corev1.PreemptNever))
	}
	if s.Overhead != nil {
		add(validateResources(&corev1.ResourceRequirements{Limits: s.Overhead}, path.Child("overhead")))
	}
	if h := s.HostnameOverride; h != nil {
		add(invalidAll(path.Child("hostnameOverride"), *h, validation.IsDNS1123Subdomain(*h)))
		if len(*h) > 64 {
			errs = append(errs, field.TooLong(path.Child("hostnameOverride"), *h, 64))
		}
		if s.HostNetwork {
			errs = append(errs, field.Forbidden(path.Child("hostnameOverride"), "may not be specified when hostNetwork is true"))
		}
		if ptr.Deref(s.SetHostnameAsFQDN, false) {
			errs = append(errs, field.Forbidden(path.Child("hostnameOverride"), "may not be specified when setHostnameAsFQDN is true"))
		}
	}
	add(validateOS(s, path))
	add(validateResourceClaims(s.ResourceClaims, path.Child("resourceClaims")))
	add(validateFileKeyVolumes(s, path))
	return errs
}

// listed is oneOf with the values in the order given.
func listed[T ~string](path *field.Path, value T, values ...T) field.ErrorList {
	switch {
	case value == "":
		return field.ErrorList{field.Required(path, "")}
	case slices.Contains(values, value):
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, values)}
}

func validateTolerations(list []corev1.Toleration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range list {
		t, p := &list[i], path.Index(i)
		if t.Key != "" {
			errs = append(errs, metav1validation.ValidateLabelName(t.Key, p.Child("key"))...)
		} else if t.Operator != corev1.TolerationOpExists {
			errs = append(errs, field.Invalid(p.Child("operator"), t.Operator, "operator must be Exists when `key` is empty, which means \"match all values and all keys\""))
		}
		if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
			errs = append(errs, field.Invalid(p.Child("effect"), t.Effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"))
		}
		switch t.Operator {
		case corev1.TolerationOpEqual, "":
			if msgs := validation.IsValidLabelValue(t.Value); len(msgs) != 0 {
				errs = append(errs, field.Invalid(p.Child("operator"), t.Value, strings.Join(msgs, ";")))
			}
		case corev1.TolerationOpExists:
			if t.Value != "" {
				errs = append(errs, field.Invalid(p.Child("operator"), t.Value, "value must be empty when `operator` is 'Exists'"))
			}
		default:
			errs = append(errs, field.NotSupported(p.Child("operator"), t.Operator, tolerationOperators(t.Operator)))
		}
		if t.Effect != "" {
			errs = append(errs, validateTaintEffect(t.Effect, p.Child("effect"))...)
		}
	}
	return errs
}

// tolerationOperators lists those that are allowed. Lt and Gt are behind a gate
// that is off; upstream names them to whoever asks for one of them.
func tolerationOperators(asked corev1.TolerationOperator) []corev1.TolerationOperator {
	list := []corev1.TolerationOperator{corev1.TolerationOpEqual, corev1.TolerationOpExists}
	if asked == corev1.TolerationOpLt || asked == corev1.TolerationOpGt {
		list = append(list, corev1.TolerationOpLt, corev1.TolerationOpGt)
	}
	return list
}

func validateAffinity(a *corev1.Affinity, path *field.Path) field.ErrorList {
	if a == nil {
		return nil
	}
	var errs field.ErrorList
	const required, preferred = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"
	if n := a.NodeAffinity; n != nil {
		p := path.Child("nodeAffinity")
		if r := n.RequiredDuringSchedulingIgnoredDuringExecution; r != nil {
			errs = append(errs, validateNodeSelector(r, p.Child(required))...)
		}
		for i := range n.PreferredDuringSchedulingIgnoredDuringExecution {
			t, at := &n.PreferredDuringSchedulingIgnoredDuringExecution[i], p.Child(preferred).Index(i)
			if t.Weight <= 0 || t.Weight > 100 {
				errs = append(errs, field.Invalid(at.Child("weight"), t.Weight, "must be in the range 1-100"))
			}
			errs = append(errs, validateNodeTerm(&t.Preference, at.Child("preference"))...)
		}
	}
	pods := func(terms []corev1.PodAffinityTerm, weighted []corev1.WeightedPodAffinityTerm, p *field.Path) {
		for i := range terms {
			errs = append(errs, validatePodTerm(&terms[i], p.Child(required).Index(i))...)
		}
		for i := range weighted {
			t, at := &weighted[i], p.Child(preferred).Index(i)
			if t.Weight <= 0 || t.Weight > 100 {
				errs = append(errs, field.Invalid(at.Child("weight"), t.Weight, "must be in the range 1-100"))
			}
			errs = append(errs, validatePodTerm(&t.PodAffinityTerm, at.Child("podAffinityTerm"))...)
		}
	}
	if x := a.PodAffinity; x != nil {
		pods(x.RequiredDuringSchedulingIgnoredDuringExecution, x.PreferredDuringSchedulingIgnoredDuringExecution, path.Child("podAffinity"))
	}
	if x := a.PodAntiAffinity; x != nil {
		pods(x.RequiredDuringSchedulingIgnoredDuringExecution, x.PreferredDuringSchedulingIgnoredDuringExecution, path.Child("podAntiAffinity"))
	}
	return errs
}

func validateNodeSelector(s *corev1.NodeSelector, path *field.Path) field.ErrorList {
	terms := path.Child("nodeSelectorTerms")
	if len(s.NodeSelectorTerms) == 0 {
		return field.ErrorList{field.Required(terms, "must have at least one node selector term")}
	}
	var errs field.ErrorList
	for i := range s.NodeSelectorTerms {
		errs = append(errs, validateNodeTerm(&s.NodeSelectorTerms[i], terms.Index(i))...)
	}
	return errs
}

func validateNodeTerm(t *corev1.NodeSelectorTerm, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, r := range t.MatchExpressions {
		p := path.Child("matchExpressions").Index(i)
		switch r.Operator {
		case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
			if len(r.Values) == 0 {
				errs = append(errs, field.Required(p.Child("values"), "must be specified when `operator` is 'In' or 'NotIn'"))
			}
		case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
			if len(r.Values) > 0 {
				errs = append(errs, field.Forbidden(p.Child("values"), "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"))
			}
		case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
			if len(r.Values) != 1 {
				errs = append(errs, field.Required(p.Child("values"), "must be specified single value when `operator` is 'Lt' or 'Gt'"))
			}
		default:
			errs = append(errs, field.Invalid(p.Child("operator"), r.Operator, "not a valid selector operator"))
		}
		errs = append(errs, metav1validation.ValidateLabelName(r.Key, p.Child("key"))...)
		for j, v := range r.Values {
			errs = append(errs, invalidAll(p.Child("values").Index(j), v, validation.IsValidLabelValue(v))...)
		}
	}
	for i, r := range t.MatchFields {
		p := path.Child("matchFields").Index(i)
		switch r.Operator {
		case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
			if len(r.Values) != 1 {
				errs = append(errs, field.Required(p.Child("values"), "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"))
			}
		default:
			errs = append(errs, field.Invalid(p.Child("operator"), r.Operator, "not a valid selector operator"))
		}
		if r.Key != metav1.ObjectNameField {
			errs = append(errs, field.Invalid(p.Child("key"), r.Key, "not a valid field selector key"))
			continue
		}
		for j, v := range r.Values {
			errs = append(errs, invalidAll(p.Child("values").Index(j), v, apivalidation.NameIsDNSSubdomain(v, false))...)
		}
	}
	return errs
}

func validatePodTerm(t *corev1.PodAffinityTerm, path *field.Path) field.ErrorList {
	opts := metav1validation.LabelSelectorValidationOptions{}
	errs := metav1validation.ValidateLabelSelector(t.LabelSelector, opts, path.Child("labelSelector"))
	errs = append(errs, metav1validation.ValidateLabelSelector(t.NamespaceSelector, opts, path.Child("namespaceSelector"))...)
	for _, n := range t.Namespaces {
		errs = append(errs, invalidAll(path.Child("namespace"), n, apivalidation.ValidateNamespaceName(n, false))...)
	}
	for _, l := range []struct {
		name string
		keys []string
	}{{"matchLabelKeys", t.MatchLabelKeys}, {"mismatchLabelKeys", t.MismatchLabelKeys}} {
		if len(l.keys) > 0 && t.LabelSelector == nil {
			errs = append(errs, field.Forbidden(path.Child(l.name), "must not be specified when labelSelector is not set"))
		}
		for i, k := range l.keys {
			errs = append(errs, metav1validation.ValidateLabelName(k, path.Child(l.name).Index(i))...)
		}
	}
	for i, k := range t.MatchLabelKeys {
		if slices.Contains(t.MismatchLabelKeys, k) {
			errs = append(errs, field.Invalid(path.Child("matchLabelKeys").Index(i), k, "exists in both matchLabelKeys and mismatchLabelKeys"))
		}
	}
	if t.TopologyKey == "" {
		errs = append(errs, field.Required(path.Child("topologyKey"), "can not be empty"))
	}
	return append(errs, metav1validation.ValidateLabelName(t.TopologyKey, path.Child("topologyKey"))...)
}

func validateSpread(list []corev1.TopologySpreadConstraint, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range list {
		c, p := &list[i], path.Index(i)
		if c.MaxSkew <= 0 {
			errs = append(errs, field.Invalid(p.Child("maxSkew"), c.MaxSkew, notPositive))
		}
		if c.TopologyKey == "" {
			errs = append(errs, field.Required(p.Child("topologyKey"), "can not be empty"))
		} else {
			errs = append(errs, metav1validation.ValidateLabelName(c.TopologyKey, p.Child("topologyKey"))...)
		}
		errs = append(errs, supported(p.Child("whenUnsatisfiable"), c.WhenUnsatisfiable, corev1.DoNotSchedule, corev1.ScheduleAnyway)...)
		for _, o := range list[i+1:] {
			if o.TopologyKey == c.TopologyKey && o.WhenUnsatisfiable == c.WhenUnsatisfiable {
				errs = append(errs, field.Duplicate(p.Child("{topologyKey, whenUnsatisfiable}"), fmt.Sprintf("{%v, %v}", c.TopologyKey, c.WhenUnsatisfiable)))
				break
			}
		}
		if m := c.MinDomains; m != nil {
			if *m <= 0 {
				errs = append(errs, field.Invalid(p.Child("minDomains"), *m, notPositive))
			}
			if c.WhenUnsatisfiable == corev1.ScheduleAnyway {
				errs = append(errs, field.Invalid(p.Child("minDomains"), *m, fmt.Sprintf("can only use minDomains if whenUnsatisfiable=%s, not %s", corev1.DoNotSchedule, c.WhenUnsatisfiable)))
			}
		}
		for _, n := range []struct {
			name  string
			value *corev1.NodeInclusionPolicy
		}{{"nodeAffinityPolicy", c.NodeAffinityPolicy}, {"nodeTaintsPolicy", c.NodeTaintsPolicy}} {
			if n.value != nil {
				errs = append(errs, supported(p.Child(n.name), *n.value, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore)...)
			}
		}
		if len(c.MatchLabelKeys) > 0 && c.LabelSelector == nil {
			errs = append(errs, field.Forbidden(p.Child("matchLabelKeys"), "must not be specified when labelSelector is not set"))
		} else {
			for j, k := range c.MatchLabelKeys {
				errs = append(errs, metav1validation.ValidateLabelName(k, p.Child("matchLabelKeys").Index(j))...)
			}
		}
		errs = append(errs, metav1validation.ValidateLabelSelector(c.LabelSelector, metav1validation.LabelSelectorValidationOptions{}, p.Child("labelSelector"))...)
	}
	return errs
}

func validateDNSConfig(s *corev1.PodSpec, path *field.Path) field.ErrorList {
	c := s.DNSConfig
	if s.DNSPolicy == corev1.DNSNone {
		if c == nil {
			return field.ErrorList{field.Required(path, fmt.Sprintf("must provide `dnsConfig` when `dnsPolicy` is %s", corev1.DNSNone))}
		}
		if len(c.Nameservers) == 0 {
			return field.ErrorList{field.Required(path.Child("nameservers"), fmt.Sprintf("must provide at least one DNS nameserver when `dnsPolicy` is %s", corev1.DNSNone))}
		}
	}
	if c == nil {
		return nil
	}
	var errs field.ErrorList
	if len(c.Nameservers) > 3 {
		errs = append(errs, field.Invalid(path.Child("nameservers"), c.Nameservers, "must not have more than 3 nameservers"))
	}
	for i, n := range c.Nameservers {
		errs = append(errs, validation.IsValidIPForLegacyField(path.Child("nameservers").Index(i), n, strictIPs, nil)...)
	}
	if len(c.Searches) > 32 {
		errs = append(errs, field.Invalid(path.Child("searches"), c.Searches, "must not have more than 32 search paths"))
	}
	if len(strings.Join(c.Searches, " ")) > 2048 {
		errs = append(errs, field.Invalid(path.Child("searches"), c.Searches, "must not have more than 2048 characters (including spaces) in the search list"))
	}
	for i, search := range c.Searches {
		if search != "." {
			search = strings.TrimSuffix(search, ".")
			errs = append(errs, invalidAll(path.Child("searches").Index(i), search, validation.IsDNS1123SubdomainWithUnderscore(search))...)
		}
	}
	for i, o := range c.Options {
		if o.Name == "" {
			errs = append(errs, field.Required(path.Child("options").Index(i), "must not be empty"))
		}
	}
	return errs
}

func validatePodLevelResources(s *corev1.PodSpec, path *field.Path) field.ErrorList {
	if s.OS != nil && s.OS.Name == corev1.Windows {
		return field.ErrorList{field.Forbidden(path, "may not be set for a windows pod")}
	}
	var errs field.ErrorList
	r := s.Resources
	for i, c := range r.Claims {
		if !slices.ContainsFunc(s.ResourceClaims, func(p corev1.PodResourceClaim) bool { return p.Name == c.Name }) {
			errs = append(errs, claimNotFound(path.Child("claims").Index(i), c.Name, s))
		}
	}
	for _, l := range []struct {
		name string
		list corev1.ResourceList
	}{{"limits", r.Limits}, {"requests", r.Requests}} {
		for name := range l.list {
			if name != corev1.ResourceCPU && name != corev1.ResourceMemory && !isHugePage(name) {
				errs = append(errs, field.NotSupported(path.Child(l.name).Key(string(name)), name, []string{"cpu", corev1.ResourceHugePagesPrefix, "memory"}))
			}
		}
	}
	if r.Claims != nil {
		errs = append(errs, field.Forbidden(path.Child("claims"), "claims may not be set for Resources at pod-level"))
	}
	errs = append(errs, validateResources(r, path)...)
	for name, sum := range resourcehelper.AggregateContainerRequests(&corev1.Pod{Spec: *s}, resourcehelper.PodResourcesOptions{}) {
		if q, ok := r.Requests[name]; ok && sum.Cmp(q) > 0 {
			errs = append(errs, field.Invalid(path.Child("requests").Key(string(name)), q.String(), fmt.Sprintf("must be greater than or equal to aggregate container requests of %s", sum.String())))
		}
	}
	for i := range s.Containers {
		for name, q := range s.Containers[i].Resources.Limits {
			if most, ok := r.Limits[name]; ok && q.Cmp(most) > 0 {
				errs = append(errs, field.Invalid(path.Child("containers").Index(i).Key(string(name)).Child("limits"), q.String(), fmt.Sprintf("must be less than or equal to pod limits of %s", most.String())))
			}
		}
	}
	return errs
}
