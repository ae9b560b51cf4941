package manifest

import (
	"fmt"
	"slices"
	"strings"

	"pintle.dev/pintle/sdk"
)

// Asks says what the manifest of a bundle asks an operator for, a line each;
// nothing is said of what every plugin may do.
func (m *Manifest) Asks() []string {
	var out []string
	if m.Privileged {
		out = append(out, "privileged: its process has the kernel's own user and rights")
	}
	if m.Network {
		out = append(out, "network: its process uses the machine's network")
	}
	if m.LowPorts {
		out = append(out, "lowPorts: its process may listen at ports below 1024")
	}
	for _, path := range m.Files {
		out = append(out, "files: reads "+path)
	}
	for _, r := range m.Rules {
		out = append(out, "rules of the bundle: "+r.words())
	}
	for i := range m.Plugins {
		e := &m.Plugins[i]
		for _, r := range e.Rules {
			out = append(out, fmt.Sprintf("rules of %s %s: %s", e.Kind, e.Name, r.words()))
		}
		for _, gv := range e.GroupVersions {
			out = append(out, fmt.Sprintf("API server %s: serves %s, and sees each request for it", e.Name, gv))
		}
		for _, r := range e.AdmissionRules {
			may := "sees, and may refuse"
			if e.Phase == sdk.PhaseMutating {
				may = "sees, and may change or refuse"
			}
			out = append(out, fmt.Sprintf("admission plugin %s: %s %s: %s", e.Name, may, strings.Join(r.Operations, ", "), strings.Join(r.Resources, ", ")))
		}
	}
	if len(m.HostFunctions) > 0 {
		out = append(out, "host functions: "+strings.Join(m.HostFunctions, ", "))
	}
	return out
}

// words are what a rule allows.
func (r *Rule) words() string {
	what := slices.Clone(r.NonResourceURLs)
	for _, resource := range r.Resources {
		for _, group := range r.APIGroups {
			name := resource
			if group != "" {
				name += "." + group
			}
			if len(r.ResourceNames) > 0 {
				name += " " + strings.Join(r.ResourceNames, ", ")
			}
			what = append(what, name)
		}
	}
	words := strings.Join(r.Verbs, ", ") + ": " + strings.Join(what, ", ")
	if r.Namespace != "" {
		words += ", in namespace " + r.Namespace + " alone"
	}
	return words
}
