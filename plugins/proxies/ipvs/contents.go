package ipvs

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"iter"
	"maps"

	nft "github.com/google/nftables"
)

// iterPorts are ports in any order.
type iterPorts = iter.Seq[*portState]

// setID is one of the sets and maps that each table has.
type setID uint8

const (
	fronts           setID = iota // all fronts
	clusterFronts                 // those of cluster IPs
	everywhereFronts              // those whose packets may go to any node
	inside                        // front → mark of the server for pods and this node
	refusals                      // front → drop, or the chain that rejects
	guards                        // front → chain of source ranges
	hairpins                      // endpoint of this node, twice its address
	bound                         // addresses on pintle-ipvs0
	healthPorts                   // ports of health checks, which are served at all addresses
	setCount
)

// Verdicts of maps, beside names of chains.
const (
	verdictDrop = "drop"
	chainReject = "reject-chain"
)

// definition is what a set or map is.
type definition struct {
	name     string
	key      func(address nft.SetDatatype) []nft.SetDatatype
	data     []nft.SetDatatype
	verdicts bool
}

func frontType(a nft.SetDatatype) []nft.SetDatatype {
	return []nft.SetDatatype{a, nft.TypeInetProto, nft.TypeInetService}
}

var definitions = [setCount]definition{
	fronts:           {name: "fronts", key: frontType},
	clusterFronts:    {name: "cluster-fronts", key: frontType},
	everywhereFronts: {name: "everywhere-fronts", key: frontType},
	inside:           {name: "inside", key: frontType, data: []nft.SetDatatype{nft.TypeMark}},
	refusals:         {name: "refusals", key: frontType, verdicts: true},
	guards:           {name: "guards", key: frontType, verdicts: true},
	hairpins: {name: "hairpins", key: func(a nft.SetDatatype) []nft.SetDatatype {
		return []nft.SetDatatype{a, a, nft.TypeInetProto, nft.TypeInetService}
	}},
	bound:       {name: "bound", key: func(a nft.SetDatatype) []nft.SetDatatype { return []nft.SetDatatype{a} }},
	healthPorts: {name: "health-ports", key: func(nft.SetDatatype) []nft.SetDatatype { return []nft.SetDatatype{nft.TypeInetService} }},
}

func (id setID) String() string { return definitions[id].name }

// item is an element without its value: the set and the key.
type item string

func newItem(set setID, key []byte) item { return item(append([]byte{byte(set)}, key...)) }

func (i item) set() setID  { return setID(i[0]) }
func (i item) key() []byte { return []byte(i[1:]) }

// contents are what a table holds: elements with their values, and chains of source ranges by
// their names, which follow from the ranges.
type contents struct {
	elements map[item]string
	chains   map[string]string
}

func newContents() contents { return contents{map[item]string{}, map[string]string{}} }

func (c contents) add(set setID, key []byte, value string) { c.elements[newItem(set, key)] = value }

// changed is what a chain has in place of its ranges where others changed its rules.
const changed = "?"

// guardPrefix begins the names of chains of source ranges.
const guardPrefix = "guard-"

// guard adds a chain for ranges and returns its name.
func (c contents) guard(allowed string) string {
	sum := sha256.Sum256([]byte(allowed))
	name := guardPrefix + base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:20])
	c.chains[name] = allowed
	return name
}

// Keys are written as the kernel has them in registers of four bytes: addresses and ports as on
// the wire, marks as the processor has them.

func (f front) key() []byte {
	return append(f.address.AsSlice(), f.protocol, 0, 0, 0, byte(f.port>>8), byte(f.port), 0, 0)
}

func (h hairpin) key() []byte {
	a := h.Addr().AsSlice()
	return append(append(a, a...), h.protocol, 0, 0, 0, byte(h.Port()>>8), byte(h.Port()), 0, 0)
}

func portKey(port uint16) []byte { return []byte{byte(port >> 8), byte(port)} }

func markValue(mark uint32) []byte { return binary.NativeEndian.AppendUint32(nil, mark) }

// change is an element that goes, comes, or does both for another value.
type change struct {
	item
	value    string
	del, add bool
}

// transaction is what a table is changed by.
type transaction struct {
	rebuild bool
	chains  map[string]string // that come
	changes []change
}

func (t transaction) empty() bool { return !t.rebuild && len(t.chains)+len(t.changes) == 0 }

// to says what turns these contents into others. Chains that are not wanted stay: they are
// deleted when nothing has led to them for a while.
func (c contents) to(want contents) transaction {
	t := transaction{chains: map[string]string{}}
	for name, allowed := range want.chains {
		if has, there := c.chains[name]; !there || has == changed {
			t.chains[name] = allowed
		}
	}
	for i := range c.elements {
		if _, wanted := want.elements[i]; !wanted {
			t.changes = append(t.changes, change{item: i, del: true})
		}
	}
	for i, value := range want.elements {
		has, there := c.elements[i]
		if !there || has != value {
			t.changes = append(t.changes, change{i, value, there, true})
		}
	}
	return t
}

// whileServed adds to what is wanted what of these contents holds the packets of fronts that go: their
// source ranges, and the rule that nothing else is reached by their addresses.
func (c contents) whileServed(want contents) contents {
	next := want
	for i, value := range c.elements {
		if _, wanted := want.elements[i]; wanted || i.set() != guards && i.set() != bound {
			continue
		}
		if _, stays := want.elements[newItem(fronts, i.key())]; stays && i.set() == guards {
			continue // its ranges go, and it is open from now on
		}
		if len(next.elements) == len(want.elements) {
			next = contents{maps.Clone(want.elements), maps.Clone(want.chains)}
		}
		next.elements[i] = value
		if ranges, is := c.chains[value]; is {
			next.chains[value] = ranges
		}
	}
	return next
}

// stale names the chains that are not wanted.
func (c contents) stale(want contents) []string {
	var out []string
	for name := range c.chains {
		if _, wanted := want.chains[name]; !wanted {
			out = append(out, name)
		}
	}
	return out
}
