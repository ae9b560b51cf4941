package podaffinity

import (
	"pintle.dev/pintle/plugins/predicates/topology"
	"pintle.dev/pintle/sdk"
)

// Sum is a number for each domain of one topology key.
type Sum struct {
	column *sdk.Column
	key    string
	of     []int64
	// others is how many domains have another number than 0.
	others  int
	changed topology.Marks

	// relative: numbers are told from base, see Relative.
	relative bool
	base     int64
	gathered bool
	since    []int64  // by domain: what was added since base was settled
	touched  []uint32 // the domains of since, perhaps more than once
}

// Add adds n to the domain of a node; a node without the label has none.
func (s *Sum) Add(node *sdk.Node, n int64) {
	domain := s.column.Of(node)
	if domain == 0 || n == 0 {
		return
	}
	if int(domain) >= len(s.of) {
		s.of = topology.Grown(s.of, max(int(domain)+1, s.column.Len()))
	}
	before := s.of[domain]
	after := before + n
	s.of[domain] = after
	switch {
	case before == 0:
		s.others++
	case after == 0:
		s.others--
	}
	switch {
	case s.relative:
		s.since = topology.Grown(s.since, len(s.of))
		s.since[domain] += n
		s.touched = append(s.touched, domain)
	case (before > 0) != (after > 0):
		s.changed.Add(domain)
	}
}

// At is the number of the node's domain, from the base, and whether it has one.
func (s *Sum) At(node *sdk.Node) (n int64, has bool) {
	domain := s.column.Of(node)
	if int(domain) < len(s.of) {
		n = s.of[domain]
	}
	return n - s.base, domain != 0
}

// Zero reports whether the number of every domain is 0.
func (s *Sum) Zero() bool { return s.others == 0 }

// settle chooses the base of a sum that is relative, and finds the domains whose
// number from it is another now.
func (s *Sum) settle() {
	before := s.base
	s.base = s.standard()
	if shift := s.base - before; shift == 0 {
		for _, domain := range s.touched {
			if s.since[domain] != 0 {
				s.changed.Add(domain)
				s.since[domain] = 0
			}
		}
	} else {
		s.since = topology.Grown(s.since, s.column.Len())
		for domain, added := range s.since {
			if added != shift && s.column.Count(uint32(domain)) > 0 {
				s.changed.Add(uint32(domain))
			}
			s.since[domain] = 0
		}
	}
	s.touched = s.touched[:0]
}

// standard is the number that others are told from. It depends on the cluster as it
// is, not on how it came to be.
func (s *Sum) standard() int64 {
	if s.others == 0 {
		return 0
	}
	if s.gathered {
		most := int64(0)
		for _, n := range s.of {
			most = max(most, n)
		}
		return most
	}
	if most := s.column.Majority(); int(most) < len(s.of) {
		return s.of[most]
	}
	return 0
}

// Sums are the sums of a class, one for each topology key that is asked for.
type Sums struct {
	List []Sum

	cluster  *sdk.Cluster
	relative bool
	gather   *sdk.PodAffinity
}

// Counts is an empty set of sums of which it matters alone where they are more than 0.
func Counts(c *sdk.Cluster) Sums { return Sums{cluster: c} }

// Relative is an empty set of sums of which the differences between domains matter
// alone, as they do of scores that are normalised from the smallest to the largest.
// They are told from a base, so that a pod that comes changes the numbers of few
// nodes: of all but those of the domain with most nodes, or, by a key by which the
// pods of the class have to be together, of those where they cannot be.
func Relative(c *sdk.Cluster, class *sdk.Pod) Sums {
	return Sums{cluster: c, relative: true, gather: class.PodAffinity}
}

// Of is the index of a topology key's sum.
func (s *Sums) Of(key string) int {
	for i := range s.List {
		if s.List[i].key == key {
			return i
		}
	}
	sum := Sum{column: s.cluster.Column(key), key: key, relative: s.relative}
	if s.gather != nil {
		for i := range s.gather.Required {
			sum.gathered = sum.gathered || s.gather.Required[i].TopologyKey == key
		}
	}
	s.List = append(s.List, sum)
	return len(s.List) - 1
}

// Zero reports whether no sum has a domain with another number than 0.
func (s *Sums) Zero() bool {
	for i := range s.List {
		if !s.List[i].Zero() {
			return false
		}
	}
	return true
}

// Settle is called when pods were counted: from then on numbers are told from the
// base that is right for them.
func (s *Sums) Settle() {
	for i := range s.List {
		if s.relative {
			s.List[i].settle()
		}
	}
}

// Moved appends the nodes of the domains that changed since it was called last.
func (s *Sums) Moved(out []uint32) []uint32 {
	for i := range s.List {
		out = s.List[i].changed.Nodes(s.List[i].column, out)
	}
	return out
}
