package bridge

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"

	nft "github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// tableName is the nftables table's, of each family that pods have.
const tableName = "pintle-network"

// The chains of the table.
const (
	keepChain   = "keep-addresses"
	tunnelChain = "tunnel"
	podsChain   = "tunnel-of-pods"
	sendersSet  = "senders"
)

// beforeMasquerading is a place before those who masquerade (srcnat, 100): who gives a
// connection a source address first has given it.
const beforeMasquerading nft.ChainPriority = 99

// register is the first of nftables.
const register = unix.NFT_REG_1

// table makes the nftables table anew, in one transaction: pods see each other's addresses,
// whoever masquerades what leaves the machine, and the tunnel takes packets of nodes alone, since
// VXLAN knows no senders. Pods send none to tunnels: masqueraded they would be this node's.
func (l *linux) table(far []hop) error {
	want := fmt.Sprint(far)
	there, err := l.hasTables(len(far) > 0)
	if err == nil && there && l.written == want {
		return nil // each transaction makes others look at their tables
	}
	err = nil // what cannot be read is written anew
	for _, own := range l.options.own {
		if err == nil {
			err = l.tableOf(own, far)
		}
	}
	if err != nil {
		l.written = ""
		return fmt.Errorf("nftables table %s: %w", tableName, err)
	}
	l.written = want
	return nil
}

// hasTables reports whether the chains have the rules that they were made with, as many as
// there were.
func (l *linux) hasTables(guarded bool) (bool, error) {
	c, err := l.connect()
	if err != nil {
		return false, err
	}
	for _, own := range l.options.own {
		want := map[string]int{keepChain: 0}
		for _, all := range l.options.all {
			if all.Addr().Is4() == own.Addr().Is4() {
				want[keepChain]++
			}
		}
		if guarded && l.guards(own) {
			want[tunnelChain] = 1
		}
		if l.cfg.Backend != HostGW {
			want[podsChain] = 1
		}
		t := &nft.Table{Name: tableName, Family: tableFamily(own)}
		for chain, rules := range want {
			have, err := c.GetRules(t, &nft.Chain{Name: chain, Table: t})
			if errors.Is(err, fs.ErrNotExist) {
				return false, nil
			}
			if err != nil {
				return false, err
			}
			if len(have) != rules {
				return false, nil
			}
		}
	}
	return true, nil
}

// guards reports whether the table of a range has the rules of the tunnel's senders.
func (l *linux) guards(own netip.Prefix) bool { return l.options.node[0].Is4() == own.Addr().Is4() }

func (l *linux) connect() (*nft.Conn, error) {
	if l.space == 0 {
		return nft.New()
	}
	return nft.New(nft.WithNetNSFd(l.space))
}

func (l *linux) tableOf(own netip.Prefix, far []hop) error {
	c, err := l.connect()
	if err != nil {
		return err
	}
	t := &nft.Table{Name: tableName, Family: tableFamily(own)}
	c.AddTable(t) // so that deleting finds one
	c.DelTable(t)
	c.AddTable(t)
	priority := beforeMasquerading
	keep := c.AddChain(&nft.Chain{Name: keepChain, Table: t, Type: nft.ChainTypeNAT, Hooknum: nft.ChainHookPostrouting, Priority: &priority})
	for _, all := range l.options.all {
		if all.Addr().Is4() != own.Addr().Is4() {
			continue
		}
		// From a pod of this node to one of another, but for what a service proxy has to
		// masquerade.
		rule := matches(own, true, expr.CmpOpEq)
		rule = append(rule, matches(all, false, expr.CmpOpEq)...)
		rule = append(rule, matches(own, false, expr.CmpOpNeq)...)
		mark := binaryutil.NativeEndian.PutUint32(l.cfg.mark)
		none := make([]byte, 4)
		rule = append(rule,
			&expr.Meta{Key: expr.MetaKeyMARK, Register: register},
			&expr.Bitwise{SourceRegister: register, DestRegister: register, Len: 4, Mask: mark, Xor: none},
			&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: none},
			load(own, true),
			&expr.NAT{Type: expr.NATTypeSourceNAT, Family: uint32(t.Family), RegAddrMin: register},
		)
		c.AddRule(&nft.Rule{Table: t, Chain: keep, Exprs: rule})
	}
	if l.cfg.Backend != HostGW {
		// Without far nodes too: this node may be far for another. The tunnel's own packets
		// are not forwarded but sent.
		priority := *nft.ChainPriorityFilter
		pods := c.AddChain(&nft.Chain{Name: podsChain, Table: t, Type: nft.ChainTypeFilter, Hooknum: nft.ChainHookForward, Priority: &priority})
		c.AddRule(&nft.Rule{Table: t, Chain: pods, Exprs: append(toPort(l.cfg.Port), &expr.Verdict{Kind: expr.VerdictDrop})})
	}
	if len(far) > 0 && l.guards(own) {
		if err := l.guard(c, t, own, far); err != nil {
			return err
		}
	}
	return c.Flush()
}

