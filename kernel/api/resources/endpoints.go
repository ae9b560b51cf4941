package resources

import (
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func endpointsKind() Kind {
	gvk := corev1.SchemeGroupVersion.WithKind("Endpoints")
	return Kind{
		GVK: gvk, Resource: "endpoints", Singular: "endpoints", ShortNames: []string{"ep"},
		New:     func() runtime.Object { return &corev1.Endpoints{} },
		NewList: func() runtime.Object { return &corev1.EndpointsList{} },
		Strategy: &rules[*corev1.Endpoints]{
			base:     base{gvk: gvk, namespaced: true, createOnUpdate: true},
			validate: validateEndpoints,
			validateUpdate: func(e, old *corev1.Endpoints) field.ErrorList {
				return append(validateMetaUpdate(&e.ObjectMeta, &old.ObjectMeta), validateEndpoints(e)...)
			},
			warnCreate: endpointsWarnings,
			warnUpdate: func(e, _ *corev1.Endpoints) []string { return endpointsWarnings(e) },
		},
		Columns: endpointsColumns(), Row: row(endpointsCells),
	}
}

func setEndpointsDefaults(e *corev1.Endpoints) {
	for i := range e.Subsets {
		for j := range e.Subsets[i].Ports {
			if p := &e.Subsets[i].Ports[j]; p.Protocol == "" {
				p.Protocol = corev1.ProtocolTCP
			}
		}
	}
}

func validateEndpoints(e *corev1.Endpoints) field.ErrorList {
	errs := validateMeta(&e.ObjectMeta, true, apivalidation.NameIsDNSSubdomain)
	for i := range e.Subsets {
		s, path := &e.Subsets[i], field.NewPath("subsets").Index(i)
		if len(s.Addresses) == 0 && len(s.NotReadyAddresses) == 0 {
			errs = append(errs, field.Required(path, "must specify `addresses` or `notReadyAddresses`"))
		}
		for j := range s.Addresses {
			errs = append(errs, validateEndpointAddress(&s.Addresses[j], path.Child("addresses").Index(j))...)
		}
		for j := range s.NotReadyAddresses {
			errs = append(errs, validateEndpointAddress(&s.NotReadyAddresses[j], path.Child("notReadyAddresses").Index(j))...)
		}
		for j := range s.Ports {
			errs = append(errs, validateEndpointPort(&s.Ports[j], len(s.Ports) > 1, path.Child("ports").Index(j))...)
		}
	}
	return errs
}

func validateEndpointAddress(a *corev1.EndpointAddress, path *field.Path) field.ErrorList {
	errs := validation.IsValidIPForLegacyField(path.Child("ip"), a.IP, strictIPs, nil)
	if a.Hostname != "" {
		errs = append(errs, invalidAll(path.Child("hostname"), a.Hostname, validation.IsDNS1123Label(a.Hostname))...)
	}
	if a.NodeName != nil {
		errs = append(errs, invalidAll(path.Child("nodeName"), *a.NodeName, apivalidation.NameIsDNSSubdomain(*a.NodeName, false))...)
	}
	return append(errs, validateEndpointIP(a.IP, path.Child("ip"))...)
}

func validateEndpointPort(p *corev1.EndpointPort, named bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if p.Name != "" {
		errs = invalidAll(path.Child("name"), p.Name, validation.IsDNS1123Label(p.Name))
	} else if named {
		errs = append(errs, field.Required(path.Child("name"), ""))
	}
	errs = append(errs, invalidAll(path.Child("port"), p.Port, validation.IsValidPortNum(int(p.Port)))...)
	errs = append(errs, oneOf(path.Child("protocol"), p.Protocol, corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)...)
	if p.AppProtocol != nil {
		errs = append(errs, invalidAll(path.Child("appProtocol"), *p.AppProtocol, validation.IsQualifiedName(*p.AppProtocol))...)
	}
	return errs
}

func endpointsWarnings(e *corev1.Endpoints) []string {
	// The controller's own addresses come from pods and are well-formed.
	if e.Labels["endpoints.kubernetes.io/managed-by"] == "endpoint-controller" {
		return nil
	}
	var out []string
	for i, s := range e.Subsets {
		path := field.NewPath("subsets").Index(i)
		for j, a := range s.Addresses {
			out = append(out, validation.GetWarningsForIP(path.Child("addresses").Index(j).Child("ip"), a.IP)...)
		}
		for j, a := range s.NotReadyAddresses {
			out = append(out, validation.GetWarningsForIP(path.Child("notReadyAddresses").Index(j).Child("ip"), a.IP)...)
		}
	}
	return out
}
