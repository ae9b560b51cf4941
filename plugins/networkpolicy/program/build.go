package program

// builder makes a tenant.
type builder struct {
	*Compiler
	t         *tenant
	namespace string
	looked    map[string]*selection
	used      map[string]bool // names of sets in uses
	contents  map[content]bool
	groups    map[string][]group
	isolated  map[string]map[int]bool
	comments  map[string]string // of chains of policies
	spent     Budget            // sets, elements and selectors, and rules of policies
	grouped   map[string]int    // rules of groups, by direction
	work      int               // rules that were built
}

// attempt is what one policy takes beyond what was spent.
type attempt struct {
	rules    map[string][]Rule
	count    int
	uses     []use
	contents map[content]bool
	ranges   map[string]*Set
	elements int
}

// build makes the tenant of a namespace from its policies, in their order.
func (m *Compiler) build(namespace string, list []*policy) *tenant {
	b := &builder{
		Compiler: m, namespace: namespace, looked: map[string]*selection{}, used: map[string]bool{}, contents: map[content]bool{},
		groups: map[string][]group{}, isolated: map[string]map[int]bool{}, comments: map[string]string{}, grouped: map[string]int{},
		t: &tenant{
			policies: list, version: m.world.versions[namespace], families: m.world.families,
			chains: map[string][]Rule{}, leads: map[string]map[int]string{}, ranges: map[string]*Set{},
		},
	}
	for _, direction := range []string{Egress, Ingress} {
		b.groups[direction] = []group{{pods: m.world.local[namespace]}}
		b.isolated[direction] = map[int]bool{}
	}
	for _, p := range list {
		b.policy(p)
	}
	b.lead()
	return b.t
}

// subject are the pods of this node that a policy selects. One that cannot be read is about
// every pod of its namespace.
func (b *builder) subject(p *policy) []int {
	if p.known && p.version == b.t.version {
		return p.pods
	}
	p.pods, p.version, p.known = nil, b.t.version, true
	for _, at := range b.world.local[b.namespace] {
		if p.subject.Selector == nil || p.subject.matches(b.world.slots[at].pod.Labels) {
			p.pods = append(p.pods, at)
		}
	}
	return p.pods
}

// policy adds one, or isolates its pods where it does not fit.
func (b *builder) policy(p *policy) {
	pods := b.subject(p)
	if len(pods) == 0 {
		return
	}
	for _, direction := range p.types {
		for _, at := range pods {
			b.isolated[direction][at] = true
		}
	}
	limit := p.large
	if limit == "" {
		limit = b.add(p, pods)
	}
	if limit != "" {
		b.t.beyond = append(b.t.beyond, Beyond{p.of, limit})
	}
}

// add adds what a policy lets pass, or returns the limit that forbids it.
func (b *builder) add(p *policy, pods []int) Limit {
	try := &attempt{rules: map[string][]Rule{}, contents: map[content]bool{}, ranges: map[string]*Set{}}
	for _, direction := range p.types {
		if limit := b.try(p, direction, try); limit != "" {
			return limit
		}
	}
	sets := b.spent.Sets + len(try.contents) + len(try.ranges)
	elements := b.spent.Elements + try.elements
	rules := b.spent.Rules + try.count
	groups, grouped := map[string][]group{}, 0
	for direction, before := range b.grouped {
		if len(try.rules[direction]) == 0 {
			grouped += before
		}
	}
	counts := map[string]int{}
	for direction, list := range try.rules {
		if len(list) > 0 {
			groups[direction], counts[direction] = split(b.groups[direction], pods, policyChain(direction, p.name))
			grouped += counts[direction]
		}
	}
	switch {
	case rules+grouped > b.budget.Rules:
		return Rules
	case sets > b.budget.Sets:
		return Sets
	case elements > b.budget.Elements:
		return Elements
	}
	b.spent.Sets, b.spent.Elements, b.spent.Rules = sets, elements, rules
	for direction, list := range groups {
		chain := policyChain(direction, p.name)
		b.groups[direction], b.grouped[direction] = list, counts[direction]
		b.t.chains[chain], b.comments[chain] = try.rules[direction], p.name
	}
	for c := range try.contents {
		b.contents[c] = true
	}
	for name, set := range try.ranges {
		b.t.ranges[name] = set
	}
	for _, u := range try.uses {
		if !b.used[u.name] {
			b.used[u.name] = true
			b.t.uses = append(b.t.uses, u)
		}
	}
	return ""
}

func policyChain(direction, name string) string { return "policy-" + direction + "-" + hash(name) }

// try builds the rules of one direction.
func (b *builder) try(p *policy, direction string, try *attempt) Limit {
	rules := []Rule{}
	for i := range p.rules[direction] {
		r := &p.rules[direction][i]
		sets, limit := b.peers(r, try)
		if limit != "" {
			return limit
		}
		var sockets [2]string
		if len(r.ports.named) > 0 {
			if sockets, limit = b.sockets(p, r, direction, try); limit != "" {
				return limit
			}
		}
		left := min(b.budget.Rules-b.spent.Rules-try.count-len(rules), workFactor*b.budget.Rules-b.work)
		more, fits := allowing(r, b.world.families, sets, sockets, direction, left)
		b.work += len(more)
		if !fits {
			return Rules
		}
		rules = append(rules, more...)
	}
	try.rules[direction] = rules
	try.count += len(rules)
	return ""
}

