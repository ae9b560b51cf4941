package authorization

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"
	authorizationmetrics "k8s.io/apiserver/pkg/authorization/metrics"
	"k8s.io/apiserver/pkg/authorization/union"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/apiserver/plugin/pkg/authorizer/webhook"
	webhookmetrics "k8s.io/apiserver/plugin/pkg/authorizer/webhook/metrics"

	"pintle.dev/pintle/kernel/api/answerlimit"
)

const (
	// maxAnswer bounds the SubjectAccessReview that a webhook answers with.
	maxAnswer = 1 << 20
	// maxAsking bounds all tries of one question to a webhook. A try has the
	// time-out of the file.
	maxAsking = time.Minute
	// retryDelay is before the first further try, as kube-apiserver's.
	retryDelay = 500 * time.Millisecond
)

// link makes the authorizers of a configuration.
func (c *Chain) link(config *apiserver.AuthorizationConfiguration) (*links, error) {
	chain := []union.NamedAuthorizer{
		{AuthorizerName: "SystemMasters", Authorizer: authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup)},
	}
	if c.o.File != "" && c.o.Own != nil {
		chain = append(chain, union.NamedAuthorizer{AuthorizerName: "KernelParts", Authorizer: &ownParts{c.o}})
	}
	var rules []authorizer.RuleResolver
	for _, a := range config.Authorizers {
		var made Member
		switch a.Type {
		case typeNode:
			made = c.o.Node
		case typeRBAC:
			made = c.o.RBAC
		case typeAlwaysAllow:
			made = authorizerfactory.NewAlwaysAllowAuthorizer()
		case typeAlwaysDeny:
			made = authorizerfactory.NewAlwaysDenyAuthorizer()
		case apiserver.TypeWebhook:
			var err error
			if made, err = c.webhook(a); err != nil {
				return nil, fmt.Errorf("authorizer %s: %w", a.Name, err)
			}
		default:
			return nil, fmt.Errorf("authorizer %s: unknown type %q", a.Name, a.Type)
		}
		name := a.Name
		if c.o.File == "" {
			name = string(a.Type)
		}
		chain = append(chain, union.NamedAuthorizer{AuthorizerName: name, Authorizer: authorizationmetrics.InstrumentedAuthorizer(string(a.Type), a.Name, made)})
		rules = append(rules, made)
	}
	all, err := union.New(chain...)
	if err != nil {
		return nil, err
	}
	return &links{all, union.NewRuleResolvers(rules...)}, nil
}

// webhook makes the authorizer that asks one. It asks nothing yet.
func (c *Chain) webhook(a apiserver.AuthorizerConfiguration) (Member, error) {
	w := a.Webhook
	client, err := webhookutil.LoadKubeconfig(*w.ConnectionInfo.KubeConfigFile, nil)
	if err != nil {
		return nil, err
	}
	client.Timeout = w.Timeout.Duration
	client.Wrap(answerlimit.NewTurns().Wrap("the authorization webhook "+a.Name, maxAnswer))
	onError := authorizer.DecisionDeny
	if w.FailurePolicy == apiserver.FailurePolicyNoOpinion {
		onError = authorizer.DecisionNoOpinion
	}
	allowed, denied := w.AuthorizedTTL.Duration, w.UnauthorizedTTL.Duration
	if !w.CacheAuthorizedRequests {
		allowed = 0
	}
	if !w.CacheUnauthorizedRequests {
		denied = 0
	}
	made, err := webhook.New(client, w.SubjectAccessReviewVersion, allowed, denied,
		webhookutil.DefaultRetryBackoffWithInitialDelay(retryDelay), onError, w.MatchConditions, a.Name,
		reported{WebhookMetrics: webhookmetrics.NewWebhookMetrics(), MatcherMetrics: authorizationcel.NewMatcherMetrics()}, c.compiler)
	if err != nil {
		return nil, err
	}
	return bounded{made}, nil
}

// reported is what kube-apiserver tells of webhooks in metrics.
type reported struct {
	webhookmetrics.NoopRequestMetrics
	webhookmetrics.WebhookMetrics
	authorizationcel.MatcherMetrics
}

// bounded gives a question up in time: a watch has no time of its own, and a webhook
// may ask to be tried again later.
type bounded struct{ *webhook.WebhookAuthorizer }

// Authorize implements authorizer.Authorizer.
func (b bounded) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	ctx, cancel := context.WithTimeout(ctx, maxAsking)
	defer cancel()
	return b.WebhookAuthorizer.Authorize(ctx, a)
}

// ConditionsAwareAuthorize implements authorizer.Authorizer.
func (b bounded) ConditionsAwareAuthorize(ctx context.Context, a authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionFromParts(b.Authorize(ctx, a))
}

// ownParts allows the kernel's own parts what Node and RBAC allow them.
type ownParts struct{ o Options }

// Authorize implements authorizer.Authorizer. It never denies.
func (p *ownParts) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if !p.o.Own(ctx, a.GetUser()) {
		return authorizer.DecisionNoOpinion, "", nil
	}
	for _, one := range []Member{p.o.Node, p.o.RBAC} {
		if decision, reason, _ := one.Authorize(ctx, a); decision == authorizer.DecisionAllow {
			return decision, reason, nil
		}
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// ConditionsAwareAuthorize implements authorizer.Authorizer.
func (p *ownParts) ConditionsAwareAuthorize(ctx context.Context, a authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionFromParts(p.Authorize(ctx, a))
}

// EvaluateConditions implements authorizer.Authorizer; there are none.
func (p *ownParts) EvaluateConditions(context.Context, authorizer.ConditionsAwareDecision, authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, "", authorizer.ErrorConditionEvaluationNotSupported
}
