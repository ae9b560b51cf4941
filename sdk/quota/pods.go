package quota

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/admission"
	quota "k8s.io/apiserver/pkg/quota/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

const deviceClassPrefix = "deviceclass.resource.kubernetes.io/"

// podNames are the quota names of pods that are spelled out; huge pages and
// extended resources come by prefix.
var podNames = []corev1.ResourceName{
	"count/pods", corev1.ResourcePods,
	corev1.ResourceCPU, corev1.ResourceRequestsCPU, corev1.ResourceLimitsCPU,
	corev1.ResourceMemory, corev1.ResourceRequestsMemory, corev1.ResourceLimitsMemory,
	corev1.ResourceEphemeralStorage, corev1.ResourceRequestsEphemeralStorage, corev1.ResourceLimitsEphemeralStorage,
}

// requiredNames have to be stated by each container once a quota names them.
var requiredNames = []corev1.ResourceName{
	corev1.ResourceCPU, corev1.ResourceRequestsCPU, corev1.ResourceLimitsCPU,
	corev1.ResourceMemory, corev1.ResourceRequestsMemory, corev1.ResourceLimitsMemory,
}

func newPods(list quota.ListerForResourceFunc, now func() time.Time) quota.Evaluator {
	e := kindOf(list, "pods")
	e.matching = matchingPodNames
	e.inScope = podInScope
	e.usage = func(obj runtime.Object) (corev1.ResourceList, error) {
		pod, err := asPod(obj)
		if err != nil {
			return corev1.ResourceList{}, err
		}
		return PodUsage(pod, now()), nil
	}
	e.handles = handlesPod
	e.constraints = podConstraints
	return &e
}

func asPod(obj runtime.Object) (*corev1.Pod, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, fmt.Errorf("expect *v1.Pod, got %T", obj)
	}
	return pod, nil
}

// PodUsage is what a pod costs: always one of count/pods, and its requests and
// limits while it is Charged.
func PodUsage(pod *corev1.Pod, now time.Time) corev1.ResourceList {
	out := corev1.ResourceList{"count/pods": count(1)}
	if !Charged(pod, now) {
		return out
	}
	options := resourcehelper.PodResourcesOptions{UseStatusResources: true}
	for name, quantity := range computeUsage(resourcehelper.PodRequests(pod, options), resourcehelper.PodLimits(pod, options)) {
		out[name] = quantity
	}
	return out
}

// Charged says whether a pod's compute resources count: it has not ended, and
// it is not stuck in termination beyond its grace period.
func Charged(pod *corev1.Pod, now time.Time) bool {
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return false
	}
	if pod.DeletionTimestamp == nil || pod.DeletionGracePeriodSeconds == nil {
		return true
	}
	grace := time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
	return !now.After(pod.DeletionTimestamp.Add(grace))
}

func computeUsage(requests, limits corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{corev1.ResourcePods: count(1)}
	for name, quantity := range requests {
		prefixed := corev1.DefaultResourceRequestsPrefix + name
		switch {
		case name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage:
			out[name], out[prefixed] = quantity, quantity
		case strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix):
			out[name], out[prefixed] = quantity, quantity
		case isExtended(name):
			// Extended resources cannot be overcommitted, so only their
			// requests have a quota name.
			out[prefixed] = quantity
		}
	}
	for name, quantity := range limits {
		if name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage {
			out["limits."+name] = quantity
		}
	}
	return out
}

func isNative(name corev1.ResourceName) bool {
	return !strings.Contains(string(name), "/") || strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
}

// isExtended says whether a container may request name as an extended resource.
func isExtended(name corev1.ResourceName) bool {
	if strings.HasPrefix(string(name), deviceClassPrefix) {
		return true
	}
	if isNative(name) || strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix) {
		return false
	}
	return len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+string(name))) == 0
}

func matchingPodNames(names []corev1.ResourceName) []corev1.ResourceName {
	out := quota.Intersection(names, podNames)
	for _, name := range names {
		requests := strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix)
		switch {
		case strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix),
			strings.HasPrefix(string(name), corev1.ResourceRequestsHugePagesPrefix),
			requests && !isNative(name),
			strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix+deviceClassPrefix):
			out = append(out, name)
		}
	}
	return out
}

