package networking

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"pintle.dev/pintle/kernel/api/resources"
)

// Parts of paths that proxies read differently.
var (
	unclearSequences = []string{"//", "/./", "/../", "%2f", "%2F"}
	unclearSuffixes  = []string{"/..", "/."}
)

// tolerance is what an update leaves alone, since the stored object has it.
type tolerance struct {
	secretNames   bool // names of secrets that none can have
	wildcardRules bool // faulty rules of hosts with a star
}

func validateIngressCreate(o *networkingv1.Ingress) field.ErrorList {
	errs := validateIngress(o, tolerance{})
	class, annotated := o.Annotations[classAnnotation]
	if annotated && o.Spec.IngressClassName != nil && class != *o.Spec.IngressClassName {
		errs = append(errs, field.Invalid(field.NewPath("annotations").Child(classAnnotation), class, "must match `ingressClassName` when both are specified"))
	}
	return errs
}

func validateIngressUpdate(o, old *networkingv1.Ingress) field.ErrorList {
	var leave tolerance
	for _, t := range old.Spec.TLS {
		leave.secretNames = leave.secretNames || len(secretNameFaults(t.SecretName)) > 0
	}
	for i := range old.Spec.Rules {
		r := &old.Spec.Rules[i]
		leave.wildcardRules = leave.wildcardRules || strings.Contains(r.Host, "*") && len(validateHTTPRule(r.HTTP, nil)) > 0
	}
	errs := resources.ValidateMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)
	return append(errs, validateIngress(o, leave)...)
}

func validateIngress(o *networkingv1.Ingress, leave tolerance) field.ErrorList {
	errs := resources.ValidateMeta(&o.ObjectMeta, true, apivalidation.NameIsDNSSubdomain)
	spec := &o.Spec
	if len(spec.Rules) == 0 && spec.DefaultBackend == nil {
		errs = append(errs, field.Invalid(specPath, spec.Rules, "either `defaultBackend` or `rules` must be specified"))
	}
	if spec.DefaultBackend != nil {
		errs = append(errs, validateBackend(spec.DefaultBackend, specPath.Child("defaultBackend"))...)
	}
	for i := range spec.Rules {
		r, path := &spec.Rules[i], specPath.Child("rules").Index(i)
		errs = append(errs, validateRuleHost(r.Host, path.Child("host"))...)
		if !leave.wildcardRules || !strings.Contains(r.Host, "*") {
			errs = append(errs, validateHTTPRule(r.HTTP, path)...)
		}
	}
	for i := range spec.TLS {
		t, path := &spec.TLS[i], specPath.Child("tls").Index(i)
		for j, host := range t.Hosts {
			errs = append(errs, validateHost(host, path.Child("hosts").Index(j))...)
		}
		if !leave.secretNames {
			errs = append(errs, invalid(path.Child("secretName"), t.SecretName, secretNameFaults(t.SecretName))...)
		}
	}
	if c := spec.IngressClassName; c != nil {
		errs = append(errs, invalid(specPath.Child("ingressClassName"), *c, apivalidation.NameIsDNSSubdomain(*c, false))...)
	}
	return errs
}

func secretNameFaults(name string) []string {
	if name == "" {
		return nil
	}
	return apivalidation.NameIsDNSSubdomain(name, false)
}

// validateHost: a DNS name, whose first label may be a star.
func validateHost(host string, path *field.Path) field.ErrorList {
	if strings.Contains(host, "*") {
		return invalid(path, host, validation.IsWildcardDNS1123Subdomain(host))
	}
	return invalid(path, host, validation.IsDNS1123Subdomain(host))
}

func validateRuleHost(host string, path *field.Path) field.ErrorList {
	if host == "" {
		return nil
	}
	return append(refuseAddress(host, path), validateHost(host, path)...)
}

func refuseAddress(host string, path *field.Path) field.ErrorList {
	if netutils.ParseIPSloppy(host) == nil {
		return nil
	}
	return field.ErrorList{field.Invalid(path, host, "must be a DNS name, not an IP address")}
}

func validateHTTPRule(r *networkingv1.HTTPIngressRuleValue, rule *field.Path) field.ErrorList {
	if r == nil {
		return nil
	}
	paths := rule.Child("http", "paths")
	if len(r.Paths) == 0 {
		return field.ErrorList{field.Required(paths, "")}
	}
	var errs field.ErrorList
	for i := range r.Paths {
		errs = append(errs, validateHTTPPath(&r.Paths[i], paths.Index(i))...)
	}
	return errs
}

