package quota

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/admission"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
)

// Evaluators returns the evaluators of this package. list finds the objects
// for UsageStats; nil is fine for admission, which never counts. now is the
// clock (time.Now when nil); a pod whose grace period is over costs nothing.
func Evaluators(list quota.ListerForResourceFunc, now func() time.Time) []quota.Evaluator {
	if now == nil {
		now = time.Now
	}
	out := []quota.Evaluator{newPods(list, now), newServices(list), newClaims(list), newDeviceClaims(list)}
	for name, alias := range map[string]corev1.ResourceName{
		"configmaps":             corev1.ResourceConfigMaps,
		"replicationcontrollers": corev1.ResourceReplicationControllers,
		"resourcequotas":         corev1.ResourceQuotas,
		"secrets":                corev1.ResourceSecrets,
	} {
		kind := corev1.SchemeGroupVersion.WithResource(name)
		out = append(out, generic.NewObjectCountEvaluator(kind.GroupResource(), generic.ListResourceUsingListerFunc(list, kind), alias))
	}
	return out
}

// Configuration returns the evaluators and the ignored resources as
// k8s.io/apiserver's quota packages want them.
func Configuration(list quota.ListerForResourceFunc, now func() time.Time) quota.Configuration {
	return generic.NewConfiguration(Evaluators(list, now), Ignored())
}

// Ignored are the resources that are never charged: they are not stored, or
// are events.
func Ignored() map[schema.GroupResource]struct{} {
	out := map[schema.GroupResource]struct{}{}
	for group, resources := range map[string][]string{
		"":                      {"bindings", "componentstatuses", "events"},
		"events.k8s.io":         {"events"},
		"authentication.k8s.io": {"tokenreviews", "selfsubjectreviews"},
		"authorization.k8s.io": {
			"subjectaccessreviews", "selfsubjectaccessreviews", "localsubjectaccessreviews", "selfsubjectrulesreviews",
		},
	} {
		for _, name := range resources {
			out[schema.GroupResource{Group: group, Resource: name}] = struct{}{}
		}
	}
	return out
}

// evaluator is what the special ones share.
type evaluator struct {
	resource schema.GroupVersionResource
	list     generic.ListFuncByNamespace
	// matching narrows the names of a quota to those this kind is charged for.
	matching func([]corev1.ResourceName) []corev1.ResourceName
	inScope  generic.MatchesScopeFunc
	usage    func(runtime.Object) (corev1.ResourceList, error)
	handles  func(admission.Attributes) bool
	// constraints may be nil.
	constraints func(required []corev1.ResourceName, obj runtime.Object) error
}

var _ quota.Evaluator = (*evaluator)(nil)

func kindOf(list quota.ListerForResourceFunc, resource string) evaluator {
	kind := corev1.SchemeGroupVersion.WithResource(resource)
	return evaluator{resource: kind, list: generic.ListResourceUsingListerFunc(list, kind)}
}

func (e *evaluator) GroupResource() schema.GroupResource         { return e.resource.GroupResource() }
func (e *evaluator) Handles(operation admission.Attributes) bool { return e.handles(operation) }

func (e *evaluator) Constraints(required []corev1.ResourceName, obj runtime.Object) error {
	if e.constraints == nil {
		return nil
	}
	return e.constraints(required, obj)
}

func (e *evaluator) Matches(q *corev1.ResourceQuota, obj runtime.Object) (bool, error) {
	return generic.Matches(q, obj, e.matching, e.inScope)
}

func (e *evaluator) MatchingResources(names []corev1.ResourceName) []corev1.ResourceName {
	return e.matching(names)
}

func (e *evaluator) MatchingScopes(obj runtime.Object, scopes []corev1.ScopedResourceSelectorRequirement) ([]corev1.ScopedResourceSelectorRequirement, error) {
	out := []corev1.ScopedResourceSelectorRequirement{}
	for _, scope := range scopes {
		in, err := e.inScope(scope, obj)
		if err != nil {
			return nil, fmt.Errorf("error on matching scope %v: %w", scope, err)
		}
		if in {
			out = append(out, scope)
		}
	}
	return out, nil
}

func (e *evaluator) UncoveredQuotaScopes(limited, matched []corev1.ScopedResourceSelectorRequirement) ([]corev1.ScopedResourceSelectorRequirement, error) {
	out := []corev1.ScopedResourceSelectorRequirement{}
	covered := map[corev1.ResourceQuotaScope]bool{}
	for _, scope := range matched {
		covered[scope.ScopeName] = true
	}
	for _, scope := range limited {
		if !covered[scope.ScopeName] {
			out = append(out, scope)
		}
	}
	return out, nil
}

func (e *evaluator) Usage(obj runtime.Object) (corev1.ResourceList, error) { return e.usage(obj) }

func (e *evaluator) UsageStats(options quota.UsageStatsOptions) (quota.UsageStats, error) {
	return generic.CalculateUsageStats(options, e.list, e.inScope, e.usage)
}

func countName(resource schema.GroupVersionResource) corev1.ResourceName {
	return generic.ObjectCountQuotaResourceNameFor(resource.GroupResource())
}

func count(n int) resource.Quantity { return *resource.NewQuantity(int64(n), resource.DecimalSI) }

// scopeSelects evaluates a scope selector against the values an object has
// under the scope's name.
func scopeSelects(scope corev1.ScopedResourceSelectorRequirement, values ...string) (bool, error) {
	operator, ok := map[corev1.ScopeSelectorOperator]selection.Operator{
		corev1.ScopeSelectorOpIn: selection.In, corev1.ScopeSelectorOpNotIn: selection.NotIn,
		corev1.ScopeSelectorOpExists: selection.Exists, corev1.ScopeSelectorOpDoesNotExist: selection.DoesNotExist,
	}[scope.Operator]
	if !ok {
		return false, fmt.Errorf("%q is not a valid scope selector operator", scope.Operator)
	}
	requirement, err := labels.NewRequirement(string(scope.ScopeName), operator, scope.Values)
	if err != nil {
		return false, fmt.Errorf("failed to parse and convert selector: %w", err)
	}
	if len(values) == 0 {
		return requirement.Matches(labels.Set{}), nil
	}
	for _, value := range values {
		if requirement.Matches(labels.Set{string(scope.ScopeName): value}) {
			return true, nil
		}
	}
	return false, nil
}
