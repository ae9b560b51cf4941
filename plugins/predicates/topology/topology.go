// Package topology keeps sets and arrays by domain: the nodes that have one value
// of a label, by its number in the label's sdk.Column. PodTopologySpread and
// InterPodAffinity, each with the priority of its name, share it.
package topology

import "pintle.dev/pintle/sdk"

// Grown returns s with room for n domains.
func Grown[T any](s []T, n int) []T {
	if n <= len(s) {
		return s
	}
	return append(s, make([]T, n-len(s))...)
}

// Marks is a set of domains of one column. The zero value is empty.
type Marks struct {
	in   []bool
	list []uint32
}

// Add adds a domain.
func (m *Marks) Add(domain uint32) {
	m.in = Grown(m.in, int(domain)+1)
	if !m.in[domain] {
		m.in[domain] = true
		m.list = append(m.list, domain)
	}
}

// Nodes appends the nodes of the domains and empties the set.
func (m *Marks) Nodes(column *sdk.Column, out []uint32) []uint32 {
	if len(m.list) == 0 {
		return out
	}
	out = column.Nodes(m.in, out)
	for _, domain := range m.list {
		m.in[domain] = false
	}
	m.list = m.list[:0]
	return out
}
