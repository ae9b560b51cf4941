package resources

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validatePodCreate(pod *corev1.Pod) field.ErrorList {
	errs := validatePod(pod, PodAllowances{})
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
func validatePod(pod *corev1.Pod, allow PodAllowances) field.ErrorList {
	errs := validateMeta(&pod.ObjectMeta, true, apivalidation.NameIsDNSSubdomain)
	errs = append(errs, validatePodAnnotations(pod.Annotations, &pod.Spec, allow, metadataPath.Child("annotations"))...)
	errs = append(errs, validatePodSpec(&pod.Spec, pod.Name, allow, specPath)...)
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

// ValidatePodTemplateSpec checks the template of a workload at path, but for what
// allow spares.
func ValidatePodTemplateSpec(t *corev1.PodTemplateSpec, allow PodAllowances, path *field.Path) field.ErrorList {
	errs := metav1validation.ValidateLabels(t.Labels, path.Child("labels"))
	errs = append(errs, apivalidation.ValidateAnnotations(t.Annotations, path.Child("annotations"))...)
	errs = append(errs, validatePodAnnotations(t.Annotations, &t.Spec, allow, path.Child("annotations"))...)
	errs = append(errs, validatePodSpec(&t.Spec, "", allow, path.Child("spec"))...)
	if len(t.Spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(path.Child("spec", "ephemeralContainers"), "ephemeral containers not allowed in pod template"))
	}
	return errs
}

func validatePodAnnotations(a map[string]string, s *corev1.PodSpec, allow PodAllowances, path *field.Path) field.ErrorList {
	errs := validateProfileAnnotations(a, s, path)
	if v, ok := a[corev1.MirrorPodAnnotationKey]; ok && s.NodeName == "" {
		errs = append(errs, field.Invalid(path.Key(corev1.MirrorPodAnnotationKey), v, "must set spec.nodeName if mirror pod annotation is set"))
	}
	if !allow.deletionCost && !isDeletionCost(a) {
		errs = append(errs, field.Invalid(path.Key(corev1.PodDeletionCost), a[corev1.PodDeletionCost], "must be a 32bit integer"))
	}
	return errs
}
