package kubescheduler

import (
	"fmt"
	"slices"

	schedulerv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/utils/ptr"
)

// defaultPlugins are what a profile has without a word.
func defaultPlugins() schedulerv1.PluginSet {
	var set schedulerv1.PluginSet
	for i := range kubernetes {
		p := &kubernetes[i]
		if p.optional {
			continue
		}
		entry := schedulerv1.Plugin{Name: p.name}
		if p.weight > 0 {
			entry.Weight = ptr.To(p.weight)
		}
		set.Enabled = append(set.Enabled, entry)
	}
	return set
}

// merged lays a set over the default one: what it disables goes, what it enables
// takes the place of the same in the default, or follows.
func merged(defaults, custom schedulerv1.PluginSet) schedulerv1.PluginSet {
	off := func(name string) bool {
		return slices.ContainsFunc(custom.Disabled, func(p schedulerv1.Plugin) bool { return p.Name == name || p.Name == everything })
	}
	out := schedulerv1.PluginSet{Disabled: custom.Disabled}
	var replaced []int
	for _, p := range defaults.Enabled {
		if off(p.Name) {
			continue
		}
		// Of one that is enabled twice the last counts here, and the first is
		// found to be a repetition later.
		for i := len(custom.Enabled) - 1; i >= 0; i-- {
			if custom.Enabled[i].Name == p.Name {
				p, replaced = custom.Enabled[i], append(replaced, i)
				break
			}
		}
		out.Enabled = append(out.Enabled, p)
	}
	for i, p := range custom.Enabled {
		if !slices.Contains(replaced, i) {
			out.Enabled = append(out.Enabled, p)
		}
	}
	return out
}

// everything in a list of disabled plugins means all of them.
const everything = "*"

// expansion is a profile's plugins by point, in order, and the weights of those
// that score.
type expansion struct {
	at      map[point][]string
	weights map[string]int32
}

// expand merges the plugins of a profile with the default ones and registers
// those of multiPoint at each point that they implement.
func (s *source) expand(path string, custom *schedulerv1.Plugins) *expansion {
	if custom == nil {
		custom = &schedulerv1.Plugins{}
	}
	multi := merged(defaultPlugins(), custom.MultiPoint)
	s.outOfTree(path+".multiPoint", &custom.MultiPoint)
	s.repeated(path+".multiPoint", multi.Enabled)
	e := &expansion{at: map[point][]string{}, weights: map[string]int32{}}
	for _, at := range points {
		own := setOf(custom, at)
		s.outOfTree(path+"."+string(at), own)
		s.repeated(path+"."+string(at), own.Enabled)
		for i, p := range own.Enabled {
			if known := s.known(p.Name); known != nil {
				if _, implements := known.at[at]; !implements {
					s.Fault(fmt.Sprintf("%s.%s.enabled[%d]", path, at, i), "plugin %q does not extend %s plugin", p.Name, at)
				}
			}
		}
		e.at[at] = s.order(at, own, multi.Enabled)
	}
	for _, p := range slices.Concat(custom.Score.Enabled, multi.Enabled) {
		if _, set := e.weights[p.Name]; !set {
			e.weights[p.Name] = max(ptr.Deref(p.Weight, 0), 0)
			if e.weights[p.Name] == 0 {
				e.weights[p.Name] = 1
			}
		}
	}
	return e
}

// order is how upstream orders the plugins of one point: those of multiPoint
// that the point names itself, in its order; the others of multiPoint; what the
// point alone names.
func (s *source) order(at point, own *schedulerv1.PluginSet, multi []schedulerv1.Plugin) []string {
	named := func(list []schedulerv1.Plugin, name string) bool {
		return slices.ContainsFunc(list, func(p schedulerv1.Plugin) bool { return p.Name == name })
	}
	var first, second, third []string
	all := named(own.Disabled, everything)
	for _, p := range multi {
		known := s.known(p.Name)
		if known == nil || all {
			continue
		}
		if _, implements := known.at[at]; implements && !named(own.Disabled, p.Name) && !named(own.Enabled, p.Name) {
			second = append(second, p.Name)
		}
	}
	for _, p := range own.Enabled {
		if !all && named(multi, p.Name) && !named(own.Disabled, p.Name) {
			first = append(first, p.Name)
		} else {
			third = append(third, p.Name)
		}
	}
	return slices.Concat(first, second, third)
}

