package ipvs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"slices"
	"strings"

	nft "github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"pintle.dev/pintle/plugins/proxies/netfilter"
)

// tables are what the proxy needs of nftables; tests put a model in its place.
type tables interface {
	// generation changes by one with each commit of any process to any table.
	generation() (uint32, error)
	// read tells what our table of a family holds. whole is false where there is none, or not as
	// it was committed here last.
	read(f *family) (has contents, whole bool, err error)
	// commit takes a transaction whole or not at all.
	commit(f *family, s settings, t transaction) error
	// prune deletes chains that nothing leads to.
	prune(f *family, chains []string) error
	// remove deletes our table of a family, and reports whether there was one.
	remove(f *family) (bool, error)
	close() error
}

// perMessage is how many elements go into one message, whose length the kernel counts in sixteen
// bits.
const perMessage = 128

// kernelTables are tables of the kernel, over one socket: when a socket is closed, the kernel waits
// until what was deleted last is free.
type kernelTables struct {
	socket netfilter.Socket
	sums   map[*family]map[string]uint64 // of the rules of chains that were committed here
}

var contentSeed = maphash.MakeSeed()

// sum is that of what rules are. The kernel gives each rule of a table another handle.
func sum(rules []*nft.Rule) uint64 {
	var h maphash.Hash
	h.SetSeed(contentSeed)
	for _, r := range rules {
		fmt.Fprintf(&h, "\n%d", r.Handle)
		for _, e := range r.Exprs {
			fmt.Fprintf(&h, "\n%T %+v", e, e)
		}
	}
	return h.Sum64()
}

// failed closes the socket, on which answers may be left, and says what was tried.
func (n *kernelTables) failed(err error, format string, args ...any) error {
	_ = n.close() // the error before says more
	return fmt.Errorf(format+": %w", append(args, err)...)
}

func (n *kernelTables) close() error {
	n.sums = nil
	return n.socket.Close()
}

func (n *kernelTables) generation() (uint32, error) {
	conn, err := n.socket.Conn()
	if err != nil {
		return 0, err
	}
	g, err := conn.GetGen()
	if err != nil {
		return 0, n.failed(err, "read the generation of nftables")
	}
	return g.ID, nil
}

// set is a definition as netlink has it.
func (f *family) set(id setID) *nft.Set {
	d := definitions[id]
	key := d.key(f.address)
	s := &nft.Set{Table: f.table, Name: d.name, KeyType: key[0]}
	if len(key) > 1 {
		s.KeyType, s.Concatenation = nft.MustConcatSetType(key...), true
	}
	switch {
	case d.verdicts:
		s.IsMap, s.DataType = true, nft.TypeVerdict
	case d.data != nil:
		s.IsMap, s.DataType = true, d.data[0]
	}
	return s
}

func (n *kernelTables) commit(f *family, s settings, t transaction) error {
	conn, err := n.socket.Conn()
	if err != nil {
		return err
	}
	written, err := f.send(conn, s, t)
	if err != nil {
		return n.failed(err, "write the rules of %s", f.name)
	}
	if err := conn.Flush(); err != nil {
		return n.failed(err, "load the rules of %s", f.name)
	}
	if n.sums == nil {
		n.sums = map[*family]map[string]uint64{}
	}
	if n.sums[f] == nil || t.rebuild {
		n.sums[f] = map[string]uint64{}
	}
	for _, name := range written {
		if rules, err := conn.GetRules(f.table, &nft.Chain{Name: name}); err == nil {
			n.sums[f][name] = sum(rules)
		}
	}
	return nil
}

// send puts a transaction on its way, and names the chains that it writes.
func (f *family) send(conn *nft.Conn, s settings, t transaction) (written []string, err error) {
	var chains []fixed
	if t.rebuild {
		conn.AddTable(f.table) // so that there is one to delete
		conn.DelTable(f.table)
		conn.AddTable(f.table)
		for id := range setCount {
			if err := conn.AddSet(f.set(id), nil); err != nil {
				return nil, fmt.Errorf("set %s: %w", id, err)
			}
		}
		chains = f.layout(s)
	}
	for name, allowed := range t.chains {
		chains = append(chains, fixed{name: name, rules: f.guardRules(allowed)})
	}
	for _, c := range chains {
		made := &nft.Chain{Name: c.name, Table: f.table}
		if c.hook != nil {
			made.Type, made.Hooknum, made.Priority = c.hook.kind, c.hook.at, &c.hook.priority
		}
		conn.AddChain(made)
		conn.FlushChain(made)
		written = append(written, c.name)
	}
	for _, c := range chains {
		for _, r := range c.rules {
			if r.lookup != nil {
				set := &nft.Set{Table: f.table, Anonymous: true, Constant: true, Interval: true, KeyType: f.address}
				if err := conn.AddSet(set, r.ranges); err != nil {
					return nil, fmt.Errorf("ranges of chain %s: %w", c.name, err)
				}
				r.lookup.SetName, r.lookup.SetID = set.Name, set.ID
			}
			conn.AddRule(&nft.Rule{Table: f.table, Chain: &nft.Chain{Name: c.name}, Exprs: r.exprs})
		}
	}
	return written, f.sendElements(conn, t.changes)
}

// sendElements sends elements set by set: all that go first, so that what is replaced is gone
// before it comes.
func (f *family) sendElements(conn *nft.Conn, changes []change) error {
	for _, adding := range []bool{false, true} {
		for id := range setCount {
			var list []nft.SetElement
			for _, c := range changes {
				switch {
				case c.set() != id:
				case adding && c.add:
					list = append(list, c.element())
				case !adding && c.del:
					list = append(list, nft.SetElement{Key: c.key()})
				}
			}
			for part := range slices.Chunk(list, perMessage) {
				send := conn.SetDeleteElements
				if adding {
					send = conn.SetAddElements
				}
				if err := send(&nft.Set{Table: f.table, Name: id.String()}, part); err != nil {
					return fmt.Errorf("elements of %s: %w", id, err)
				}
			}
		}
	}
	return nil
}

