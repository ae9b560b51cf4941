package authorization

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"
)

// Member is an authorizer that says what rules it has.
type Member interface {
	authorizer.Authorizer
	authorizer.RuleResolver
}

// Options of a Chain. All but File and Own are required.
type Options struct {
	// File is an AuthorizationConfiguration; empty: Node, RBAC.
	File string
	// Node and RBAC are the authorizers of these types.
	Node, RBAC Member
	// Own tells requests of the kernel's own parts; may be nil.
	Own func(ctx context.Context, u user.Info) bool
	// ServerID is this server in metrics.
	ServerID string
	Logger   *slog.Logger
}

// Chain is what requests are authorized by. It implements authorizer.Authorizer and
// authorizer.RuleResolver.
type Chain struct {
	o        Options
	compiler authorizationcel.Compiler // nil without a file
	// required are the types that a changed file has to keep, as upstream.
	required sets.Set[apiserver.AuthorizerType]
	read     []byte
	loaded   *apiserver.AuthorizationConfiguration
	now      atomic.Pointer[links]
}

// links is a chain as one file has it.
type links struct {
	authorizer.Authorizer
	authorizer.RuleResolver
}

var (
	_ authorizer.Authorizer   = (*Chain)(nil)
	_ authorizer.RuleResolver = (*Chain)(nil)
)

// New reads the file. It reaches no webhook.
func New(o Options) (*Chain, error) {
	if o.Node == nil || o.RBAC == nil || o.Logger == nil {
		return nil, errors.New("authorization: Node, RBAC and a logger are required")
	}
	c := &Chain{o: o, loaded: byDefault}
	if o.File != "" {
		c.compiler = authorizationcel.NewDefaultCompiler()
		var err error
		if c.read, err = readFile(o.File); err != nil {
			return nil, err
		}
		if c.loaded, err = load(c.read, c.compiler, nil); err != nil {
			return nil, fileError(o.File, err)
		}
		c.required = types(c.loaded)
		c.warn()
	}
	made, err := c.link(c.loaded)
	if err != nil {
		return nil, fileError(o.File, err)
	}
	c.now.Store(made)
	return c, nil
}

// warn says who is left without rights.
func (c *Chain) warn() {
	for _, t := range []apiserver.AuthorizerType{typeNode, typeRBAC} {
		if !c.required.Has(t) && !c.required.Has(typeAlwaysAllow) {
			c.o.Logger.Warn("the authorization configuration leaves an authorizer out: nodes of other machines have their rights by Node, plugins by RBAC; the kernel's own parts keep both",
				"file", c.o.File, "type", t)
		}
	}
}

// AllowsAll says whether AlwaysAllow is in the chain, which a changed file does not
// change.
func (c *Chain) AllowsAll() bool { return c.required.Has(typeAlwaysAllow) }

// Authorize implements authorizer.Authorizer.
func (c *Chain) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	return c.now.Load().Authorize(ctx, a)
}

// ConditionsAwareAuthorize implements authorizer.Authorizer.
func (c *Chain) ConditionsAwareAuthorize(ctx context.Context, a authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return c.now.Load().ConditionsAwareAuthorize(ctx, a)
}

// EvaluateConditions implements authorizer.Authorizer.
func (c *Chain) EvaluateConditions(ctx context.Context, d authorizer.ConditionsAwareDecision, data authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return c.now.Load().EvaluateConditions(ctx, d, data)
}

// RulesFor implements authorizer.RuleResolver.
func (c *Chain) RulesFor(ctx context.Context, who user.Info, namespace string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	return c.now.Load().RulesFor(ctx, who, namespace)
}

// change puts another content of the file in force. changed is false where it says
// the same.
func (c *Chain) change(data []byte) (changed bool, err error) {
	c.read = data
	next, err := load(data, c.compiler, c.required)
	if err != nil {
		return false, err
	}
	if reflect.DeepEqual(next, c.loaded) {
		return false, nil
	}
	if types(next).Has(typeAlwaysAllow) && !c.AllowsAll() {
		return false, errors.New("type AlwaysAllow was not there at the start and cannot be added while the kernel runs: who is let in without a credential hangs on it")
	}
	made, err := c.link(next)
	if err != nil {
		return false, err
	}
	c.loaded = next
	c.now.Store(made)
	return true, nil
}
