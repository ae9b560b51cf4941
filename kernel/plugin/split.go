package plugin

import (
	"fmt"
	"slices"
	"strings"
)

// Split is a plugin that did more in earlier versions, and is in use without the one
// that has that part of its work now.
type Split struct {
	Kind string // of both
	Name string // in use
	Part string // not in use
}

func (s Split) String() string {
	return fmt.Sprintf("%s %s is in use without %s, which does a part of what %s did in earlier versions: enable %s, too, or nothing does that part",
		s.Kind, s.Name, s.Part, s.Name, s.Part)
}

// splits finds what a plan lacks since a plugin was split.
func (p *plan) splits() (list []Split) {
	used := map[string]string{} // kind by name
	for _, u := range p.units {
		for i := range u.bundle.Manifest.Plugins {
			if e := &u.bundle.Manifest.Plugins[i]; p.inUse(e) {
				used[e.Name] = e.Kind
			}
		}
	}
	for _, u := range p.units {
		for i := range u.bundle.Manifest.Plugins {
			e := &u.bundle.Manifest.Plugins[i]
			if e.SplitFrom != "" && used[e.Name] == "" && used[e.SplitFrom] == e.Kind {
				list = append(list, Split{Kind: e.Kind, Name: e.SplitFrom, Part: e.Name})
			}
		}
	}
	slices.SortFunc(list, func(a, b Split) int { return strings.Compare(a.Part, b.Part) })
	return list
}

// Splits are the plugins in use whose other part is not.
func (h *Host) Splits() []Split { return h.present().splits() }

// tellSplits warns of what a plan lacks that comes into force, once for each plan that
// lacks something else. applyMu is held.
func (h *Host) tellSplits(p *plan) {
	now := p.splits()
	if slices.Equal(now, h.told) {
		return
	}
	for _, s := range now {
		if !slices.Contains(h.told, s) {
			h.log.Warn(s.String())
		}
	}
	h.told = now
}
