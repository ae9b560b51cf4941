package resources

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

const updatablePodFields = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"

func validatePodCreate(pod *corev1.Pod) field.ErrorList {
	errs := validatePod(pod)
	errs = append(errs, validateProfilesAgree(&pod.ObjectMeta, &pod.Spec, specPath)...)
	if len(pod.Spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(specPath.Child("ephemeralContainers"), "cannot be set on create"))
	}
	if pod.Spec.NodeName != "" && len(pod.Spec.SchedulingGates) != 0 {
		errs = append(errs, field.Forbidden(specPath.Child("nodeName"), "cannot be set until all schedulingGates have been cleared"))
	}
	return errs
}

// validatePod checks what pods have beyond templates, and the spec.
func validatePod(pod *corev1.Pod) field.ErrorList {
	errs := validateMeta(&pod.ObjectMeta, true, apivalidation.NameIsDNSSubdomain)
	errs = append(errs, validatePodAnnotations(pod.Annotations, &pod.Spec, metadataPath.Child("annotations"))...)
	errs = append(errs, validatePodSpec(&pod.Spec, pod.Name, specPath)...)
	if pod.Spec.ServiceAccountName == "" {
		for i := range pod.Spec.Volumes {
			if p := pod.Spec.Volumes[i].Projected; p != nil {
				for j := range p.Sources {
					if p.Sources[j].ServiceAccountToken != nil {
						errs = append(errs, field.Forbidden(specPath.Child("volumes").Index(i).Child("projected", "sources").Index(j).Child("serviceAccountToken"),
							"must not be specified when serviceAccountName is not set"))
					}
				}
			}
		}
	}
	for _, l := range []struct {
		name string
		list []corev1.Container
	}{{"containers", pod.Spec.Containers}, {"initContainers", pod.Spec.InitContainers}} {
		for i := range l.list {
			if image := l.list[i].Image; len(strings.TrimSpace(image)) != len(image) {
				errs = append(errs, field.Invalid(specPath.Child(l.name).Index(i).Child("image"), image, "must not have leading or trailing whitespace"))
			}
		}
	}
	return errs
}

// ValidatePodTemplateSpec checks the template of a workload at path.
func ValidatePodTemplateSpec(t *corev1.PodTemplateSpec, path *field.Path) field.ErrorList {
	errs := metav1validation.ValidateLabels(t.Labels, path.Child("labels"))
	errs = append(errs, apivalidation.ValidateAnnotations(t.Annotations, path.Child("annotations"))...)
	errs = append(errs, validatePodAnnotations(t.Annotations, &t.Spec, path.Child("annotations"))...)
	errs = append(errs, validatePodSpec(&t.Spec, "", path.Child("spec"))...)
	if len(t.Spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(path.Child("spec", "ephemeralContainers"), "ephemeral containers not allowed in pod template"))
	}
	return errs
}

func validatePodAnnotations(a map[string]string, s *corev1.PodSpec, path *field.Path) field.ErrorList {
	errs := validateProfileAnnotations(a, s, path)
	if v, ok := a[corev1.MirrorPodAnnotationKey]; ok && s.NodeName == "" {
		errs = append(errs, field.Invalid(path.Key(corev1.MirrorPodAnnotationKey), v, "must set spec.nodeName if mirror pod annotation is set"))
	}
	if v, ok := a[corev1.PodDeletionCost]; ok {
		// Upstream's rule: no plus sign, no leading zeros.
		if n, err := strconv.ParseInt(v, 10, 32); err != nil || strconv.FormatInt(n, 10) != v {
			errs = append(errs, field.Invalid(path.Key(corev1.PodDeletionCost), v, "must be a 32bit integer"))
		}
	}
	return errs
}

