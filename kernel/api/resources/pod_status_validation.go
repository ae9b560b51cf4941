package resources

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validatePodStatusUpdate(pod, old *corev1.Pod) field.ErrorList {
	errs := validateMetaUpdate(&pod.ObjectMeta, &old.ObjectMeta)
	errs = append(errs, validateMirrorAnnotation(pod, old)...)
	s, was := &pod.Status, &old.Status
	for i, c := range s.Conditions {
		if c.Type == "" || c.ObservedGeneration < 0 {
			p := statusPath.Child("conditions").Index(i)
			if c.ObservedGeneration < 0 {
				errs = append(errs, field.Invalid(p.Child("observedGeneration"), c.ObservedGeneration, "must be a non-negative integer"))
			}
		}
	}
	for i, c := range s.Conditions {
		errs = append(errs, invalidAll(statusPath.Child("conditions").Index(i).Child("Type"), string(c.Type), validation.IsQualifiedName(string(c.Type)))...)
	}
	errs = append(errs, validateResourceClaimStatuses(s.ResourceClaimStatuses, old.Spec.ResourceClaims, statusPath.Child("resourceClaimStatuses"))...)
	nominated := statusPath.Child("nominatedNodeName")
	if s.NominatedNodeName != was.NominatedNodeName && s.NominatedNodeName != "" {
		errs = append(errs, invalidAll(nominated, s.NominatedNodeName, apivalidation.NameIsDNSSubdomain(s.NominatedNodeName, false))...)
		if old.Spec.NodeName != "" {
			errs = append(errs, field.Forbidden(nominated, "may not be set on pods that are already bound to a node"))
		}
	}
	if s.ObservedGeneration < 0 {
		errs = append(errs, field.Invalid(statusPath.Child("observedGeneration"), s.ObservedGeneration, "must be a non-negative integer"))
	}
	errs = append(errs, apivalidation.ValidateImmutableField(s.QOSClass, was.QOSClass, statusPath.Child("qosClass"))...)
	errs = append(errs, validateTransitions(s.ContainerStatuses, was.ContainerStatuses, statusPath.Child("containerStatuses"), &old.Spec, false)...)
	errs = append(errs, validateTransitions(s.InitContainerStatuses, was.InitContainerStatuses, statusPath.Child("initContainerStatuses"), &old.Spec, true)...)
	return append(errs, validateStatusIPs(s, was)...)
}

// validateTransitions: a container that has ended for good does not run again.
func validateTransitions(now, was []corev1.ContainerStatus, path *field.Path, spec *corev1.PodSpec, init bool) field.ErrorList {
	var errs field.ErrorList
	containers := spec.Containers
	if init {
		containers = spec.InitContainers
	}
	// One container whose rule restarts them all allows it to each.
	for _, c := range slices.Concat(spec.Containers, spec.InitContainers) {
		for _, r := range c.RestartPolicyRules {
			if r.Action == corev1.ContainerRestartRuleActionRestartAllContainers {
				return nil
			}
		}
	}
	for i := range was {
		end := was[i].State.Terminated
		if end == nil {
			continue
		}
		j := slices.IndexFunc(now, func(s corev1.ContainerStatus) bool { return s.Name == was[i].Name })
		if j < 0 || now[j].State.Terminated != nil {
			continue
		}
		policy := spec.RestartPolicy
		if init && policy == corev1.RestartPolicyAlways {
			continue
		}
		allowed, ruled := false, false
		if k := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == was[i].Name }); k >= 0 {
			c := &containers[k]
			if c.RestartPolicy != nil {
				policy = corev1.RestartPolicy(*c.RestartPolicy)
			}
			for _, r := range c.RestartPolicyRules {
				if e := r.ExitCodes; e != nil && slices.Contains(e.Values, end.ExitCode) == (e.Operator == corev1.ContainerRestartRuleOnExitCodesOpIn) {
					allowed, ruled = r.Action == corev1.ContainerRestartRuleActionRestart, true
					break
				}
			}
		}
		if !ruled {
			allowed = policy == corev1.RestartPolicyAlways || policy == corev1.RestartPolicyOnFailure && end.ExitCode != 0
		}
		if !allowed {
			errs = append(errs, field.Forbidden(path.Index(i).Child("state"), "may not be transitioned to non-terminated state"))
		}
	}
	return errs
}

func validateStatusIPs(s, was *corev1.PodStatus) field.ErrorList {
	var errs field.ErrorList
	check := func(name string, ips, old []string) {
		path := statusPath.Child(name)
		for i, ip := range ips {
			errs = append(errs, validation.IsValidIPForLegacyField(path.Index(i), ip, strictIPs, old)...)
			if slices.Contains(ips[:i], ip) {
				errs = append(errs, field.Duplicate(path.Index(i), ip))
			}
		}
		if len(ips) > 2 || len(ips) == 2 && familyOf(ips[0]) == familyOf(ips[1]) {
			errs = append(errs, field.Invalid(path, ips, "may specify no more than one IP for each IP family"))
		}
	}
	if !slices.Equal(s.PodIPs, was.PodIPs) {
		check("podIPs", podIPs(s), podIPs(was))
	}
	if !slices.Equal(s.HostIPs, was.HostIPs) {
		if len(s.HostIPs) > 0 && s.HostIPs[0].IP != s.HostIP {
			errs = append(errs, field.Invalid(statusPath.Child("hostIPs").Index(0).Child("ip"), s.HostIPs[0].IP, "must be equal to `hostIP`"))
		}
		check("hostIPs", hostIPs(s), hostIPs(was))
	}
	return errs
}

func podIPs(s *corev1.PodStatus) (out []string) {
	for _, ip := range s.PodIPs {
		out = append(out, ip.IP)
	}
	return out
}

func hostIPs(s *corev1.PodStatus) (out []string) {
	for _, ip := range s.HostIPs {
		out = append(out, ip.IP)
	}
	return out
}
