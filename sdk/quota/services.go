package quota

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
)

func newServices(list quota.ListerForResourceFunc) quota.Evaluator {
	e := kindOf(list, "services")
	names := []corev1.ResourceName{
		countName(e.resource), corev1.ResourceServices, corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers,
	}
	e.matching = func(in []corev1.ResourceName) []corev1.ResourceName { return quota.Intersection(in, names) }
	e.inScope = generic.MatchesNoScopeFunc
	e.usage = serviceUsage
	e.handles = func(a admission.Attributes) bool {
		// The type may change, so updates are charged too.
		return a.GetSubresource() == "" && (a.GetOperation() == admission.Create || a.GetOperation() == admission.Update)
	}
	return &e
}

func serviceUsage(obj runtime.Object) (corev1.ResourceList, error) {
	service, ok := obj.(*corev1.Service)
	if !ok {
		return corev1.ResourceList{}, fmt.Errorf("expect *v1.Service, got %T", obj)
	}
	nodePorts, balancers := 0, 0
	switch service.Spec.Type {
	case corev1.ServiceTypeNodePort:
		nodePorts = len(service.Spec.Ports)
	case corev1.ServiceTypeLoadBalancer:
		balancers = 1
		// At admission the ports are not allocated yet: the intent counts.
		nodePorts = len(service.Spec.Ports)
		if allocate := service.Spec.AllocateLoadBalancerNodePorts; allocate != nil && !*allocate {
			nodePorts = 0
			for i := range service.Spec.Ports {
				if service.Spec.Ports[i].NodePort != 0 {
					nodePorts++
				}
			}
		}
	}
	return corev1.ResourceList{
		"count/services":                     count(1),
		corev1.ResourceServices:              count(1),
		corev1.ResourceServicesNodePorts:     count(nodePorts),
		corev1.ResourceServicesLoadBalancers: count(balancers),
	}, nil
}