func validatePodUpdate(pod, old *corev1.Pod) field.ErrorList {
	errs := validateMetaUpdate(&pod.ObjectMeta, &old.ObjectMeta)
	errs = append(errs, validatePod(pod)...)
	errs = append(errs, validateMirrorAnnotation(pod, old)...)
	for _, l := range []struct {
		name     string
		new, old []corev1.Container
	}{{"containers", pod.Spec.Containers, old.Spec.Containers}, {"initContainers", pod.Spec.InitContainers, old.Spec.InitContainers}} {
		if len(l.new) != len(l.old) {
			return append(errs, field.Forbidden(specPath.Child(l.name), "pod updates may not add or remove containers"))
		}
	}
	deadline := specPath.Child("activeDeadlineSeconds")
	switch now, was := pod.Spec.ActiveDeadlineSeconds, old.Spec.ActiveDeadlineSeconds; {
	case now == nil && was != nil:
		errs = append(errs, field.Invalid(deadline, now, "must not update from a positive integer to nil value"))
	case now != nil && (*now < 0 || *now > math.MaxInt32):
		return append(errs, field.Invalid(deadline, *now, validation.InclusiveRangeError(0, math.MaxInt32)))
	case now != nil && was != nil && *now > *was:
		return append(errs, field.Invalid(deadline, *now, "must be less than or equal to previous value"))
	}
	errs = append(errs, validateAddedTolerations(pod.Spec.Tolerations, old.Spec.Tolerations)...)
	for i, g := range pod.Spec.SchedulingGates {
		if !slices.Contains(old.Spec.SchedulingGates, g) {
			errs = append(errs, field.Forbidden(specPath.Child("schedulingGates").Index(i).Child("name"),
				fmt.Sprintf("only deletion is allowed, but found new scheduling gate '%s'", g.Name)))
		}
	}
	if apiequality.Semantic.DeepEqual(pod.Spec, old.Spec) {
		return errs
	}
	// What may change is set back; the rest must be equal.
	spec := pod.Spec.DeepCopy()
	for i := range spec.Containers {
		spec.Containers[i].Image = old.Spec.Containers[i].Image
	}
	for i := range spec.InitContainers {
		spec.InitContainers[i].Image = old.Spec.InitContainers[i].Image
	}
	spec.ActiveDeadlineSeconds = old.Spec.ActiveDeadlineSeconds
	spec.SchedulingGates = old.Spec.SchedulingGates
	spec.Tolerations = old.Spec.Tolerations
	if ptr.Deref(old.Spec.TerminationGracePeriodSeconds, 0) < 0 && ptr.Deref(spec.TerminationGracePeriodSeconds, 0) == 1 {
		spec.TerminationGracePeriodSeconds = old.Spec.TerminationGracePeriodSeconds
	}
	if len(old.Spec.SchedulingGates) > 0 {
		errs = append(errs, validateGatedChange(spec, &old.Spec)...)
	}
	if !apiequality.Semantic.DeepEqual(*spec, old.Spec) {
		errs = append(errs, field.Forbidden(specPath, fmt.Sprintf("pod updates may not change fields other than %s\n%v", updatablePodFields, diff.Diff(old.Spec, *spec))))
	}
	return errs
}

// validateGatedChange: while gates are on, where a pod may run can be narrowed.
// It sets back in spec what it has judged.
func validateGatedChange(spec, old *corev1.PodSpec) field.ErrorList {
	var errs field.ErrorList
	for k, v := range old.NodeSelector {
		if now, ok := spec.NodeSelector[k]; !ok || now != v {
			errs = append(errs, field.Invalid(specPath.Child("nodeSelector"), spec.NodeSelector, "only additions to spec.nodeSelector are allowed (no mutations or deletions)"))
			break
		}
	}
	spec.NodeSelector = old.NodeSelector
	var was, now *corev1.NodeAffinity
	if old.Affinity != nil {
		was = old.Affinity.NodeAffinity
	}
	if spec.Affinity != nil {
		now = spec.Affinity.NodeAffinity
	}
	if apiequality.Semantic.DeepEqual(was, now) {
		return errs
	}
	if was != nil && was.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		before := was.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
		var after []corev1.NodeSelectorTerm
		if now != nil && now.RequiredDuringSchedulingIgnoredDuringExecution != nil {
			after = now.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
		}
		path := specPath.Child("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
		if len(before) > 0 && len(before) != len(after) {
			errs = append(errs, field.Invalid(path, after, "no additions/deletions to non-empty NodeSelectorTerms list are allowed"))
		} else {
			for i := range before {
				if !extends(after[i].MatchExpressions, before[i].MatchExpressions) || !extends(after[i].MatchFields, before[i].MatchFields) {
					errs = append(errs, field.Invalid(path.Index(i), after[i], "only additions are allowed (no mutations or deletions)"))
				}
			}
		}
	}
	switch {
	case spec.Affinity == nil:
		spec.Affinity = &corev1.Affinity{NodeAffinity: was}
	case old.Affinity == nil && spec.Affinity.PodAffinity == nil && spec.Affinity.PodAntiAffinity == nil:
		spec.Affinity = nil
	default:
		spec.Affinity.NodeAffinity = was
	}
	return errs
}

func extends(now, was []corev1.NodeSelectorRequirement) bool {
	return len(now) >= len(was) && (len(was) == 0 || apiequality.Semantic.DeepEqual(now[:len(was)], was))
}

func validateMirrorAnnotation(pod, old *corev1.Pod) field.ErrorList {
	now, is := pod.Annotations[corev1.MirrorPodAnnotationKey]
	was, had := old.Annotations[corev1.MirrorPodAnnotationKey]
	path := metadataPath.Child("annotations").Key(corev1.MirrorPodAnnotationKey)
	switch {
	case had && !is:
		return field.ErrorList{field.Forbidden(path, "may not remove mirror pod annotation")}
	case is && !had:
		return field.ErrorList{field.Forbidden(path, "may not add mirror pod annotation")}
	case is && now != was:
		return field.ErrorList{field.Forbidden(path, "may not update mirror pod annotation")}
	}
	return nil
}

