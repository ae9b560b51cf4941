package kubescheduler

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	schedulerv1 "k8s.io/kube-scheduler/config/v1"

	"pintle.dev/pintle/kernel/config/strictyaml"
	"pintle.dev/pintle/kernel/yamltree"
	"pintle.dev/pintle/sdk"
)

// Installed is a plugin of a bundle that is at hand. A plugin that Kubernetes does
// not have is taken over where one is installed by its name: at each point the one
// of that name, or with the point behind the name (Coscheduling or
// CoschedulingPermit at permit), for names are unique over all points here.
type Installed struct {
	Bundle, Name, Kind string
	// Configured: its manifest says what its configuration is like.
	Configured bool
}

// kinds are those of the plugins at each point.
var kinds = map[point]string{
	preEnqueue: sdk.KindPreEnqueue, queueSort: sdk.KindQueueSort, preFilter: sdk.KindPreFilter, filter: sdk.KindPredicate,
	postFilter: sdk.KindPostFilter, preScore: sdk.KindPreScore, score: sdk.KindPriority, reserve: sdk.KindReserve,
	permit: sdk.KindPermit, preBind: sdk.KindPreBind, bind: sdk.KindBind, postBind: sdk.KindPostBind,
}

// foreign is a plugin that Kubernetes does not have, of a bundle that is installed.
type foreign struct {
	inTree
	bundle     string
	configured []string // parts that say what their configuration is like
}

// known is the plugin of a name, of Kubernetes or installed; nil: there is none.
func (s *source) known(name string) *inTree {
	if p := plugin(name); p != nil {
		return p
	}
	if f := s.foreign(name); f != nil {
		return &f.inTree
	}
	return nil
}

// foreign finds a plugin that Kubernetes does not have among those that are
// installed: the bundle with most of its parts has it.
func (s *source) foreign(name string) *foreign {
	if found, looked := s.foreigners[name]; looked {
		return found
	}
	var best *foreign
	var bundles []string
	for _, p := range s.installed {
		if !slices.Contains(bundles, p.Bundle) && !slices.Contains([]string{modern, classic, writing, entrance}, p.Bundle) {
			bundles = append(bundles, p.Bundle)
		}
	}
	for _, bundle := range bundles {
		if f := s.partsIn(bundle, name); best == nil || len(f.at) > len(best.at) {
			best = f
		}
	}
	if best != nil && len(best.at) == 0 || name == "" {
		best = nil
	}
	if best != nil {
		// What has no part of its own is part of the one behind, as of Kubernetes'.
		for before, behind := range map[point]point{preFilter: filter, preScore: score} {
			if _, own := best.at[before]; !own && best.at[behind] != "" {
				best.at[before] = ""
			}
		}
	}
	if s.foreigners == nil {
		s.foreigners = map[string]*foreign{}
	}
	s.foreigners[name] = best
	return best
}

// partsIn are the parts of a plugin that a bundle has.
func (s *source) partsIn(bundle, name string) *foreign {
	f := &foreign{inTree: inTree{name: name, at: map[point]string{}}, bundle: bundle}
	for _, at := range points {
		for _, part := range []string{name + strings.ToUpper(string(at[:1])) + string(at[1:]), name} {
			for _, p := range s.installed {
				if p.Bundle != bundle || p.Name != part || p.Kind != kinds[at] {
					continue
				}
				f.at[at] = part
				if p.Configured {
					f.configured = append(f.configured, part)
				}
			}
			if f.at[at] != "" {
				break
			}
		}
	}
	return f
}

// unknown is the fault of a plugin that nobody has.
func (s *source) unknown(path, name string) {
	s.Fault(path, "%q is no plugin of Kubernetes 1.36, and no bundle at hand has it: build it as a plugin of this kernel (pintle plugin init), or install it (pintle plugin install), and translate again", name)
}

// halves finds parts of installed plugins that are enabled without the part that
// they belong to here.
func (s *source) halves(path string, e *expansion) {
	for before, behind := range map[point]point{preFilter: filter, preScore: score} {
		for _, name := range e.at[before] {
			if f := s.foreigners[name]; f != nil && f.at[before] == "" && !slices.Contains(e.at[behind], name) {
				s.Fault(s.nearest(path, before, "multiPoint"), "%s of %s is part of its %s here: enable both", before, name, behind)
			}
		}
	}
}

// foreignArguments reads what a plugin is configured with that Kubernetes does not
// have: as it is written, without its type.
func (s *source) foreignArguments(path string, entry *schedulerv1.PluginConfig) map[string]any {
	node := yamltree.Child(s.At(path), "args")
	if node == nil {
		return nil
	}
	text, err := strictyaml.ToJSON(node)
	if err != nil {
		s.Fault(path+".args", "%v", err)
		return nil
	}
	var out map[string]any
	if err := json.Unmarshal(text, &out); err != nil {
		s.Fault(path+".args", "want a group of keys")
		return nil
	}
	delete(out, "apiVersion")
	delete(out, "kind")
	f := s.foreign(entry.Name)
	if len(f.configured) == 0 && len(out) > 0 {
		s.Note(path+".args", "no part of %s in bundle %s says what its configuration is like: each is given this one", entry.Name, f.bundle)
	}
	return out
}

// takers are the parts of plugins that take the arguments of a name.
func (s *source) takers() map[string][]string {
	all := maps.Clone(configured)
	for name, f := range s.foreigners {
		if f == nil {
			continue
		}
		parts := f.configured
		if len(parts) == 0 {
			for _, at := range points {
				if part := f.at[at]; part != "" && !slices.Contains(parts, part) {
					parts = append(parts, part)
				}
			}
		}
		all[name] = parts
	}
	return all
}

// load has the bundles loaded of which a profile names a plugin.
func (s *source) load(out *output) {
	for _, name := range slices.Sorted(maps.Keys(s.foreigners)) {
		f := s.foreigners[name]
		if f == nil {
			continue
		}
		used := false
		for i := range out.Scheduler.Profiles {
			for _, part := range f.at {
				used = used || part != "" && out.Scheduler.Profiles[i].uses(part)
			}
		}
		if !used {
			continue
		}
		s.Note("profiles", "%s is taken over as %s of bundle %s", name, strings.Join(f.parts(), ", "), f.bundle)
		if !slices.ContainsFunc(out.Plugins.Bundles, func(b bundle) bool { return b.Name == f.bundle }) {
			out.Plugins.Bundles = append(out.Plugins.Bundles, bundle{Name: f.bundle})
		}
	}
}

// parts are the plugins that make one of Kubernetes', with where each is asked.
func (f *foreign) parts() []string {
	var list []string
	for _, at := range points {
		if part := f.at[at]; part != "" {
			list = append(list, fmt.Sprintf("%s (%s)", part, at))
		}
	}
	return list
}
