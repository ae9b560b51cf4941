package dynamic

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	webhookconfig "k8s.io/apiserver/pkg/admission/plugin/webhook/config"
	webhookgeneric "k8s.io/apiserver/pkg/admission/plugin/webhook/generic"
	mutatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
	validatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/validating"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"
	dynamicclient "k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"pintle.dev/pintle/kernel/api/admission/configuration"
)

// Own reports whether a request is one of the kernel's own that is not asked about.
type Own func(ctx context.Context, u user.Info) bool

// Config is what the plugins work with.
type Config struct {
	Client    kubernetes.Interface
	Informers informers.SharedInformerFactory
	// Dynamic reads parameters of policies, Mapper finds their resources. Both are
	// needed for policies only.
	Dynamic dynamicclient.Interface
	Mapper  meta.RESTMapper
	// Authorizer is asked by expressions.
	Authorizer authorizer.UnconditionalAuthorizer
	// Services finds the webhooks that are named as services.
	Services webhookutil.ServiceResolver
	// Tracing passes spans on to webhooks; may be nil.
	Tracing trace.TracerProvider
	// Stop ends what the plugins start.
	Stop <-chan struct{}
	// Own may be nil.
	Own Own
	// Webhooks are the WebhookAdmissionConfigurations of the plugins, by their names.
	Webhooks configuration.Plugins
}

// Names of the plugins, in their order.
var Names = []string{mutating.PluginName, mutatingwebhook.PluginName, validating.PluginName, validatingwebhook.PluginName}

// Plugins are those that are in the chain.
type Plugins struct {
	list  []*Plugin
	asked asked
}

// New makes the plugins that are wanted by name.
func New(c Config, wanted func(name string) bool) (*Plugins, error) {
	for _, name := range []string{mutatingwebhook.PluginName, validatingwebhook.PluginName} {
		if err := c.check(name); err != nil {
			return nil, fmt.Errorf("plugin %s: %w", name, err)
		}
	}
	kinds := c.Informers.Admissionregistration().V1()
	out := &Plugins{}
	for _, p := range []struct {
		*Plugin
		operations []admission.Operation
	}{
		{&Plugin{name: mutating.PluginName, make: c.mutatingPolicies, configured: []cache.SharedIndexInformer{
			kinds.MutatingAdmissionPolicies().Informer(), kinds.MutatingAdmissionPolicyBindings().Informer(),
		}}, []admission.Operation{admission.Create, admission.Update, admission.Connect}},
		{&Plugin{name: mutatingwebhook.PluginName, make: c.mutatingWebhooks, configured: []cache.SharedIndexInformer{
			kinds.MutatingWebhookConfigurations().Informer(),
		}}, all},
		{&Plugin{name: validating.PluginName, make: c.validatingPolicies, configured: []cache.SharedIndexInformer{
			kinds.ValidatingAdmissionPolicies().Informer(), kinds.ValidatingAdmissionPolicyBindings().Informer(),
		}}, all},
		{&Plugin{name: validatingwebhook.PluginName, make: c.validatingWebhooks, configured: []cache.SharedIndexInformer{
			kinds.ValidatingWebhookConfigurations().Informer(),
		}}, all},
	} {
		if !wanted(p.name) {
			continue
		}
		p.own, p.stop = c.Own, c.Stop
		plugin, err := newPlugin(p.Plugin, out.asked.changed, p.operations...)
		if err != nil {
			return nil, err
		}
		out.list = append(out.list, plugin)
	}
	return out, nil
}

var all = []admission.Operation{admission.Connect, admission.Create, admission.Delete, admission.Update}

// List gives the plugins in their order.
func (p *Plugins) List() []*Plugin { return p.list }

// check reads what a plugin is configured by, before the first webhook makes it.
func (c Config) check(name string) error {
	read, err := webhookconfig.LoadConfig(c.Webhooks.Reader(name))
	if err != nil {
		return err
	}
	if read.StaticManifestsDir != "" {
		return errors.New("staticManifestsDir: webhooks from files are not there; make them by the API")
	}
	_, err = webhookutil.NewDefaultAuthenticationInfoResolver(read.KubeConfigFile)
	return err
}

