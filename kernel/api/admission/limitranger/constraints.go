package limitranger

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	resourcehelper "k8s.io/component-helpers/resource"
)

func checkPod(limits *corev1.LimitRange, pod *corev1.Pod) error {
	var errs []error
	for i := range limits.Spec.Limits {
		item := &limits.Spec.Limits[i]
		switch item.Type {
		case corev1.LimitTypeContainer:
			for _, container := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
				errs = append(errs, checkItem(item, container.Resources.Requests, container.Resources.Limits)...)
			}
		case corev1.LimitTypePod:
			options := resourcehelper.PodResourcesOptions{ExcludeOverhead: true}
			errs = append(errs, checkItem(item, resourcehelper.PodRequests(pod, options), resourcehelper.PodLimits(pod, options))...)
		}
	}
	return utilerrors.NewAggregate(errs)
}

func checkClaim(limits *corev1.LimitRange, claim *corev1.PersistentVolumeClaim) error {
	var errs []error
	requests := claim.Spec.Resources.Requests
	for i := range limits.Spec.Limits {
		item := &limits.Spec.Limits[i]
		if item.Type != corev1.LimitTypePersistentVolumeClaim {
			continue
		}
		for _, name := range sortedNames(item.Min) {
			errs = append(errs, checkMin(item.Type, name, item.Min[name], requests, nil))
		}
		for _, name := range sortedNames(item.Max) {
			// Limits mean nothing on a claim; what it asks for is bounded.
			want, limit := requests[name], item.Max[name]
			if _, ok := requests[name]; !ok {
				errs = append(errs, fmt.Errorf("maximum %s usage per %s is %s.  No request is specified", name, item.Type, limit.String()))
			} else if want.Cmp(limit) > 0 {
				errs = append(errs, fmt.Errorf("maximum %s usage per %s is %s, but request is %s", name, item.Type, limit.String(), want.String()))
			}
		}
	}
	return utilerrors.NewAggregate(errs)
}

func checkItem(item *corev1.LimitRangeItem, requests, limits corev1.ResourceList) []error {
	var errs []error
	for _, name := range sortedNames(item.Min) {
		errs = append(errs, checkMin(item.Type, name, item.Min[name], requests, limits))
	}
	for _, name := range sortedNames(item.Max) {
		errs = append(errs, checkMax(item.Type, name, item.Max[name], requests, limits))
	}
	for _, name := range sortedNames(item.MaxLimitRequestRatio) {
		errs = append(errs, checkRatio(item.Type, name, item.MaxLimitRequestRatio[name], requests, limits))
	}
	return errs
}

func sortedNames(list corev1.ResourceList) []corev1.ResourceName {
	return slices.Sorted(maps.Keys(list))
}

func checkMin(kind corev1.LimitType, name corev1.ResourceName, least resource.Quantity, requests, limits corev1.ResourceList) error {
	request, ok := requests[name]
	if !ok {
		return fmt.Errorf("minimum %s usage per %s is %s.  No request is specified", name, kind, least.String())
	}
	if request.Cmp(least) < 0 {
		return fmt.Errorf("minimum %s usage per %s is %s, but request is %s", name, kind, least.String(), request.String())
	}
	if limit, ok := limits[name]; ok && limit.Cmp(least) < 0 {
		return fmt.Errorf("minimum %s usage per %s is %s, but limit is %s", name, kind, least.String(), limit.String())
	}
	return nil
}

func checkMax(kind corev1.LimitType, name corev1.ResourceName, most resource.Quantity, requests, limits corev1.ResourceList) error {
	limit, ok := limits[name]
	if !ok {
		return fmt.Errorf("maximum %s usage per %s is %s.  No limit is specified", name, kind, most.String())
	}
	if limit.Cmp(most) > 0 {
		return fmt.Errorf("maximum %s usage per %s is %s, but limit is %s", name, kind, most.String(), limit.String())
	}
	if request, ok := requests[name]; ok && request.Cmp(most) > 0 {
		return fmt.Errorf("maximum %s usage per %s is %s, but request is %s", name, kind, most.String(), request.String())
	}
	return nil
}

func checkRatio(kind corev1.LimitType, name corev1.ResourceName, most resource.Quantity, requests, limits corev1.ResourceList) error {
	request, limit := requests[name], limits[name]
	if request.IsZero() {
		return fmt.Errorf("%s max limit to request ratio per %s is %s, but no request is specified or request is 0", name, kind, most.String())
	}
	if limit.IsZero() {
		return fmt.Errorf("%s max limit to request ratio per %s is %s, but no limit is specified or limit is 0", name, kind, most.String())
	}
	if ratio := limit.AsApproximateFloat64() / request.AsApproximateFloat64(); ratio > most.AsApproximateFloat64() {
		return fmt.Errorf("%s max limit to request ratio per %s is %s, but provided ratio is %f", name, kind, most.String(), ratio)
	}
	return nil
}
