package authorization

import (
	"fmt"
	"strings"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/apis/apiserver"
	apiserverload "k8s.io/apiserver/pkg/apis/apiserver/load"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"

	"pintle.dev/pintle/kernel/secretfile"
)

// The types that a file may name. ABAC is not among them.
const (
	typeNode        = apiserver.AuthorizerType("Node")
	typeRBAC        = apiserver.AuthorizerType("RBAC")
	typeAlwaysAllow = apiserver.AuthorizerType("AlwaysAllow")
	typeAlwaysDeny  = apiserver.AuthorizerType("AlwaysDeny")
)

// byDefault is the chain without a file.
var byDefault = &apiserver.AuthorizationConfiguration{Authorizers: []apiserver.AuthorizerConfiguration{
	{Type: typeNode, Name: "node"}, {Type: typeRBAC, Name: "rbac"},
}}

func readFile(file string) ([]byte, error) {
	data, err := secretfile.ReadGuarded(file)
	if err != nil {
		return nil, fileError(file, err)
	}
	return data, nil
}

func fileError(file string, err error) error {
	return fmt.Errorf("auth.authorizationConfig %s: %w", file, err)
}

// load reads and checks an AuthorizationConfiguration as kube-apiserver does. It has
// to name the required types.
func load(data []byte, compiler authorizationcel.Compiler, required sets.Set[apiserver.AuthorizerType]) (*apiserver.AuthorizationConfiguration, error) {
	c, err := apiserverload.LoadFromData(data)
	if err != nil {
		return nil, err
	}
	known := sets.New(string(typeNode), string(typeRBAC), string(typeAlwaysAllow), string(typeAlwaysDeny), string(apiserver.TypeWebhook))
	if errs := validation.ValidateAuthorizationConfiguration(compiler, nil, c, known, sets.New(string(apiserver.TypeWebhook))); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	var errs []error
	for _, a := range c.Authorizers {
		if name := strings.ToLower(string(a.Type)); a.Type != apiserver.TypeWebhook && a.Name != name {
			errs = append(errs, fmt.Errorf("authorizer of type %s has the name %q; want %q", a.Type, a.Name, name))
		}
		if a.Webhook != nil && a.Webhook.ConnectionInfo.Type == apiserver.AuthorizationWebhookConnectionInfoTypeInCluster {
			errs = append(errs, fmt.Errorf("authorizer %s: connectionInfo.type %s is for servers that run in a cluster; want KubeConfigFile", a.Name, a.Webhook.ConnectionInfo.Type))
		}
	}
	if missing := required.Difference(types(c)); missing.Len() > 0 {
		errs = append(errs, fmt.Errorf("types %v were there at the start and cannot be left out while the kernel runs", sets.List(missing)))
	}
	if len(errs) > 0 {
		return nil, utilerrors.NewAggregate(errs)
	}
	return c, nil
}

// types are those of a configuration, but for webhooks.
func types(c *apiserver.AuthorizationConfiguration) sets.Set[apiserver.AuthorizerType] {
	out := sets.New[apiserver.AuthorizerType]()
	for _, a := range c.Authorizers {
		if a.Type != apiserver.TypeWebhook {
			out.Insert(a.Type)
		}
	}
	return out
}