func validateHTTPPath(p *networkingv1.HTTPIngressPath, path *field.Path) field.ErrorList {
	if p.PathType == nil {
		return field.ErrorList{field.Required(path.Child("pathType"), "pathType must be specified")}
	}
	var errs field.ErrorList
	refuse := func(why string) { errs = append(errs, field.Invalid(path.Child("path"), p.Path, why)) }
	switch *p.PathType {
	case networkingv1.PathTypeExact, networkingv1.PathTypePrefix:
		if !strings.HasPrefix(p.Path, "/") {
			refuse("must be an absolute path")
		}
		for _, s := range unclearSequences {
			if strings.Contains(p.Path, s) {
				refuse(fmt.Sprintf("must not contain '%s'", s))
			}
		}
		for _, s := range unclearSuffixes {
			if strings.HasSuffix(p.Path, s) {
				refuse(fmt.Sprintf("cannot end with '%s'", s))
			}
		}
	case networkingv1.PathTypeImplementationSpecific:
		if p.Path != "" && !strings.HasPrefix(p.Path, "/") {
			refuse("must be an absolute path")
		}
	default:
		errs = append(errs, field.NotSupported(path.Child("pathType"), *p.PathType, []networkingv1.PathType{
			networkingv1.PathTypeExact, networkingv1.PathTypeImplementationSpecific, networkingv1.PathTypePrefix}))
	}
	return append(errs, validateBackend(&p.Backend, path.Child("backend"))...)
}

func validateBackend(b *networkingv1.IngressBackend, path *field.Path) field.ErrorList {
	switch {
	case b.Resource != nil && b.Service != nil:
		return field.ErrorList{field.Invalid(path, "", "cannot set both resource and service backends")}
	case b.Resource != nil:
		return validateResourceBackend(b.Resource, path.Child("resource"))
	case b.Service != nil:
		return validateServiceBackend(b.Service, path)
	}
	return field.ErrorList{field.Invalid(path, "", "resource or service backend is required")}
}

func validateServiceBackend(s *networkingv1.IngressServiceBackend, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	service := path.Child("service")
	if s.Name == "" {
		errs = append(errs, field.Required(service.Child("name"), ""))
	} else {
		errs = append(errs, invalid(service.Child("name"), s.Name, apivalidation.NameIsDNSLabel(s.Name, false))...)
	}
	name, number := s.Port.Name, s.Port.Number
	switch {
	case name != "" && number != 0:
		return append(errs, field.Invalid(path, "", "cannot set both port name & port number"))
	case name != "":
		return append(errs, invalid(service.Child("port", "name"), name, validation.IsValidPortName(name))...)
	case number != 0:
		return append(errs, invalid(service.Child("port", "number"), number, validation.IsValidPortNum(int(number)))...)
	}
	return append(errs, field.Required(path, "port name or number is required"))
}

func validateResourceBackend(r *corev1.TypedLocalObjectReference, path *field.Path) field.ErrorList {
	return validateReference(r.APIGroup, r.Kind, r.Name, path)
}

// validateReference checks the parts that references to objects of any kind have.
func validateReference(group *string, kind, name string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if group != nil {
		errs = append(errs, invalid(path.Child("apiGroup"), *group, validation.IsDNS1123Subdomain(*group))...)
	}
	errs = append(errs, validateSegment(kind, path.Child("kind"))...)
	return append(errs, validateSegment(name, path.Child("name"))...)
}

// validateSegment: required, and fit to be a part of a path.
func validateSegment(value string, path *field.Path) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return invalid(path, value, content.IsPathSegmentName(value))
}

func validateIngressStatusUpdate(o, old *networkingv1.Ingress) field.ErrorList {
	errs := resources.ValidateMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)
	var had []string
	for _, p := range old.Status.LoadBalancer.Ingress {
		if p.IP != "" {
			had = append(had, p.IP)
		}
	}
	for i, p := range o.Status.LoadBalancer.Ingress {
		path := statusPath.Child("loadBalancer", "ingress").Index(i)
		if p.IP != "" {
			errs = append(errs, validation.IsValidIPForLegacyField(path.Child("ip"), p.IP, strictAddresses, had)...)
		}
		if p.Hostname != "" {
			host := path.Child("hostname")
			errs = append(errs, invalid(host, p.Hostname, validation.IsDNS1123Subdomain(p.Hostname))...)
			errs = append(errs, refuseAddress(p.Hostname, host)...)
		}
	}
	return errs
}
