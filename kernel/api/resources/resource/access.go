package resource

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/registry/rest"

	"pintle.dev/pintle/kernel/api/resources"
)

// Access answers what the rules of claims ask of others. Both are asked with the
// request's context.
type Access struct {
	// Namespace reads a namespace.
	Namespace func(ctx context.Context, name string) (*corev1.Namespace, error)
	// Authorize decides about rights that the path of a request does not show.
	Authorize func(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error)
}

// askingStrategy is a strategy whose validation asks others first.
type askingStrategy struct {
	resources.Strategy
	rest.ResetFieldsStrategy
	create func(ctx context.Context, obj runtime.Object) field.ErrorList
	update func(ctx context.Context, obj, old runtime.Object) field.ErrorList
}

func asking(s resources.Strategy, create func(context.Context, runtime.Object) field.ErrorList, update func(_ context.Context, obj, old runtime.Object) field.ErrorList) resources.Strategy {
	return askingStrategy{s, s.(rest.ResetFieldsStrategy), create, update}
}

// Validate implements rest.RESTCreateStrategy.
func (s askingStrategy) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	var errs field.ErrorList
	if s.create != nil {
		errs = s.create(ctx, obj)
	}
	return append(errs, s.Strategy.Validate(ctx, obj)...)
}

// ValidateUpdate implements rest.RESTUpdateStrategy.
func (s askingStrategy) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	var errs field.ErrorList
	if s.update != nil {
		errs = s.update(ctx, obj, old)
	}
	return append(errs, s.Strategy.ValidateUpdate(ctx, obj, old)...)
}

func (a Access) admitsClaim(ctx context.Context, obj runtime.Object) field.ErrorList {
	o := obj.(*resourcev1.ResourceClaim)
	return a.admitsRequests(ctx, o.Namespace, o.Spec.Devices.Requests)
}

func (a Access) admitsTemplate(ctx context.Context, obj runtime.Object) field.ErrorList {
	o := obj.(*resourcev1.ResourceClaimTemplate)
	return a.admitsRequests(ctx, o.Namespace, o.Spec.Spec.Devices.Requests)
}

// admitsRequests: access for administrators needs a label of the namespace. The path
// is upstream's, of a template too.
func (a Access) admitsRequests(ctx context.Context, namespace string, requests []resourcev1.DeviceRequest) field.ErrorList {
	i := slices.IndexFunc(requests, func(r resourcev1.DeviceRequest) bool {
		return r.Exactly != nil && r.Exactly.AdminAccess != nil && *r.Exactly.AdminAccess
	})
	if i < 0 {
		return nil
	}
	return a.admitsAdmin(ctx, namespace, specPath.Child("devices", "requests").Index(i).Child("adminAccess"))
}

func (a Access) admitsAdmin(ctx context.Context, namespace string, path *field.Path) field.ErrorList {
	if a.Namespace == nil {
		return field.ErrorList{field.InternalError(path, errors.New("could not retrieve namespace to verify admin access: nobody to ask"))}
	}
	ns, err := a.Namespace(ctx, namespace)
	if err != nil {
		return field.ErrorList{field.InternalError(path, fmt.Errorf("could not retrieve namespace to verify admin access: %w", err))}
	}
	if ns.Labels[resourcev1.DRAAdminNamespaceLabelKey] != "true" {
		return field.ErrorList{field.Forbidden(path, fmt.Sprintf("admin access to devices requires the `%s: true` label on the containing namespace", resourcev1.DRAAdminNamespaceLabelKey))}
	}
	return nil
}

// adminResult is the first result with access for administrators, or -1.
func adminResult(s *resourcev1.ResourceClaimStatus) int {
	if s.Allocation == nil {
		return -1
	}
	return slices.IndexFunc(s.Allocation.Devices.Results, func(r resourcev1.DeviceRequestAllocationResult) bool {
		return r.AdminAccess != nil && *r.AdminAccess
	})
}

func (a Access) admitsStatus(ctx context.Context, obj, oldObj runtime.Object) field.ErrorList {
	o, old := obj.(*resourcev1.ResourceClaim), oldObj.(*resourcev1.ResourceClaim)
	var errs field.ErrorList
	if i := adminResult(&o.Status); i >= 0 && adminResult(&old.Status) < 0 {
		errs = a.admitsAdmin(ctx, o.Namespace, statusPath.Child("allocation", "devices", "results").Index(i).Child("adminAccess"))
	}
	errs = append(errs, a.admitsBinding(ctx, &o.Status, &old.Status)...)
	if o.Status.Allocation != nil {
		errs = append(errs, a.admitsDevices(ctx, &o.Status, &old.Status)...)
	}
	return errs
}

