package history

import (
	"encoding/json"
	"maps"
	"slices"

	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

const (
	// keep bounds the revisions of a bundle.
	keep = 10
	// keepBytes bounds what the object of one plugin holds of them: objects are
	// 1.5 MiB at most.
	keepBytes = 512 << 10
)

// Revision is what of a bundle was in force together.
type Revision struct {
	Number  int64
	Version v1alpha1.PluginVersion
	// HostFunctions are those of the bundle, where they were narrowed.
	HostFunctions []string
	// Plugins are the bundle's, each with what was in force of it: the configuration,
	// and what was narrowed of its permissions and admission rules.
	Plugins map[string]v1alpha1.PluginRevision
}

// History is what was in force of bundles, by their names.
type History map[string][]Revision

// Add remembers what was in force of a bundle before it turned to another build.
// Former times of either build are forgotten.
func (h History) Add(bundle string, was Revision, is v1alpha1.PluginVersion) {
	list := slices.DeleteFunc(slices.Clone(h[bundle]), func(r Revision) bool { return r.Version == was.Version || r.Version == is })
	was.Number = 1
	for _, r := range h[bundle] {
		was.Number = max(was.Number, r.Number+1)
	}
	h[bundle] = bounded(slices.Insert(list, 0, was))
}

// bounded leaves out what is too much.
func bounded(list []Revision) []Revision {
	list = list[:min(len(list), keep)]
	sizes := map[string]int{}
	for i := range list {
		for name := range list[i].Plugins {
			part, err := json.Marshal(list[i].of(name))
			if sizes[name] += len(part); err != nil || sizes[name] > keepBytes {
				return list[:i]
			}
		}
	}
	return list
}

// of is one plugin's part of a revision.
func (r *Revision) of(plugin string) v1alpha1.PluginRevision {
	out := r.Plugins[plugin]
	out.Revision, out.PluginVersion, out.HostFunctions = r.Number, r.Version, r.HostFunctions
	return out
}

// Of is what the object of one plugin says of its bundle's history.
func (h History) Of(bundle, plugin string) []v1alpha1.PluginRevision {
	var out []v1alpha1.PluginRevision
	for i := range h[bundle] {
		out = append(out, h[bundle][i].of(plugin))
	}
	return out
}

// Find returns the revision of that number, or with 0 the last one; nil: there is none.
func (h History) Find(bundle string, number int64) *Revision {
	for i := range h[bundle] {
		if r := &h[bundle][i]; number == 0 || r.Number == number {
			return r
		}
	}
	return nil
}

// Read takes over what a plugin's object says. What is remembered already stays.
func (h History) Read(o *v1alpha1.Plugin) {
	bundle := o.Spec.Bundle
	for _, said := range o.Status.Previous {
		i := slices.IndexFunc(h[bundle], func(r Revision) bool { return r.Number == said.Revision && r.Version == said.PluginVersion })
		if i < 0 {
			h[bundle] = append(h[bundle], Revision{Number: said.Revision, Version: said.PluginVersion, HostFunctions: said.HostFunctions, Plugins: map[string]v1alpha1.PluginRevision{}})
			i = len(h[bundle]) - 1
		}
		if _, known := h[bundle][i].Plugins[o.Name]; !known {
			h[bundle][i].Plugins[o.Name] = *said.DeepCopy()
		}
	}
	slices.SortStableFunc(h[bundle], func(a, b Revision) int { return int(b.Number - a.Number) })
	h[bundle] = h[bundle][:min(len(h[bundle]), keep)]
}

// Names are those of the plugins of a revision, in order.
func (r *Revision) Names() []string { return slices.Sorted(maps.Keys(r.Plugins)) }
