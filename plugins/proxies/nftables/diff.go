package nftables

import (
	"iter"
	"slices"
)

// change is what happens to one element: it is deleted, added, or both, which replaces its
// value.
type change struct {
	item
	value    string
	del, add bool
}

// transaction is what the kernel takes whole or not at all.
type transaction struct {
	// rebuild deletes the table first.
	rebuild bool
	// layout writes the sets and the chains that every table has.
	layout bool
	// chains are made, emptied and filled.
	chains  []chain
	changes []change
}

func (t transaction) empty() bool {
	return !t.rebuild && !t.layout && len(t.chains) == 0 && len(t.changes) == 0
}

// elements are items with their values, as a map or as what is wanted has them.
type elements interface {
	get(item) (string, bool)
	all() iter.Seq2[item, string]
}

// diff says how the elements that there are become those that are wanted, in order of sets and keys.
func diff(have map[item]string, want elements) []change {
	var out []change
	for i := range have {
		if _, ok := want.get(i); !ok {
			out = append(out, change{item: i, del: true})
		}
	}
	for i, value := range want.all() {
		if old, there := have[i]; !there || old != value {
			out = append(out, change{item: i, value: value, del: there, add: true})
		}
	}
	slices.SortFunc(out, func(a, b change) int {
		if a.item < b.item {
			return -1
		}
		return 1 // an item is there once
	})
	return out
}

// Of one transaction at most, so that what is sent to the kernel stays within some megabytes.
const (
	mostElements = 20_000
	mostChains   = 2_000
)

// split cuts a large transaction into several, each of which leaves every service served.
// Chains, endpoints and source ranges come first, then what leads to services, then endpoints
// and source ranges that nothing needs any more go. A rebuild stays whole: its first part would leave services without rules.
func (t transaction) split(elements, chains int) []transaction {
	if t.rebuild || len(t.changes) <= elements && len(t.chains) <= chains {
		return []transaction{t}
	}
	var first, then, last []change
	for _, c := range t.changes {
		switch {
		case c.set() == firewallIPs && c.add:
			first = append(first, c) // source ranges hold before an address is served
		case c.set() == firewallIPs:
			last = append(last, c) // and until it is served no more
		case definitions[c.set()].verdicts:
			then = append(then, c)
		case c.add:
			first = append(first, c)
		default:
			last = append(last, c)
		}
	}
	out := []transaction{{layout: t.layout}}
	for part := range slices.Chunk(t.chains, chains) { // those that others lead to come first
		if end := &out[len(out)-1]; end.chains == nil {
			end.chains = part
		} else {
			out = append(out, transaction{chains: part})
		}
	}
	for _, phase := range [][]change{first, then, last} {
		for part := range slices.Chunk(phase, elements) {
			if end := &out[len(out)-1]; len(end.changes)+len(part) <= elements {
				end.changes = append(end.changes, part...)
			} else {
				out = append(out, transaction{changes: part})
			}
		}
	}
	return out
}
