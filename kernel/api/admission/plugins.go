package admission

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/admission"

	"pintle.dev/pintle/kernel/api/admission/alwayspullimages"
	"pintle.dev/pintle/kernel/api/admission/antiaffinity"
	"pintle.dev/pintle/kernel/api/admission/certificates"
	"pintle.dev/pintle/kernel/api/admission/defaultingressclass"
	"pintle.dev/pintle/kernel/api/admission/defaultstorageclass"
	"pintle.dev/pintle/kernel/api/admission/denyserviceexternalips"
	"pintle.dev/pintle/kernel/api/admission/dynamic"
	"pintle.dev/pintle/kernel/api/admission/eventratelimit"
	"pintle.dev/pintle/kernel/api/admission/extendedresourcetoleration"
	"pintle.dev/pintle/kernel/api/admission/imagepolicy"
	"pintle.dev/pintle/kernel/api/admission/limitranger"
	"pintle.dev/pintle/kernel/api/admission/namespaces"
	"pintle.dev/pintle/kernel/api/admission/noderestriction"
	"pintle.dev/pintle/kernel/api/admission/nodetaint"
	"pintle.dev/pintle/kernel/api/admission/ownerreferences"
	"pintle.dev/pintle/kernel/api/admission/podnodeselector"
	"pintle.dev/pintle/kernel/api/admission/podresize"
	"pintle.dev/pintle/kernel/api/admission/podsecurity"
	"pintle.dev/pintle/kernel/api/admission/podtolerationrestriction"
	"pintle.dev/pintle/kernel/api/admission/podtopologylabels"
	"pintle.dev/pintle/kernel/api/admission/priority"
	"pintle.dev/pintle/kernel/api/admission/runtimeclass"
	"pintle.dev/pintle/kernel/api/admission/serviceaccount"
	"pintle.dev/pintle/kernel/api/admission/storageprotection"
	"pintle.dev/pintle/kernel/api/admission/tolerationseconds"
	"pintle.dev/pintle/kernel/api/admission/volumeresize"
)

const (
	// resourceQuota is the plugin that comes last.
	resourceQuota = "ResourceQuota"
	// eventRateLimit counts each event.
	eventRateLimit = "EventRateLimit"
	// podSecurity, imagePolicy, podNodeSelector and podTolerationRestriction have
	// configurations.
	podSecurity              = "PodSecurity"
	imagePolicy              = "ImagePolicyWebhook"
	podNodeSelector          = "PodNodeSelector"
	podTolerationRestriction = "PodTolerationRestriction"
	// namespaceLifecycle is asked about bindings.
	namespaceLifecycle = "NamespaceLifecycle"
	// namespaceExists is asked about bindings and conditions too.
	namespaceExists = "NamespaceExists"
)

// builtin is a plugin under upstream's name.
type builtin struct {
	name string
	on   bool // by default, as upstream's
	make func(Deps) (admission.Interface, error)
}

// always is make for a plugin that cannot fail.
func always[P admission.Interface](f func(Deps) P) func(Deps) (admission.Interface, error) {
	return func(d Deps) (admission.Interface, error) { return f(d), nil }
}

