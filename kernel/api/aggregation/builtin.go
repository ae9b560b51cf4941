package aggregation

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// Priority is the place of a group version in discovery: that of its group, and that
// of the version in it. Higher ones come first.
type Priority struct{ Group, Version int32 }

// customPriority is that of all custom resources.
var customPriority = Priority{1000, 100}

// builtinPriorities are Kubernetes' own, with those of the kernel's group after them.
var builtinPriorities = map[schema.GroupVersion]Priority{
	{Version: "v1"}:                                        {18000, 1},
	{Group: "apps", Version: "v1"}:                         {17800, 15},
	{Group: "events.k8s.io", Version: "v1"}:                {17750, 15},
	{Group: "authentication.k8s.io", Version: "v1"}:        {17700, 15},
	{Group: "authorization.k8s.io", Version: "v1"}:         {17600, 15},
	{Group: "autoscaling", Version: "v2"}:                  {17500, 30},
	{Group: "autoscaling", Version: "v1"}:                  {17500, 15},
	{Group: "batch", Version: "v1"}:                        {17400, 15},
	{Group: "certificates.k8s.io", Version: "v1"}:          {17300, 15},
	{Group: "networking.k8s.io", Version: "v1"}:            {17200, 15},
	{Group: "policy", Version: "v1"}:                       {17100, 15},
	{Group: "rbac.authorization.k8s.io", Version: "v1"}:    {17000, 15},
	{Group: "storage.k8s.io", Version: "v1"}:               {16800, 15},
	{Group: "apiextensions.k8s.io", Version: "v1"}:         {16700, 15},
	{Group: "admissionregistration.k8s.io", Version: "v1"}: {16700, 15},
	{Group: "scheduling.k8s.io", Version: "v1"}:            {16600, 15},
	{Group: "coordination.k8s.io", Version: "v1"}:          {16500, 15},
	{Group: "node.k8s.io", Version: "v1"}:                  {16300, 15},
	{Group: "resource.k8s.io", Version: "v1"}:              {16200, 21},
	{Group: "discovery.k8s.io", Version: "v1"}:             {16200, 15},
	{Group: "flowcontrol.apiserver.k8s.io", Version: "v1"}: {16100, 21},
	{Group: "kernel.pintle.dev", Version: "v1alpha1"}:      {15700, 15},
}

// ownPriority is that of the group of APIServices, which comes before all others and
// has no APIService itself.
var ownPriority = Priority{20000, 0}

// BuiltinPriority is the place of a group version that the kernel serves.
func BuiltinPriority(gv schema.GroupVersion) Priority {
	if gv == apiregistrationv1.SchemeGroupVersion {
		return ownPriority
	}
	if p, ok := builtinPriorities[gv]; ok {
		return p
	}
	return Priority{Group: 15600, Version: 15} // one that nobody has given a place yet
}

// localService is the APIService of a group version that is served here.
func localService(gv schema.GroupVersion, p Priority) *apiregistrationv1.APIService {
	return &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: gv.Version + "." + gv.Group},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: gv.Group, Version: gv.Version, GroupPriorityMinimum: p.Group, VersionPriority: p.Version,
		},
	}
}
