package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// memberForm is a path of names with dots between them. The last may be a key in ['…'].
var memberForm = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9]*(?:\.[A-Za-z][A-Za-z0-9]*)*)(?:\['([^']+)'\])?$`)

// Member returns the names on the way to the member; nil: Path has another form.
func (f DemandField) Member() []string {
	parts := memberForm.FindStringSubmatch(f.Path)
	if parts == nil {
		return nil
	}
	names := strings.Split(parts[1], ".")
	if parts[2] != "" {
		names = append(names, parts[2])
	}
	return names
}

// resourceForm is the form of resources' names.
var resourceForm = regexp.MustCompile(`^[a-z][a-z0-9]{0,62}$`)

// checkOnDemand checks what starts controllers.
func checkOnDemand(cfg *Config, fault func(key, format string, args ...any)) {
	seen := map[string]bool{}
	for i, d := range cfg.Control.OnDemand {
		at := fmt.Sprintf("[%d]", i)
		if seen[d.Name] {
			fault(at+".name", "%q is listed twice; keep one, with the objects of both", d.Name)
		}
		seen[d.Name] = true
		if slices.Contains(cfg.Control.Enabled, d.Name) {
			fault(at+".name", "%q is in controllers.enabled, too, and so runs at once; take it out of one of both", d.Name)
		}
		if len(d.Objects) == 0 {
			fault(at+".objects", "is empty, so nothing starts %s; name objects, or put it into controllers.enabled", d.Name)
		}
		for j, o := range d.Objects {
			at := fmt.Sprintf("%s.objects[%d]", at, j)
			if !resourceForm.MatchString(o.Resource) {
				fault(at+".resource", "%q is no resource; want its name in lower case and plural, such as ingresses", o.Resource)
			}
			for k, f := range o.Fields {
				at := fmt.Sprintf("%s.fields[%d]", at, k)
				if f.Member() == nil {
					fault(at+".path", "%q is no path; want names with dots between them, such as spec.ingressClassName or metadata.annotations['example.com/name']", f.Path)
				}
				if len(f.Values) == 0 {
					fault(at+".values", "is empty, so no object has one of them; name values, or \"\" for a member that is not there")
				}
			}
		}
	}
}