func (c Config) mutatingWebhooks() (admission.Interface, error) {
	p, err := mutatingwebhook.NewMutatingWebhook(c.Webhooks.Reader(mutatingwebhook.PluginName))
	if err != nil {
		return nil, err
	}
	return p, c.webhooks(p.Webhook)
}

func (c Config) validatingWebhooks() (admission.Interface, error) {
	p, err := validatingwebhook.NewValidatingAdmissionWebhook(c.Webhooks.Reader(validatingwebhook.PluginName))
	if err != nil {
		return nil, err
	}
	return p, c.webhooks(p.Webhook)
}

func (c Config) webhooks(w *webhookgeneric.Webhook) error {
	w.SetDrainedNotification(c.Stop)
	w.SetExternalKubeClientSet(c.Client)
	w.SetUnconditionalAuthorizer(c.Authorizer)
	w.SetAuthenticationInfoResolverWrapper(BoundedClients(c.Tracing, boundPatches))
	w.SetServiceResolver(c.Services)
	w.SetExternalKubeInformerFactory(c.Informers)
	return w.ValidateInitialization()
}

// policyPlugin is what both plugins of policies want.
type policyPlugin interface {
	SetDrainedNotification(<-chan struct{})
	SetExternalKubeClientSet(kubernetes.Interface)
	SetExternalKubeInformerFactory(informers.SharedInformerFactory)
	SetRESTMapper(meta.RESTMapper)
	SetDynamicClient(dynamicclient.Interface)
	SetUnconditionalAuthorizer(authorizer.UnconditionalAuthorizer)
	SetExcludedAdmissionResources([]schema.GroupResource)
	SetEnabled(bool)
	ValidateInitialization() error
}

func (c Config) mutatingPolicies() (admission.Interface, error) {
	p, err := mutating.NewPlugin(nil)
	if err != nil {
		return nil, err
	}
	return p, c.policies(p)
}

func (c Config) validatingPolicies() (admission.Interface, error) {
	p, err := validating.NewPlugin(nil)
	if err != nil {
		return nil, err
	}
	return p, c.policies(p)
}

func (c Config) policies(p policyPlugin) error {
	p.SetDrainedNotification(c.Stop)
	p.SetExternalKubeClientSet(c.Client)
	p.SetExternalKubeInformerFactory(ownParameters{c.Informers})
	p.SetRESTMapper(c.Mapper)
	p.SetDynamicClient(c.Dynamic)
	p.SetUnconditionalAuthorizer(c.Authorizer)
	p.SetExcludedAdmissionResources(reviews)
	p.SetEnabled(true)
	return p.ValidateInitialization()
}

// reviews are asked for while requests are authenticated and authorized: a policy
// about them could shut everybody out.
var reviews = []schema.GroupResource{
	{Group: "authentication.k8s.io", Resource: "selfsubjectreviews"},
	{Group: "authentication.k8s.io", Resource: "tokenreviews"},
	{Group: "authorization.k8s.io", Resource: "localsubjectaccessreviews"},
	{Group: "authorization.k8s.io", Resource: "selfsubjectaccessreviews"},
	{Group: "authorization.k8s.io", Resource: "selfsubjectrulesreviews"},
	{Group: "authorization.k8s.io", Resource: "subjectaccessreviews"},
}

// ownParameters has no informers for parameters, so that each kind of them gets one
// that lives as long as policies use it. A factory never starts one again that has
// been stopped.
type ownParameters struct {
	informers.SharedInformerFactory
}

var errOwn = errors.New("parameters are followed apart")

// ForResource implements informers.SharedInformerFactory.
func (ownParameters) ForResource(schema.GroupVersionResource) (informers.GenericInformer, error) {
	return nil, errOwn
}