// outOfTree complains about plugins that Kubernetes does not have and nobody
// installed, and about those that are not supported.
func (s *source) outOfTree(path string, set *schedulerv1.PluginSet) {
	for i, p := range set.Enabled {
		at := fmt.Sprintf("%s.enabled[%d]", path, i)
		switch known := s.known(p.Name); {
		case p.Name == "":
			s.Fault(at, "has no name")
		case known == nil:
			s.unknown(at, p.Name)
		case known.absent != "":
			s.Fault(at, "%s is not there: %s; leave it out", p.Name, known.absent)
		}
	}
}

func (s *source) repeated(path string, list []schedulerv1.Plugin) {
	seen := map[string]bool{}
	for i, p := range list {
		if seen[p.Name] {
			s.Fault(fmt.Sprintf("%s.enabled[%d]", path, i), "plugin %q already registered", p.Name)
		}
		seen[p.Name] = true
	}
}

// profile translates one profile.
func (s *source) profile(path string, in *schedulerv1.KubeSchedulerProfile) profile {
	out := profile{SchedulerName: ptr.Deref(in.SchedulerName, "")}
	plugins := path + ".plugins"
	e := s.expand(plugins, in.Plugins)
	s.folded(plugins, e)
	s.halves(plugins, e)
	for _, at := range points {
		for _, name := range e.at[at] {
			p := s.known(name)
			if p == nil || p.absent != "" {
				continue // told, or in no profile by itself
			}
			here := p.at[at]
			if here == "" {
				continue
			}
			switch at {
			case preEnqueue:
				out.PreEnqueue = append(out.PreEnqueue, here)
			case queueSort:
				out.QueueSort = here
			case preFilter:
				out.PreFilter = append(out.PreFilter, here)
			case filter:
				out.Predicates = append(out.Predicates, here)
			case preScore:
				out.PreScore = append(out.PreScore, here)
			case score:
				out.Priorities = append(out.Priorities, priority{here, e.weights[name]})
			case postFilter:
				out.PostFilter = append(out.PostFilter, here)
			case reserve:
				out.Reserve = append(out.Reserve, here)
			case permit:
				out.Permit = append(out.Permit, here)
			case preBind:
				out.PreBind = append(out.PreBind, here)
			case bind:
				out.Bind = append(out.Bind, here)
			case postBind:
				out.PostBind = append(out.PostBind, here)
			}
		}
	}
	if slices.Equal(out.Bind, []string{defaultBinder}) {
		out.Bind = nil // as without a word
	}
	return out
}

// folded finds what the file takes apart that is one here, and what it switches
// off that the kernel does by itself.
func (s *source) folded(path string, e *expansion) {
	for i := range kubernetes {
		p := &kubernetes[i]
		if p.absent != "" {
			continue
		}
		for before, behind := range map[point]point{preFilter: filter, preScore: score} {
			_, has := p.at[before]
			if _, both := p.at[behind]; !has || !both || p.at[before] != "" {
				continue
			}
			if a, b := slices.Contains(e.at[before], p.name), slices.Contains(e.at[behind], p.name); a != b {
				s.Fault(s.nearest(path, before, behind, "multiPoint"), "%s of %s is part of its %s here: enable or disable both", before, p.name, behind)
			}
		}
		for at := range p.at {
			if p.own == "" || slices.Contains(e.at[at], p.name) {
				continue
			}
			if len(e.at[at]) == 0 {
				s.Fault(s.nearest(path, at, "multiPoint"), "%s cannot be left out: %s", p.name, p.own)
			}
		}
	}
	if n := len(e.at[queueSort]); n > 1 {
		s.Fault(s.nearest(path, queueSort), "only one queue sort plugin can be enabled")
	}
}

// nearest is the path of the first of several keys that is there.
func (s *source) nearest(path string, keys ...point) string {
	for _, key := range keys {
		if s.Has(path + "." + string(key)) {
			return path + "." + string(key)
		}
	}
	return path
}
