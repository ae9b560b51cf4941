package kubescheduler

import (
	"fmt"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	schedulerv1 "k8s.io/kube-scheduler/config/v1"
)

// extenders translates extenders and returns the resources that predicates are to
// ignore for them.
func (s *source) extenders(path string, list []schedulerv1.Extender, out *output) (ignored []string) {
	binders := 0
	managed := map[string]bool{}
	for i := range list {
		in, at := &list[i], fmt.Sprintf("%s[%d]", path, i)
		e := extender{
			URLPrefix: in.URLPrefix, FilterVerb: in.FilterVerb, PreemptVerb: in.PreemptVerb, PrioritizeVerb: in.PrioritizeVerb, Weight: in.Weight,
			BindVerb: in.BindVerb, EnableHTTPS: in.EnableHTTPS, NodeCacheCapable: in.NodeCacheCapable, Ignorable: in.Ignorable,
		}
		if u, err := url.Parse(in.URLPrefix); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			s.Fault(at+".urlPrefix", "%q is no URL of http or https", in.URLPrefix)
		}
		if in.PrioritizeVerb != "" && in.Weight <= 0 {
			s.Fault(at+".weight", "Invalid value: %d: must have a positive weight applied to it", in.Weight)
		}
		if in.BindVerb != "" {
			binders++
		}
		switch d := in.HTTPTimeout.Duration; {
		case d < 0:
			s.Fault(at+".httpTimeout", "Invalid value: %s: must not be negative", d)
		case d > 0:
			e.HTTPTimeout = d.String()
		}
		if t := in.TLSConfig; t != nil {
			e.TLS = &extenderTLS{Insecure: t.Insecure, ServerName: t.ServerName, CertFile: t.CertFile, KeyFile: t.KeyFile, CAFile: t.CAFile}
			for key, data := range map[string][]byte{"certData": t.CertData, "keyData": t.KeyData, "caData": t.CAData} {
				if len(data) > 0 {
					s.Fault(at+".tlsConfig."+key, "keys and certificates are not kept in a configuration: write them to a file (base64 -d; keys with mode 0600) and name it in %s",
						strings.TrimSuffix(key, "Data")+"File")
				}
			}
		}
		for j, r := range in.ManagedResources {
			name := fmt.Sprintf("%s.managedResources[%d].name", at, j)
			switch problems := validation.IsQualifiedName(r.Name); {
			case len(problems) > 0:
				s.Fault(name, "Invalid value: %q: %s", r.Name, strings.Join(problems, "; "))
			case !extended(r.Name):
				s.Fault(name, "Invalid value: %q: is an invalid extended resource name", r.Name)
			case managed[r.Name]:
				s.Fault(name, "Invalid value: %q: duplicate extender managed resource name", r.Name)
			}
			managed[r.Name] = true
			e.ManagedResources = append(e.ManagedResources, r.Name)
			if r.IgnoredByScheduler {
				ignored = append(ignored, r.Name)
			}
		}
		out.Scheduler.Extenders = append(out.Scheduler.Extenders, e)
	}
	if binders > 1 {
		s.Fault(path, "Invalid value: \"found %d extenders implementing bind\": only one extender can implement bind", binders)
	}
	return ignored
}

// extended reports whether a name is one of a resource that Kubernetes itself does
// not have.
func extended(name string) bool {
	domain, _, qualified := strings.Cut(name, "/")
	return qualified && domain != "kubernetes.io" && !strings.HasSuffix(domain, ".kubernetes.io") && !strings.HasPrefix(name, "requests.") &&
		len(validation.IsQualifiedName("requests."+name)) == 0
}