// element is what is added.
func (c change) element() nft.SetElement {
	e := nft.SetElement{Key: c.key()}
	switch {
	case !definitions[c.set()].verdicts:
		e.Val = []byte(c.value)
	case c.value == verdictDrop:
		e.VerdictData = &expr.Verdict{Kind: expr.VerdictDrop}
	default:
		// A packet that ranges let pass comes back, to be marked.
		e.VerdictData = &expr.Verdict{Kind: expr.VerdictJump, Chain: c.value}
	}
	return e
}

// has reports whether there is our table of a family.
func (n *kernelTables) has(conn *nft.Conn, f *family) (*nft.Table, error) {
	list, err := conn.ListTablesOfFamily(f.table.Family)
	if err != nil {
		return nil, n.failed(err, "list tables of %s", f.name)
	}
	for _, t := range list {
		if t.Name == tableName {
			return t, nil
		}
	}
	return nil, nil
}

func (n *kernelTables) read(f *family) (contents, bool, error) {
	conn, err := n.socket.Conn()
	if err != nil {
		return contents{}, false, err
	}
	out := newContents()
	table, err := n.has(conn, f)
	if table == nil || err != nil {
		return out, false, err
	}
	sets, err := conn.GetSets(f.table)
	if err != nil {
		return out, false, n.failed(err, "list sets of %s", f.name)
	}
	for id := range setCount {
		want := f.set(id)
		if !slices.ContainsFunc(sets, func(s *nft.Set) bool {
			return s.Name == want.Name && s.IsMap == want.IsMap && s.KeyType.Name == want.KeyType.Name && s.DataType.Name == want.DataType.Name
		}) {
			return out, false, nil // another version's
		}
		elements, err := conn.GetSetElements(want)
		if err != nil {
			return out, false, n.failed(err, "read elements of %s, %s", id, f.name)
		}
		for _, e := range elements {
			out.add(id, e.Key, elementValue(id, e))
		}
	}
	chains, err := conn.ListChainsOfTableFamily(f.table.Family)
	if err != nil {
		return out, false, n.failed(err, "list chains of %s", f.name)
	}
	missing := map[string]fixed{}
	for _, c := range f.layout(settings{}) {
		missing[c.name] = c
	}
	for _, c := range chains {
		if c.Table.Name != tableName {
			continue
		}
		rules, err := conn.GetRules(f.table, &nft.Chain{Name: c.Name})
		same := err == nil && n.sums[f] != nil && n.sums[f][c.Name] == sum(rules)
		if strings.HasPrefix(c.Name, guardPrefix) {
			if out.chains[c.Name] = ""; !same {
				out.chains[c.Name] = changed
			}
			continue
		}
		if same && missing[c.Name].hook.calls(c) {
			delete(missing, c.Name)
		}
	}
	return out, len(missing) == 0 && table.Flags == 0, nil // a table may be put to sleep
}

// calls reports that the kernel calls a chain where the layout says, or not at all for nil.
func (h *hook) calls(c *nft.Chain) bool {
	if h == nil {
		return c.Hooknum == nil
	}
	return c.Hooknum != nil && *c.Hooknum == *h.at && c.Type == h.kind && c.Priority != nil && *c.Priority == h.priority
}

// elementValue is the value of an element that was read. What is none of ours equals none.
func elementValue(id setID, e nft.SetElement) string {
	if !definitions[id].verdicts {
		return string(e.Val)
	}
	code, chain := int32(expr.VerdictBreak), ""
	for b := e.Val; len(b) >= 4; { // attributes: the code is 1, the chain 2
		length, kind := int(binary.NativeEndian.Uint16(b)), binary.NativeEndian.Uint16(b[2:])&0x3fff
		if length < 4 || length > len(b) {
			break
		}
		switch data := b[4:length]; {
		case kind == 1 && len(data) == 4:
			code = int32(binary.BigEndian.Uint32(data))
		case kind == 2:
			chain = strings.TrimRight(string(data), "\x00")
		}
		b = b[min((length+3)&^3, len(b)):]
	}
	switch {
	case code == int32(expr.VerdictJump):
		return chain
	case code == int32(expr.VerdictDrop) && chain == "":
		return verdictDrop
	}
	return "?"
}

func (n *kernelTables) prune(f *family, chains []string) error {
	conn, err := n.socket.Conn()
	if err != nil {
		return err
	}
	for _, name := range chains {
		conn.FlushChain(&nft.Chain{Name: name, Table: f.table})
		conn.DelChain(&nft.Chain{Name: name, Table: f.table})
	}
	if err := conn.Flush(); err != nil {
		return n.failed(err, "delete chains that nothing leads to, %s", f.name)
	}
	return nil
}

// unsupported reports of an error of opening a socket or listing tables that the kernel has no
// nftables.
func unsupported(err error) bool {
	return errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP)
}

func (n *kernelTables) remove(f *family) (bool, error) {
	conn, err := n.socket.Conn()
	var table *nft.Table
	if err == nil {
		table, err = n.has(conn, f)
	}
	if unsupported(err) {
		return false, nil // no table can be left
	}
	if table == nil || err != nil {
		return false, err
	}
	conn.DelTable(f.table)
	if err := conn.Flush(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return true, n.failed(err, "delete the table of %s", f.name)
	}
	return true, nil
}