// peers finds the sets of a rule's peers, by family.
func (b *builder) peers(r *rule, try *attempt) (sets [2][]string, limit Limit) {
	if len(r.members) > 0 {
		name := "peers-" + r.text
		s := b.look(name, len(r.members), func() *selection { return &selection{kind: Addresses, members: r.members} })
		if s == nil {
			return sets, Selectors
		}
		for f, name := range b.use(s, name, try) {
			if name != "" {
				sets[f] = append(sets[f], name)
			}
		}
	}
	for _, family := range b.world.families {
		f := indexOf(family)
		if n := r.ranges[f]; n != nil {
			sets[f] = append(sets[f], n.name)
			if b.t.ranges[n.name] == nil && try.ranges[n.name] == nil {
				try.ranges[n.name] = n.set
				try.elements += len(n.set.Elements)
			}
		}
	}
	return sets, ""
}

// sockets finds the sets of a rule's named ports, by family: of the pods that the policy
// selects, or of the peers where it is about what goes out. A name is one of a pod, so an
// address that is in a range counts where it is a pod's.
func (b *builder) sockets(p *policy, r *rule, direction string, try *attempt) (sets [2]string, limit Limit) {
	var name string
	make := func() *selection {
		return &selection{kind: Sockets, members: r.members, everybody: r.all, blocks: r.blocks, named: r.ports.names()}
	}
	if direction == Ingress {
		name = "sockets-" + hash("own", b.namespace, p.subject.text, r.ports.text())
		own := []member{{namespace: b.namespace, pods: p.subject}}
		if p.subject.Selector == nil {
			own = nil // what cannot be read lets no packet pass
		}
		make = func() *selection {
			return &selection{kind: Sockets, members: own, local: true, named: r.ports.names()}
		}
	} else {
		name = "sockets-" + hash("peers", r.peersText(), r.ports.text())
	}
	s := b.look(name, max(1, len(r.members)), make)
	if s == nil {
		return sets, Selectors
	}
	return b.use(s, name, try), ""
}

// look finds a selection, which it makes; nil: that is more than the namespace may.
func (b *builder) look(key string, cost int, make func() *selection) *selection {
	if s := b.looked[key]; s != nil {
		return s
	}
	if b.spent.Selectors+cost > b.budget.Selectors {
		return nil
	}
	b.spent.Selectors += cost
	s := b.selections[key]
	if s == nil {
		s = make()
		s.fill(b.world)
		b.selections[key] = s
	}
	s.round = b.round
	b.looked[key] = s
	b.t.looked = append(b.t.looked, look{key, s, s.sums})
	return s
}

// use notes the sets of a selection that are not empty, by family.
func (b *builder) use(s *selection, name string, try *attempt) (sets [2]string) {
	for _, family := range b.world.families {
		f := indexOf(family)
		if s.sums[f].n == 0 {
			continue // it lets no packet pass
		}
		sets[f] = setName(name, family)
		c := content{s.kind, f, s.sums[f]}
		try.uses = append(try.uses, use{sets[f], c, s})
		if !b.contents[c] && !try.contents[c] {
			try.contents[c] = true
			try.elements += c.sum.n
		}
	}
	return sets
}

// allowing are the rules that let one rule of a policy pass, and whether they are no more than
// are left.
func allowing(r *rule, families []Family, sets [2][]string, sockets [2]string, direction string, left int) (rules []Rule, fits bool) {
	add := func(rule Rule, set string) bool {
		if len(rules) >= left {
			return false
		}
		if direction == Ingress {
			rule.Source = set
		} else {
			rule.Destination = set
		}
		rule.Verdict = Accept
		rules = append(rules, rule)
		return true
	}
	for _, family := range families {
		f := indexOf(family)
		if sockets[f] == "" {
			continue
		}
		socket := Rule{Family: family, Socket: sockets[f]}
		if direction == Egress || r.all {
			// The sockets of a direction outwards are the peers' already.
			if !add(socket, "") {
				return rules, false
			}
			continue
		}
		for _, set := range sets[f] {
			if !add(socket, set) {
				return rules, false
			}
		}
	}
	for _, port := range r.ports.numbers {
		numbered := Rule{Protocol: port.protocol, Low: port.low, High: port.high}
		if r.all {
			if !add(numbered, "") {
				return rules, false
			}
			continue
		}
		for _, family := range families {
			numbered.Family = family
			for _, set := range sets[indexOf(family)] {
				if !add(numbered, set) {
					return rules, false
				}
			}
		}
	}
	return rules, true
}

// lead makes the chains of groups, and leads isolated pods to them.
func (b *builder) lead() {
	for direction, groups := range b.groups {
		leads := map[int]string{}
		b.t.leads[direction] = leads
		for _, g := range groups {
			name, before := "pods-"+direction+"-"+hash(g.chains...), len(leads)
			for _, at := range g.pods {
				if b.isolated[direction][at] {
					leads[at] = name
				}
			}
			if len(leads) == before {
				continue
			}
			rules := make([]Rule, 0, len(g.chains)+1)
			for _, chain := range g.chains {
				rules = append(rules, Rule{Verdict: Jump, Target: chain, Comment: b.comments[chain]})
			}
			b.t.chains[name] = append(rules, Rule{Verdict: Drop})
		}
	}
}
