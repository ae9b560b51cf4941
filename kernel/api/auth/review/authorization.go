package review

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
)

// Authorization returns the storages of authorization.k8s.io/v1 by resource.
func Authorization(authz authorizer.Authorizer, rules authorizer.RuleResolver) map[string]rest.Storage {
	return map[string]rest.Storage{
		"subjectaccessreviews": &subjectAccessReview{
			virtual: virtual{singular: "subjectaccessreview", object: func() runtime.Object { return &authorizationv1.SubjectAccessReview{} }},
			authz:   authz,
		},
		"localsubjectaccessreviews": &localSubjectAccessReview{
			virtual: virtual{singular: "localsubjectaccessreview", namespaced: true, object: func() runtime.Object { return &authorizationv1.LocalSubjectAccessReview{} }},
			authz:   authz,
		},
		"selfsubjectaccessreviews": &selfSubjectAccessReview{
			virtual: virtual{singular: "selfsubjectaccessreview", object: func() runtime.Object { return &authorizationv1.SelfSubjectAccessReview{} }},
			authz:   authz,
		},
		"selfsubjectrulesreviews": &selfSubjectRulesReview{
			virtual: virtual{singular: "selfsubjectrulesreview", object: func() runtime.Object { return &authorizationv1.SelfSubjectRulesReview{} }},
			rules:   rules,
		},
	}
}

var (
	_ Storage = (*subjectAccessReview)(nil)
	_ Storage = (*localSubjectAccessReview)(nil)
	_ Storage = (*selfSubjectAccessReview)(nil)
	_ Storage = (*selfSubjectRulesReview)(nil)
)

// ask puts the question to the authorizer.
func ask(ctx context.Context, authz authorizer.Authorizer, question authorizer.AttributesRecord) authorizationv1.SubjectAccessReviewStatus {
	decision, reason, err := authz.Authorize(ctx, question)
	return authorizationv1.SubjectAccessReviewStatus{
		Allowed:         decision == authorizer.DecisionAllow,
		Denied:          decision == authorizer.DecisionDeny,
		Reason:          reason,
		EvaluationError: evaluationError(err, question),
	}
}

func invalid(kind string, errs field.ErrorList) error {
	return apierrors.NewInvalid(authorizationv1.SchemeGroupVersion.WithKind(kind).GroupKind(), "", errs)
}

type subjectAccessReview struct {
	virtual
	authz authorizer.Authorizer
}

func (r *subjectAccessReview) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	review, err := as[*authorizationv1.SubjectAccessReview](obj)
	if err != nil {
		return nil, err
	}
	errs := append(validateSpec(review.Spec), validateEmptyMeta(review.ObjectMeta, "must be empty")...)
	if len(errs) > 0 {
		return nil, invalid("SubjectAccessReview", errs)
	}
	if err := admit(ctx, review, validate); err != nil {
		return nil, err
	}
	review.Status = ask(ctx, r.authz, questionOf(review.Spec))
	return review, nil
}

type localSubjectAccessReview struct {
	virtual
	authz authorizer.Authorizer
}

func (r *localSubjectAccessReview) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	review, err := as[*authorizationv1.LocalSubjectAccessReview](obj)
	if err != nil {
		return nil, err
	}
	meta := review.ObjectMeta
	meta.Namespace = ""
	errs := append(validateSpec(review.Spec), validateEmptyMeta(meta, "must be empty except for namespace")...)
	if in := review.Spec.ResourceAttributes; in != nil && in.Namespace != review.Namespace {
		errs = append(errs, field.Invalid(field.NewPath("spec.resourceAttributes.namespace"), in.Namespace, "must match metadata.namespace"))
	}
	if in := review.Spec.NonResourceAttributes; in != nil {
		errs = append(errs, field.Invalid(field.NewPath("spec.nonResourceAttributes"), in, "disallowed on this kind of request"))
	}
	if len(errs) > 0 {
		return nil, invalid("LocalSubjectAccessReview", errs)
	}
	namespace := request.NamespaceValue(ctx)
	if namespace == "" {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("namespace is required on this type: %v", namespace))
	}
	if namespace != review.Namespace {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("spec.resourceAttributes.namespace must match namespace: %v", namespace))
	}
	if err := admit(ctx, review, validate); err != nil {
		return nil, err
	}
	review.Status = ask(ctx, r.authz, questionOf(review.Spec))
	return review, nil
}

type selfSubjectAccessReview struct {
	virtual
	authz authorizer.Authorizer
}

func (r *selfSubjectAccessReview) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	review, err := as[*authorizationv1.SelfSubjectAccessReview](obj)
	if err != nil {
		return nil, err
	}
	errs := validateAttributes(review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes)
	errs = append(errs, validateSelectors(review.Spec.ResourceAttributes)...)
	errs = append(errs, validateEmptyMeta(review.ObjectMeta, "must be empty")...)
	if len(errs) > 0 {
		return nil, invalid("SelfSubjectAccessReview", errs)
	}
	who, err := caller(ctx)
	if err != nil {
		return nil, err
	}
	if err := admit(ctx, review, validate); err != nil {
		return nil, err
	}
	review.Status = ask(ctx, r.authz, question(who, review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes))
	return review, nil
}

type selfSubjectRulesReview struct {
	virtual
	rules authorizer.RuleResolver
}

func (r *selfSubjectRulesReview) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	review, err := as[*authorizationv1.SelfSubjectRulesReview](obj)
	if err != nil {
		return nil, err
	}
	who, err := caller(ctx)
	if err != nil {
		return nil, err
	}
	if review.Spec.Namespace == "" {
		return nil, apierrors.NewBadRequest("no namespace on request")
	}
	if err := admit(ctx, review, validate); err != nil {
		return nil, err
	}
	resources, paths, incomplete, err := r.rules.RulesFor(ctx, who, review.Spec.Namespace)
	out := &authorizationv1.SelfSubjectRulesReview{Status: authorizationv1.SubjectRulesReviewStatus{
		ResourceRules:    make([]authorizationv1.ResourceRule, 0, len(resources)),
		NonResourceRules: make([]authorizationv1.NonResourceRule, 0, len(paths)),
		Incomplete:       incomplete,
	}}
	for _, rule := range resources {
		out.Status.ResourceRules = append(out.Status.ResourceRules, authorizationv1.ResourceRule{
			Verbs: rule.GetVerbs(), APIGroups: rule.GetAPIGroups(), Resources: rule.GetResources(), ResourceNames: rule.GetResourceNames(),
		})
	}
	for _, rule := range paths {
		out.Status.NonResourceRules = append(out.Status.NonResourceRules, authorizationv1.NonResourceRule{
			Verbs: rule.GetVerbs(), NonResourceURLs: rule.GetNonResourceURLs(),
		})
	}
	if err != nil {
		out.Status.EvaluationError = err.Error()
	}
	return out, nil
}

// questionOf is for reviews that name the subject.
func questionOf(spec authorizationv1.SubjectAccessReviewSpec) authorizer.AttributesRecord {
	who := &user.DefaultInfo{Name: spec.User, UID: spec.UID, Groups: spec.Groups}
	if spec.Extra != nil {
		who.Extra = make(map[string][]string, len(spec.Extra))
		for key, values := range spec.Extra {
			who.Extra[key] = values
		}
	}
	return question(who, spec.ResourceAttributes, spec.NonResourceAttributes)
}