func handlesPod(a admission.Attributes) bool {
	switch a.GetSubresource() {
	case "":
		if a.GetOperation() == admission.Create {
			return true
		}
		if a.GetOperation() != admission.Update {
			return false
		}
		// A deadline that appears or goes away moves the pod to other scopes.
		pod, err := asPod(a.GetObject())
		if err != nil {
			return false
		}
		old, err := asPod(a.GetOldObject())
		return err == nil && terminating(old) != terminating(pod)
	case "resize":
		return a.GetOperation() == admission.Update
	}
	return false
}

func podConstraints(required []corev1.ResourceName, obj runtime.Object) error {
	pod, err := asPod(obj)
	if err != nil {
		return err
	}
	if resourcehelper.IsPodLevelResourcesSet(pod) {
		return nil
	}
	required = quota.Intersection(required, requiredNames)
	if len(required) == 0 {
		return nil
	}
	missing := map[string][]string{}
	for _, container := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
		stated := computeUsage(container.Resources.Requests, container.Resources.Limits)
		for _, name := range required {
			if _, ok := stated[name]; !ok && !slices.Contains(missing[string(name)], container.Name) {
				missing[string(name)] = append(missing[string(name)], container.Name)
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	parts := make([]string, 0, len(missing))
	for name, containers := range missing {
		slices.Sort(containers)
		parts = append(parts, name+" for: "+strings.Join(containers, ","))
	}
	slices.Sort(parts)
	return fmt.Errorf("must specify %s", strings.Join(parts, "; "))
}

func podInScope(scope corev1.ScopedResourceSelectorRequirement, obj runtime.Object) (bool, error) {
	pod, err := asPod(obj)
	if err != nil {
		return false, err
	}
	switch scope.ScopeName {
	case corev1.ResourceQuotaScopeTerminating:
		return terminating(pod), nil
	case corev1.ResourceQuotaScopeNotTerminating:
		return !terminating(pod), nil
	case corev1.ResourceQuotaScopeBestEffort:
		return bestEffort(pod), nil
	case corev1.ResourceQuotaScopeNotBestEffort:
		return !bestEffort(pod), nil
	case corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return crossesNamespaces(pod), nil
	case corev1.ResourceQuotaScopePriorityClass:
		if pod.Spec.PriorityClassName == "" {
			return scopeSelects(scope)
		}
		return scopeSelects(scope, pod.Spec.PriorityClassName)
	}
	return false, nil
}

func terminating(pod *corev1.Pod) bool {
	return pod.Spec.ActiveDeadlineSeconds != nil && *pod.Spec.ActiveDeadlineSeconds >= 0
}

// bestEffort says whether nothing in the pod asks for cpu or memory.
func bestEffort(pod *corev1.Pod) bool {
	if pod.Status.QOSClass != "" {
		return pod.Status.QOSClass == corev1.PodQOSBestEffort
	}
	if pod.Spec.Resources != nil && asksCompute(*pod.Spec.Resources) {
		return false
	}
	for _, container := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
		if asksCompute(container.Resources) {
			return false
		}
	}
	return true
}

func asksCompute(resources corev1.ResourceRequirements) bool {
	for _, list := range []corev1.ResourceList{resources.Requests, resources.Limits} {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if quantity, ok := list[name]; ok && quantity.Sign() > 0 {
				return true
			}
		}
	}
	return false
}

func crossesNamespaces(pod *corev1.Pod) bool {
	if pod.Spec.Affinity == nil {
		return false
	}
	var terms []corev1.PodAffinityTerm
	weighted := func(in []corev1.WeightedPodAffinityTerm) {
		for i := range in {
			terms = append(terms, in[i].PodAffinityTerm)
		}
	}
	if affinity := pod.Spec.Affinity.PodAffinity; affinity != nil {
		terms = append(terms, affinity.RequiredDuringSchedulingIgnoredDuringExecution...)
		weighted(affinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if affinity := pod.Spec.Affinity.PodAntiAffinity; affinity != nil {
		terms = append(terms, affinity.RequiredDuringSchedulingIgnoredDuringExecution...)
		weighted(affinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return slices.ContainsFunc(terms, func(term corev1.PodAffinityTerm) bool {
		return len(term.Namespaces) > 0 || term.NamespaceSelector != nil
	})
}
