package admission

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle"
	mutatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
	validatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/validating"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"

	"pintle.dev/pintle/kernel/api/admission/configuration"
	"pintle.dev/pintle/kernel/api/admission/dynamic"
	"pintle.dev/pintle/kernel/api/admission/measured"
	"pintle.dev/pintle/kernel/api/admission/pluginspec"
	"pintle.dev/pintle/kernel/api/admission/review"
)

// Deps are what the plugins work with.
type Deps struct {
	// Client is allowed everything (group system:masters).
	Client kubernetes.Interface
	// Pods reads one pod as it is stored, with the errors of Client; nil: Client does.
	Pods func(ctx context.Context, namespace, name string) (*corev1.Pod, error)
	// Informers are started by the caller after NewChain, which registers
	// those it needs.
	Informers informers.SharedInformerFactory
	// Authorizer is asked for rights that a request takes besides its own.
	Authorizer authorizer.Authorizer
	// Stop is closed when no request is admitted any more.
	Stop <-chan struct{}
	// Enable and Disable name plugins that are in the chain, or not, in place of
	// what is by default.
	Enable, Disable []string
	// ConfigFile is an AdmissionConfiguration; empty: there is none.
	ConfigFile string
	// configured is what it says.
	configured configuration.Plugins
	// PodSecurity is a PodSecurityConfiguration (pod-security.admission.config.k8s.io/v1)
	// in YAML or JSON; empty: its defaults, which let everything pass.
	PodSecurity []byte
	// EventRateLimit is a Configuration (eventratelimit.admission.k8s.io/v1alpha1) in
	// YAML or JSON; the plugin of that name needs one.
	EventRateLimit []byte
	// Plugins knows what Plugin objects may say; may be nil. PluginHost is the
	// user as whom it writes them.
	Plugins    pluginspec.Host
	PluginHost string
	// Metrics tell how long plugins take; may be nil.
	Metrics *measured.Metrics
	// Review has the kernel's plugins that review requests; may be nil. Own are
	// the requests that they do not review.
	Review review.Source
	Own    review.Own
	// Dynamic is what webhooks and policies work with, beside Client, Informers and
	// Stop. Its Own are the requests that they are not asked about.
	Dynamic dynamic.Config
}

// Chain is the plugins in their order.
type Chain struct {
	handler
	reviewer *review.Reviewer
	dynamic  *dynamic.Plugins
	// exists: NamespaceExists is in the chain; counted: EventRateLimit is; images:
	// ImagePolicyWebhook is.
	exists, counted, images bool
	// namespaces are those of NamespaceLifecycle; nil: it is not in the chain.
	namespaces corelisters.NamespaceLister
}

// handler is what admission.NewChainHandler returns.
type handler interface {
	admission.MutationInterface
	admission.ValidationInterface
}

// Admit implements admission.MutationInterface. Plugins that change objects run a
// second time when a webhook or a policy asks for it, as upstream's.
func (c *Chain) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if err := c.handler.Admit(ctx, a, o); err != nil {
		return err
	}
	again := a.GetReinvocationContext()
	if !again.ShouldReinvoke() {
		return nil
	}
	again.SetIsReinvoke()
	return c.handler.Admit(ctx, a, o)
}

// Asked reports whether a webhook or a policy may be asked about such requests, or
// NamespaceExists about a part of an object, of which no other plugin says anything. So
// may the server of ImagePolicyWebhook about creates of pods.
func (c *Chain) Asked(a admission.Attributes) bool {
	return c.exists && a.GetSubresource() != "" || c.dynamic.Asked(a) ||
		c.images && a.GetSubresource() == "" && a.GetResource().GroupResource() == corev1.Resource("pods")
}

// Reviewed is Asked, or that one of the kernel's plugins reviews such requests.
func (c *Chain) Reviewed(a admission.Attributes) bool { return c.Asked(a) || c.reviewer.Reviews(a) }

// Ends refuses what is made in a namespace that is being deleted, as NamespaceLifecycle
// does, for requests that do not pass the chain.
func (c *Chain) Ends(resource schema.GroupResource, namespace, name string) error {
	if c.namespaces == nil {
		return nil
	}
	if n, err := c.namespaces.Get(namespace); err != nil || n.Status.Phase != corev1.NamespaceTerminating {
		return nil // what is not there ends otherwise
	}
	err := apierrors.NewForbidden(resource, name, fmt.Errorf("unable to create new content in namespace %s because it is being terminated", namespace))
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type: corev1.NamespaceTerminatingCause, Message: fmt.Sprintf("namespace %s is being terminated", namespace), Field: "metadata.namespace",
	}}
	return err
}

