package admissionregistration

import (
	"context"
	"errors"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"

	"pintle.dev/pintle/kernel/api/resources"
)

// ParamAccess keeps a user from reading, by a policy, parameters that they may not
// read: who names a kind of parameters must be able to get all of it, and who names
// parameters must be able to get or list those.
type ParamAccess struct {
	// Authorizer says who may do what.
	Authorizer authorizer.UnconditionalAuthorizer
	// Resource is the resource of a kind.
	Resource func(schema.GroupVersionKind) (schema.GroupVersionResource, error)
	// ValidatingParams and MutatingParams are the kind of the parameters of a policy; nil: it has none.
	ValidatingParams, MutatingParams func(ctx context.Context, policy string) (*admissionv1.ParamKind, error)
}

// Install adds the checks to those of the store of a kind.
func (a *ParamAccess) Install(store *genericregistry.Store) error {
	s, ok := store.CreateStrategy.(resources.Strategy)
	if !ok {
		return fmt.Errorf("parameters of policies: %s: strategy is a %T", store.DefaultQualifiedResource, store.CreateStrategy)
	}
	g := guarded{s, a}
	store.CreateStrategy, store.UpdateStrategy = g, g
	return nil
}

// guarded is a strategy that checks who names parameters in what is valid.
type guarded struct {
	resources.Strategy
	access *ParamAccess
}

func (g guarded) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	if errs := g.Strategy.Validate(ctx, obj); len(errs) > 0 {
		return errs
	}
	return g.access.check(ctx, obj, nil)
}

func (g guarded) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	if errs := g.Strategy.ValidateUpdate(ctx, obj, old); len(errs) > 0 {
		return errs
	}
	return g.access.check(ctx, obj, old)
}

// params are what an object says of parameters.
type params struct {
	kind *admissionv1.ParamKind // of a policy
	ref  *admissionv1.ParamRef  // of a binding
	of   string                 // the policy of a binding
	find func(ctx context.Context, policy string) (*admissionv1.ParamKind, error)
}

func (a *ParamAccess) params(obj runtime.Object) params {
	switch o := obj.(type) {
	case *admissionv1.ValidatingAdmissionPolicy:
		return params{kind: o.Spec.ParamKind}
	case *admissionv1.MutatingAdmissionPolicy:
		return params{kind: o.Spec.ParamKind}
	case *admissionv1.ValidatingAdmissionPolicyBinding:
		return params{ref: o.Spec.ParamRef, of: o.Spec.PolicyName, find: a.ValidatingParams}
	case *admissionv1.MutatingAdmissionPolicyBinding:
		return params{ref: o.Spec.ParamRef, of: o.Spec.PolicyName, find: a.MutatingParams}
	}
	return params{}
}

// check asks only about what an update changes; old is nil in a create.
func (a *ParamAccess) check(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	now, before := a.params(obj), a.params(old)
	who, known := request.UserFrom(ctx)
	if known && slices.Contains(who.GetGroups(), user.SystemPrivilegedGroup) {
		return nil
	}
	switch {
	case now.kind != nil:
		if before.kind != nil && *before.kind == *now.kind {
			return nil
		}
		err := errors.New("cannot identify user to authorize read access to paramKind resources")
		if known {
			err = a.mayReadKind(ctx, who, now.kind)
		}
		return forbidden(specPath.Child("paramKind"), err)
	case now.ref != nil:
		if before.ref != nil && *before.ref == *now.ref && before.of == now.of {
			return nil
		}
		err := errors.New("cannot identify user to authorize read access to paramRef object")
		if known {
			err = a.mayRead(ctx, who, now)
		}
		return forbidden(specPath.Child("paramRef"), err)
	}
	return nil
}

func forbidden(path *field.Path, err error) field.ErrorList {
	if err == nil {
		return nil
	}
	return field.ErrorList{field.Forbidden(path, err.Error())}
}

// readable are the attributes of reading objects of a kind: what is not known of it
// is everything.
func (a *ParamAccess) readable(who user.Info, kind *admissionv1.ParamKind) (record authorizer.AttributesRecord, parse, resolve error) {
	record = authorizer.AttributesRecord{User: who, ResourceRequest: true, APIGroup: "*", APIVersion: "*", Resource: "*"}
	gv, err := schema.ParseGroupVersion(kind.APIVersion)
	if err != nil {
		return record, err, nil
	}
	record.APIGroup, record.APIVersion = gv.Group, gv.Version
	gvr, err := a.Resource(gv.WithKind(kind.Kind))
	if err != nil {
		return record, nil, err
	}
	record.Resource = gvr.Resource
	return record, nil, nil
}

func (a *ParamAccess) mayReadKind(ctx context.Context, who user.Info, kind *admissionv1.ParamKind) error {
	record, _, _ := a.readable(who, kind)
	record.Verb, record.Name, record.Namespace = "get", "*", "*"
	decision, _, err := a.Authorizer.Authorize(ctx, record)
	if err == nil && decision != authorizer.DecisionAllow {
		err = fmt.Errorf(`user %v must have "get" permission on all objects of the referenced paramKind (kind=%s, apiVersion=%s)`, who, kind.Kind, kind.APIVersion)
	}
	return err
}

func (a *ParamAccess) mayRead(ctx context.Context, who user.Info, p params) error {
	record := authorizer.AttributesRecord{User: who, ResourceRequest: true, APIGroup: "*", APIVersion: "*", Resource: "*"}
	var parse, resolve error
	kind, unknown := p.find(ctx, p.of)
	if unknown == nil && kind != nil {
		record, parse, resolve = a.readable(who, kind)
	}
	record.Verb, record.Name, record.Namespace = "get", p.ref.Name, p.ref.Namespace
	if p.ref.Name == "" {
		record.Verb = "list"
	}
	decision, _, err := a.Authorizer.Authorize(ctx, record)
	const everything = `does not have "%v" permission for all groups, versions and resources`
	switch {
	case err != nil:
		return fmt.Errorf("failed to authorize request: %w", err)
	case decision == authorizer.DecisionAllow:
		return nil
	case unknown != nil:
		return fmt.Errorf(`unable to get policy %s to determine minimum required permissions and user %v `+everything, p.of, who, record.Verb)
	case parse != nil:
		return fmt.Errorf(`unable to parse paramKind %v to determine minimum required permissions and user %v `+everything, kind, who, record.Verb)
	case resolve != nil:
		return fmt.Errorf(`unable to resolve paramKind %v to determine minimum required permissions and user %v `+everything, kind, who, record.Verb)
	}
	return fmt.Errorf(`user %v does not have "%v" permission on the object referenced by paramRef`, who, record.Verb)
}
