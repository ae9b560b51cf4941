package batch

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/kernel/api/resources"
)

// Bounds of an indexed Job, which keep the lists of indexes in its status short.
const (
	maxParallelismOfIndexed           = 100_000
	maxFailedIndexesOfIndexed         = 100_000
	completionsSoftLimit              = 100_000
	parallelismOfManyCompletions      = 10_000
	maxFailedIndexesOfManyCompletions = 10_000
	maxManagedByLength                = 63
)

// jobOptions is what the validation of a Job goes by besides the Job.
type jobOptions struct {
	// prefixedLabels: the template must have the generated labels by their names
	// of today too.
	prefixedLabels bool
	pods           resources.PodAllowances
	// suspended: the stored Job is suspended and none of its pods runs, so that
	// where they go and what they need may still change.
	suspended bool
}

func validateJob(o *batchv1.Job, opts jobOptions) field.ErrorList {
	errs := resources.ValidateMeta(&o.ObjectMeta, true, apivalidation.NameIsDNSSubdomain)
	errs = append(errs, validateGeneratedSelector(o, opts.prefixedLabels)...)
	errs = append(errs, validateOwnJobSpec(&o.Spec, specPath, opts)...)
	if n := ptr.Deref(o.Spec.Completions, 0); isIndexed(&o.Spec) && n > 0 {
		// The pod of the last index has the longest hostname.
		hostname := fmt.Sprintf("%s-%d", o.Name, n-1)
		if len(validation.IsDNS1123Label(hostname)) > 0 {
			errs = append(errs, field.Invalid(metadataPath.Child("name"), o.Name, "will not able to create pod with invalid DNS label: "+hostname))
		}
	}
	return errs
}

// validateGeneratedSelector: a selector that is not the client's matches the
// pods of this Job and no others.
func validateGeneratedSelector(o *batchv1.Job, prefixed bool) field.ErrorList {
	if ptr.Deref(o.Spec.ManualSelector, false) || o.Spec.Selector == nil {
		return nil
	}
	var errs field.ErrorList
	if o.UID == "" {
		errs = append(errs, field.Required(metadataPath.Child("uid"), ""))
	}
	want := []struct{ key, value string }{{legacyControllerUID, string(o.UID)}, {legacyJobName, o.Name}}
	if prefixed {
		want = append(want, []struct{ key, value string }{{batchv1.ControllerUidLabel, string(o.UID)}, {batchv1.JobNameLabel, o.Name}}...)
	}
	generated := labels.Set{}
	for _, l := range want {
		generated[l.key] = l.value
		path := specPath.Child("template", "metadata", "labels").Key(l.key)
		if value, ok := o.Spec.Template.Labels[l.key]; !ok {
			errs = append(errs, field.Required(path, fmt.Sprintf("must be '%s'", l.value)))
		} else if value != l.value {
			errs = append(errs, field.Invalid(path, o.Spec.Template.Labels, fmt.Sprintf("must be '%s'", l.value)))
		}
	}
	if selector, err := metav1.LabelSelectorAsSelector(o.Spec.Selector); err == nil && !selector.Matches(generated) {
		errs = append(errs, field.Invalid(specPath.Child("selector"), o.Spec.Selector, "`selector` not auto-generated"))
	}
	return errs
}

// validateOwnJobSpec checks the spec of a Job; that of a CronJob's template has
// no selector.
func validateOwnJobSpec(s *batchv1.JobSpec, path *field.Path, opts jobOptions) field.ErrorList {
	errs := validateJobSpec(s, opts.pods, path)
	selector := metav1validation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: opts.pods.SelectorValues}
	if s.Selector == nil {
		errs = append(errs, field.Required(path.Child("selector"), ""))
	} else {
		errs = append(errs, metav1validation.ValidateLabelSelector(s.Selector, selector, path.Child("selector"))...)
	}
	if selector, err := metav1.LabelSelectorAsSelector(s.Selector); err == nil && !selector.Matches(labels.Set(s.Template.Labels)) {
		errs = append(errs, field.Invalid(path.Child("template", "metadata", "labels"), s.Template.Labels, "`selector` does not match template `labels`"))
	}
	return errs
}

