package resources

import (
	v1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// replicatedColumns are the columns of a ReplicaSet and of a
// ReplicationController; spec and status describe their fields.
func replicatedColumns(spec, status map[string]string) []metav1.TableColumnDefinition {
	return cols(nameColumn(), integerColumn("Desired", spec["replicas"]), integerColumn("Current", status["replicas"]),
		integerColumn("Ready", status["readyReplicas"]), ageColumn(),
		wideColumn("Containers", "Names of each container in the template."),
		wideColumn("Images", "Images referenced by each container in the template."),
		wideColumn("Selector", spec["selector"]))
}

// replicatedRow fills replicatedColumns. The template may be nil.
func replicatedRow(o metav1.Object, desired *int32, current, ready int32, template *v1.PodTemplateSpec, selector string) []any {
	var containers []v1.Container
	if template != nil {
		containers = template.Spec.Containers
	}
	names, images := containerCells(containers)
	return []any{o.GetName(), int64(ptr.Deref(desired, 0)), int64(current), int64(ready), ageCell(o.GetCreationTimestamp()), names, images, selector}
}

// replicaCounts are the counts that the status of a ReplicaSet and of a
// ReplicationController have in common.
type replicaCounts struct {
	replicas, fullyLabeled, ready, available int32
	terminating                              *int32
	observedGeneration                       int64
}

func validateReplicaCounts(c replicaCounts, path *field.Path) field.ErrorList {
	errs := apivalidation.ValidateNonnegativeField(int64(c.replicas), path.Child("replicas"))
	errs = append(errs, apivalidation.ValidateNonnegativeField(int64(c.fullyLabeled), path.Child("fullyLabeledReplicas"))...)
	errs = append(errs, apivalidation.ValidateNonnegativeField(int64(c.ready), path.Child("readyReplicas"))...)
	errs = append(errs, apivalidation.ValidateNonnegativeField(int64(c.available), path.Child("availableReplicas"))...)
	errs = append(errs, apivalidation.ValidateNonnegativeField(c.observedGeneration, path.Child("observedGeneration"))...)
	if c.terminating != nil {
		errs = append(errs, apivalidation.ValidateNonnegativeField(int64(*c.terminating), path.Child("terminatingReplicas"))...)
	}
	errs = append(errs, notMoreThanReplicas(c.fullyLabeled, c.replicas, path.Child("fullyLabeledReplicas"))...)
	errs = append(errs, notMoreThanReplicas(c.ready, c.replicas, path.Child("readyReplicas"))...)
	errs = append(errs, notMoreThanReplicas(c.available, c.replicas, path.Child("availableReplicas"))...)
	return append(errs, availableIsReady(c.available, c.ready, path)...)
}

func notMoreThanReplicas(n, replicas int32, path *field.Path) field.ErrorList {
	if n > replicas {
		return field.ErrorList{field.Invalid(path, n, "cannot be greater than status.replicas")}
	}
	return nil
}

func availableIsReady(available, ready int32, path *field.Path) field.ErrorList {
	if available > ready {
		return field.ErrorList{field.Invalid(path.Child("availableReplicas"), available, "cannot be greater than readyReplicas")}
	}
	return nil
}

// validateReplicatedTemplate holds a pod template to what every replicating
// kind asks: its labels are selected, its pods restart always and do not end
// by a deadline. kind names the kind in the error.
func validateReplicatedTemplate(t *v1.PodTemplateSpec, allow PodAllowances, selector labels.Selector, kind string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if !selector.Empty() && !selector.Matches(labels.Set(t.Labels)) {
		errs = append(errs, field.Invalid(path.Child("metadata", "labels"), t.Labels, "`selector` does not match template `labels`"))
	}
	errs = append(errs, ValidatePodTemplateSpec(t, allow, path)...)
	if t.Spec.RestartPolicy != v1.RestartPolicyAlways {
		errs = append(errs, field.NotSupported(path.Child("spec", "restartPolicy"), t.Spec.RestartPolicy, []v1.RestartPolicy{v1.RestartPolicyAlways}))
	}
	if t.Spec.ActiveDeadlineSeconds != nil {
		errs = append(errs, field.Forbidden(path.Child("spec", "activeDeadlineSeconds"), "activeDeadlineSeconds in "+kind+" is not Supported"))
	}
	return errs
}

// selectorString is a label selector as the scale subresource shows it.
func selectorString(s *metav1.LabelSelector) string {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return ""
	}
	return selector.String()
}
