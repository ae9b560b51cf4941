package admissionrules

import (
	"fmt"
	"slices"
	"strings"
)

// anyValue stands for each value of a part.
const anyValue = "*"

// operations are those of admission.k8s.io.
var operations = []string{"CREATE", "UPDATE", "DELETE", "CONNECT"}

// named are the resources, by group, that a rule includes only by their name: who
// reads them has secrets or credentials, who changes them gives rights.
var named = map[string][]string{
	"":                             {"secrets", "serviceaccounts/token"},
	"authentication.k8s.io":        {"tokenreviews", "selfsubjectreviews"},
	"authorization.k8s.io":         {"subjectaccessreviews", "localsubjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews"},
	"rbac.authorization.k8s.io":    {"roles", "rolebindings", "clusterroles", "clusterrolebindings"},
	"certificates.k8s.io":          {"certificatesigningrequests", "certificatesigningrequests/approval", "certificatesigningrequests/status"},
	"admissionregistration.k8s.io": {"mutatingwebhookconfigurations", "validatingwebhookconfigurations", "mutatingadmissionpolicies", "mutatingadmissionpolicybindings", "validatingadmissionpolicies", "validatingadmissionpolicybindings"},
	"kernel.pintle.dev":            {"plugins", "plugins/status"},
}

// Rule is a set of requests.
type Rule struct {
	// Operations are CREATE, UPDATE, DELETE and CONNECT.
	Operations []string `yaml:"operations"`
	// Resources are [group/]version/resource[/subresource]; each part may be *.
	Resources []string `yaml:"resources"`
}

// Fault says what is wrong with a rule, or "".
func (r Rule) Fault() string {
	if len(r.Operations) == 0 || len(r.Resources) == 0 {
		return "a rule needs operations and resources"
	}
	for _, o := range r.Operations {
		if !slices.Contains(operations, o) {
			return fmt.Sprintf("operation %q; want one of %s", o, strings.Join(operations, ", "))
		}
	}
	for _, s := range r.Resources {
		parts := split(s)
		if parts == nil || slices.Contains(parts[1:3], "") || strings.ContainsAny(s, "\"\\ ") {
			return fmt.Sprintf("resource %q; want such as v1/pods, apps/v1/deployments or v1/pods/status", s)
		}
	}
	return ""
}

// split reads a pattern as group, version, resource and subresource. Three parts
// are of the core group with a subresource where the first is a version. Nil: it
// is none.
func split(pattern string) []string {
	parts := strings.Split(pattern, "/")
	switch {
	case len(parts) == 2:
		return []string{"", parts[0], parts[1], ""}
	case len(parts) == 3 && coreVersion(parts[0]):
		return []string{"", parts[0], parts[1], parts[2]}
	case len(parts) == 3:
		return append(parts, "")
	case len(parts) == 4:
		return parts
	}
	return nil
}

// coreVersion tells a version from a group: groups of the API that have no dot
// are words such as apps.
func coreVersion(s string) bool {
	return len(s) > 1 && s[0] == 'v' && s[1] >= '0' && s[1] <= '9'
}

// Request is what rules are compared with.
type Request struct{ Operation, Group, Version, Resource, Subresource string }

// Ask reports whether a request is one of some rules.
func Ask(rules []Rule, r Request) bool {
	return slices.ContainsFunc(rules, func(rule Rule) bool {
		return slices.Contains(rule.Operations, r.Operation) && slices.ContainsFunc(rule.Resources, func(pattern string) bool {
			return matches(pattern, r)
		})
	})
}

func matches(pattern string, r Request) bool {
	parts := split(pattern)
	if parts == nil {
		return false
	}
	for i, want := range []string{r.Group, r.Version, r.Resource, r.Subresource} {
		if parts[i] != want && (parts[i] != anyValue || i == 3 && want == "") {
			return false
		}
	}
	return !isNamed(r.Group, r.Resource, r.Subresource) || parts[2] != anyValue && parts[3] != anyValue
}

// isNamed reports whether a resource is included by its name only.
func isNamed(group, resource, subresource string) bool {
	if subresource != "" {
		resource += "/" + subresource
	}
	return slices.Contains(named[group], resource)
}

// All are the rules of a plugin of which nothing is known: all requests that *
// includes.
func All() []Rule {
	return []Rule{{Operations: operations, Resources: []string{"*/*/*", "*/*/*/*"}}}
}

// Beyond returns the first that described rules have and the asked ones have not,
// as "CREATE of v1/secrets", or "".
func Beyond(asked, described []Rule) string {
	for _, d := range described {
		for _, operation := range d.Operations {
			for _, pattern := range d.Resources {
				if !covered(asked, operation, pattern) {
					return operation + " of " + pattern
				}
			}
		}
	}
	return ""
}

func covered(asked []Rule, operation, pattern string) bool {
	return slices.ContainsFunc(asked, func(a Rule) bool {
		return slices.Contains(a.Operations, operation) && slices.ContainsFunc(a.Resources, func(wide string) bool {
			return includes(wide, pattern)
		})
	})
}

// includes reports whether all that a pattern matches another one does, too.
func includes(wide, pattern string) bool {
	w, p := split(wide), split(pattern)
	if w == nil || p == nil {
		return false
	}
	for i := range w {
		if w[i] != p[i] && (w[i] != anyValue || i == 3 && p[i] == "") {
			return false
		}
	}
	// What has to be named is not in a *, whoever says it.
	if w[2] != anyValue && w[3] != anyValue || p[2] == anyValue || p[3] == anyValue {
		return true
	}
	return !slices.ContainsFunc(groupsOf(p[0]), func(group string) bool { return isNamed(group, p[2], p[3]) })
}

// groupsOf are the groups with named resources that a part of a pattern matches.
func groupsOf(part string) []string {
	var groups []string
	for group := range named {
		if part == anyValue || part == group {
			groups = append(groups, group)
		}
	}
	return groups
}

// Named lists the resources that rules include by their name and that give rights
// or are secrets, in the order of the rules.
func Named(rules []Rule) []string {
	var list []string
	for _, r := range rules {
		for _, pattern := range r.Resources {
			p := split(pattern)
			if p != nil && !slices.Contains(list, pattern) && slices.ContainsFunc(groupsOf(p[0]), func(group string) bool { return isNamed(group, p[2], p[3]) }) {
				list = append(list, pattern)
			}
		}
	}
	return list
}

// String is a rule for people: "CREATE, UPDATE of v1/pods".
func (r Rule) String() string {
	return strings.Join(r.Operations, ", ") + " of " + strings.Join(r.Resources, ", ")
}
