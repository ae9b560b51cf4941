package nftables

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	nft "github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// kernel is what the proxy needs of the kernel's tables; tests put a model in its place.
type kernel interface {
	// generation changes with each commit of anybody to any table.
	generation() (uint32, error)
	// commits counts the transactions that this kernel took from here.
	commits() uint32
	// read tells what our table of a family holds.
	read(f *family) (found, error)
	// commit takes a transaction whole or not at all.
	commit(f *family, s settings, t transaction) error
	// prune deletes chains and maps that nothing leads to.
	prune(f *family, chains, maps []string) error
	// remove deletes our table of a family; that there is none is no error.
	remove(f *family) error
	// close lets go of what reading and writing needs; either may follow all the same.
	close() error
}

// found is what a table holds.
type found struct {
	exists   bool
	foreign  bool // it was made by another version: sets are missing or of other types
	elements map[item]string
	chains   []string // of services, shared or not
	maps     []string // of clients
}

// affinityPrefix begins the names of maps of clients.
const affinityPrefix = "affinity-"

// perMessage is how many elements go into one message, whose length the kernel counts in
// sixteen bits. The largest element has some 350 bytes: a key of 44, and a chain of 230.
const perMessage = 128

// tables are the kernel's, over netlink. They keep one socket: when a socket is closed, the
// kernel waits until what was deleted last is free, which takes many times as long as a change.
type tables struct {
	committed uint32
	socket    *nft.Conn
}

func (k *tables) commits() uint32 { return k.committed }

// conn is the socket, which is opened with the first call.
func (k *tables) conn() (*nft.Conn, error) {
	if k.socket == nil {
		conn, err := nft.New(nft.AsLasting())
		if err != nil {
			return nil, fmt.Errorf("open a socket of netfilter: %w", err)
		}
		k.socket = conn
	}
	return k.socket, nil
}

// failed closes the socket, on which answers may be left, and says what was tried.
func (k *tables) failed(err error, format string, args ...any) error {
	_ = k.close() // the error before says more
	return fmt.Errorf(format+": %w", append(args, err)...)
}

func (k *tables) close() error {
	if k.socket == nil {
		return nil
	}
	err := k.socket.CloseLasting()
	k.socket = nil
	return err
}

func (k *tables) generation() (uint32, error) {
	conn, err := k.conn()
	if err != nil {
		return 0, err
	}
	g, err := conn.GetGen()
	if err != nil {
		return 0, k.failed(err, "read the generation of nftables")
	}
	return g.ID, nil
}

func (k *tables) flush(conn *nft.Conn, what string) error {
	if err := conn.Flush(); err != nil {
		return k.failed(err, "%s", what)
	}
	k.committed++
	return nil
}

func (k *tables) commit(f *family, s settings, t transaction) error {
	conn, err := k.conn()
	if err != nil {
		return err
	}
	if t.rebuild {
		conn.AddTable(f.table) // so that there is one to delete
		conn.DelTable(f.table)
	}
	if t.layout || t.rebuild {
		if err := f.sendLayout(conn, s); err != nil {
			return k.failed(err, "write the rules of %s", f.name)
		}
	}
	if err := errors.Join(f.sendChains(conn, s, t.chains), f.sendChanges(conn, t.changes)); err != nil {
		return k.failed(err, "write the rules of %s", f.name)
	}
	return k.flush(conn, "load the rules of "+f.name)
}

func (f *family) sendLayout(conn *nft.Conn, s settings) error {
	conn.AddTable(f.table)
	for id := range setCount {
		if err := conn.AddSet(f.set(id), nil); err != nil {
			return fmt.Errorf("set %s: %w", id, err)
		}
	}
	layout := f.layout(s)
	for _, c := range layout {
		made := &nft.Chain{Name: c.name, Table: f.table}
		if c.base != nil {
			made.Type, made.Hooknum, made.Priority = c.base.kind, c.base.hook, &c.base.priority
		}
		conn.AddChain(made)
		conn.FlushChain(made)
	}
	for _, c := range layout {
		if err := f.sendRules(conn, c.name, c.rules); err != nil {
			return err
		}
	}
	return nil
}

func (f *family) sendChains(conn *nft.Conn, s settings, chains []chain) error {
	for _, c := range chains {
		made := &nft.Chain{Name: c.name, Table: f.table}
		conn.AddChain(made)
		conn.FlushChain(made)
		if c.kind == stick {
			if err := conn.AddSet(f.affinityMap(c), nil); err != nil {
				return fmt.Errorf("map %s: %w", c.affinity, err)
			}
		}
	}
	for _, c := range chains {
		if err := f.sendRules(conn, c.name, c.rules(f, s)); err != nil {
			return err
		}
	}
	return nil
}

func (f *family) sendRules(conn *nft.Conn, chain string, rules []rule) error {
	for _, r := range rules {
		if r.ranges != nil {
			set := &nft.Set{Table: f.table, Anonymous: true, Constant: true, Interval: true, KeyType: f.address}
			if err := conn.AddSet(set, r.ranges.elements); err != nil {
				return fmt.Errorf("ranges of chain %s: %w", chain, err)
			}
			r.ranges.lookup.SetName, r.ranges.lookup.SetID = set.Name, set.ID
		}
		conn.AddRule(&nft.Rule{Table: f.table, Chain: &nft.Chain{Name: chain}, Exprs: r.exprs})
	}
	return nil
}