// EventsAlike reports whether what the chain says of the create of an event holds for all
// creates of events that this user asks for in the namespace, at this time: none of the kernel's plugins
// reviews them, no webhook and no policy is about them, and none counts them. Of the others, namespaces and their end are all that those look
// at that are concerned with events; quotas never count them.
func (c *Chain) EventsAlike(a admission.Attributes) bool {
	return !c.counted && a.GetOperation() == admission.Create && a.GetSubresource() == "" && a.GetResource().Resource == "events" && !c.reviewer.Reviews(a) && !c.dynamic.Asked(a)
}

// NewChain returns the chain; it starts nothing but the goroutines of the
// quota evaluator, at the first request that a quota covers.
func NewChain(deps Deps) (*Chain, error) {
	if deps.Client == nil || deps.Informers == nil || deps.Stop == nil {
		return nil, errors.New("admission: client, informers and stop channel are required")
	}
	if deps.Metrics == nil {
		deps.Metrics = measured.New()
	}
	wanted, err := selected(deps.Enable, deps.Disable)
	if err != nil {
		return nil, err
	}
	if err := deps.configure(wanted); err != nil {
		return nil, err
	}
	reviewer := review.New(deps.Review, deps.Own)
	var chain []admission.Interface
	for _, p := range ordered {
		if !wanted[p.name] {
			continue
		}
		plugin, err := p.make(deps)
		if err != nil {
			return nil, fmt.Errorf("admission: plugin %s: %w", p.name, err)
		}
		chain = append(chain, deps.Metrics.Plugin(p.name, plugin))
	}
	// The kernel's own checks, and plugins that others wrote, cannot be left out. What
	// users configure sees what those have made of an object, and a quota counts what
	// has passed everything else.
	chain = append(chain, deps.Metrics.Plugin("PluginObjects", pluginspec.New(deps.Plugins, deps.PluginHost)), deps.Metrics.Plugin("PluginReview", reviewer))
	configured := deps.Dynamic
	configured.Client, configured.Informers, configured.Stop = deps.Client, deps.Informers, deps.Stop
	configured.Webhooks = deps.configured
	configurable, err := dynamic.New(configured, func(name string) bool { return wanted[name] })
	if err != nil {
		return nil, fmt.Errorf("admission: %w", err)
	}
	for _, plugin := range configurable.List() {
		chain = append(chain, deps.Metrics.Plugin(plugin.Name(), plugin))
	}
	if wanted[resourceQuota] {
		quotas, err := newQuota(deps)
		if err != nil {
			return nil, fmt.Errorf("admission: plugin %s: %w", resourceQuota, err)
		}
		chain = append(chain, deps.Metrics.Plugin(resourceQuota, quotas))
	}
	var whole handler = admission.NewChainHandler(chain...)
	out := &Chain{handler: deps.Metrics.Chain(whole, whole), reviewer: reviewer, dynamic: configurable, exists: wanted[namespaceExists], counted: wanted[eventRateLimit], images: wanted[imagePolicy]}
	if wanted[namespaceLifecycle] {
		out.namespaces = deps.Informers.Core().V1().Namespaces().Lister()
	}
	return out, nil
}

// configurable are the plugins that an AdmissionConfiguration may name.
var configurable = []string{eventRateLimit, imagePolicy, mutatingwebhook.PluginName, podNodeSelector, podSecurity, podTolerationRestriction, resourceQuota, validatingwebhook.PluginName}

// CheckConfig reads an AdmissionConfiguration as NewChain does; whether what it
// configures is enabled is not looked at.
func CheckConfig(file string) error {
	_, err := configuration.Read(file, configurable)
	return err
}

// configure reads the AdmissionConfiguration. A plugin that is configured and not in
// the chain, or twice, is a mistake.
func (d *Deps) configure(wanted map[string]bool) error {
	d.configured = configuration.Plugins{}
	if d.ConfigFile != "" {
		var err error
		if d.configured, err = configuration.Read(d.ConfigFile, configurable); err != nil {
			return fmt.Errorf("admission.config: %w", err)
		}
	}
	for name, own := range map[string]*[]byte{podSecurity: &d.PodSecurity, eventRateLimit: &d.EventRateLimit} {
		if len(*own) > 0 && d.configured[name] != nil {
			return fmt.Errorf("admission: plugin %s is configured by a key of its own and in %s; keep one", name, d.ConfigFile)
		}
		if len(*own) == 0 {
			*own = d.configured[name]
		} else {
			d.configured[name] = *own
		}
	}
	for _, name := range configurable {
		if d.configured[name] != nil && !wanted[name] && name != podSecurity {
			return fmt.Errorf("admission: plugin %s has a configuration and is not enabled; add it to admission.enable", name)
		}
	}
	return nil
}

func newLifecycle(deps Deps) (admission.Interface, error) {
	plugin, err := lifecycle.NewLifecycle(sets.New(metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic))
	if err != nil {
		return nil, err
	}
	plugin.SetExternalKubeClientSet(deps.Client)
	plugin.SetExternalKubeInformerFactory(deps.Informers)
	return plugin, plugin.ValidateInitialization()
}
