package resources

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// What the packages of workloads below this one ask of a pod template, of a
// claim's template and of tables.

// SetPodTemplateDefaults fills in what a template does not say.
func SetPodTemplateDefaults(t *corev1.PodTemplateSpec) { setPodTemplateDefaults(t) }

// DropGatedTemplateFields clears fields that are behind gates that are off,
// unless the stored template has them; old is nil for a new object.
func DropGatedTemplateFields(t, old *corev1.PodTemplateSpec) {
	if old == nil {
		dropGatedFields(&t.Spec, nil)
		return
	}
	dropGatedFields(&t.Spec, &old.Spec)
}

// ValidatePodAnnotations checks the annotations that say something of a pod, but
// for what allow spares.
func ValidatePodAnnotations(t *corev1.PodTemplateSpec, allow PodAllowances, path *field.Path) field.ErrorList {
	return validatePodAnnotations(t.Annotations, &t.Spec, allow, path)
}

// PodTemplateWarnings are those of a template at path.
func PodTemplateWarnings(path *field.Path, t *corev1.PodTemplateSpec) []string {
	return templateWarnings(path, t)
}

// PodNameWarnings say that a workload's name will be part of its pods'.
func PodNameWarnings(name string) []string { return warnPodNamePrefix(name) }

// SetClaimTemplateDefaults fills in what a template of a claim does not say.
func SetClaimTemplateDefaults(c *corev1.PersistentVolumeClaim) { setPersistentVolumeClaimDefaults(c) }

// ValidateClaimSpec checks a claim's spec at path.
func ValidateClaimSpec(s *corev1.PersistentVolumeClaimSpec, path *field.Path) field.ErrorList {
	return validateClaimSpec(s, path)
}

// ClaimSpecWarnings are those of a claim's spec at path.
func ClaimSpecWarnings(s *corev1.PersistentVolumeClaimSpec, path *field.Path) []string {
	return claimSpecWarnings(s, path)
}

// ValidateIntOrPercent asks for a count of zero or more, or a percentage.
func ValidateIntOrPercent(v intstr.IntOrString, path *field.Path) field.ErrorList {
	return validateIntOrPercent(v, path)
}

// ValidateAtMost100Percent refuses a percentage above 100.
func ValidateAtMost100Percent(v intstr.IntOrString, path *field.Path) field.ErrorList {
	return validateAtMost100Percent(v, path)
}

// IntOrPercentValue is the number of a count or of a percentage.
func IntOrPercentValue(v intstr.IntOrString) int { return intOrPercentValue(v) }

// SelectorString is a label selector as the scale subresource shows it.
func SelectorString(s *metav1.LabelSelector) string { return selectorString(s) }

// IntegerColumn is a column of numbers.
func IntegerColumn(name, description string) metav1.TableColumnDefinition {
	return integerColumn(name, description)
}

// WideColumn shows with -o wide only.
func WideColumn(name, description string) metav1.TableColumnDefinition {
	return wideColumn(name, description)
}

// ContainerColumns show with -o wide what ContainerCells gives.
func ContainerColumns() []metav1.TableColumnDefinition {
	return cols(wideColumn("Containers", "Names of each container in the template."),
		wideColumn("Images", "Images referenced by each container in the template."))
}

// ContainerCells joins names and images with commas.
func ContainerCells(containers []corev1.Container) (names, images string) {
	return containerCells(containers)
}
