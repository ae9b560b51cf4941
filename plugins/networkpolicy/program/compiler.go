package program

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
)

// Compile makes the program of a cluster. It is empty where there is no policy.
func Compile(c *Cluster) *Program { return NewCompiler(DefaultBudget).Compile(c) }

// Closed is the program of a node that knows nothing of the cluster yet: no connection to
// or from a pod is let pass.
func Closed(ranges []netip.Prefix, bridges []string) *Program {
	c := &Cluster{Ranges: ranges, Bridges: bridges}
	p := &Program{Sets: map[string]*Set{}, Chains: map[string][]Rule{}}
	base(p, c, c.families(), map[string]bool{Egress: true, Ingress: true})
	return p
}

// Compiler makes programs of a cluster as it changes. It keeps what pods, namespaces and
// policies come to, so that a change costs what it changes. The programs are those that
// Compile makes. It is for one goroutine.
type Compiler struct {
	budget     Budget
	round      int
	world      *world
	policies   map[*networkingv1.NetworkPolicy]*policy
	selections map[string]*selection
	tenants    map[string]*tenant
	contents   map[content]map[string]string // elements of sets
	sets       map[string]contentSet         // of the last program
}

// content is what a set holds.
type content struct {
	kind   Kind
	family int
	sum    sum
}

type contentSet struct {
	content content
	set     *Set
}

// NewCompiler returns one that knows nothing yet. Each namespace has that budget.
func NewCompiler(budget Budget) *Compiler {
	return &Compiler{
		budget: budget, world: newWorld(), policies: map[*networkingv1.NetworkPolicy]*policy{}, selections: map[string]*selection{},
		tenants: map[string]*tenant{}, contents: map[content]map[string]string{}, sets: map[string]contentSet{},
	}
}

// Compile makes the program of the cluster as it is now.
func (m *Compiler) Compile(c *Cluster) *Program {
	m.round++
	changes := m.world.update(c)
	if 2*len(changes) > len(m.world.slots) {
		clear(m.selections) // looking at all anew is less work
	}
	for _, s := range m.selections {
		for i := range changes {
			s.follow(m.world, &changes[i])
		}
	}
	closed := map[string]bool{}
	byNamespace := m.read(c, closed)
	tenants := map[string]*tenant{}
	for _, namespace := range slices.Sorted(maps.Keys(byNamespace)) {
		if t := m.tenant(namespace, byNamespace[namespace]); t != nil {
			tenants[namespace] = t
		}
	}
	m.tenants = tenants
	maps.DeleteFunc(m.selections, func(_ string, s *selection) bool { return s.round != m.round })
	p := &Program{Sets: map[string]*Set{}, Chains: map[string][]Rule{}}
	m.assemble(p)
	if closed[Ingress] || closed[Egress] {
		base(p, c, m.world.families, closed)
		m.lead(p)
	}
	return p
}

// read reads the policies that are new, and returns all by namespaces: those that came first
// come first, so that a new one does not take the place of an old one.
func (m *Compiler) read(c *Cluster, closed map[string]bool) map[string][]*policy {
	known := make(map[*networkingv1.NetworkPolicy]*policy, len(c.Policies))
	byNamespace := map[string][]*policy{}
	for _, p := range c.Policies {
		in, out := directions(p)
		closed[Ingress], closed[Egress] = closed[Ingress] || in, closed[Egress] || out
		r := m.policies[p]
		if r == nil {
			r = read(p, m.budget)
		}
		known[p] = r
		byNamespace[p.Namespace] = append(byNamespace[p.Namespace], r)
	}
	for _, list := range byNamespace {
		slices.SortFunc(list, func(a, b *policy) int {
			if c := a.of.CreationTimestamp.Compare(b.of.CreationTimestamp.Time); c != 0 {
				return c
			}
			return strings.Compare(a.of.Name, b.of.Name)
		})
	}
	m.policies = known
	return byNamespace
}

// tenant is what the policies of a namespace come to: what it was, where nothing of it changed.
func (m *Compiler) tenant(namespace string, list []*policy) *tenant {
	if len(m.world.local[namespace]) == 0 {
		return nil
	}
	if t := m.tenants[namespace]; t != nil && t.holds(m, namespace, list) {
		return t
	}
	return m.build(namespace, list)
}

// assemble puts the namespaces' chains and sets together. Sets of the same content are one,
// which has the first of their names in order: so it keeps it as long as they stay the same.
func (m *Compiler) assemble(p *Program) {
	names := map[content]string{}
	from := map[content]use{}
	for _, t := range m.tenants {
		for _, u := range t.uses {
			if name, some := names[u.content]; !some || u.name < name {
				names[u.content], from[u.content] = u.name, u
			}
		}
	}
	contents, sets := map[content]map[string]string{}, map[string]contentSet{}
	for c, name := range names {
		elements := m.contents[c]
		if elements == nil {
			elements = from[c].selection.elements(m.world, c.family)
		}
		contents[c] = elements
		s := m.sets[name]
		if s.set == nil || s.content != c {
			s = contentSet{c, &Set{Family: families[c.family], Kind: c.kind, Elements: elements}}
		}
		sets[name], p.Sets[name] = s, s.set
	}
	m.contents, m.sets = contents, sets
	for _, namespace := range slices.Sorted(maps.Keys(m.tenants)) {
		t := m.tenants[namespace]
		maps.Copy(p.Chains, t.named(names))
		for name, set := range t.ranges {
			p.Sets[name] = set
		}
		p.Beyond = append(p.Beyond, t.beyond...)
	}
}

// lead leads from the addresses of pods of this node to their chains.
func (m *Compiler) lead(p *Program) {
	for namespace, slots := range m.world.local {
		t := m.tenants[namespace]
		for _, at := range slots {
			sl := &m.world.slots[at]
			var in, out string
			if t != nil {
				in, out = t.leads[Ingress][at], t.leads[Egress][at]
			}
			for _, a := range sl.own {
				family := familyOf(a)
				p.set(setName("known", family), family, Addresses).Elements[key(a)] = ""
				if in+out != "" {
					p.Sets[setName("itself", family)].Elements[key(a)+key(a)] = ""
				}
				if in != "" {
					p.Sets[setName("pods-"+Ingress, family)].Elements[key(a)] = in
				}
				if out != "" {
					p.Sets[setName("pods-"+Egress, family)].Elements[key(a)] = out
				}
			}
		}
	}
}
