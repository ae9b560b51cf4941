package nftables

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

// kernel is what the proxy needs of the kernel's tables; tests put a model in its place.
type kernel interface {
	// generation changes with each commit of any process to any table.
	generation() (uint32, error)
	// commits counts the transactions that this kernel took from here.
	commits() uint32
	// read tells what our table of a family holds.
	read(f *family) (found, error)
	// commit takes a transaction whole or not at all.
	commit(f *family, s settings, t transaction) error
	// prune deletes chains and maps that nothing leads to.
	prune(f *family, chains, maps []string) error
	// remove deletes our table of a family. That there is none, or no nftables, is no error.
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
	// What was committed last from here and is as it was then: the chains and sets that every
	// table has, and chains of services.
	layout  bool
	written map[string]chain
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
	socket    netfilter.Socket
	// written are the chains that were committed since the socket was opened, by family and
	// name. A transaction that fails closes the socket: then none is known.
	written map[*family]map[string]*written
}

// written is a chain with its rules, as they were sent, and then as the kernel has them.
type written struct {
	chain
	rules   []*nft.Rule // until they are committed
	content uint64      // afterwards
}

var contentSeed = maphash.MakeSeed()

// content is a sum of what rules are. The kernel gives each rule of a table another handle, but
// for one that takes the place of another.
func content(rules []*nft.Rule) uint64 {
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

func (k *tables) commits() uint32 { return k.committed }

// failed closes the socket, on which answers may be left, and says what was tried.
func (k *tables) failed(err error, format string, args ...any) error {
	_ = k.close() // the error before says more
	return fmt.Errorf(format+": %w", append(args, err)...)
}

func (k *tables) close() error {
	k.written = nil
	return k.socket.Close()
}

func (k *tables) generation() (uint32, error) {
	conn, err := k.socket.Conn()
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
	conn, err := k.socket.Conn()
	if err != nil {
		return err
	}
	if t.rebuild {
		conn.AddTable(f.table) // so that there is one to delete
		conn.DelTable(f.table)
	}
	var sent []*written
	if t.layout || t.rebuild {
		layout, err := f.sendLayout(conn, s)
		if err != nil {
			return k.failed(err, "write the rules of %s", f.name)
		}
		sent = layout
	}
	chains, err := f.sendChains(conn, s, t.chains)
	if err := errors.Join(err, f.sendChanges(conn, t.changes)); err != nil {
		return k.failed(err, "write the rules of %s", f.name)
	}
	if err := k.flush(conn, "load the rules of "+f.name); err != nil {
		return err
	}
	k.note(conn, f, append(sent, chains...), t.rebuild)
	return nil
}

// note remembers chains that were committed, as the kernel has them. One that somebody changed
// meanwhile is not known.
func (k *tables) note(conn *nft.Conn, f *family, chains []*written, anew bool) {
	if k.written == nil {
		k.written = map[*family]map[string]*written{}
	}
	if k.written[f] == nil || anew {
		k.written[f] = map[string]*written{}
	}
	for _, w := range chains {
		delete(k.written[f], w.name)
		rules, err := conn.GetRules(f.table, &nft.Chain{Name: w.name})
		if err == nil && slices.EqualFunc(rules, w.rules, func(is, sent *nft.Rule) bool { return is.Handle == sent.Handle }) {
			w.rules, w.content = nil, content(rules)
			k.written[f][w.name] = w
		}
	}
}

func (f *family) sendLayout(conn *nft.Conn, s settings) ([]*written, error) {
	conn.AddTable(f.table)
	for id := range setCount {
		if err := conn.AddSet(f.set(id), nil); err != nil {
			return nil, fmt.Errorf("set %s: %w", id, err)
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
	var out []*written
	for _, c := range layout {
		rules, err := f.sendRules(conn, c.name, c.rules)
		if err != nil {
			return nil, err
		}
		out = append(out, &written{chain: chain{name: c.name}, rules: rules})
	}
	return out, nil
}

func (f *family) sendChains(conn *nft.Conn, s settings, chains []chain) ([]*written, error) {
	for _, c := range chains {
		made := &nft.Chain{Name: c.name, Table: f.table}
		conn.AddChain(made)
		conn.FlushChain(made)
		if c.kind == stick {
			if err := conn.AddSet(f.affinityMap(c), nil); err != nil {
				return nil, fmt.Errorf("map %s: %w", c.affinity, err)
			}
		}
	}
	var out []*written
	for _, c := range chains {
		rules, err := f.sendRules(conn, c.name, c.rules(f, s))
		if err != nil {
			return nil, err
		}
		out = append(out, &written{chain: c, rules: rules})
	}
	return out, nil
}

func (f *family) sendRules(conn *nft.Conn, chain string, rules []rule) (sent []*nft.Rule, err error) {
	for _, r := range rules {
		if r.ranges != nil {
			set := &nft.Set{Table: f.table, Anonymous: true, Constant: true, Interval: true, KeyType: f.address}
			if err := conn.AddSet(set, r.ranges.elements); err != nil {
				return nil, fmt.Errorf("ranges of chain %s: %w", chain, err)
			}
			r.ranges.lookup.SetName, r.ranges.lookup.SetID = set.Name, set.ID
		}
		sent = append(sent, conn.AddRule(&nft.Rule{Table: f.table, Chain: &nft.Chain{Name: chain}, Exprs: r.exprs}))
	}
	return sent, nil
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
	conn, err := k.socket.Conn()
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
	missing := map[string]fixed{} // of the layout, or not as it was written
	layout := map[string]bool{}
	for _, c := range f.layout(settings{}) {
		missing[c.name], layout[c.name] = c, true
	}
	out.written = map[string]chain{}
	for _, c := range chains {
		if c.Table.Name != tableName {
			continue
		}
		if !layout[c.Name] {
			out.chains = append(out.chains, c.Name)
		}
		w := k.written[f][c.Name]
		switch {
		case w == nil || !w.unchanged(conn, f):
		case !layout[c.Name]:
			out.written[c.Name] = w.chain
		case missing[c.Name].base.calls(c):
			delete(missing, c.Name)
		}
	}
	out.layout = len(missing) == 0 && table.Flags == 0 // a table may be put to sleep
	return out, nil
}

// unchanged reports that the kernel has the rules of a chain as they were committed. What
// cannot be read is none of ours.
func (w *written) unchanged(conn *nft.Conn, f *family) bool {
	rules, err := conn.GetRules(f.table, &nft.Chain{Name: w.name})
	return err == nil && content(rules) == w.content
}

// calls reports that the kernel calls a chain where the layout says, or not at all for nil.
func (h *hooked) calls(c *nft.Chain) bool {
	if h == nil {
		return c.Hooknum == nil
	}
	return c.Hooknum != nil && *c.Hooknum == *h.hook && c.Type == h.kind && c.Priority != nil && *c.Priority == h.priority
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
	conn, err := k.socket.Conn()
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
	if err := k.flush(conn, "delete chains that nothing leads to, "+f.name); err != nil {
		return err
	}
	for _, name := range chains {
		delete(k.written[f], name)
	}
	return nil
}

// unsupported reports of an error of opening a socket or listing tables that the kernel has no
// nftables: it has no sockets of netfilter, or nothing answers for nftables on them.
func unsupported(err error) bool {
	return errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP)
}

func (k *tables) remove(f *family) error {
	conn, err := k.socket.Conn()
	var table *nft.Table
	if err == nil {
		table, err = k.named(conn, f)
	}
	if unsupported(err) {
		return nil // no table can be left
	}
	if table == nil || err != nil {
		return err
	}
	delete(k.written, f)
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
		conn, err := k.socket.Conn()
		if err != nil {
			return err
		}
		s := settings{mark: 1, pods: f.prefixes([]string{"10.0.0.0/8"}), services: f.prefixes([]string{"10.0.0.0/8"}), everyAddress: true, localhost: true}
		if _, err := f.sendLayout(conn, s); err != nil {
			return err
		}
		front := string(make([]byte, f.bytes+8))
		if _, err := f.sendChains(conn, s, []chain{
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
