package resources

import (
	"fmt"
	"math"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

const updatablePodFields = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"

func validatePodUpdate(pod, old *corev1.Pod) field.ErrorList {
	errs := validateMetaUpdate(&pod.ObjectMeta, &old.ObjectMeta)
	errs = append(errs, validatePod(pod, allowancesOf(old.Annotations, &old.Spec))...)
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

func validateEphemeralContainersUpdate(pod, old *corev1.Pod) field.ErrorList {
	if _, mirror := old.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "static pods do not support ephemeral containers")}
	}
	errs := append(validateMetaUpdate(&pod.ObjectMeta, &old.ObjectMeta), validatePod(pod, allowancesOf(old.Annotations, &old.Spec))...)
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