func validateJobSpec(s *batchv1.JobSpec, allow resources.PodAllowances, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	add := func(e field.ErrorList) { errs = append(errs, e...) }
	for _, n := range []struct {
		name  string
		value *int32
	}{
		{"parallelism", s.Parallelism}, {"completions", s.Completions}, {"backoffLimit", s.BackoffLimit},
		{"ttlSecondsAfterFinished", s.TTLSecondsAfterFinished}, {"backoffLimitPerIndex", s.BackoffLimitPerIndex}, {"maxFailedIndexes", s.MaxFailedIndexes},
	} {
		if n.value != nil {
			add(apivalidation.ValidateNonnegativeField(int64(*n.value), path.Child(n.name)))
		}
	}
	if n := s.ActiveDeadlineSeconds; n != nil {
		add(apivalidation.ValidateNonnegativeField(*n, path.Child("activeDeadlineSeconds")))
	}
	if s.MaxFailedIndexes != nil && s.BackoffLimitPerIndex == nil {
		errs = append(errs, field.Required(path.Child("backoffLimitPerIndex"), "when maxFailedIndexes is specified"))
	}
	if by := s.ManagedBy; by != nil {
		add(validation.IsDomainPrefixedPath(path.Child("managedBy"), *by))
		if len(*by) > maxManagedByLength {
			errs = append(errs, field.TooLong(path.Child("managedBy"), "", maxManagedByLength))
		}
	}
	add(validateCompletionMode(s, path))
	if s.PodFailurePolicy != nil {
		add(validatePodFailurePolicy(s, path.Child("podFailurePolicy")))
	}
	if s.SuccessPolicy != nil {
		if !isIndexed(s) {
			errs = append(errs, field.Invalid(path.Child("successPolicy"), *s.SuccessPolicy, "requires indexed completion mode"))
		} else {
			add(validateSuccessPolicy(s, path.Child("successPolicy")))
		}
	}
	add(validatePodReplacementPolicy(s, path.Child("podReplacementPolicy")))
	add(resources.ValidatePodTemplateSpec(&s.Template, allow, path.Child("template")))
	return append(errs, validateRestartPolicy(s, path.Child("template", "spec", "restartPolicy"))...)
}

func validateCompletionMode(s *batchv1.JobSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	mode := ptr.Deref(s.CompletionMode, batchv1.NonIndexedCompletion)
	switch mode {
	case batchv1.IndexedCompletion:
		return validateIndexed(s, path)
	case batchv1.NonIndexedCompletion:
		for _, n := range []struct {
			name  string
			value *int32
		}{{"backoffLimitPerIndex", s.BackoffLimitPerIndex}, {"maxFailedIndexes", s.MaxFailedIndexes}} {
			if n.value != nil {
				errs = append(errs, field.Invalid(path.Child(n.name), *n.value, "requires indexed completion mode"))
			}
		}
	default:
		errs = append(errs, field.NotSupported(path.Child("completionMode"), mode, []batchv1.CompletionMode{batchv1.NonIndexedCompletion, batchv1.IndexedCompletion}))
	}
	return errs
}

func validateIndexed(s *batchv1.JobSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	completions, parallelism, failed := path.Child("completions"), path.Child("parallelism"), path.Child("maxFailedIndexes")
	if s.Completions == nil {
		errs = append(errs, field.Required(completions, fmt.Sprintf("when completion mode is %s", batchv1.IndexedCompletion)))
	}
	if n := ptr.Deref(s.Parallelism, 0); n > maxParallelismOfIndexed {
		errs = append(errs, field.Invalid(parallelism, n, fmt.Sprintf("must be less than or equal to %d when completion mode is %s", maxParallelismOfIndexed, batchv1.IndexedCompletion)))
	}
	if n := s.MaxFailedIndexes; n != nil {
		if s.Completions != nil && *n > *s.Completions {
			errs = append(errs, field.Invalid(failed, *n, "must be less than or equal to completions"))
		}
		if *n > maxFailedIndexesOfIndexed {
			errs = append(errs, field.Invalid(failed, *n, fmt.Sprintf("must be less than or equal to %d", maxFailedIndexesOfIndexed)))
		}
	}
	if ptr.Deref(s.Completions, 0) <= completionsSoftLimit || s.BackoffLimitPerIndex == nil {
		return errs
	}
	const many = "must be less than or equal to %d when completions are above %d and used with backoff limit per index"
	if s.MaxFailedIndexes == nil {
		errs = append(errs, field.Required(failed, fmt.Sprintf("must be specified when completions is above %d", completionsSoftLimit)))
	}
	if n := ptr.Deref(s.Parallelism, 0); n > parallelismOfManyCompletions {
		errs = append(errs, field.Invalid(parallelism, n, fmt.Sprintf(many, parallelismOfManyCompletions, completionsSoftLimit)))
	}
	if n := ptr.Deref(s.MaxFailedIndexes, 0); n > maxFailedIndexesOfManyCompletions {
		errs = append(errs, field.Invalid(failed, n, fmt.Sprintf(many, maxFailedIndexesOfManyCompletions, completionsSoftLimit)))
	}
	return errs
}

func validatePodReplacementPolicy(s *batchv1.JobSpec, path *field.Path) field.ErrorList {
	if s.PodReplacementPolicy == nil {
		return nil
	}
	known := []batchv1.PodReplacementPolicy{batchv1.Failed, batchv1.TerminatingOrFailed}
	if s.PodFailurePolicy != nil {
		known = known[:1]
	}
	return supported(path, *s.PodReplacementPolicy, known...)
}

// validateRestartPolicy: the pods of a Job come to an end, so that Always, which
// is the default of pods, must have been replaced.
func validateRestartPolicy(s *batchv1.JobSpec, path *field.Path) field.ErrorList {
	switch p := s.Template.Spec.RestartPolicy; {
	case p == corev1.RestartPolicyAlways || p == "":
		return field.ErrorList{field.Required(path, fmt.Sprintf("valid values: %q, %q", corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever))}
	case p != corev1.RestartPolicyOnFailure && p != corev1.RestartPolicyNever:
		return field.ErrorList{field.NotSupported(path, p, []corev1.RestartPolicy{corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever})}
	case s.PodFailurePolicy != nil && p != corev1.RestartPolicyNever:
		return field.ErrorList{field.Invalid(path, p, fmt.Sprintf("only %q is supported when podFailurePolicy is specified", corev1.RestartPolicyNever))}
	}
	return nil
}

