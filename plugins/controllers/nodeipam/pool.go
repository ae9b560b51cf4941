package nodeipam

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"slices"
)

// A pool has at most so many blocks, as powers of two. That of IPv6 is kube-controller-manager's, which has none for
// IPv4: a bit a block is kept, 2 MiB at most.
const mostIPv4, mostIPv6 = 24, 16

// pool is a range of the cluster, cut into blocks. It is not safe for concurrent use.
type pool struct {
	cluster netip.Prefix
	bits    int // of a block's prefix
	blocks  int
	used    []uint64 // a bit a block
	taken   int      // bits that are set
	next    int      // where the next search begins
	never   []span   // blocks of services
	own     []span   // blocks of nodes that name their range themselves
	held    map[string]span
	counts  *counts
}

// span are the blocks from first to last.
type span struct{ first, last int }

func newPool(cluster netip.Prefix, bits int) (*pool, error) {
	most := mostIPv4
	if !cluster.Addr().Is4() {
		most = mostIPv6
	}
	switch d := bits - cluster.Bits(); {
	case d < 0 || bits > cluster.Addr().BitLen():
		return nil, fmt.Errorf("configuration: a node's range of /%d is not within clusterCIDR %s", bits, cluster)
	case d > most:
		return nil, fmt.Errorf("configuration: a node's range of /%d is too small for clusterCIDR %s: want /%d or larger", bits, cluster, cluster.Bits()+most)
	}
	p := &pool{cluster: cluster, bits: bits, blocks: 1 << (bits - cluster.Bits()), held: map[string]span{}}
	p.used = make([]uint64, (p.blocks+63)/64)
	p.counts = countsOf(cluster.String())
	p.counts.most.Set(float64(p.blocks))
	return p, nil
}

func (p *pool) isUsed(block int) bool { return p.used[block/64]>>(block%64)&1 != 0 }

// take sets the bits of a span and returns how many were set before.
func (p *pool) take(s span) (before int) {
	for b := s.first; b <= s.last; b++ {
		if p.isUsed(b) {
			before++
			continue
		}
		p.used[b/64] |= 1 << (b % 64)
		p.taken++
	}
	p.counts.allocations.Add(float64(s.last - s.first + 1 - before))
	return before
}

// reserve keeps blocks from being given.
func (p *pool) reserve(r netip.Prefix) {
	if s, ok := p.span(r); ok {
		p.never = append(p.never, s)
		p.take(s)
		p.tell()
	}
}

// reserveForNode keeps blocks from being given, for a node that has them by itself.
func (p *pool) reserveForNode(r netip.Prefix) {
	if s, ok := p.span(r); ok {
		p.own = append(p.own, s)
		p.take(s)
		p.tell()
	}
}

// allocate gives the next free block to a node.
func (p *pool) allocate(node string) (netip.Prefix, bool) {
	if p.taken == p.blocks {
		return netip.Prefix{}, false
	}
	tries, block := 0, p.next
	for ; p.isUsed(block); tries++ {
		block = (block + 1) % p.blocks
	}
	p.next = (block + 1) % p.blocks
	p.counts.tries.Observe(float64(tries))
	p.hold(node, span{block, block})
	return p.prefix(block), true
}

// hold gives blocks to a node; it returns how many of them were not free. One that is reserved for such a node was.
func (p *pool) hold(node string, s span) (before int) {
	before = p.take(s)
	others := slices.Concat(p.never, slices.Collect(maps.Values(p.held)))
	for b := s.first; b <= s.last && len(p.own) > 0; b++ {
		in := func(o span) bool { return o.first <= b && b <= o.last }
		if slices.ContainsFunc(p.own, in) && !slices.ContainsFunc(others, in) {
			before--
		}
	}
	p.held[node] = s
	p.tell()
	return before
}

// release frees the blocks of a node that no other has, and returns how many that are.
func (p *pool) release(node string) int {
	s, ok := p.held[node]
	if !ok {
		return 0
	}
	delete(p.held, node)
	kept := map[int]bool{}
	keep := func(o span) {
		for b := max(s.first, o.first); b <= min(s.last, o.last); b++ {
			kept[b] = true
		}
	}
	for _, o := range p.held {
		keep(o)
	}
	for _, o := range slices.Concat(p.never, p.own) {
		keep(o)
	}
	freed := 0
	for b := s.first; b <= s.last; b++ {
		if !kept[b] {
			p.used[b/64] &^= 1 << (b % 64)
			freed++
		}
	}
	p.taken -= freed
	p.counts.releases.Add(float64(freed))
	p.tell()
	return freed
}

func (p *pool) tell() { p.counts.usage.Set(float64(p.taken) / float64(p.blocks)) }

// number is an address as 128 bits.
func number(a netip.Addr) (high, low uint64) {
	b := a.As16()
	return binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
}

// shift is how far a block's number is shifted to the left in an address of 128 bits.
func (p *pool) shift() int { return p.cluster.Addr().BitLen() - p.bits }

// prefix is the range of a block.
func (p *pool) prefix(block int) netip.Prefix {
	high, low := number(p.cluster.Addr())
	if s := p.shift(); s >= 64 {
		high |= uint64(block) << (s - 64)
	} else {
		high |= uint64(block) >> (64 - s) // nothing where s is 0
		low |= uint64(block) << s
	}
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], high)
	binary.BigEndian.PutUint64(b[8:], low)
	a := netip.AddrFrom16(b)
	if p.cluster.Addr().Is4() {
		a = a.Unmap()
	}
	return netip.PrefixFrom(a, p.bits)
}

// block is the number of the block that an address of the cluster's range is in.
func (p *pool) block(a netip.Addr) int {
	high, low := number(a)
	h, l := number(p.cluster.Addr())
	high, low = high^h, low^l
	s := p.shift()
	if s >= 64 {
		return int(high >> (s - 64))
	}
	return int(high<<(64-s) | low>>s)
}

// span are the blocks that a range touches; ok is false where there is none.
func (p *pool) span(r netip.Prefix) (s span, ok bool) {
	if !r.IsValid() || !r.Overlaps(p.cluster) {
		return span{}, false
	}
	if r.Bits() <= p.cluster.Bits() {
		return span{0, p.blocks - 1}, true
	}
	first := p.block(r.Masked().Addr())
	last := first
	if d := p.bits - r.Bits(); d > 0 {
		last += 1<<d - 1
	}
	return span{first, last}, true
}
