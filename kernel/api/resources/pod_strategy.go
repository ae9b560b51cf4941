package resources

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

type podStrategy struct{ base }

var _ rest.RESTGracefulDeleteStrategy = podStrategy{}

func newPodStrategy() podStrategy {
	b := base{gvk: corev1.SchemeGroupVersion.WithKind("Pod"), namespaced: true}
	return podStrategy{b.resetting([]any{"status"})}
}

func (podStrategy) PrepareForCreate(ctx context.Context, obj runtime.Object) {
	pod := obj.(*corev1.Pod)
	pod.Generation = 1
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: podQOS(&pod.Spec)}
	dropGatedFields(&pod.Spec, nil)
	if len(pod.Spec.SchedulingGates) > 0 {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulingGated,
			Message: "Scheduling is blocked due to non-empty scheduling gates", LastTransitionTime: metav1.Now(),
		})
	}
	mergeMatchLabelKeys(pod)
	adoptAppArmorAnnotations(ctx, pod)
}

func (podStrategy) PrepareForUpdate(_ context.Context, obj, oldObj runtime.Object) {
	pod, old := obj.(*corev1.Pod), oldObj.(*corev1.Pod)
	pod.Status = old.Status
	dropGatedFields(&pod.Spec, &old.Spec)
	bumpPodGeneration(pod, old)
}

func (podStrategy) Validate(_ context.Context, obj runtime.Object) field.ErrorList {
	return validatePodCreate(obj.(*corev1.Pod))
}

func (podStrategy) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	return validatePodUpdate(obj.(*corev1.Pod), old.(*corev1.Pod))
}

func (podStrategy) WarningsOnCreate(_ context.Context, obj runtime.Object) []string {
	pod := obj.(*corev1.Pod)
	var out []string
	if msgs := validation.IsDNS1123Label(pod.Name); len(msgs) != 0 {
		out = append(out, fmt.Sprintf("metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: %v", msgs))
	}
	return append(out, podSpecWarnings(nil, &pod.Spec, &pod.ObjectMeta)...)
}

// CheckGracefulDelete settles the grace period: what the client asks, else the
// pod's own; none for a pod that no node runs.
func (podStrategy) CheckGracefulDelete(_ context.Context, obj runtime.Object, options *metav1.DeleteOptions) bool {
	if options == nil {
		return false
	}
	pod := obj.(*corev1.Pod)
	period := int64(0)
	switch {
	case pod.Spec.NodeName == "", pod.Status.Phase == corev1.PodFailed, pod.Status.Phase == corev1.PodSucceeded:
	case options.GracePeriodSeconds != nil:
		period = *options.GracePeriodSeconds
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		period = *pod.Spec.TerminationGracePeriodSeconds
	}
	if period < 0 {
		period = 1
	}
	options.GracePeriodSeconds = &period
	return true
}

type podStatusStrategy struct{ podStrategy }

func newPodStatusStrategy(s podStrategy) podStatusStrategy {
	s.base = s.resetting([]any{"spec"}, []any{"metadata", "deletionTimestamp"}, []any{"metadata", "ownerReferences"})
	return podStatusStrategy{s}
}

func (podStatusStrategy) PrepareForUpdate(_ context.Context, obj, oldObj runtime.Object) {
	pod, old := obj.(*corev1.Pod), oldObj.(*corev1.Pod)
	pod.Spec = old.Spec
	pod.DeletionTimestamp = nil
	pod.OwnerReferences = old.OwnerReferences
	if pod.Status.QOSClass == "" {
		pod.Status.QOSClass = old.Status.QOSClass
	}
	// What a client that does not know observedGeneration leaves out stays.
	if pod.Status.ObservedGeneration == 0 {
		pod.Status.ObservedGeneration = old.Status.ObservedGeneration
	}
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if j := slices.IndexFunc(old.Status.Conditions, func(o corev1.PodCondition) bool { return o.Type == c.Type }); j >= 0 && c.ObservedGeneration == 0 {
			c.ObservedGeneration = old.Status.Conditions[j].ObservedGeneration
		}
	}
}

func (podStatusStrategy) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	return validatePodStatusUpdate(obj.(*corev1.Pod), old.(*corev1.Pod))
}