func validateAddedTolerations(now, was []corev1.Toleration) field.ErrorList {
	for _, t := range was {
		if !slices.ContainsFunc(now, func(n corev1.Toleration) bool {
			n.TolerationSeconds = t.TolerationSeconds
			return reflect.DeepEqual(n, t)
		}) {
			return field.ErrorList{field.Forbidden(specPath.Child("tolerations"), "existing toleration can not be modified except its tolerationSeconds")}
		}
	}
	return nil
}

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

func validateEphemeralContainersUpdate(pod, old *corev1.Pod) field.ErrorList {
	if _, mirror := old.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "static pods do not support ephemeral containers")}
	}
	errs := append(validateMetaUpdate(&pod.ObjectMeta, &old.ObjectMeta), validatePod(pod)...)
	path := specPath.Child("ephemeralContainers")
	for i := range old.Spec.EphemeralContainers {
		was := &old.Spec.EphemeralContainers[i]
		j := slices.IndexFunc(pod.Spec.EphemeralContainers, func(c corev1.EphemeralContainer) bool { return c.Name == was.Name })
		if j < 0 {
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("existing ephemeral containers %q may not be removed\n", was.Name)))
		} else if now := &pod.Spec.EphemeralContainers[j]; !apiequality.Semantic.DeepEqual(*was, *now) {
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("existing ephemeral containers %q may not be changed\n%v", was.Name, diff.Diff(*was, *now))))
		}
	}
	return errs
}

// validatePodResize: CPU and memory may change, but neither appear out of
// nothing for another QoS class nor vanish.
func validatePodResize(pod, old *corev1.Pod) field.ErrorList {
	errs := append(validateMetaUpdate(&pod.ObjectMeta, &old.ObjectMeta), validatePod(pod)...)
	if _, mirror := old.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "static pods cannot be resized")}
	}
	if os := old.Spec.OS; os != nil && os.Name == corev1.Windows {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "windows pods cannot be resized")}
	}
	class := old.Status.QOSClass
	if class == "" {
		class = podQOS(&old.Spec)
	}
	if podQOS(&pod.Spec) != class {
		errs = append(errs, field.Invalid(specPath, pod.Status.QOSClass, "Pod QOS Class may not change as a result of resizing"))
	}
	// A node that resizes reports the resources of what it runs.
	if i := slices.IndexFunc(old.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.State.Running != nil }); i >= 0 &&
		old.Status.ContainerStatuses[i].Resources == nil {
		errs = append(errs, field.Forbidden(specPath, "Pod running on node without support for resize"))
	}
	before := len(errs)
	spec := pod.Spec.DeepCopy()
	for _, l := range []struct {
		name     string
		new, old []corev1.Container
	}{{"containers", spec.Containers, old.Spec.Containers}, {"initContainers", spec.InitContainers, old.Spec.InitContainers}} {
		path := specPath.Child(l.name)
		if len(l.new) != len(l.old) {
			errs = append(errs, field.Forbidden(path, l.name+" may not be added or removed on resize"))
			continue
		}
		for i := range l.old {
			c, was := &l.new[i], &l.old[i]
			if c.Name != was.Name {
				errs = append(errs, field.Forbidden(path.Index(i).Child("name"), l.name+" may not be renamed or reordered on resize"))
				continue
			}
			errs = append(errs, validateKept(c.Resources, was.Resources, path.Index(i).Child("resources"))...)
			setBackCompute(&c.Resources, &was.Resources)
		}
	}
	if len(errs) > before {
		return errs
	}
	if spec.Resources != nil && old.Spec.Resources != nil {
		errs = append(errs, validateKept(*spec.Resources, *old.Spec.Resources, specPath.Child("resources"))...)
		setBackCompute(spec.Resources, old.Spec.Resources)
	} else if old.Spec.Resources == nil && spec.Resources != nil {
		setBackCompute(spec.Resources, &corev1.ResourceRequirements{})
		if apiequality.Semantic.DeepEqual(*spec.Resources, corev1.ResourceRequirements{}) {
			spec.Resources = nil
		}
	}
	if !apiequality.Semantic.DeepEqual(*spec, old.Spec) {
		errs = append(errs, field.Forbidden(specPath, "only cpu and memory resources are mutable"))
	}
	return errs
}

func validateKept(now, was corev1.ResourceRequirements, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, l := range []struct {
		name     string
		now, was corev1.ResourceList
	}{{"requests", now.Requests, was.Requests}, {"limits", now.Limits, was.Limits}} {
		for name := range l.was {
			if _, kept := l.now[name]; !kept {
				errs = append(errs, field.Forbidden(path.Child(l.name), "resource "+l.name+" cannot be removed"))
				break
			}
		}
	}
	return errs
}

func setBackCompute(r, was *corev1.ResourceRequirements) {
	back := func(list *corev1.ResourceList, old corev1.ResourceList) {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if q, ok := old[name]; ok {
				if *list == nil {
					*list = corev1.ResourceList{}
				}
				(*list)[name] = q
			} else {
				delete(*list, name)
			}
		}
	}
	back(&r.Requests, was.Requests)
	back(&r.Limits, was.Limits)
}
