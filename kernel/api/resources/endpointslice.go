package resources

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
	"k8s.io/utils/ptr"
)

func endpointSliceKind() Kind {
	gvk := discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice")
	return Kind{
		GVK: gvk, Resource: "endpointslices", Singular: "endpointslice",
		New:     func() runtime.Object { return &discoveryv1.EndpointSlice{} },
		NewList: func() runtime.Object { return &discoveryv1.EndpointSliceList{} },
		Strategy: &rules[*discoveryv1.EndpointSlice]{
			base: base{gvk: gvk, namespaced: true},
			prepareCreate: func(e *discoveryv1.EndpointSlice) {
				e.Generation = 1
				dropTopology(e.Endpoints)
			},
			prepareUpdate: func(e, old *discoveryv1.EndpointSlice) {
				if e.AddressType != old.AddressType || !maps.Equal(e.Labels, old.Labels) ||
					!apiequality.Semantic.DeepEqual(e.Ports, old.Ports) || !apiequality.Semantic.DeepEqual(e.Endpoints, old.Endpoints) {
					e.Generation = old.Generation + 1
				}
				dropTopology(e.Endpoints)
			},
			validate: func(e *discoveryv1.EndpointSlice) field.ErrorList { return validateEndpointSlice(e, nil) },
			validateUpdate: func(e, old *discoveryv1.EndpointSlice) field.ErrorList {
				errs := validateEndpointSlice(e, old)
				return append(errs, apivalidation.ValidateImmutableField(e.AddressType, old.AddressType, field.NewPath("addressType"))...)
			},
			warnCreate: func(e *discoveryv1.EndpointSlice) []string {
				var out []string
				if e.AddressType == discoveryv1.AddressTypeFQDN {
					out = append(out, "spec.addressType: FQDN endpoints are deprecated")
				}
				return append(out, endpointSliceWarnings(e)...)
			},
			warnUpdate: func(e, _ *discoveryv1.EndpointSlice) []string { return endpointSliceWarnings(e) },
		},
		Columns: endpointSliceColumns(), Row: row(endpointSliceCells),
	}
}

// dropTopology clears what v1 keeps for reading v1beta1's objects only.
func dropTopology(endpoints []discoveryv1.Endpoint) {
	for i := range endpoints {
		endpoints[i].DeprecatedTopology = nil
	}
}

func setEndpointSliceDefaults(e *discoveryv1.EndpointSlice) {
	for i := range e.Ports {
		p := &e.Ports[i]
		if p.Name == nil {
			p.Name = ptr.To("")
		}
		if p.Protocol == nil {
			p.Protocol = ptr.To(corev1.ProtocolTCP)
		}
	}
}

func validateEndpointSlice(e, old *discoveryv1.EndpointSlice) field.ErrorList {
	errs := validateMeta(&e.ObjectMeta, true, apivalidation.NameIsDNSSubdomain)
	errs = append(errs, oneOf(field.NewPath("addressType"), e.AddressType, discoveryv1.AddressTypeFQDN, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6)...)
	errs = append(errs, validateSlicePorts(e.Ports)...)
	// What was stored before stays valid.
	if bad := validateSliceEndpoints(e); len(bad) > 0 && (old == nil || !apiequality.Semantic.DeepEqual(e.Endpoints, old.Endpoints)) {
		errs = append(errs, bad...)
	}
	return errs
}

func validateSlicePorts(ports []discoveryv1.EndpointPort) field.ErrorList {
	path := field.NewPath("ports")
	if len(ports) > 20000 {
		return field.ErrorList{field.TooMany(path, len(ports), 20000)}
	}
	var errs field.ErrorList
	names := map[string]bool{}
	for i := range ports {
		p, at := &ports[i], path.Index(i)
		name := ptr.Deref(p.Name, "")
		if name != "" {
			errs = append(errs, invalidAll(at.Child("name"), name, validation.IsDNS1123Label(name))...)
		}
		if names[name] {
			errs = append(errs, field.Duplicate(at.Child("name"), p.Name))
		}
		names[name] = true
		if p.Protocol == nil {
			errs = append(errs, field.Required(at.Child("protocol"), ""))
		} else {
			errs = append(errs, supported(at.Child("protocol"), *p.Protocol, corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)...)
		}
		if p.AppProtocol != nil {
			errs = append(errs, invalidAll(at.Child("appProtocol"), *p.AppProtocol, validation.IsQualifiedName(*p.AppProtocol))...)
		}
	}
	return errs
}

