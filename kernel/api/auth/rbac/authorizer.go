package rbac

import (
	"context"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Authorizer answers from an Index. Members of system:masters may do anything.
type Authorizer struct{ index *Index }

var (
	_ authorizer.Authorizer   = (*Authorizer)(nil)
	_ authorizer.RuleResolver = (*Authorizer)(nil)
)

// New returns an authorizer over index.
func New(index *Index) *Authorizer { return &Authorizer{index: index} }

// Authorize allows what a rule of the user's bindings allows and has no
// opinion on the rest; the reason names the binding, or the bindings whose role
// is missing.
func (a *Authorizer) Authorize(_ context.Context, request authorizer.Attributes) (authorizer.Decision, string, error) {
	who := request.GetUser()
	if who == nil {
		return authorizer.DecisionNoOpinion, "Error", errNoUser
	}
	if superuser(who) {
		return authorizer.DecisionAllow, "", nil
	}
	var (
		reason string
		errs   []error
	)
	a.index.visit(who, request.GetNamespace(), func(source *grant, rule *rbacv1.PolicyRule, err error) bool {
		if err != nil {
			errs = append(errs, err)
			return true
		}
		if !allows(rule, request) {
			return true
		}
		reason = source.reason
		return false
	})
	if reason != "" {
		return authorizer.DecisionAllow, reason, nil
	}
	if len(errs) > 0 {
		reason = "RBAC: " + utilerrors.NewAggregate(errs).Error()
	}
	return authorizer.DecisionNoOpinion, reason, nil
}

// ConditionsAwareAuthorize implements authorizer.Authorizer; RBAC knows no
// conditions.
func (a *Authorizer) ConditionsAwareAuthorize(ctx context.Context, request authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionFromParts(a.Authorize(ctx, request))
}

// EvaluateConditions implements authorizer.Authorizer; it always refuses.
func (a *Authorizer) EvaluateConditions(context.Context, authorizer.ConditionsAwareDecision, authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, "", authorizer.ErrorConditionEvaluationNotSupported
}

// RulesFor implements authorizer.RuleResolver.
func (a *Authorizer) RulesFor(_ context.Context, who user.Info, namespace string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	var (
		resources    []authorizer.ResourceRuleInfo
		nonResources []authorizer.NonResourceRuleInfo
	)
	rules, err := a.index.rulesFor(who, namespace)
	if superuser(who) {
		// The binding of cluster-admin says the same again.
		rules = append(slices.Clone(fullAuthority()), slices.DeleteFunc(rules, isFullAuthority)...)
	}
	for i := range rules {
		rule := &rules[i]
		if len(rule.Resources) > 0 {
			resources = append(resources, &authorizer.DefaultResourceRuleInfo{
				Verbs: rule.Verbs, APIGroups: rule.APIGroups,
				Resources: rule.Resources, ResourceNames: rule.ResourceNames,
			})
		}
		if len(rule.NonResourceURLs) > 0 {
			nonResources = append(nonResources, &authorizer.DefaultNonResourceRuleInfo{
				Verbs: rule.Verbs, NonResourceURLs: rule.NonResourceURLs,
			})
		}
	}
	return resources, nonResources, false, err
}

func superuser(who user.Info) bool {
	return slices.Contains(who.GetGroups(), user.SystemPrivilegedGroup)
}

// RulesAllow says whether one of the rules allows the request.
func RulesAllow(request authorizer.Attributes, rules []rbacv1.PolicyRule) bool {
	return slices.ContainsFunc(rules, func(rule rbacv1.PolicyRule) bool { return allows(&rule, request) })
}

// allows says whether the rule covers the request.
func allows(rule *rbacv1.PolicyRule, request authorizer.Attributes) bool {
	if !matches(rule.Verbs, rbacv1.VerbAll, request.GetVerb()) {
		return false
	}
	if !request.IsResourceRequest() {
		return allowsPath(rule.NonResourceURLs, request.GetPath())
	}
	return matches(rule.APIGroups, rbacv1.APIGroupAll, request.GetAPIGroup()) &&
		allowsResource(rule.Resources, request.GetResource(), request.GetSubresource()) &&
		(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, request.GetName()))
}

func matches(have []string, all, want string) bool {
	for _, s := range have {
		if s == all || s == want {
			return true
		}
	}
	return false
}

// allowsResource compares without joining resource and subresource, which
// would allocate for each request.
func allowsResource(have []string, resource, subresource string) bool {
	for _, s := range have {
		if s == rbacv1.ResourceAll {
			return true
		}
		if subresource == "" {
			if s == resource {
				return true
			}
			continue
		}
		main, sub, ok := strings.Cut(s, "/")
		if ok && sub == subresource && (main == resource || main == "*") {
			return true
		}
	}
	return false
}

func allowsPath(have []string, path string) bool {
	for _, s := range have {
		if s == rbacv1.NonResourceAll || s == path {
			return true
		}
		if strings.HasSuffix(s, "*") && strings.HasPrefix(path, strings.TrimRight(s, "*")) {
			return true
		}
	}
	return false
}
