package networking

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	"pintle.dev/pintle/kernel/api/resources"
)

// classAnnotation named the class before spec.ingressClassName did.
const classAnnotation = "kubernetes.io/ingress.class"

// mostHosts are printed; of further ones only how many rules there are.
const mostHosts = 3

func ingressKind() resources.Kind {
	gvk := networkingv1.SchemeGroupVersion.WithKind("Ingress")
	return resources.Kind{
		GVK: gvk, Resource: "ingresses", Singular: "ingress", ShortNames: []string{"ing"},
		New:     func() runtime.Object { return &networkingv1.Ingress{} },
		NewList: func() runtime.Object { return &networkingv1.IngressList{} },
		Strategy: resources.Rules[*networkingv1.Ingress]{
			GVK: gvk, Namespaced: true, Reset: [][]any{{"status"}},
			PrepareCreate: func(o *networkingv1.Ingress) {
				o.Status = networkingv1.IngressStatus{}
				o.Generation = 1
			},
			PrepareUpdate: func(o, old *networkingv1.Ingress) {
				o.Status = old.Status
				if !apiequality.Semantic.DeepEqual(o.Spec, old.Spec) {
					o.Generation = old.Generation + 1
				}
			},
			Validate:       validateIngressCreate,
			ValidateUpdate: validateIngressUpdate,
			WarnCreate:     ingressWarnings,
		}.Strategy(),
		Status: resources.Rules[*networkingv1.Ingress]{
			GVK: gvk, Namespaced: true, Reset: [][]any{{"spec"}},
			PrepareUpdate:  func(o, old *networkingv1.Ingress) { o.Spec = old.Spec },
			ValidateUpdate: validateIngressStatusUpdate,
			WarnUpdate:     func(o, _ *networkingv1.Ingress) []string { return ingressStatusWarnings(o) },
		}.Strategy(),
		Columns: []metav1.TableColumnDefinition{
			resources.NameColumn(),
			resources.StringColumn("Class", "The name of the IngressClass resource that should be used for additional configuration"),
			resources.StringColumn("Hosts", "Hosts that incoming requests are matched against before the ingress rule"),
			resources.StringColumn("Address", "Address is a list containing ingress points for the load-balancer"),
			resources.StringColumn("Ports", "Ports of TLS configurations that open"),
			resources.AgeColumn(),
		},
		Row: func(obj runtime.Object) ([]any, error) {
			o := obj.(*networkingv1.Ingress)
			class, ports := none, "80"
			if o.Spec.IngressClassName != nil {
				class = *o.Spec.IngressClassName
			}
			if len(o.Spec.TLS) > 0 {
				ports = "80, 443"
			}
			return []any{o.Name, class, hostsCell(o.Spec.Rules), addressCell(o.Status.LoadBalancer.Ingress), ports, resources.AgeCell(o.CreationTimestamp)}, nil
		},
	}
}

func ingressWarnings(o *networkingv1.Ingress) []string {
	if _, annotated := o.Annotations[classAnnotation]; annotated && o.Spec.IngressClassName == nil {
		return []string{fmt.Sprintf("annotation %q is deprecated, please use 'spec.ingressClassName' instead", classAnnotation)}
	}
	return nil
}

func ingressStatusWarnings(o *networkingv1.Ingress) []string {
	var out []string
	for i, in := range o.Status.LoadBalancer.Ingress {
		if in.IP != "" {
			out = append(out, validation.GetWarningsForIP(statusPath.Child("loadBalancer", "ingress").Index(i), in.IP)...)
		}
	}
	return out
}

func hostsCell(rules []networkingv1.IngressRule) string {
	var hosts []string
	more := false
	for _, r := range rules {
		if len(hosts) == mostHosts {
			more = true
			break
		}
		if r.Host != "" {
			hosts = append(hosts, r.Host)
		}
	}
	switch {
	case len(hosts) == 0:
		return "*"
	case more:
		return fmt.Sprintf("%s + %d more...", strings.Join(hosts, ","), len(rules)-mostHosts)
	}
	return strings.Join(hosts, ",")
}

func addressCell(points []networkingv1.IngressLoadBalancerIngress) string {
	seen := map[string]bool{}
	for _, p := range points {
		if p.IP != "" {
			seen[p.IP] = true
		} else if p.Hostname != "" {
			seen[p.Hostname] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(seen)), ",")
}
