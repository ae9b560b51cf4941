package program

import (
	"slices"
)

// tenant is what the policies of one namespace come to on this node.
type tenant struct {
	policies []*policy
	version  int // of the pods
	families []Family
	looked   []look // at selections; while they are the same, so is all else

	chains map[string][]Rule // with sets by the names of their selections
	leads  map[string]map[int]string
	uses   []use
	ranges map[string]*Set
	beyond []Beyond

	final []string          // the names that the sets had in
	made  map[string][]Rule // these chains
}

// look is a selection as it was looked at.
type look struct {
	key       string
	selection *selection
	sums      [2]sum
}

// use is a set of a selection that rules ask.
type use struct {
	name      string
	content   content
	selection *selection
}

// holds says whether nothing changed that it was made from.
func (t *tenant) holds(m *Compiler, namespace string, list []*policy) bool {
	if t.version != m.world.versions[namespace] || !slices.Equal(t.policies, list) || !slices.Equal(t.families, m.world.families) {
		return false
	}
	for i := range t.looked {
		l := &t.looked[i]
		if m.selections[l.key] != l.selection || l.selection.sums != l.sums {
			return false
		}
	}
	for i := range t.looked {
		t.looked[i].selection.round = m.round
	}
	return true
}

// named are its chains with sets by the names that contents have.
func (t *tenant) named(names map[content]string) map[string][]Rule {
	final := make([]string, 0, len(t.uses))
	to := make(map[string]string, len(t.uses))
	for _, u := range t.uses {
		name := names[u.content]
		final = append(final, name)
		if name != u.name {
			to[u.name] = name
		}
	}
	if t.made != nil && slices.Equal(final, t.final) {
		return t.made
	}
	t.final, t.made = final, make(map[string][]Rule, len(t.chains))
	rename := func(name *string) bool {
		now, other := to[*name]
		if other {
			*name = now
		}
		return other
	}
	for chain, rules := range t.chains {
		var copied []Rule
		for i, r := range rules {
			a, b, c := rename(&r.Source), rename(&r.Destination), rename(&r.Socket)
			if !a && !b && !c {
				continue
			}
			if copied == nil {
				copied = slices.Clone(rules)
			}
			copied[i] = r
		}
		if copied != nil {
			rules = copied
		}
		t.made[chain] = rules
	}
	return t.made
}

// group are pods that the same chains of policies are for.
type group struct {
	pods   []int
	chains []string
}

// rules is how many the chain of a group has.
func (g *group) rules() int {
	if len(g.chains) == 0 {
		return 0 // it has none, or shares one
	}
	return len(g.chains) + 1
}

// split adds a chain for some pods, which are in order as all are, and returns the groups.
func split(groups []group, pods []int, chain string) (out []group, rules int) {
	in := make(map[int]bool, len(pods))
	for _, at := range pods {
		in[at] = true
	}
	for _, g := range groups {
		var with, without []int
		for _, at := range g.pods {
			if in[at] {
				with = append(with, at)
			} else {
				without = append(without, at)
			}
		}
		if len(with) > 0 {
			out = append(out, group{with, append(slices.Clip(g.chains), chain)})
		}
		if len(without) > 0 {
			out = append(out, group{without, g.chains})
		}
	}
	for i := range out {
		rules += out[i].rules()
	}
	return out, rules
}
