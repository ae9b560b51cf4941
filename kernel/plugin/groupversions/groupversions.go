package groupversions

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Priorities where the manifest says none: those of custom resources.
const (
	DefaultGroupPriority   = 1000
	DefaultVersionPriority = 100

	maxGroupPriority   = 20000 // as of an APIService
	maxVersionPriority = 1000
	most               = 32 // of one plugin
)

// GroupVersion is one that a plugin serves, with the fields of an APIService.
type GroupVersion struct {
	Group                string `yaml:"group"`
	Version              string `yaml:"version"`
	GroupPriorityMinimum int    `yaml:"groupPriorityMinimum,omitempty"`
	VersionPriority      int    `yaml:"versionPriority,omitempty"`
}

// String is as in apiVersion of an object.
func (g GroupVersion) String() string { return g.Group + "/" + g.Version }

// GroupVersion is it without its priorities.
func (g GroupVersion) GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: g.Group, Version: g.Version}
}

// Name is that of its APIService.
func (g GroupVersion) Name() string { return g.Version + "." + g.Group }

// Priorities are those of its APIService.
func (g GroupVersion) Priorities() (group, version int32) {
	return int32(cmp.Or(g.GroupPriorityMinimum, DefaultGroupPriority)), int32(cmp.Or(g.VersionPriority, DefaultVersionPriority))
}

// Faults says what is wrong with a list, by the index and key of each entry ("0.group");
// "" is the whole list.
func Faults(list []GroupVersion) map[string][]string {
	out := map[string][]string{}
	add := func(at, format string, args ...any) { out[at] = append(out[at], fmt.Sprintf(format, args...)) }
	switch {
	case len(list) == 0:
		add("", "missing; name what the plugin serves, such as {group: notes.example.com, version: v1}")
	case len(list) > most:
		add("", "%d of them; want %d at most", len(list), most)
	}
	seen := map[schema.GroupVersion]bool{}
	for i, g := range list {
		at := strconv.Itoa(i)
		if faults := validation.IsDNS1123Subdomain(g.Group); len(faults) > 0 || !strings.Contains(g.Group, ".") {
			// Groups without a dot are Kubernetes' own.
			add(at+".group", "%q; want a domain of yours, such as notes.example.com", g.Group)
		}
		if faults := validation.IsDNS1035Label(g.Version); len(faults) > 0 {
			add(at+".version", "%q; want a version such as v1 or v1alpha1", g.Version)
		}
		if len(g.Name()) > validation.DNS1123SubdomainMaxLength {
			add(at+".group", "with the version it is longer than %d bytes", validation.DNS1123SubdomainMaxLength)
		}
		if g.GroupPriorityMinimum < 0 || g.GroupPriorityMinimum > maxGroupPriority {
			add(at+".groupPriorityMinimum", "%d; want 1 to %d", g.GroupPriorityMinimum, maxGroupPriority)
		}
		if g.VersionPriority < 0 || g.VersionPriority > maxVersionPriority {
			add(at+".versionPriority", "%d; want 1 to %d", g.VersionPriority, maxVersionPriority)
		}
		if seen[g.GroupVersion()] {
			add(at+".version", "%s is there twice", g)
		}
		seen[g.GroupVersion()] = true
	}
	return out
}