// ordered is every plugin but the last five, in upstream's order: those that users
// configure by objects (package dynamic), and quotas.
var ordered = []builtin{
	{"NamespaceAutoProvision", false, always(func(d Deps) *namespaces.AutoProvision { return namespaces.NewAutoProvision(d.Client, d.Informers) })},
	{namespaceLifecycle, true, newLifecycle},
	{namespaceExists, false, always(func(d Deps) *namespaces.Exists { return namespaces.NewExists(d.Client, d.Informers) })},
	{"LimitPodHardAntiAffinityTopology", false, always(func(Deps) *antiaffinity.Plugin { return antiaffinity.New() })},
	{"LimitRanger", true, always(func(d Deps) *limitranger.Plugin { return limitranger.New(d.Client, d.Informers) })},
	{"ServiceAccount", true, always(func(d Deps) *serviceaccount.Plugin { return serviceaccount.New(d.Client, d.Informers) })},
	{"NodeRestriction", true, always(func(d Deps) *noderestriction.Plugin { return noderestriction.New(d.Client, d.Informers, d.Pods) })},
	{"TaintNodesByCondition", true, always(func(Deps) *nodetaint.Plugin { return nodetaint.New() })},
	{"AlwaysPullImages", false, always(func(Deps) *alwayspullimages.Plugin { return alwayspullimages.New() })},
	{imagePolicy, false, func(d Deps) (admission.Interface, error) { return imagepolicy.New(d.configured[imagePolicy]) }},
	{podSecurity, true, func(d Deps) (admission.Interface, error) {
		return podsecurity.New(d.Client, d.Informers, d.PodSecurity)
	}},
	{podNodeSelector, false, func(d Deps) (admission.Interface, error) {
		return podnodeselector.New(d.Client, d.Informers, d.configured[podNodeSelector])
	}},
	{"Priority", true, always(func(d Deps) *priority.Plugin { return priority.New(d.Client, d.Informers) })},
	{"DefaultTolerationSeconds", true, always(func(Deps) *tolerationseconds.Plugin { return tolerationseconds.New() })},
	{podTolerationRestriction, false, func(d Deps) (admission.Interface, error) {
		return podtolerationrestriction.New(d.Client, d.Informers, d.configured[podTolerationRestriction])
	}},
	{eventRateLimit, false, func(d Deps) (admission.Interface, error) { return eventratelimit.New(d.EventRateLimit) }},
	{"ExtendedResourceToleration", false, always(func(Deps) *extendedresourcetoleration.Plugin { return extendedresourcetoleration.New() })},
	{"DefaultStorageClass", true, always(func(d Deps) *defaultstorageclass.Plugin { return defaultstorageclass.New(d.Informers) })},
	{"StorageObjectInUseProtection", true, always(func(Deps) *storageprotection.Plugin { return storageprotection.New() })},
	{"OwnerReferencesPermissionEnforcement", false, func(d Deps) (admission.Interface, error) {
		return ownerreferences.New(d.Authorizer, d.Dynamic.Mapper)
	}},
	{"PersistentVolumeClaimResize", true, always(func(d Deps) *volumeresize.Plugin { return volumeresize.New(d.Informers) })},
	{"RuntimeClass", true, always(func(d Deps) *runtimeclass.Plugin { return runtimeclass.New(d.Client, d.Informers) })},
	{"CertificateApproval", true, always(func(d Deps) *certificates.Approval { return certificates.NewApproval(d.Authorizer) })},
	{"CertificateSigning", true, always(func(d Deps) *certificates.Signing { return certificates.NewSigning(d.Authorizer) })},
	{"CertificateSubjectRestriction", true, always(func(Deps) *certificates.SubjectRestriction { return certificates.NewSubjectRestriction() })},
	{"DefaultIngressClass", true, always(func(d Deps) *defaultingressclass.Plugin { return defaultingressclass.New(d.Informers) })},
	{"DenyServiceExternalIPs", false, always(func(Deps) *denyserviceexternalips.Plugin { return denyserviceexternalips.New() })},
	{"PodTopologyLabels", true, always(func(d Deps) *podtopologylabels.Plugin { return podtopologylabels.New(d.Informers) })},
	{"PodResizeValidator", true, always(func(d Deps) *podresize.Plugin { return podresize.New(d.Client) })},
}

// Names lists the plugins that can be named, in their order.
func Names() []string {
	var out []string
	for _, p := range ordered {
		out = append(out, p.name)
	}
	return append(append(out, dynamic.Names...), resourceQuota)
}

// selected says which plugins are in the chain.
func selected(enable, disable []string) (map[string]bool, error) {
	known := Names()
	for _, name := range slices.Concat(enable, disable) {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("admission: no plugin is called %q; those that can be enabled and disabled are %s", name, strings.Join(known, ", "))
		}
		if slices.Contains(enable, name) && slices.Contains(disable, name) {
			return nil, fmt.Errorf("admission: plugin %s is both enabled and disabled; name it once", name)
		}
	}
	out := map[string]bool{resourceQuota: true}
	for _, name := range dynamic.Names {
		out[name] = true
	}
	for _, p := range ordered {
		out[p.name] = p.on
	}
	for _, name := range enable {
		out[name] = true
	}
	for _, name := range disable {
		out[name] = false
	}
	return out, nil
}
