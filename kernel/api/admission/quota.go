package admission

import (
	"context"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota/apis/resourcequota/validation"
	corelisters "k8s.io/client-go/listers/core/v1"

	"pintle.dev/pintle/sdk/quota"
)

// quotaWorkers check quotas at the same time, a namespace each.
const quotaWorkers = 5

// quotaGate lets requests of namespaces without a quota pass at once: the
// evaluator behind it would queue them, one namespace at a time, to find the
// same.
type quotaGate struct {
	*resourcequota.QuotaAdmission
	quotas corelisters.ResourceQuotaLister
	synced func() bool
}

var _ admission.ValidationInterface = (*quotaGate)(nil)

// Validate implements admission.ValidationInterface.
func (g *quotaGate) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if a.GetNamespace() == "" {
		return nil
	}
	if g.synced() {
		quotas, err := g.quotas.ResourceQuotas(a.GetNamespace()).List(labels.Everything())
		if err == nil && len(quotas) == 0 {
			return nil
		}
	}
	return g.QuotaAdmission.Validate(ctx, a, o)
}

func newQuota(deps Deps) (admission.Interface, error) {
	configuration, err := resourcequota.LoadConfiguration(deps.configured.Reader(resourceQuota))
	if err != nil {
		return nil, err
	}
	if errs := validation.ValidateConfiguration(configuration); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	plugin, err := resourcequota.NewResourceQuota(configuration, quotaWorkers)
	if err != nil {
		return nil, err
	}
	plugin.SetDrainedNotification(deps.Stop)
	plugin.SetExternalKubeClientSet(deps.Client)
	plugin.SetExternalKubeInformerFactory(deps.Informers)
	plugin.SetQuotaConfiguration(quota.Configuration(nil, nil))
	if err := plugin.ValidateInitialization(); err != nil {
		return nil, err
	}
	informer := deps.Informers.Core().V1().ResourceQuotas()
	if len(configuration.LimitedResources) > 0 {
		return plugin, nil // what is limited needs a quota, also where there is none
	}
	return &quotaGate{plugin, informer.Lister(), informer.Informer().HasSynced}, nil
}