func validateSliceEndpoints(e *discoveryv1.EndpointSlice) field.ErrorList {
	path := field.NewPath("endpoints")
	if n := len(e.Endpoints); n > 1000 {
		return field.ErrorList{field.TooMany(path, n, 1000)}
	}
	var errs field.ErrorList
	for i := range e.Endpoints {
		ep, at := &e.Endpoints[i], path.Index(i)
		addresses := at.Child("addresses")
		switch n := len(ep.Addresses); {
		case n == 0:
			errs = append(errs, field.Required(addresses, "must contain at least 1 address"))
		case n > 100:
			errs = append(errs, field.TooMany(addresses, n, 100))
		}
		for j, a := range ep.Addresses {
			errs = append(errs, validateSliceAddress(e.AddressType, a, addresses, j)...)
		}
		if ep.NodeName != nil {
			errs = append(errs, invalidAll(at.Child("nodeName"), *ep.NodeName, apivalidation.NameIsDNSSubdomain(*ep.NodeName, false))...)
		}
		if n := len(ep.DeprecatedTopology); n > 16 {
			errs = append(errs, field.TooMany(at.Child("deprecatedTopology"), n, 16))
		}
		errs = append(errs, metav1validation.ValidateLabels(ep.DeprecatedTopology, at.Child("deprecatedTopology"))...)
		if ep.Hostname != nil {
			errs = append(errs, invalidAll(at.Child("hostname"), *ep.Hostname, validation.IsDNS1123Label(*ep.Hostname))...)
		}
		if ep.Hints != nil {
			errs = append(errs, validateHints(ep.Hints, at.Child("hints"))...)
		}
	}
	return errs
}

func validateSliceAddress(t discoveryv1.AddressType, a string, path *field.Path, i int) field.ErrorList {
	var errs field.ErrorList
	switch t {
	case discoveryv1.AddressTypeIPv4:
		if errs = validation.IsValidIPForLegacyField(path.Index(i), a, strictIPs, nil); len(errs) > 0 {
			return errs
		}
		if !netutils.IsIPv4String(a) {
			errs = append(errs, field.Invalid(path, a, "must be an IPv4 address"))
		}
	case discoveryv1.AddressTypeIPv6:
		if errs = validation.IsValidIP(path.Index(i), a); len(errs) > 0 {
			return errs
		}
		if !netutils.IsIPv6String(a) {
			errs = append(errs, field.Invalid(path, a, "must be an IPv6 address"))
		}
	case discoveryv1.AddressTypeFQDN:
		return validation.IsFullyQualifiedDomainName(path.Index(i), a)
	default:
		return nil
	}
	return append(errs, validateEndpointIP(a, path.Index(i))...)
}

func validateHints(h *discoveryv1.EndpointHints, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	zones, nodes := path.Child("forZones"), path.Child("forNodes")
	if n := len(h.ForZones); n > 8 {
		return field.ErrorList{field.TooMany(zones, n, 8)}
	}
	for i, z := range h.ForZones {
		p := zones.Index(i).Child("name")
		if slices.Contains(h.ForZones[:i], z) {
			errs = append(errs, field.Duplicate(p, z.Name))
		}
		errs = append(errs, invalidAll(p, z.Name, validation.IsValidLabelValue(z.Name))...)
	}
	if n := len(h.ForNodes); n > 8 {
		return append(errs, field.TooMany(nodes, n, 8))
	}
	for i, z := range h.ForNodes {
		p := nodes.Index(i).Child("name")
		if slices.Contains(h.ForNodes[:i], z) {
			errs = append(errs, field.Duplicate(p, z.Name))
		}
		errs = append(errs, invalidAll(p, z.Name, apivalidation.NameIsDNSSubdomain(z.Name, false))...)
	}
	return errs
}

func endpointSliceWarnings(e *discoveryv1.EndpointSlice) []string {
	// The controllers' own addresses come from pods and are well-formed.
	switch e.Labels[discoveryv1.LabelManagedBy] {
	case "endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io":
		return nil
	}
	var out []string
	for i := range e.Endpoints {
		for j, a := range e.Endpoints[i].Addresses {
			out = append(out, validation.GetWarningsForIP(field.NewPath("endpoints").Index(i).Child("addresses").Index(j), a)...)
		}
	}
	return out
}
