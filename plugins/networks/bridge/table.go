package bridge

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"

	nft "github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"golang.org/x/sys/unix"
)

// tableName is the nftables table's, of each family that pods have.
const tableName = "pintle-network"

// The chains of the table.
const (
	keepChain   = "keep-addresses"
	tunnelChain = "tunnel"
	podsChain   = "tunnel-of-pods"
	plainChain  = "not-encrypted"
	sendersSet  = "senders"
)

// beforeMasquerading is a place before those who masquerade (srcnat, 100): who gives a
// connection a source address first has given it.
const beforeMasquerading nft.ChainPriority = 99

// register is the first of nftables.
const register = unix.NFT_REG_1

// chain is one of the table, with its rules.
type chain struct {
	*nft.Chain
	rules [][]expr.Any
}

// table makes the nftables tables what they should be. Pods see each other's addresses, also where
// others masquerade what leaves the machine. The tunnel takes packets of nodes alone, since
// VXLAN knows no senders. Pods send none to tunnels: masqueraded they would be this node's.
func (l *linux) table(far []hop) error {
	for _, ipv4 := range []bool{true, false} {
		if !l.needsTable(ipv4) {
			continue
		}
		if err := l.tableOf(ipv4, far); err != nil {
			return fmt.Errorf("nftables table %s: %w", tableName, err)
		}
	}
	return nil
}

// ownOf is this node's range of a family; invalid: pods have no address of it.
func (l *linux) ownOf(ipv4 bool) netip.Prefix {
	for _, own := range l.options.own {
		if own.Addr().Is4() == ipv4 {
			return own
		}
	}
	return netip.Prefix{}
}

// hasTable reports whether there is a table of a family.
func (l *linux) hasTable(ipv4 bool) (bool, error) {
	c, err := l.connect()
	if err != nil {
		return false, err
	}
	tables, err := c.ListTablesOfFamily(tableFamily(ipv4))
	if err != nil {
		return false, fmt.Errorf("list nftables tables: %w", err)
	}
	return slices.ContainsFunc(tables, func(t *nft.Table) bool { return t.Name == tableName }), nil
}

// needsTable: of the families of pods, and of the tunnel's packets.
func (l *linux) needsTable(ipv4 bool) bool { return l.ownOf(ipv4).IsValid() || l.guards(ipv4) }

// removeUnused deletes the table of a family that pods had in an earlier run.
func (l *linux) removeUnused() error {
	for _, ipv4 := range []bool{true, false} {
		if !l.needsTable(ipv4) {
			if err := l.removeTable(ipv4); err != nil {
				return err
			}
		}
	}
	return nil
}

// tableOf makes the table of a family. What is as it should be is not written again: each
// transaction makes others look at their tables. Senders that changed are replaced in one
// transaction, and a table with other rules is made anew in one.
func (l *linux) tableOf(ipv4 bool, far []hop) error {
	c, err := l.connect()
	if err != nil {
		return err
	}
	t := &nft.Table{Name: tableName, Family: tableFamily(ipv4)}
	guarded := len(far) > 0 && l.guards(ipv4)
	chains := l.chains(t, ipv4, guarded)
	comment, err := fingerprint(chains)
	if err != nil {
		return err
	}
	senders := &nft.Set{Table: t, Name: sendersSet, KeyType: nft.TypeIPAddr}
	if !ipv4 {
		senders.KeyType = nft.TypeIP6Addr
	}
	want := sendersOf(far)
	// What cannot be read or changed is made anew.
	if there, err := hasRules(c, chains, comment); err == nil && there {
		if !guarded || replaceSenders(c, senders, want) == nil {
			return nil
		}
		if c, err = l.connect(); err != nil { // without the messages of the failed transaction
			return err
		}
	}
	c.AddTable(t) // so that deleting finds one
	c.DelTable(t)
	c.AddTable(t)
	if guarded {
		if err := c.AddSet(senders, want); err != nil {
			return err
		}
	}
	for _, one := range chains {
		c.AddChain(one.Chain)
		for _, rule := range one.rules {
			c.AddRule(&nft.Rule{Table: t, Chain: one.Chain, Exprs: rule, UserData: userdata.AppendString(nil, userdata.TypeComment, comment)})
		}
	}
	return c.Flush()
}