func (podStatusStrategy) WarningsOnUpdate(_ context.Context, obj, _ runtime.Object) []string {
	var out []string
	status := &obj.(*corev1.Pod).Status
	for i, ip := range status.PodIPs {
		out = append(out, validation.GetWarningsForIP(statusPath.Child("podIPs").Index(i).Child("ip"), ip.IP)...)
	}
	for i, ip := range status.HostIPs {
		out = append(out, validation.GetWarningsForIP(statusPath.Child("hostIPs").Index(i).Child("ip"), ip.IP)...)
	}
	return out
}

// podEphemeralContainersStrategy updates spec.ephemeralContainers and nothing
// else.
type podEphemeralContainersStrategy struct{ podStrategy }

var _ rest.ResetFieldsFilterStrategy = podEphemeralContainersStrategy{}

func (podEphemeralContainersStrategy) PrepareForUpdate(_ context.Context, obj, oldObj runtime.Object) {
	pod, old := obj.(*corev1.Pod), oldObj.(*corev1.Pod)
	containers := pod.Spec.EphemeralContainers
	pod.Spec = old.Spec
	pod.Status = old.Status
	metav1.ResetObjectMetaForStatus(&pod.ObjectMeta, &old.ObjectMeta)
	pod.Spec.EphemeralContainers = containers
	bumpPodGeneration(pod, old)
}

func (podEphemeralContainersStrategy) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	return validateEphemeralContainersUpdate(obj.(*corev1.Pod), old.(*corev1.Pod))
}

func (podEphemeralContainersStrategy) GetResetFieldsFilter() map[fieldpath.APIVersion]fieldpath.Filter {
	return map[fieldpath.APIVersion]fieldpath.Filter{
		"v1": fieldpath.NewIncludeMatcherFilter(fieldpath.MakePrefixMatcherOrDie("spec", "ephemeralContainers")),
	}
}

// podResizeStrategy updates resources and resize policies of containers, and
// pod-level resources.
type podResizeStrategy struct{ podStrategy }

var _ rest.ResetFieldsFilterStrategy = podResizeStrategy{}

func (podResizeStrategy) PrepareForUpdate(_ context.Context, obj, oldObj runtime.Object) {
	pod, old := obj.(*corev1.Pod), oldObj.(*corev1.Pod)
	// Other containers than before are left for validation to refuse.
	if sameContainers(pod.Spec.Containers, old.Spec.Containers) && sameContainers(pod.Spec.InitContainers, old.Spec.InitContainers) {
		level := pod.Spec.Resources
		containers := resized(pod.Spec.Containers, old.Spec.Containers)
		initContainers := resized(pod.Spec.InitContainers, old.Spec.InitContainers)
		pod.Spec = old.Spec
		pod.Spec.Resources, pod.Spec.Containers, pod.Spec.InitContainers = level, containers, initContainers
		pod.Status = old.Status
		metav1.ResetObjectMetaForStatus(&pod.ObjectMeta, &old.ObjectMeta)
	}
	bumpPodGeneration(pod, old)
}

func (podResizeStrategy) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	return validatePodResize(obj.(*corev1.Pod), old.(*corev1.Pod))
}

func (podResizeStrategy) GetResetFieldsFilter() map[fieldpath.APIVersion]fieldpath.Filter {
	each := fieldpath.MatchAnyPathElement()
	return map[fieldpath.APIVersion]fieldpath.Filter{"v1": fieldpath.NewIncludeMatcherFilter(
		fieldpath.MakePrefixMatcherOrDie("spec", "containers", each, "resources"),
		fieldpath.MakePrefixMatcherOrDie("spec", "containers", each, "resizePolicy"),
		fieldpath.MakePrefixMatcherOrDie("spec", "initContainers", each, "resources"),
		fieldpath.MakePrefixMatcherOrDie("spec", "initContainers", each, "resizePolicy"),
	)}
}

func sameContainers(a, b []corev1.Container) bool {
	return slices.EqualFunc(a, b, func(x, y corev1.Container) bool { return x.Name == y.Name })
}

func resized(containers, old []corev1.Container) []corev1.Container {
	out := slices.Clone(old)
	for i := range out {
		out[i].Resources, out[i].ResizePolicy = containers[i].Resources, containers[i].ResizePolicy
	}
	return out
}

func bumpPodGeneration(pod, old *corev1.Pod) {
	pod.Generation = old.Generation
	if !apiequality.Semantic.DeepEqual(pod.Spec, old.Spec) {
		pod.Generation++
	}
}

