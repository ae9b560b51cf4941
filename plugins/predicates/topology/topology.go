// Package topology numbers the domains that nodes are in by a label, such as zones:
// a small number for each value, so that what a plugin knows of domains is in
// arrays, and the domain of a node is one look into another. PodTopologySpread and
// InterPodAffinity, each with the priority of its name, share it.
//
// A plugin has one Tables for all of its classes. What a class knows is by the
// numbers of the Table that it got, which stay what they are.
package topology

import "pintle.dev/pintle/sdk"

// None is the domain of a node without the label.
const None int32 = -1

// maxTables bounds the keys whose tables are remembered: pods name what they like.
const maxTables = 256

// Tables are the tables by label key. The zero value is ready.
type Tables struct{ tables map[string]*Table }

// Of returns the table of a label key. A class asks when its state is prepared and
// keeps what it got.
func (t *Tables) Of(key string) *Table {
	if table := t.tables[key]; table != nil && !table.Crowded() {
		return table
	}
	if t.tables == nil || len(t.tables) >= maxTables {
		t.tables = map[string]*Table{}
	}
	table := &Table{Key: key, numbers: map[string]int32{}}
	t.tables[key] = table
	return table
}

// Table numbers the values of one label key, from 0 on.
type Table struct {
	Key     string
	numbers map[string]int32
	// nodes and domains remember, by node index, the node that was asked about
	// last and its domain. A node that changes is another *sdk.Node.
	nodes   []*sdk.Node
	domains []int32
}

// Len is how many domains have a number.
func (t *Table) Len() int { return len(t.numbers) }

// Crowded reports whether most numbers are of values that no node has any more. A
// state over such a table is to be prepared anew.
func (t *Table) Crowded() bool { return len(t.numbers) > 4096+4*len(t.nodes) }

// Number is the domain of a label's value.
func (t *Table) Number(value string) int32 {
	number, ok := t.numbers[value]
	if !ok {
		number = int32(len(t.numbers))
		t.numbers[value] = number
	}
	return number
}

// Of is the domain of a node that need not be the present one of its index.
func (t *Table) Of(node *sdk.Node) int32 {
	if value, ok := node.Labels[t.Key]; ok {
		return t.Number(value)
	}
	return None
}

// At is the domain of a node of the cluster.
func (t *Table) At(node *sdk.Node) int32 {
	i := int(node.Index)
	if i < len(t.nodes) && t.nodes[i] == node {
		return t.domains[i]
	}
	for len(t.nodes) <= i {
		t.nodes, t.domains = append(t.nodes, nil), append(t.domains, None)
	}
	t.nodes[i], t.domains[i] = node, t.Of(node)
	return t.domains[i]
}

// Grown returns s with room for n domains.
func Grown[T any](s []T, n int) []T {
	if n <= len(s) {
		return s
	}
	return append(s, make([]T, n-len(s))...)
}