// fingerprint tells apart tables whose rules differ. Each rule has it as its comment.
func fingerprint(chains []chain) (string, error) {
	sum := sha256.New()
	for _, one := range chains {
		fmt.Fprintln(sum, one.Name, one.Type, *one.Hooknum, *one.Priority, one.Table.Family)
		for _, rule := range one.rules {
			for _, e := range rule {
				data, err := expr.Marshal(byte(one.Table.Family), e)
				if err != nil {
					return "", fmt.Errorf("rule of chain %s: %w", one.Name, err)
				}
				fmt.Fprintf(sum, "%x\n", data)
			}
		}
	}
	return fmt.Sprintf("pintle %x", sum.Sum(nil)[:12]), nil
}

// hasRules reports whether the chains have the rules that the comment stands for, as many as there
// were.
func hasRules(c *nft.Conn, chains []chain, comment string) (bool, error) {
	for _, one := range chains {
		have, err := c.GetRules(one.Table, one.Chain)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if len(have) != len(one.rules) {
			return false, nil
		}
		for _, rule := range have {
			if text, ok := userdata.GetString(rule.UserData, userdata.TypeComment); !ok || text != comment {
				return false, nil
			}
		}
	}
	return true, nil
}

// sendersOf are the addresses of nodes, as elements of the set.
func sendersOf(far []hop) (elements []nft.SetElement) {
	seen := map[netip.Addr]bool{}
	for _, h := range far {
		if !seen[h.far] {
			seen[h.far] = true
			elements = append(elements, nft.SetElement{Key: h.far.AsSlice()})
		}
	}
	return elements
}

// replaceSenders makes the elements of the set exactly these, in one transaction. Without a
// difference there is none.
func replaceSenders(c *nft.Conn, set *nft.Set, want []nft.SetElement) error {
	have, err := c.GetSetElements(set)
	if err != nil {
		return err
	}
	among := func(list []nft.SetElement) func(nft.SetElement) bool {
		keys := map[string]bool{}
		for _, e := range list {
			keys[string(e.Key)] = true
		}
		return func(e nft.SetElement) bool { return keys[string(e.Key)] }
	}
	stale := slices.DeleteFunc(slices.Clone(have), among(want))
	missing := slices.DeleteFunc(slices.Clone(want), among(have))
	if len(stale)+len(missing) == 0 {
		return nil
	}
	if err := c.SetDeleteElements(set, stale); err != nil {
		return err
	}
	if err := c.SetAddElements(set, missing); err != nil {
		return err
	}
	return c.Flush()
}

// guards reports whether the table of a family has the rules of the tunnel's senders.
func (l *linux) guards(ipv4 bool) bool { return l.options.outer4() == ipv4 }

func (l *linux) connect() (*nft.Conn, error) {
	if l.space == 0 {
		return nft.New()
	}
	return nft.New(nft.WithNetNSFd(l.space))
}