// admitsBinding: allocation and reservation need the right to resourceclaims/binding
// of all namespaces.
func (a Access) admitsBinding(ctx context.Context, s, old *resourcev1.ResourceClaimStatus) field.ErrorList {
	if apiequality.Semantic.DeepEqual(s.Allocation, old.Allocation) && apiequality.Semantic.DeepEqual(s.ReservedFor, old.ReservedFor) {
		return nil
	}
	path := statusPath.Child("allocation")
	attrs, err := filters.GetAuthorizerAttributes(ctx)
	if err != nil {
		return field.ErrorList{field.InternalError(path, fmt.Errorf("cannot build authorizer attributes: %w", err))}
	}
	if err := a.ask(ctx, right{Attributes: attrs, verb: attrs.GetVerb(), subresource: resourcev1.SubresourceBinding}); err != nil {
		return field.ErrorList{field.Forbidden(path, fmt.Sprintf(`changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", verb="%s" permission: %s`, attrs.GetVerb(), err))}
	}
	return nil
}

// admitsDevices: what a driver says of a device needs the right to
// resourceclaims/driver of the driver's name, with a verb that says whether the
// driver is on the claim's node.
func (a Access) admitsDevices(ctx context.Context, s, old *resourcev1.ResourceClaimStatus) field.ErrorList {
	drivers := changedDrivers(s, old)
	if len(drivers) == 0 {
		return nil
	}
	path := statusPath.Child("devices")
	attrs, err := filters.GetAuthorizerAttributes(ctx)
	if err != nil {
		return field.ErrorList{field.InternalError(path, fmt.Errorf("cannot build authorizer attributes: %w", err))}
	}
	verbs := []string{resourcev1.VerbPrefixArbitraryNode + attrs.GetVerb()}
	if onNode(attrs.GetUser(), nodeOf(s.Allocation)) {
		verbs = []string{resourcev1.VerbPrefixAssociatedNode + attrs.GetVerb(), verbs[0]}
	}
	var errs field.ErrorList
	for _, driver := range drivers {
		var refused error
		for _, verb := range verbs {
			err := a.ask(ctx, right{Attributes: attrs, verb: verb, subresource: resourcev1.SubresourceDriver, namespace: attrs.GetNamespace(), name: driver})
			if err == nil {
				refused = nil
				break
			}
			if refused == nil {
				refused = err
			}
		}
		if refused != nil {
			errs = append(errs, field.Forbidden(path, fmt.Sprintf(`changing status.devices requires resource="resourceclaims/driver", verb="%s" permission: %s`, verbs, refused)))
		}
	}
	return errs
}

// changedDrivers are those whose devices differ, in order.
func changedDrivers(s, old *resourcev1.ResourceClaimStatus) []string {
	had := map[deviceID]resourcev1.AllocatedDeviceStatus{}
	for _, d := range old.Devices {
		had[statusID(&d)] = d
	}
	drivers := map[string]struct{}{}
	for _, d := range s.Devices {
		id := statusID(&d)
		if before, ok := had[id]; !ok || !apiequality.Semantic.DeepEqual(before, d) {
			drivers[d.Driver] = struct{}{}
		}
		delete(had, id)
	}
	for _, d := range had {
		drivers[d.Driver] = struct{}{}
	}
	return slices.Sorted(maps.Keys(drivers))
}

// nodeOf is the node of an allocation that is for one, as the allocators write it.
func nodeOf(a *resourcev1.AllocationResult) string {
	if a == nil || a.NodeSelector == nil || len(a.NodeSelector.NodeSelectorTerms) != 1 {
		return ""
	}
	term := a.NodeSelector.NodeSelectorTerms[0]
	if len(term.MatchExpressions) != 0 || len(term.MatchFields) != 1 {
		return ""
	}
	f := term.MatchFields[0]
	if f.Key != "metadata.name" || f.Operator != corev1.NodeSelectorOpIn || len(f.Values) != 1 {
		return ""
	}
	return f.Values[0]
}

// onNode tells whether a user is a service account of a pod on the node.
func onNode(who user.Info, node string) bool {
	if node == "" || who == nil {
		return false
	}
	if _, _, err := serviceaccount.SplitUsername(who.GetName()); err != nil {
		return false
	}
	nodes := who.GetExtra()[serviceaccount.NodeNameKey]
	return len(nodes) == 1 && len(apivalidation.NameIsDNSSubdomain(nodes[0], false)) == 0 && nodes[0] == node
}

// right is one that the path of a request does not show.
type right struct {
	authorizer.Attributes
	verb, subresource, namespace, name string
}

// GetVerb implements authorizer.Attributes.
func (r right) GetVerb() string { return r.verb }

// GetSubresource implements authorizer.Attributes.
func (r right) GetSubresource() string { return r.subresource }

// GetNamespace implements authorizer.Attributes.
func (r right) GetNamespace() string { return r.namespace }

// GetName implements authorizer.Attributes.
func (r right) GetName() string { return r.name }

func (a Access) ask(ctx context.Context, r right) error {
	if a.Authorize == nil {
		return errors.New("nobody to ask")
	}
	decision, reason, err := a.Authorize(ctx, r)
	if decision == authorizer.DecisionAllow {
		return nil
	}
	switch {
	case err != nil && reason != "":
		reason = fmt.Sprintf("%v: %s", err, reason)
	case err != nil:
		reason = err.Error()
	}
	return responsewriters.ForbiddenStatusError(r, reason)
}