// sendChanges sends elements, set by set: all that go first, so that what is replaced is gone
// before it comes.
func (f *family) sendChanges(conn *nft.Conn, changes []change) error {
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
			set := &nft.Set{Table: f.table, Name: id.String()}
			for part := range slices.Chunk(list, perMessage) {
				send := conn.SetDeleteElements
				if adding {
					send = conn.SetAddElements
				}
				if err := send(set, part); err != nil {
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
		e.VerdictData = &expr.Verdict{Kind: expr.VerdictGoto, Chain: c.value}
	}
	return e
}

// named finds our table of a family; nil: there is none.
func (k *tables) named(conn *nft.Conn, f *family) (*nft.Table, error) {
	list, err := conn.ListTablesOfFamily(f.table.Family)
	if err != nil {
		return nil, k.failed(err, "list tables of %s", f.name)
	}
	at := slices.IndexFunc(list, func(t *nft.Table) bool { return t.Name == tableName })
	if at < 0 {
		return nil, nil
	}
	return list[at], nil
}

func (k *tables) read(f *family) (found, error) {
	conn, err := k.conn()
	if err != nil {
		return found{}, err
	}
	table, err := k.named(conn, f)
	if table == nil || err != nil {
		return found{}, err
	}
	out := found{exists: true, elements: map[item]string{}}
	sets, err := conn.GetSets(f.table)
	if err != nil {
		return found{}, k.failed(err, "list sets of %s", f.name)
	}
	there := map[string]*nft.Set{}
	for _, s := range sets {
		there[s.Name] = s
		if strings.HasPrefix(s.Name, affinityPrefix) {
			out.maps = append(out.maps, s.Name)
		}
	}
	for id := range setCount {
		s, want := there[id.String()], f.set(id)
		if s == nil || s.IsMap != want.IsMap || s.KeyType.Name != want.KeyType.Name || s.DataType.Name != want.DataType.Name {
			out.foreign = true
			return out, nil
		}
		elements, err := conn.GetSetElements(want)
		if err != nil {
			return found{}, k.failed(err, "read elements of %s, %s", id, f.name)
		}
		for _, e := range elements {
			out.elements[newItem(id, e.Key)] = valueOf(id, e)
		}
	}
	chains, err := conn.ListChainsOfTableFamily(f.table.Family)
	if err != nil {
		return found{}, k.failed(err, "list chains of %s", f.name)
	}
	fixed := map[string]bool{}
	for _, c := range f.layout(settings{}) {
		fixed[c.name] = true
	}
	for _, c := range chains {
		if c.Table.Name == tableName && !fixed[c.Name] {
			out.chains = append(out.chains, c.Name)
		}
	}
	return out, nil
}

// valueOf is the value of an element that was read. What is none of ours is a text that
// equals none.
func valueOf(id setID, e nft.SetElement) string {
	if !definitions[id].verdicts {
		return string(e.Val)
	}
	code, chain := readVerdict(e.Val)
	switch {
	case code == int32(expr.VerdictGoto):
		return chain
	case code == int32(expr.VerdictDrop) && chain == "":
		return verdictDrop
	}
	return "?"
}

// readVerdict reads attributes of a verdict: its code (1) and its chain (2). A length that is
// none ends it.
func readVerdict(b []byte) (code int32, chain string) {
	code = int32(expr.VerdictBreak)
	for len(b) >= 4 {
		length, kind := int(binary.NativeEndian.Uint16(b)), binary.NativeEndian.Uint16(b[2:])&0x3fff
		if length < 4 || length > len(b) {
			return code, chain
		}
		data := b[4:length]
		switch {
		case kind == 1 && len(data) == 4:
			code = int32(binary.BigEndian.Uint32(data))
		case kind == 2:
			chain = strings.TrimRight(string(data), "\x00")
		}
		b = b[min((length+3)&^3, len(b)):]
	}
	return code, chain
}

func (k *tables) prune(f *family, chains, maps []string) error {
	conn, err := k.conn()
	if err != nil {
		return err
	}
	for _, name := range chains {
		conn.FlushChain(&nft.Chain{Name: name, Table: f.table})
	}
	for _, name := range chains {
		conn.DelChain(&nft.Chain{Name: name, Table: f.table})
	}
	for _, name := range maps {
		conn.DelSet(&nft.Set{Name: name, Table: f.table})
	}
	return k.flush(conn, "delete chains that nothing leads to, "+f.name)
}

func (k *tables) remove(f *family) error {
	conn, err := k.conn()
	if err != nil {
		return err
	}
	table, err := k.named(conn, f)
	if table == nil || err != nil {
		return err
	}
	conn.DelTable(f.table)
	if err := k.flush(conn, "delete the table of "+f.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// probeTable is a table that is made and deleted in one transaction, and sleeps meanwhile.
const probeTable = "pintle-probe"

// probe tells why the kernel would not take the rules. It changes nothing: all that is made
// goes in the same transaction.
func (k *tables) probe() error {
	for _, shape := range []*family{ipv4} {
		f := *shape
		f.table = &nft.Table{Name: probeTable, Family: shape.table.Family, Flags: nft.TableFlagDormant}
		conn, err := k.conn()
		if err != nil {
			return err
		}
		s := settings{mark: 1, pods: f.prefixes([]string{"10.0.0.0/8"}), services: f.prefixes([]string{"10.0.0.0/8"}), everyAddress: true, localhost: true}
		if err := f.sendLayout(conn, s); err != nil {
			return err
		}
		front := string(make([]byte, f.bytes+8))
		if err := f.sendChains(conn, s, []chain{
			sharedPick(byNodePort, false, 2),
			{name: "s", kind: stick, n: 2, service: front, affinity: affinityPrefix + "s", timeout: 1e9},
			{name: "o", kind: outward, policyLocal: true, to: "s", toLocal: "s"},
			{name: "g", kind: guard, allowed: "10.0.0.0/8"},
		}); err != nil {
			return err
		}
		conn.DelTable(f.table)
		if err := k.flush(conn, "the kernel lacks something that the rules need"); err != nil {
			return err
		}
	}
	return nil
}