// dropGatedFields clears fields that are alpha in 1.36, unless the stored pod
// has them.
func dropGatedFields(s, old *corev1.PodSpec) {
	dropGatedSources(s, old)
	hadSignal := false
	if old != nil {
		for i := range old.Containers {
			hadSignal = hadSignal || old.Containers[i].Lifecycle != nil && old.Containers[i].Lifecycle.StopSignal != nil
		}
	}
	for _, list := range [][]corev1.Container{s.Containers, s.InitContainers} {
		for i := range list {
			if l := list[i].Lifecycle; l != nil && l.StopSignal != nil && !hadSignal {
				l.StopSignal = nil
				if l.PostStart == nil && l.PreStop == nil {
					list[i].Lifecycle = nil
				}
			}
		}
	}
}

// dropGatedSources clears the sources of projected volumes that are behind
// gates that are off.
func dropGatedSources(s, old *corev1.PodSpec) {
	uses := func(s *corev1.PodSpec, is func(*corev1.VolumeProjection) bool) bool {
		return s != nil && slices.ContainsFunc(s.Volumes, func(v corev1.Volume) bool {
			return v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(p corev1.VolumeProjection) bool { return is(&p) })
		})
	}
	bundles := uses(old, func(p *corev1.VolumeProjection) bool { return p.ClusterTrustBundle != nil })
	certificates := uses(old, func(p *corev1.VolumeProjection) bool { return p.PodCertificate != nil })
	for i := range s.Volumes {
		if s.Volumes[i].Projected == nil {
			continue
		}
		for j := range s.Volumes[i].Projected.Sources {
			p := &s.Volumes[i].Projected.Sources[j]
			if !bundles {
				p.ClusterTrustBundle = nil
			}
			if !certificates {
				p.PodCertificate = nil
			}
		}
	}
}

// mergeMatchLabelKeys turns matchLabelKeys and mismatchLabelKeys into
// expressions on the pod's own labels, which is what the scheduler reads
// (KEP-3633, KEP-3243).
func mergeMatchLabelKeys(pod *corev1.Pod) {
	merge := func(keys []string, op metav1.LabelSelectorOperator, s *metav1.LabelSelector) {
		for _, key := range keys {
			if v, ok := pod.Labels[key]; ok && s != nil {
				s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: op, Values: []string{v}})
			}
		}
	}
	term := func(t *corev1.PodAffinityTerm) {
		merge(t.MatchLabelKeys, metav1.LabelSelectorOpIn, t.LabelSelector)
		merge(t.MismatchLabelKeys, metav1.LabelSelectorOpNotIn, t.LabelSelector)
	}
	terms := func(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
		for i := range required {
			term(&required[i])
		}
		for i := range preferred {
			term(&preferred[i].PodAffinityTerm)
		}
	}
	if a := pod.Spec.Affinity; a != nil {
		if p := a.PodAffinity; p != nil {
			terms(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
		}
		if p := a.PodAntiAffinity; p != nil {
			terms(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
		}
	}
	for i := range pod.Spec.TopologySpreadConstraints {
		c := &pod.Spec.TopologySpreadConstraints[i]
		merge(c.MatchLabelKeys, metav1.LabelSelectorOpIn, c.LabelSelector)
	}
}

// podQOS classes a pod by its requests and limits of CPU and memory. A request that was not given is the limit by
// default; one of zero is less than it.
func podQOS(s *corev1.PodSpec) corev1.PodQOSClass {
	lists := []corev1.ResourceRequirements{}
	if s.Resources != nil && (len(s.Resources.Limits) > 0 || len(s.Resources.Requests) > 0) {
		lists = append(lists, *s.Resources)
	} else {
		for i := range s.InitContainers {
			lists = append(lists, s.InitContainers[i].Resources)
		}
		for i := range s.Containers {
			lists = append(lists, s.Containers[i].Resources)
		}
	}
	asked, guaranteed := false, true
	for i := range lists {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			request, limit := lists[i].Requests[name], lists[i].Limits[name]
			asked = asked || request.Sign() > 0 || limit.Sign() > 0
			guaranteed = guaranteed && limit.Sign() > 0 && request.Cmp(limit) == 0
		}
	}
	switch {
	case !asked:
		return corev1.PodQOSBestEffort
	case guaranteed:
		return corev1.PodQOSGuaranteed
	}
	return corev1.PodQOSBurstable
}