// chains are those of the table. guarded: the tunnel has a chain that drops packets of senders that
// are no nodes.
func (l *linux) chains(t *nft.Table, ipv4, guarded bool) (chains []chain) {
	own := l.ownOf(ipv4)
	if own.IsValid() {
		chains = append(chains, l.keeping(t, own))
	}
	filter := *nft.ChainPriorityFilter
	if own.IsValid() && l.cfg.Backend == WireGuard {
		chains = append(chains, l.encryptedAlone(t, own))
	}
	if l.cfg.Backend != HostGW && l.cfg.Backend != WireGuard { // WireGuard knows its senders by keys
		// Without far nodes too: this node may be far for another. The tunnel's own packets
		// are not forwarded but sent.
		chains = append(chains, chain{
			&nft.Chain{Name: podsChain, Table: t, Type: nft.ChainTypeFilter, Hooknum: nft.ChainHookForward, Priority: &filter},
			[][]expr.Any{append(toPort(l.cfg.Port), &expr.Verdict{Kind: expr.VerdictDrop})},
		})
	}
	if guarded {
		chains = append(chains, chain{
			&nft.Chain{Name: tunnelChain, Table: t, Type: nft.ChainTypeFilter, Hooknum: nft.ChainHookInput, Priority: &filter},
			[][]expr.Any{append(toPort(l.cfg.Port),
				loadAddress(ipv4, true),
				&expr.Lookup{SourceRegister: register, SetName: sendersSet, Invert: true},
				&expr.Verdict{Kind: expr.VerdictDrop},
			)},
		})
	}
	return chains
}

// keeping is the chain by which this node's pods keep their addresses.
func (l *linux) keeping(t *nft.Table, own netip.Prefix) chain {
	priority := beforeMasquerading
	keep := chain{Chain: &nft.Chain{Name: keepChain, Table: t, Type: nft.ChainTypeNAT, Hooknum: nft.ChainHookPostrouting, Priority: &priority}}
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
		keep.rules = append(keep.rules, append(rule,
			&expr.Meta{Key: expr.MetaKeyMARK, Register: register},
			&expr.Bitwise{SourceRegister: register, DestRegister: register, Len: 4, Mask: mark, Xor: none},
			&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: none},
			load(own, true),
			&expr.NAT{Type: expr.NATTypeSourceNAT, Family: uint32(t.Family), RegAddrMin: register},
		))
	}
	return keep
}

// encryptedAlone is the chain that drops packets to this node's pods whose senders say that they are pods of other nodes, but for
// those that were encrypted. A policy would else take any neighbour for such a pod.
func (l *linux) encryptedAlone(t *nft.Table, own netip.Prefix) chain {
	priority := *nft.ChainPriorityFilter
	plain := chain{Chain: &nft.Chain{Name: plainChain, Table: t, Type: nft.ChainTypeFilter, Hooknum: nft.ChainHookForward, Priority: &priority}}
	for _, all := range l.options.all {
		if all.Addr().Is4() != own.Addr().Is4() {
			continue
		}
		rule := matches(all, true, expr.CmpOpEq)
		rule = append(rule, matches(own, true, expr.CmpOpNeq)...)
		rule = append(rule, matches(own, false, expr.CmpOpEq)...)
		name := make([]byte, unix.IFNAMSIZ)
		copy(name, secureName)
		plain.rules = append(plain.rules, append(rule,
			&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: register},
			&expr.Cmp{Op: expr.CmpOpNeq, Register: register, Data: name},
			&expr.Verdict{Kind: expr.VerdictDrop},
		))
	}
	return plain
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
func load(of netip.Prefix, source bool) expr.Any { return loadAddress(of.Addr().Is4(), source) }

func loadAddress(ipv4, source bool) expr.Any {
	offset, size := uint32(16), uint32(4)
	switch {
	case !ipv4 && source:
		offset, size = 8, 16
	case !ipv4:
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

func tableFamily(ipv4 bool) nft.TableFamily {
	if ipv4 {
		return nft.TableFamilyIPv4
	}
	return nft.TableFamilyIPv6
}

// removeTable deletes the table of a family, which an earlier run may have made.
func (l *linux) removeTable(ipv4 bool) error {
	c, err := l.connect()
	if err != nil {
		return err
	}
	c.DelTable(&nft.Table{Name: tableName, Family: tableFamily(ipv4)})
	if err := c.Flush(); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("delete nftables table %s: %w", tableName, err)
	}
	return nil
}
