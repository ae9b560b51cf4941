package resources

import (
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"
)

// validatePodSpec checks a spec at path; podName is empty for templates.
func validatePodSpec(s *corev1.PodSpec, podName string, allow PodAllowances, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	add := func(e field.ErrorList) { errs = append(errs, e...) }
	if s.TerminationGracePeriodSeconds == nil {
		errs = append(errs, field.Required(path.Child("terminationGracePeriodSeconds"), ""))
	}
	v := &specValidator{spec: s, allow: allow, volumes: map[string]*corev1.VolumeSource{}}
	add(v.validateVolumes(podName, path.Child("volumes")))
	add(v.validateContainers(path.Child("containers")))
	add(v.validateInitContainers(path.Child("initContainers")))
	add(v.validateEphemeral(path.Child("ephemeralContainers")))
	if s.Resources != nil {
		add(validatePodLevelResources(s, allow, path.Child("resources")))
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
	add(validatePodSecurity(s, allow, path))
	add(validateAffinity(s.Affinity, allow, path.Child("affinity")))
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
	add(validateSpread(s.TopologySpreadConstraints, allow, path.Child("topologySpreadConstraints")))
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
	add(validateTolerations(s.Tolerations, allow.comparisons, path.Child("tolerations")))
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
		add(validateResources(&corev1.ResourceRequirements{Limits: s.Overhead}, allow.hugePages, path.Child("overhead")))
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

func validatePodLevelResources(s *corev1.PodSpec, allow PodAllowances, path *field.Path) field.ErrorList {
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
	errs = append(errs, validateResources(r, allow.hugePages, path)...)
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
