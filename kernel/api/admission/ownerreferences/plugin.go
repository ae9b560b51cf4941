package ownerreferences

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Plugin asks for the rights that owner references take.
type Plugin struct {
	*admission.Handler
	authz  authorizer.UnconditionalAuthorizer
	mapper meta.RESTMapper
}

var _ admission.ValidationInterface = (*Plugin)(nil)

// New returns the plugin. The mapper finds the resources of owners.
func New(authz authorizer.UnconditionalAuthorizer, mapper meta.RESTMapper) (*Plugin, error) {
	if authz == nil || mapper == nil {
		return nil, errors.New("an authorizer and a mapper of kinds are required")
	}
	return &Plugin{admission.NewHandler(admission.Create, admission.Update), authz, mapper}, nil
}

// Validate implements admission.ValidationInterface.
func (p *Plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() == corev1.Resource("pods") && a.GetSubresource() == "status" {
		return nil
	}
	now, ok := owners(a.GetObject())
	if !ok {
		return nil
	}
	var before []metav1.OwnerReference
	if old := a.GetOldObject(); old != nil {
		if before, ok = owners(old); !ok {
			return nil
		}
	}
	if len(now) == len(before) && (len(now) == 0 || apiequality.Semantic.DeepEqual(now, before)) {
		return nil
	}
	// Who creates an object could as well not create it: nobody's object goes.
	if a.GetOperation() != admission.Create {
		if err := p.mayDelete(ctx, a); err != nil {
			return err
		}
	}
	blocking := newlyBlocking(now, before)
	if len(blocking) == 0 {
		return nil
	}
	// Who may set finalizers of everything is not held up by discovery, which may need
	// what this very request makes.
	if decision, _, _ := p.authz.Authorize(ctx, finalizers(a, "*", "*", "*", "*")); decision == authorizer.DecisionAllow {
		return nil
	}
	for _, owner := range blocking {
		if err := p.mayFinalize(ctx, a, owner); err != nil {
			return err
		}
	}
	return nil
}

func (p *Plugin) mayDelete(ctx context.Context, a admission.Attributes) error {
	resource := a.GetResource()
	decision, reason, err := p.authz.Authorize(ctx, authorizer.AttributesRecord{
		User: a.GetUserInfo(), Verb: "delete", Namespace: a.GetNamespace(), Name: a.GetName(), ResourceRequest: true,
		APIGroup: resource.Group, APIVersion: resource.Version, Resource: resource.Resource, Subresource: a.GetSubresource(),
	})
	if decision == authorizer.DecisionAllow {
		return nil
	}
	return admission.NewForbidden(a, fmt.Errorf("cannot set an ownerRef on a resource you can't delete: %v, %v", reason, err))
}

// mayFinalize wants the right for each resource that the owner's kind may be.
func (p *Plugin) mayFinalize(ctx context.Context, a admission.Attributes, owner metav1.OwnerReference) error {
	var found []*meta.RESTMapping
	version, err := schema.ParseGroupVersion(owner.APIVersion)
	if err == nil {
		found, err = p.mapper.RESTMappings(schema.GroupKind{Group: version.Group, Kind: owner.Kind}, version.Version)
	}
	if err == nil && len(found) == 0 {
		err = &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: version.Group, Kind: owner.Kind}, SearchedVersions: []string{version.Version}}
	}
	if err != nil {
		return admission.NewForbidden(a, fmt.Errorf("cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion %s Kind %s: %w", owner.APIVersion, owner.Kind, err))
	}
	for _, mapping := range found {
		asked := finalizers(a, mapping.Resource.Group, mapping.Resource.Version, mapping.Resource.Resource, owner.Name)
		if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			asked.Namespace = a.GetNamespace() // an owner is in the namespace of what it owns
		}
		if decision, reason, err := p.authz.Authorize(ctx, asked); decision != authorizer.DecisionAllow {
			return admission.NewForbidden(a, fmt.Errorf("cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: %v, %v", reason, err))
		}
	}
	return nil
}

// finalizers asks for the right to set those of an object that is in no namespace.
func finalizers(a admission.Attributes, group, version, resource, name string) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{
		User: a.GetUserInfo(), Verb: "update", Name: name, ResourceRequest: true,
		APIGroup: group, APIVersion: version, Resource: resource, Subresource: "finalizers",
	}
}

// owners of an object that has metadata.
func owners(obj runtime.Object) ([]metav1.OwnerReference, bool) {
	if obj == nil {
		return nil, false
	}
	o, err := meta.Accessor(obj)
	if err != nil {
		return nil, false
	}
	return o.GetOwnerReferences(), true
}

func blocks(r metav1.OwnerReference) bool {
	return r.BlockOwnerDeletion != nil && *r.BlockOwnerDeletion
}

// newlyBlocking are the references that hold up the deletion of an owner that they
// did not hold up before.
func newlyBlocking(now, before []metav1.OwnerReference) []metav1.OwnerReference {
	did := map[types.UID]bool{}
	for _, r := range before {
		did[r.UID] = blocks(r)
	}
	var out []metav1.OwnerReference
	for _, r := range now {
		if blocks(r) && !did[r.UID] {
			out = append(out, r)
		}
	}
	return out
}