func validateJobUpdate(o, old *batchv1.Job) field.ErrorList {
	_, hadName := old.Spec.Template.Labels[batchv1.JobNameLabel]
	_, hadUID := old.Spec.Template.Labels[batchv1.ControllerUidLabel]
	opts := jobOptions{
		prefixedLabels: hadName && hadUID,
		pods:           resources.AllowancesOf(&old.Spec.Template),
		suspended: ptr.Deref(old.Spec.Suspend, false) && old.Status.Active == 0 &&
			(old.Status.StartTime == nil || isTrue(old, batchv1.JobSuspended)),
	}
	opts.pods.SelectorValues = opts.pods.SelectorValues || metav1validation.LabelSelectorHasInvalidLabelValue(old.Spec.Selector)
	errs := validateJob(o, opts)
	errs = append(errs, resources.ValidateMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)...)
	// Upstream checks the spec twice, and says so twice.
	errs = append(errs, validateOwnJobSpec(&o.Spec, specPath, opts)...)
	errs = append(errs, validateCompletionsUpdate(&o.Spec, &old.Spec, specPath.Child("completions"))...)
	errs = append(errs, apivalidation.ValidateImmutableField(o.Spec.Selector, old.Spec.Selector, specPath.Child("selector"))...)
	errs = append(errs, validateJobTemplateUpdate(&o.Spec, &old.Spec, specPath, opts)...)
	for _, f := range []struct {
		name     string
		now, was any
	}{
		{"completionMode", o.Spec.CompletionMode, old.Spec.CompletionMode},
		{"podFailurePolicy", o.Spec.PodFailurePolicy, old.Spec.PodFailurePolicy},
		{"backoffLimitPerIndex", o.Spec.BackoffLimitPerIndex, old.Spec.BackoffLimitPerIndex},
		{"managedBy", o.Spec.ManagedBy, old.Spec.ManagedBy},
		{"successPolicy", o.Spec.SuccessPolicy, old.Spec.SuccessPolicy},
	} {
		errs = append(errs, apivalidation.ValidateImmutableField(f.now, f.was, specPath.Child(f.name))...)
	}
	return errs
}

// validateCompletionsUpdate: an indexed Job can be made larger and smaller, by
// completions and parallelism together.
func validateCompletionsUpdate(s, old *batchv1.JobSpec, path *field.Path) field.ErrorList {
	if !isIndexed(s) {
		return apivalidation.ValidateImmutableField(s.Completions, old.Completions, path)
	}
	if s.Completions == nil || apiequality.Semantic.DeepEqual(s.Completions, old.Completions) || ptr.Deref(s.Parallelism, 0) == *s.Completions {
		return nil
	}
	return field.ErrorList{field.Invalid(path, s.Completions, fmt.Sprintf("can only be modified in tandem with %s", path.Root().Child("parallelism").String()))}
}

// validateJobTemplateUpdate: a template is for good, except for what its pods
// need and where they may go while the Job is suspended.
func validateJobTemplateUpdate(s, old *batchv1.JobSpec, path *field.Path, opts jobOptions) field.ErrorList {
	t, was := &s.Template, &old.Template
	if !opts.suspended {
		return apivalidation.ValidateImmutableField(t, was, path.Child("template"))
	}
	was = was.DeepCopy()
	was.Spec.Affinity = withNodeAffinity(was.Spec.Affinity, t.Spec.Affinity)
	was.Spec.NodeSelector, was.Spec.Tolerations, was.Spec.SchedulingGates = t.Spec.NodeSelector, t.Spec.Tolerations, t.Spec.SchedulingGates
	was.Annotations, was.Labels = t.Annotations, t.Labels
	for _, list := range []struct{ now, was []corev1.Container }{
		{t.Spec.Containers, was.Spec.Containers}, {t.Spec.InitContainers, was.Spec.InitContainers},
	} {
		if len(list.now) != len(list.was) {
			continue
		}
		for i := range list.was {
			if list.was[i].Name == list.now[i].Name {
				list.was[i].Resources = list.now[i].Resources
			}
		}
	}
	return apivalidation.ValidateImmutableField(t.Spec, was.Spec, path.Child("template.spec"))
}

// withNodeAffinity is was with the node affinity of now.
func withNodeAffinity(was, now *corev1.Affinity) *corev1.Affinity {
	switch {
	case was == nil && now == nil:
		return nil
	case was == nil:
		return &corev1.Affinity{NodeAffinity: now.NodeAffinity}
	case now == nil:
		was.NodeAffinity = nil
		if *was == (corev1.Affinity{}) {
			return nil
		}
		return was
	}
	was.NodeAffinity = now.NodeAffinity
	return was
}