// guard drops packets to the tunnel of who is no node.
func (l *linux) guard(c *nft.Conn, t *nft.Table, own netip.Prefix, far []hop) error {
	senders := &nft.Set{Table: t, Name: sendersSet, KeyType: nft.TypeIPAddr}
	if !own.Addr().Is4() {
		senders.KeyType = nft.TypeIP6Addr
	}
	var elements []nft.SetElement
	seen := map[netip.Addr]bool{}
	for _, h := range far {
		if h.via.Is4() == own.Addr().Is4() && !seen[h.via] {
			seen[h.via] = true
			elements = append(elements, nft.SetElement{Key: h.via.AsSlice()})
		}
	}
	if err := c.AddSet(senders, elements); err != nil {
		return err
	}
	priority := *nft.ChainPriorityFilter
	chain := c.AddChain(&nft.Chain{Name: tunnelChain, Table: t, Type: nft.ChainTypeFilter, Hooknum: nft.ChainHookInput, Priority: &priority})
	c.AddRule(&nft.Rule{Table: t, Chain: chain, Exprs: append(toPort(l.cfg.Port),
		load(own, true),
		&expr.Lookup{SourceRegister: register, SetName: senders.Name, SetID: senders.ID, Invert: true},
		&expr.Verdict{Kind: expr.VerdictDrop},
	)})
	return nil
}

// toPort goes on where a packet is one of UDP to a port.
func toPort(port int) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: register},
		&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: []byte{unix.IPPROTO_UDP}},
		&expr.Payload{DestRegister: register, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: binary.BigEndian.AppendUint16(nil, uint16(port))},
	}
}

// load puts the source or destination address into the register.
func load(of netip.Prefix, source bool) expr.Any {
	offset, size := uint32(16), uint32(4)
	switch {
	case of.Addr().Is6() && source:
		offset, size = 8, 16
	case of.Addr().Is6():
		offset, size = 24, 16
	case source:
		offset = 12
	}
	return &expr.Payload{DestRegister: register, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: size}
}

// matches goes on where an address is in a range, or is not.
func matches(r netip.Prefix, source bool, op expr.CmpOp) []expr.Any {
	n := netOf(r)
	return []expr.Any{
		load(r, source),
		&expr.Bitwise{SourceRegister: register, DestRegister: register, Len: uint32(len(n.Mask)), Mask: n.Mask, Xor: make([]byte, len(n.Mask))},
		&expr.Cmp{Op: op, Register: register, Data: n.IP},
	}
}

func tableFamily(p netip.Prefix) nft.TableFamily {
	if p.Addr().Is4() {
		return nft.TableFamilyIPv4
	}
	return nft.TableFamilyIPv6
}

// removeTable deletes the tables of both families: an earlier run may have had other ranges.
func (l *linux) removeTable() error {
	c, err := l.connect()
	if err != nil {
		return err
	}
	for _, family := range []nft.TableFamily{nft.TableFamilyIPv4, nft.TableFamilyIPv6} {
		c.DelTable(&nft.Table{Name: tableName, Family: family})
		if err := c.Flush(); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("delete nftables table %s: %w", tableName, err)
		}
	}
	return nil
}
