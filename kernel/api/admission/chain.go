package admission

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"

	"pintle.dev/pintle/kernel/api/admission/limitranger"
	"pintle.dev/pintle/kernel/api/admission/noderestriction"
	"pintle.dev/pintle/kernel/api/admission/nodetaint"
	"pintle.dev/pintle/kernel/api/admission/pluginspec"
	"pintle.dev/pintle/kernel/api/admission/podresize"
	"pintle.dev/pintle/kernel/api/admission/podsecurity"
	"pintle.dev/pintle/kernel/api/admission/podtopologylabels"
	"pintle.dev/pintle/kernel/api/admission/priority"
	"pintle.dev/pintle/kernel/api/admission/review"
	"pintle.dev/pintle/kernel/api/admission/runtimeclass"
	"pintle.dev/pintle/kernel/api/admission/serviceaccount"
	"pintle.dev/pintle/kernel/api/admission/tolerationseconds"
)

// Deps are what the plugins work with.
type Deps struct {
	// Client is allowed everything (group system:masters).
	Client kubernetes.Interface
	// Informers are started by the caller after NewChain, which registers
	// those it needs.
	Informers informers.SharedInformerFactory
	// Stop is closed when no request is admitted any more.
	Stop <-chan struct{}
	// Plugins knows what Plugin objects may say; may be nil. PluginHost is the
	// user as whom it writes them.
	Plugins    pluginspec.Host
	PluginHost string
	// Review has the kernel's plugins that review requests; may be nil. Own are
	// the requests that they do not review.
	Review review.Source
	Own    review.Own
}

// Chain is the plugins in their order.
type Chain struct {
	handler
	reviewer *review.Reviewer
}

// handler is what admission.NewChainHandler returns.
type handler interface {
	admission.MutationInterface
	admission.ValidationInterface
}

// EventsAlike reports whether what the chain says of the create of an event holds for all
// creates of events that this user asks for in the namespace, at this time: none of the kernel's plugins
// reviews them. Of the others, namespaces and their end are all that those look
// at that are concerned with events; quotas never count them.
func (c *Chain) EventsAlike(a admission.Attributes) bool {
	return a.GetOperation() == admission.Create && a.GetSubresource() == "" && a.GetResource().Resource == "events" && !c.reviewer.Reviews(a)
}

// NewChain returns the chain; it starts nothing but the goroutines of the
// quota evaluator, at the first request that a quota covers.
func NewChain(deps Deps) (*Chain, error) {
	if deps.Client == nil || deps.Informers == nil || deps.Stop == nil {
		return nil, errors.New("admission: client, informers and stop channel are required")
	}
	namespaces, err := newLifecycle(deps)
	if err != nil {
		return nil, fmt.Errorf("admission: namespace lifecycle: %w", err)
	}
	security, err := podsecurity.New(deps.Client, deps.Informers)
	if err != nil {
		return nil, fmt.Errorf("admission: pod security: %w", err)
	}
	quotas, err := newQuota(deps)
	if err != nil {
		return nil, fmt.Errorf("admission: resource quota: %w", err)
	}
	reviewer := review.New(deps.Review, deps.Own)
	return &Chain{admission.NewChainHandler(
		namespaces,
		limitranger.New(deps.Client, deps.Informers),
		serviceaccount.New(deps.Client, deps.Informers),
		noderestriction.New(deps.Client, deps.Informers),
		nodetaint.New(),
		podtopologylabels.New(deps.Informers),
		security,
		priority.New(deps.Client, deps.Informers),
		tolerationseconds.New(),
		runtimeclass.New(deps.Client, deps.Informers),
		podresize.New(deps.Client),
		pluginspec.New(deps.Plugins, deps.PluginHost),
		reviewer,
		quotas,
	), reviewer}, nil
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
